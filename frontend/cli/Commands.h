//===- Commands.h - One function a command ------------------------------------===//
#pragma once

#include "frontend/cli/Session.h"

#include <functional>

namespace ccl::cli {

/// Adds a command with its options to `app`; what it returns runs the command after
/// parsing and returns the exit status.
using Action = std::function<int(Session &)>;
Action addRun(CLI::App &app);
Action addCheck(CLI::App &app);
Action addConvert(CLI::App &app);
Action addCompile(CLI::App &app);
Action addExplain(CLI::App &app);
Action addTopo(CLI::App &app);
Action addSim(CLI::App &app);
Action addPlan(CLI::App &app);
Action addInfo(CLI::App &app);

} // namespace ccl::cli
