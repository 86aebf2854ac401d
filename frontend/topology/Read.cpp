#include "frontend/topology/Read.h"

#include "frontend/topology/Detect.h"
#include "frontend/topology/EdgeList.h"
#include "frontend/topology/ReadNccl.h"
#include "frontend/topology/ReadSmi.h"
#include "frontend/topology/SmiMatrix.h"
#include "frontend/topology/TextLines.h"
#include "runtime/Settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ccl::topology {
namespace {

constexpr size_t mostBytes = size_t(256) << 20, mostXmlBytes = size_t(64) << 20;

ReadResult refused(std::string why) {
  ReadResult result;
  result.refusal = std::move(why);
  return result;
}

ReadResult malformed(std::string text) {
  ReadResult result;
  result.diagnostics.push_back({Diagnostic::Kind::Malformed, {1, 1}, -1, std::move(text), {}});
  return result;
}

std::optional<std::string> readFile(const std::string &path, std::string &error) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return std::nullopt;
  }
  std::string text;
  char buffer[1 << 16];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > mostBytes)
      break;
  }
  bool failed = std::ferror(file) != 0;
  int code = errno;
  std::fclose(file);
  if (failed)
    error = fmt::format("{}: {}", path, std::strerror(code));
  else if (text.size() > mostBytes)
    error = fmt::format("{}: more than {} MiB", path, mostBytes >> 20);
  else
    return text;
  return std::nullopt;
}

std::string allNames() {
  std::string text;
  for (const auto &names : {presetNames(), specNames()})
    for (const TopologyName &known : names)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", known.name);
  return text;
}

std::optional<Network> networkOf(const Options &options, std::string &error) {
  if (options.join.empty())
    return Network{};
  if (!options.join.starts_with("graph:"))
    return parseNetwork(options.join, error);
  std::string path = options.join.substr(6);
  if (path.empty()) {
    error = "`graph:` without a file, an edge list whose ranks are the NICs or the nodes";
    return std::nullopt;
  }
  std::optional<std::string> text = readFile(path, error);
  if (!text)
    return std::nullopt;
  std::vector<Diagnostic> diagnostics;
  std::optional<model::Topology> graph = readEdgeList(*text, diagnostics);
  if (!graph) {
    const Diagnostic &first = diagnostics.front();
    error = fmt::format("{}:{}:{}: {}", path, first.place.line, first.place.column, first.text);
    return std::nullopt;
  }
  Network network;
  network.kind = Network::Kind::Graph;
  network.graph = std::move(*graph);
  return network;
}

void joinBox(ReadResult &result, Box box, const Options &options) {
  result.nics = box.nics;
  if (options.nodes == 1) {
    result.topology = std::move(box.topology);
    return;
  }
  std::string error;
  std::optional<Network> network = networkOf(options, error);
  if (network)
    result.topology = joinNodes(box, options.nodes, *network, error);
  if (!result.topology)
    result.refusal = std::move(error);
}

std::string sizes(const model::Topology &topology) {
  return fmt::format("{}, {}, {}", counted(topology.ranks(), "rank", "ranks"),
                     counted(int64_t(topology.switches.size()), "switch", "switches"),
                     counted(int64_t(topology.links.size()), "link", "links"));
}

void setRates(ReadResult &result, bool hasBoth, const Options &options) {
  if (hasBoth)
    result.rates = options.rates;
  else if (options.rates != Rates::Nominal)
    result.notes.push_back(oneSpeedNote());
}

ReadResult fromName(const std::string &name, const Options &options) {
  std::string error;
  std::optional<Named> named = namedTopology(name, options.rates, error);
  if (named)
    error = checkUnused(options, name);
  if (!error.empty())
    return refused(std::move(error));
  ReadResult result;
  result.what = sizes(named->topology);
  result.notes = std::move(named->notes);
  setRates(result, named->hasBothRates, options);
  result.topology = std::move(named->topology);
  return result;
}

ReadResult fromEdgeList(std::string_view text, std::string_view name, const Options &options) {
  ReadResult result;
  std::optional<model::Topology> list = readEdgeList(text, result.diagnostics);
  if (!list)
    return result;
  if (std::string why = checkUnused(options, "an edge list"); !why.empty())
    return refused(std::move(why));
  list->name = name;
  result.what = fmt::format("edge list: {}", sizes(*list));
  setRates(result, false, options);
  result.topology = std::move(*list);
  return result;
}

std::string checkOptions(const Options &options) {
  if (options.nodes == 1 && !options.join.empty())
    return fmt::format("join `{}`: there is only one node; say how many by `nodes`", options.join);
  return checkAssumed(options.assume);
}

/// Whether a line is one of ours: it begins with an operation of the dialect, or a module.
bool isOurs(const std::vector<Word> &words) {
  const std::string &first = words[0].text;
  if (first == "module" || first == "builtin.module")
    return words.size() > 1 &&
           (words[1].text[0] == '{' || words[1].text[0] == '@' || words[1].text == "attributes");
  return first.starts_with("ccl.") || first.starts_with("\"ccl.") ||
         first.starts_with("\"builtin.module\"") || first.starts_with("module{");
}

/// Whether a line is of `nvidia-smi`: a header of a matrix, or a GPU with a colon.
bool isNvidiaSmi(const std::vector<Word> &words) {
  return isMatrixHeader(words) ||
         (words.size() > 1 && words[0].text == "GPU" && words[1].text.ends_with(':'));
}

