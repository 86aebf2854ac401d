//===- PlanFile.h - MSCCL++ execution plans, read and written -------------===//
//
// The JSON files that MSCCL++'s executor runs. docs/interchange.md has the mapping of ops
// both ways, and what does not map.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::mscclpp {

/// Reads a plan of generation 1 or 2, or of a draft. If it is no plan, contradicts itself or
/// means something that has no counterpart here, `diagnostics` says what and where. What
/// MSCCL++ would make of it in another way is in the result's warnings.
std::optional<interchange::Foreign> readPlan(std::string_view text,
                                             std::vector<interchange::Diagnostic> &diagnostics);

/// The program as a plan of generation 2. What the format cannot say goes to `diagnostics`,
/// with the `loc` of the instruction or buffer; limits of MSCCL++'s executor, which does not
/// check them, are warnings there.
std::optional<std::string> writePlan(const interchange::Foreign &foreign,
                                     std::vector<interchange::Diagnostic> &diagnostics);

} // namespace ccl::mscclpp
