//===- MicroBatches.h - How many micro-batches a pipeline is worth -----------------===//
//
// m micro-batches, each a part of 1 / m of the data, take the largest of
//
//   t + (m - 1) * longest interval of a stage
//   m * work + head + tail + latency of the first and of the last stage + (m - 2) * idle,
//     of any link or resource that several stages use
//
// t is the time of one micro-batch alone, and the interval of a stage what each more takes in it.
// A shared link has the work of all of its stages to do, after the stages before the first of them
// (head) and before those after the last (tail). It idles while the agents of one of these stages
// wait for latencies, as far as those of the others do not cover that: agents that send at the same
// time wait at the same time. All of it is simulated, at the size of a
// micro-batch: latencies and overheads are in it as often as messages are.
//
// Not in it: messages that queue behind other stages' although those take less than the latency.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/PlanProgram.h"

namespace ccl {

class MicroBatches {
public:
  /// `pipeline` holds one algorithm that is a `ccl.pipeline`. Nothing: `why` says why it cannot be
  /// lowered.
  static std::optional<MicroBatches> make(mlir::OwningOpRef<mlir::ModuleOp> pipeline,
                                          const model::Topology &topology,
                                          const PlanRequest &request, std::string &why);

  struct Formula {
    double fillUs = 0;     ///< of one micro-batch through all stages
    double intervalUs = 0; ///< longest, of a stage
    double sharedUs = 0;   ///< of what several stages use: all that it takes; 0: nothing is shared
    double us(int64_t batches) const {
      return batches == 1 ? fillUs : std::max(fillUs + double(batches - 1) * intervalUs, sharedUs);
    }
  };
  Formula formula(int64_t batches);
  /// Of the whole pipeline; infinite if it is stuck.
  double simulate(int64_t batches);

  /// What a stage takes for next to no data, and each more micro-batch of it.
  struct StageLatency {
    double us = 0, intervalUs = 0;
  };

  struct Choice {
    int64_t batches = 1;
    double us = 0;
    std::vector<std::pair<int64_t, double>> estimated; ///< by number of micro-batches
  };
  /// So many of `most` whose slices of a chunk are not too small (model::leastSliceBytes).
  int64_t mostSlices(int64_t most) const;
  /// The fewest, up to `mostSlices`, that are about as good as any: the formula says which ones are
  /// simulated.
  Choice choose(int64_t most);
  size_t stages() const { return parts.size(); }

private:
  MicroBatches(const model::Topology &topology, const PlanRequest &request)
      : topology(topology), request(request) {}
  bool addStages(mlir::ModuleOp expanded, std::string &why);
  bool addStage(mlir::ModuleOp expanded, int64_t firstAgent, int64_t endAgent, std::string &why);

  const model::Topology &topology;
  const PlanRequest &request;
  std::optional<PlanProgram> whole;
  std::vector<PlanProgram> parts;
  std::vector<StageLatency> latencies; ///< by part
};

/// Numbers from 1 to `most`, denser where they are small.
std::vector<int64_t> batchCounts(int64_t most);

} // namespace ccl
