// How the tests of the simulator run it.
#pragma once

#include "Timing.h"

#include <doctest/doctest.h>

#include <cmath>

namespace ccl::model {

inline SimulateOptions optionsFor(int64_t count, CostModel model = cclModel()) {
  SimulateOptions options;
  options.model = std::move(model);
  options.count = count;
  return options;
}

inline Contract allReduce(int64_t ranks, int64_t chunks) {
  return makeContract(Collective::AllReduce, ranks, chunks, Reduction::Sum);
}

/// Time of `count` floats over `bandwidth` GB/s.
inline double us(int64_t count, double bandwidth) { return double(count) * 4 / (bandwidth * 1000); }

/// Two ranks and more; rank 0 sends one chunk to rank 1.
inline Program oneMessage(int64_t ranks) {
  ProgramMaker maker(ranks, {{"x", Role::InOut, 1}}, 1);
  maker.add(0, transfer({local(0, 0)}, {maker.to(0, 1)}));
  maker.add(1, transfer({maker.from(1, 0)}, {local(0, 0)}));
  return maker.program;
}

inline SimulateReport run(const Program &program, int64_t chunks, const Topology &t,
                          const SimulateOptions &options) {
  SimulateReport report =
      simulate(program, allReduce(int64_t(program.ranks.size()), chunks), t, options);
  INFO((report.faults.empty() ? "" : report.faults[0].message));
  REQUIRE(report.ok());
  return report;
}

inline bool isNear(double value, double expected, double part = 1e-9) {
  return std::abs(value - expected) <= part * std::abs(expected);
}

} // namespace ccl::model
