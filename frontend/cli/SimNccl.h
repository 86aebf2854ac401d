//===- SimNccl.h - What NCCL's own model says, beside ccl sim -----------------===//
#pragma once

#include "frontend/simulation/Nccl.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace ccl::cli {

/// The compute capability that NCCL's model is to take: that of "nccl:80", 0 of "nccl". Fails on
/// other words.
llvm::Expected<int32_t> parseBeside(llvm::StringRef text);

class NcclBeside {
public:
  NcclBeside(const model::Topology &topology, model::Collective collective, int32_t arch);

  /// What the machine is taken to be, or why there are no estimates.
  std::string what() const;
  /// "Tree/LL 12.30, ..., takes Ring/LL 8.20 (24 channels of 512 threads)"; "" without estimates.
  std::string text(int64_t bytes) const;
  /// One object an estimate.
  std::vector<std::string> json(int64_t bytes) const;

private:
  std::vector<simulation::NcclChoice> choices(int64_t bytes) const {
    return machine ? simulation::ncclChoices(*machine, collective, bytes)
                   : std::vector<simulation::NcclChoice>();
  }

  model::Collective collective;
  std::optional<model::NcclMachine> machine;
  std::string why;
};

} // namespace ccl::cli
