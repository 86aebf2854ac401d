//===- OwnKey.h - What MSCCL++'s format has no field for ------------------===//
#pragma once

#include "frontend/mscclpp/Fields.h"
#include "frontend/mscclpp/Plan.h"

namespace ccl::mscclpp {

/// Reads the value of `ownKey` in a plan of so many ranks. Errors go to `log`.
std::optional<Plan::Own> readOwnKey(Log &log, JsonValue value, int64_t ranks);
/// The value of `ownKey`, or "" if the rest of the plan says it all.
std::string writeOwnKey(const Plan &plan);

} // namespace ccl::mscclpp
