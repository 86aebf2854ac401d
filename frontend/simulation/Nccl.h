//===- Nccl.h - What NCCL's own model says of a topology --------------------------===//
#pragma once

#include "dialect/simulate/NcclModel.h"

#include <string>
#include <string_view>
#include <vector>

namespace ccl::simulation {

/// Whether NCCL has a model of GPUs of this compute capability: 60, 90, ...
constexpr bool hasNcclModel(int64_t arch) { return arch >= 60 && arch < 1000; }

/// The compute capability of the GPU in a text ("H100", "dgx-a100:2"); 90 if it names none.
/// Nothing, and `why`, of a GPU that NCCL is not for.
std::optional<int32_t> ncclArch(std::string_view gpu, std::string &why);

struct NcclChoice {
  model::NcclEstimate estimate;
  bool isTaken = false; ///< by NCCL, of all
};
/// As model::estimates, with what NCCL launches if it takes one.
std::vector<NcclChoice> ncclChoices(const model::NcclMachine &machine, model::Collective collective,
                                    int64_t bytes);

} // namespace ccl::simulation
