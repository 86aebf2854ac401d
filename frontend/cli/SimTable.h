//===- SimTable.h - What ccl sim prints ---------------------------------------===//
#pragma once

#include "frontend/cli/SimNccl.h"

#include "dialect/bound/Bound.h"
#include "dialect/simulate/Simulate.h"

#include <optional>
#include <string>
#include <vector>

namespace ccl::cli {

/// What all rows have in common.
struct SimTable {
  const model::Contract &contract;
  const model::Topology &topology;
  const model::SimulateOptions &options; ///< of the row that is printed
  std::string topologyLabel, algorithm;
  std::vector<std::string> notes; ///< of the head
  bool isUneven = false, isPadded = false;
  std::optional<NcclBeside> beside;
  std::optional<model::BandwidthBound> bound;
  std::vector<model::TimeLine> boundLines;

  void header(const model::SimulateReport &first) const;
  void row(const model::SimulateReport &report) const;
  void jsonRow(const model::SimulateReport &report) const;
  /// No launch of so many bytes takes less; 0: not known.
  double boundUs(int64_t bytes) const;
};

} // namespace ccl::cli