/// Whether the first words that are no comment are numbers.
bool isEdgeList(std::vector<TextLine> lines) {
  for (TextLine &line : lines) {
    line.text.resize(std::min(line.text.find('#'), line.text.size()));
    std::vector<Word> words = line.words();
    if (!words.empty())
      return std::all_of(words.begin(), words.end(), [](const Word &word) {
        return std::isdigit(static_cast<unsigned char>(word.text[0])) != 0 || word.text[0] == '-';
      });
  }
  return false;
}

} // namespace

std::string_view name(Format format) {
  switch (format) {
  case Format::NcclXml: return "NCCL or RCCL topology XML";
  case Format::NvidiaSmi: return "nvidia-smi text";
  case Format::RocmSmi: return "rocm-smi text";
  case Format::EdgeList: return "edge list";
  case Format::Mlir: break;
  }
  return "ccl.topology";
}

std::string checkUnused(const Options &options, std::string_view what) {
  std::vector<std::string_view> unused;
  for (auto [said, option] : {std::pair(options.nodes != 1, "nodes"),
                              {!options.join.empty(), "join"},
                              {!options.assume.gpu.empty(), "gpu"},
                              {options.assume.pcie != 0, "pcie"},
                              {options.assume.nic != 0, "nic"}})
    if (said)
      unused.push_back(option);
  if (unused.empty())
    return "";
  std::string_view boxes =
      unused[0] == "nodes" ? ". Where a name has boxes, their number is behind the colon" : "";
  return fmt::format("{} cannot be said of {}, only of the description of one machine{}",
                     fmt::join(unused, ", "), what, boxes);
}

std::string oneSpeedNote() { return "every link has one speed; no other, effective one is known"; }

std::optional<Format> detectFormat(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos)
    return std::nullopt;
  if (text[first] == '<')
    return Format::NcclXml;
  if (text.starts_with("ML\xefR")) // bytecode
    return Format::Mlir;
  bool rocm = isRocmSmi(text), nvidia = false;
  std::vector<TextLine> lines = splitLines(text.substr(0, 1 << 20));
  for (const TextLine &line : lines) {
    std::vector<Word> words = line.words();
    if (!words.empty() && isOurs(words))
      return Format::Mlir;
    nvidia |= isNvidiaSmi(words);
  }
  if (rocm)
    return Format::RocmSmi;
  if (nvidia)
    return Format::NvidiaSmi;
  if (isEdgeList(std::move(lines)))
    return Format::EdgeList;
  // Perhaps with something before each line: it will be said what.
  return text.find("GPU") != text.npos ? std::optional(Format::NvidiaSmi) : std::nullopt;
}

bool ReadResult::failed() const {
  return !refusal.empty() ||
         std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic &diagnostic) { return diagnostic.isError(); });
}

ReadResult finish(Machine machine, const Options &options) {
  if (std::string why = checkOptions(options); !why.empty())
    return refused(std::move(why));
  ReadResult result;
  result.what = machine.summary();
  result.notes = std::move(machine.notes);
  result.missing = std::move(machine.missing);
  result.diagnostics = std::move(machine.warnings);
  if (machine.count(DeviceKind::Gpu) == 0) {
    if (result.missing.empty())
      result.missing.push_back("GPUs");
    return result;
  }
  setRates(result, machine.hasBothRates(), options);
  Box box = makeBox(machine, options.rates);
  if (std::string problem = box.topology.check(); !problem.empty()) {
    result.missing.push_back(fmt::format("links: {}", problem));
    return result;
  }
  joinBox(result, std::move(box), options);
  return result;
}

ReadResult readTopologyText(std::string_view text, std::string_view name, const Options &options) {
  std::optional<Format> format = detectFormat(text);
  if (!format || *format == Format::Mlir)
    return malformed(
        "neither NCCL's topology XML, nor text of nvidia-smi topo -m, nvidia-smi nvlink -s "
        "or rocm-smi --showtopo, nor an edge list (`N V E`, then `src dst capacity`), nor our own "
        "text (`ccl.topology`)");
  if (*format == Format::EdgeList)
    return fromEdgeList(text, name, options);
  if (*format == Format::NcclXml && text.size() > mostXmlBytes)
    return malformed(fmt::format("more than {} MiB of XML", mostXmlBytes >> 20));
  ReadResult result;
  auto reader = *format == Format::NcclXml     ? readNccl
                : *format == Format::NvidiaSmi ? readNvidiaSmi
                                               : readRocmSmi;
  std::optional<Machine> machine = reader(text, options.assume, result.diagnostics);
  if (!machine)
    return result;
  if (machine->name.empty())
    machine->name = name;
  result = finish(std::move(*machine), options);
  result.what = fmt::format("{}: {}", topology::name(*format), result.what);
  return result;
}

ReadResult readTopology(const std::string &nameOrPath, const Options &options) {
  if (nameOrPath == "detect") {
    llvm::Expected<Settings> settings = Settings::fromEnvironment();
    if (!settings)
      return refused(llvm::toString(settings.takeError()));
    DetectOptions how;
    how.assume = options.assume;
    how.nvmlLibrary = settings->text(Setting::NvmlLibrary);
    how.cudaLibrary = settings->text(Setting::CudaLibrary);
    Machine machine = detect(how);
    if (machine.devices.empty())
      return refused(machine.missing.front());
    return finish(std::move(machine), options);
  }
  if (isTopologyName(nameOrPath))
    return fromName(nameOrPath, options);
  std::string error;
  std::optional<std::string> text = readFile(nameOrPath, error);
  if (!text)
    return refused(fmt::format("{}; nor is it the name of a topology: {}", error, allNames()));
  size_t slash = nameOrPath.rfind('/');
  std::string_view base = nameOrPath;
  base.remove_prefix(slash == nameOrPath.npos ? 0 : slash + 1);
  return readTopologyText(*text, base.substr(0, base.rfind('.')), options);
}

} // namespace ccl::topology
