//===- SimNccl.cpp ------------------------------------------------------------===//
#include "frontend/cli/SimNccl.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Session.h"

#include <fmt/format.h>

namespace ccl::cli {

llvm::Expected<int32_t> parseBeside(llvm::StringRef text) {
  auto refuse = [&](std::string why) {
    return llvm::createStringError(fmt::format("--beside {}: {}", text.str(), why));
  };
  auto [word, number] = text.split(':');
  int32_t arch = 0;
  if (word != "nccl" || (text.contains(':') && number.getAsInteger(10, arch)))
    return refuse("expected nccl, or nccl:80 with a compute capability");
  if (text.contains(':') && !simulation::hasNcclModel(arch))
    return refuse("NCCL has a model for 60 and more");
  return arch;
}

NcclBeside::NcclBeside(const model::Topology &topology, model::Collective collective, int32_t arch)
    : collective(collective) {
  model::NcclMachineOptions options;
  options.arch = arch;
  machine = model::ncclMachineOf(topology, options, &why);
}

std::string NcclBeside::what() const {
  if (!machine)
    return "no estimate of NCCL's: " + why;
  std::string text = fmt::format("NCCL's own model, of sm_{} and these links ({} of {})",
                                 machine->arch, plural(uint64_t(machine->nodes), "node"),
                                 plural(uint64_t(machine->ranksPerNode()), "rank"));
  if (model::estimates(*machine, collective, 1).empty())
    text += fmt::format(": no estimate for {}", model::name(collective));
  return text;
}

std::string NcclBeside::text(int64_t bytes) const {
  std::string all, taken;
  for (const auto &[e, isTaken] : choices(bytes)) {
    const std::string one =
        fmt::format("{}/{} {:.2f}", model::name(e.algorithm), model::name(e.protocol), e.us);
    all += one + ", ";
    if (isTaken)
      taken = fmt::format("takes {} ({} of {})", one, plural(uint64_t(e.channels), "channel"),
                          plural(uint64_t(e.threads), "thread"));
  }
  return all + taken;
}

std::vector<std::string> NcclBeside::json(int64_t bytes) const {
  std::vector<std::string> lines;
  for (const auto &[e, isTaken] : choices(bytes)) {
    JsonLine line;
    line.text("algorithm", model::name(e.algorithm));
    line.text("protocol", model::name(e.protocol));
    line.real("time_us", e.us);
    line.real("algbw_GBps", e.algbw);
    line.boolean("picked", isTaken);
    lines.push_back(line.str());
  }
  return lines;
}

} // namespace ccl::cli
