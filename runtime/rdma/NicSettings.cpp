//===- NicSettings.cpp ------------------------------------------------------===//
#include "runtime/rdma/NicSettings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace ccl::rdma {

static NicOptions optionsOf(const Settings &settings, std::string device) {
  NicOptions options;
  options.device = std::move(device);
  options.gidIndex = int(settings.number(Setting::GidIndex));
  options.pkeyIndex = int(settings.number(Setting::PkeyIndex));
  options.trafficClass = int(settings.number(Setting::TrafficClass));
  options.serviceLevel = int(settings.number(Setting::ServiceLevel));
  options.timeout = int(settings.number(Setting::IbTimeout));
  options.retries = int(settings.number(Setting::IbRetries));
  options.mtu = int(std::max<int64_t>(settings.number(Setting::RdmaMtu), 0));
  return options;
}

static llvm::Expected<std::vector<NicOptions>> parseNics(const Settings &settings,
                                                         llvm::StringRef list) {
  llvm::SmallVector<llvm::StringRef> names;
  list.split(names, ',');
  std::vector<NicOptions> chosen;
  for (llvm::StringRef name : names) {
    name = name.trim();
    const auto [device, port] = name.split(':');
    unsigned number = 0;
    if (device.empty() || (name.contains(':') && (port.getAsInteger(10, number) || number == 0)))
      return makeFailure(Failure::BadArgument,
                         "CCL_NICS={}: expected devices, or devices and ports, as in "
                         "mlx5_0,mlx5_1:2",
                         std::string_view(list));
    if (llvm::any_of(chosen, [&](const NicOptions &other) { return other.device == name; }))
      return makeFailure(Failure::BadArgument, "CCL_NICS={}: {} is there twice",
                         std::string_view(list), std::string_view(name));
    chosen.push_back(optionsOf(settings, name.str()));
  }
  return chosen;
}

llvm::Expected<std::vector<NicOptions>> chooseNics(const Settings &settings) {
  const std::string &list = settings.text(Setting::Nics);
  if (!list.empty())
    return parseNics(settings, list);
  llvm::Expected<std::vector<NicFacts>> ports = listVerbs(settings.text(Setting::VerbsLibrary));
  if (!ports)
    return ports.takeError();
  std::vector<NicOptions> chosen;
  std::string problems;
  for (const NicFacts &facts : *ports)
    if (facts.problem.empty())
      chosen.push_back(optionsOf(settings, fmt::format("{}:{}", facts.device, facts.port)));
    else
      problems += fmt::format("; port {} of {}: {}", facts.port, facts.device, facts.problem);
  if (chosen.empty())
    return makeFailure(Failure::Machine, "no RDMA NIC can be used: {}",
                       problems.empty() ? "this machine has none (`ccl info -d`)"
                                        : problems.substr(2));
  return chosen;
}

} // namespace ccl::rdma
