//===- PathMarks.h - The critical path in the lanes of agents -------------===//
#pragma once

#include "frontend/picture/Lanes.h"

#include <map>

namespace ccl::picture {

/// The path as bars of a lane of its own: what ran or was on its way, and the waits on it.
std::vector<Bar> pathBars(const std::vector<model::PathPart> &path);

/// What is drawn over the lanes of agents. Times in us, rows as `rowOf` has them.
struct PathMarks {
  struct Outline {
    double begin = 0, end = 0;
    size_t row = 0;
  };
  /// A message, from the end of its sending to its arrival.
  struct Step {
    double begin = 0, end = 0;
    size_t from = 0, to = 0;
  };
  std::vector<Outline> outlines;
  std::vector<Step> steps;
};

/// Outlines of a row that are less than `least` apart are one. Agents without a row are left out.
PathMarks pathMarks(const model::SimulateReport &report, const std::vector<model::PathPart> &path,
                    const std::map<int32_t, size_t> &rowOf, double least);

} // namespace ccl::picture
