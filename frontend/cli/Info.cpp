//===- Info.cpp - ccl info: what is here and what is set ------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Devices.h"
#include "frontend/cli/Output.h"

#include "passes/synthesis/generators/Generators.h"
#include "runtime/Faults.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/TargetParser/Host.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace ccl::cli {

namespace {

struct InfoFlags {
  bool version = false, devices = false, settings = false, algorithms = false;
  bool json = false, markdown = false;

  bool all() const { return !version && !devices && !settings && !algorithms; }
};

} // namespace

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printVersion() {
  printOut("ccl        {}\n", CCL_VERSION);
  printOut("LLVM       {}\n", LLVM_VERSION_STRING);
  printOut("target     {} {}\n", llvm::sys::getProcessTriple(),
           std::string_view(llvm::sys::getHostCPUName()));
  printOut("build      {}{}\n", std::string_view(CCL_SANITIZE).empty() ? "plain" : CCL_SANITIZE,
#ifdef NDEBUG
           ""
#else
           ", with asserts"
#endif
  );
}

static void printDevices(const Settings &settings) {
  for (const DeviceRow &device : findDevices(settings)) {
    const std::string what = device.gpu ? describe(*device.gpu) : device.text;
    printOut("{:<10} {:<9} {}{}\n", device.name, device.isUsable ? "ok" : "unusable", what,
             device.gpu && !device.isUsable ? ": " + device.text : "");
  }
}

static void printSettings(const Settings &settings) {
  for (const Settings::Row &row : settings.list()) {
    printOut("# {}\n# Value: {}; default: {}\n", row.description, row.kind,
             row.defaultText.empty() ? "not set" : row.defaultText);
    printOut("{}{}={}  ({})\n\n", row.source == "default" ? "# " : "", row.name, row.value,
             row.source);
  }
}

static void printAlgorithms() {
  for (uint32_t c = 0; c <= uint32_t(model::Collective::Custom); ++c) {
    auto collective = model::Collective(c);
    const Generator *byDefault = findGenerator(collective, "");
    if (!byDefault)
      continue;
    printOut("{}\n", model::name(collective));
    for (const Generator &generator : generators())
      if (llvm::is_contained(generator.collectives, collective))
        printOut("  {:<20}{} {}; steps {}, bytes {}\n", std::string_view(generator.name),
                 &generator == byDefault ? "(default)" : "         ",
                 std::string_view(generator.summary), std::string_view(generator.steps),
                 std::string_view(generator.bytes));
  }
}

