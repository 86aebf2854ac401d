//===- PlanReportText.h - What ccl plan says about a plan -----------------------===//
#pragma once

#include "frontend/cli/Session.h"
#include "frontend/cli/TopologyInput.h"
#include "passes/synthesis/Plan.h"

namespace ccl::cli {

/// What was asked for and what came of it.
struct PlanResult {
  const TopologyInput &topology;
  const PlanRequest &request;
  const PlanReport &report;
  std::string stop; ///< "time-limit", "interrupt", or "": it was finished
  double seconds = 0;
};

/// Tables, as lines of '#' and one row a size.
std::string planText(const PlanResult &result);
/// An object a size.
std::vector<std::string> planJson(const PlanResult &result);

} // namespace ccl::cli
