//===- CudaEngines.cpp - The part of launches that copy engines execute -----------------===//
#include "runtime/cuda/CudaGroup.h"

namespace ccl::cuda {

llvm::Error CudaGroup::prepareEngines(const Plan &plan, int64_t rank, RankProgram &part) {
  if (plan.cuda.engines.empty())
    return llvm::Error::success();
  const std::vector<RankAgents> &tables = plan.cuda.engines[size_t(part.facts.kernel)];
  if (part.facts.indexInSet >= tables.size())
    return makeFailure(Failure::BadArgument, "malformed plan: no copy engines of {} on rank {}",
                       plan.program, rank);
  const RankAgents &table = tables[part.facts.indexInSet];
  if (table.agents.empty())
    return llvm::Error::success();
  for (const AgentInstruction &i : table.instructions)
    if (i.pattern >= 0 && (size_t(i.pattern) >= plan.transfers.size() ||
                           plan.transfers[size_t(i.pattern)].sources != 1))
      return makeFailure(Failure::BadArgument,
                         "malformed plan: a copy engine of {} on rank {} has a transfer of kind {}",
                         plan.program, rank, i.pattern);
  part.engines = &table;
  for (const AgentCode &agent : table.agents)
    part.agents.push_back(agent.number());
  if (!isLocal(rank))
    return llvm::Error::success();
  llvm::Expected<Tables> uploaded = uploadTables(table, device(rank));
  if (!uploaded)
    return uploaded.takeError();
  part.engineTables = *uploaded;
  return llvm::Error::success();
}

/// A stream that waits for one behind it in the same queue of the GPU would wait forever.
llvm::Error CudaGroup::checkEngines(const Prepared &prepared, size_t d, int64_t instances) const {
  const Grid &grid = prepared.grids[d];
  const int64_t streams = grid.engines * instances + 1, queues = queuesOf(driver);
  if (grid.engines == 0 || streams <= queues)
    return llvm::Error::success();
  const Plan &plan = prepared.program->plan();
  return makeFailure(
      Failure::BadArgument,
      "{} (hash {}) needs {} streams that advance at once ({} agents of copy engines, {} "
      "instances, and the launch's), but GPU {} has queues for {}: take "
      "fewer instances or ranks of a GPU, compile without copy engines, or set "
      "CUDA_DEVICE_MAX_CONNECTIONS (at most 32) before CUDA is first used",
      plan.program, plan.hash, streams, grid.engines, instances, parts[d].device->ordinal(),
      queues);
}

llvm::Error CudaGroup::forkEngines(Launching &launching, size_t d) {
  const Grid &grid = launching.prepared.grids[d];
  if (grid.engines == 0)
    return llvm::Error::success();
  launching.engineStreams.resize(parts.size());
  const auto streams = size_t(grid.engines * launching.shapes.front().instances);
  auto forked = parts[d].engines.fork(driver, launching.streams[d], launching.capturing, streams);
  if (!forked)
    return forked.takeError();
  launching.engineStreams[d] = std::move(*forked);
  return llvm::Error::success();
}

llvm::Error CudaGroup::startEngines(Launching &launching) {
  const Prepared &prepared = launching.prepared;
  const Plan &plan = prepared.program->plan();
  if (plan.cuda.engines.empty())
    return llvm::Error::success();
  const LaunchShape &shape = launching.shapes.front();
  std::vector<EnginePlaces> places;
  for (int64_t r = 0; r < theRanks; ++r) {
    const LaunchShape &own = launching.shapes[size_t(r)];
    places.push_back({plan, r, launching.pointers, own.runCount, own.cut,
                      isLocal(r) ? memoryOf(plan, r).scratchPitch() : 0,
                      own.packed ? launching.shards->tables() : nullptr});
  }
  std::vector<std::vector<EngineAgent>> agents(parts.size());
  for (size_t d = 0; d < parts.size(); ++d) {
    if (prepared.grids[d].engines == 0)
      continue;
    auto stream = launching.engineStreams[d].begin();
    for (auto [index, r] : llvm::enumerate(parts[d].ranks)) {
      const RankProgram &rank = prepared.ranks[size_t(r)];
      for (size_t a = 0; rank.engines && a < rank.engines->agents.size(); ++a)
        for (int64_t i = 0; i < shape.instances; ++i) {
          Step common;
          common.tables = rank.engineTables;
          common.agent = int(rank.blocks) + int(a);
          common.instance = int(i);
          common.what = plan.cuda.barriers & entryBarrier ? entersLaunch : 0;
          agents[d].emplace_back(driver, prepared.grids[d].code->step.function, *stream++,
                                 launching.heads[d].of(index, parts[d].ranks.size()), *rank.engines,
                                 rank.engines->agents[a], common, places[size_t(r)]);
        }
    }
  }
  // A stream holds so many operations and no more, then it makes the caller wait until some are
  // done: all have those of a micro-batch before any has the next one's.
  for (int64_t first = 0; first < shape.cut.microBatches; first += shape.instances) {
    // Kernels that have given up, or are to end, do nothing for those that come now.
    if (!launching.capturing && __atomic_load_n(&control()->abort, __ATOMIC_ACQUIRE) != 0)
      break;
    for (size_t d = 0; d < parts.size(); ++d) {
      llvm::Expected<ContextScope> scope = parts[d].device->enter();
      if (!scope)
        return scope.takeError();
      for (EngineAgent &agent : agents[d])
        if (llvm::Error e = agent.enqueue(first + agent.instance(), first == 0,
                                          first + shape.instances >= shape.cut.microBatches))
          return e;
    }
  }
  return llvm::Error::success();
}

llvm::Error CudaGroup::joinEngines(Launching &launching) {
  llvm::Error error = llvm::Error::success();
  if (launching.prepared.program->plan().cuda.engines.empty())
    return error;
  for (size_t d = 0; d < parts.size(); ++d) {
    llvm::Expected<ContextScope> scope = parts[d].device->enter();
    llvm::Error joined =
        scope ? parts[d].engines.join(driver, launching.streams[d]) : scope.takeError();
    error = llvm::joinErrors(std::move(error), std::move(joined));
  }
  return error;
}

} // namespace ccl::cuda
