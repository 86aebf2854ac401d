//===- SimulateRun.h - What both forms of a simulation share --------------===//
#pragma once

#include "dialect/simulate/Simulator.h"

namespace ccl::model {

/// What is wrong with the input of a simulation apart from the program, or "".
std::string checkSimulation(const Contract &contract, const Topology &topology,
                            const SimulateOptions &options);
/// Whether the agents of a network come to their end; if not it is a fault.
bool isLive(const Network &network, const SimulateOptions &options, SimulateReport &report);
/// Runs the code and writes all of the report but rates. By wire and by resource: whose uses stand
/// for its own; empty: each its own.
bool runSimulation(const SimCode &code, const SimulateOptions &options, const Topology &topology,
                   const std::vector<Wire> &wires, const std::vector<int32_t> &wireClass,
                   const std::vector<int32_t> &resourceClass, SimulateReport &report);
void setRates(const Contract &contract, const SimulateOptions &options, SimulateReport &report);

} // namespace ccl::model