static void printText(const Settings &settings, const InfoFlags &flags) {
  bool first = true;
  auto section = [&](bool wanted, const char *title, auto print) {
    if (!wanted && !flags.all())
      return;
    if (flags.all())
      printOut("{}== {} ==\n", first ? "" : "\n", title);
    first = false;
    print();
  };
  section(flags.version, "version", printVersion);
  section(flags.devices, "devices and transports", [&] { printDevices(settings); });
  section(flags.settings, "settings", [&] { printSettings(settings); });
  section(flags.algorithms, "algorithms (n ranks, B bytes of a shard)", printAlgorithms);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string versionJson() {
  JsonLine line;
  line.text("ccl", CCL_VERSION);
  line.text("llvm", LLVM_VERSION_STRING);
  line.text("triple", llvm::sys::getProcessTriple());
  line.text("cpu", std::string_view(llvm::sys::getHostCPUName()));
  line.text("sanitizer", CCL_SANITIZE);
  return line.str();
}

static std::vector<std::string> devicesJson(const Settings &settings) {
  std::vector<std::string> objects;
  for (const DeviceRow &device : findDevices(settings)) {
    JsonLine line;
    line.text("name", device.name);
    line.boolean("usable", device.isUsable);
    line.text(device.isUsable ? "text" : "reason", device.text);
    if (const std::optional<cuda::DeviceFacts> &gpu = device.gpu) {
      line.number("ordinal", gpu->ordinal);
      line.text("product", gpu->name);
      line.text("arch", gpu->arch);
      line.text("compute_capability", fmt::format("{}.{}", gpu->major, gpu->minor));
      line.number("memory_bytes", int64_t(gpu->memoryBytes));
      line.number("multiprocessors", gpu->multiprocessors);
      line.boolean("cooperative_launch", gpu->isCooperative);
      line.text("pci",
                fmt::format("{:04x}:{:02x}:{:02x}.0", gpu->pciDomain, gpu->pciBus, gpu->pciDevice));
    }
    if (const std::optional<rdma::NicFacts> &nic = device.nic) {
      line.text("device", nic->device);
      line.number("port", nic->port);
      line.text("netdev", nic->netdev);
      if (device.isUsable) {
        line.text("gid", nic->gid);
        line.number("gid_index", nic->gidIndex);
      }
      line.text("link_layer", nic->ethernet ? "Ethernet" : "InfiniBand");
      line.number("mtu", nic->mtu);
      line.real("gbits", nic->gbits);
      line.number("numa_node", nic->numaNode);
    }
    objects.push_back(line.str());
  }
  return objects;
}

static std::vector<std::string> settingsJson(const Settings &settings) {
  std::vector<std::string> objects;
  for (const Settings::Row &row : settings.list()) {
    JsonLine line;
    line.text("name", row.name);
    line.text("value", row.value);
    line.text("default", row.defaultText);
    line.text("source", row.source);
    line.text("kind", row.kind);
    line.text("description", row.description);
    objects.push_back(line.str());
  }
  return objects;
}

static std::vector<std::string> algorithmsJson() {
  std::vector<std::string> objects;
  for (const Generator &generator : generators())
    for (model::Collective collective : generator.collectives) {
      JsonLine line;
      line.text("collective", model::name(collective));
      line.text("name", std::string_view(generator.name));
      line.boolean("default", findGenerator(collective, "") == &generator);
      line.text("summary", std::string_view(generator.summary));
      line.text("steps", std::string_view(generator.steps));
      line.text("bytes", std::string_view(generator.bytes));
      objects.push_back(line.str());
    }
  return objects;
}

/// Where CCL_FAULT can strike, in builds that can.
static std::vector<std::string> faultsJson() {
  std::vector<std::string> objects;
  for (const faults::PointRow &row : faults::points()) {
    JsonLine line;
    line.text("point", row.name);
    line.text("where", row.where);
    objects.push_back(line.str());
  }
  return objects;
}

static int info(Session &session, const InfoFlags &flags) {
  session.json = flags.json;
  if (flags.markdown) {
    if (!flags.settings || flags.version || flags.devices || flags.algorithms || flags.json)
      return session.usage("--markdown goes with -c alone");
    printOut("{}", Settings::toMarkdown());
    return Fine;
  }
  if (!flags.json) {
    printText(session.settings, flags);
    return Fine;
  }
  JsonLine line;
  if (flags.version || flags.all())
    line.raw("version", versionJson());
  if (flags.devices || flags.all())
    line.array("devices", devicesJson(session.settings));
  if (flags.settings || flags.all())
    line.array("settings", settingsJson(session.settings));
  if (flags.algorithms || flags.all())
    line.array("algorithms", algorithmsJson());
  if (flags.all() && faults::enabled())
    line.array("faults", faultsJson());
  line.print();
  return Fine;
}

Action addInfo(CLI::App &app) {
  auto flags = std::make_shared<InfoFlags>();
  app.add_flag("-v", flags->version, "version, LLVM, CPU target");
  app.add_flag("-d", flags->devices, "devices and transports, with the reason if unusable");
  app.add_flag("-c", flags->settings, "settings: value, source, meaning");
  app.add_flag("-A", flags->algorithms, "algorithms that can be generated");
  app.add_flag("--json", flags->json, "one JSON object");
  app.add_flag("--markdown", flags->markdown, "with -c: the table for the documentation");
  return [flags](Session &session) { return info(session, *flags); };
}

} // namespace ccl::cli
