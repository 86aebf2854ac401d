//===- PlanText.h - What a plan's tables say, for hashes --------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace ccl {

/// Appends buffers, channels and tables: what nobody reads, for it may be long.
void appendTables(std::string &text, const Plan &plan);

} // namespace ccl
