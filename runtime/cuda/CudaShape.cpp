//===- CudaShape.cpp - What a launch is: streams, forms, cuts ---------------------===//
#include "runtime/Agreement.h"
#include "runtime/cuda/CudaGroup.h"

#include <fmt/ranges.h>

namespace ccl::cuda {

llvm::Error CudaGroup::findStreams(Launching &launching) {
  const llvm::ArrayRef<CUstream> streams = launching.options.streams;
  if (!streams.empty() && streams.size() != parts.size())
    return makeFailure(Failure::BadArgument, "a launch on {} GPUs has {} streams", parts.size(),
                       streams.size());
  launching.streams.clear();
  for (size_t d = 0; d < parts.size(); ++d) {
    launching.streams.push_back(streams.empty() ? parts[d].own.get() : streams[d]);
    llvm::Expected<ContextScope> scope = enter(parts[d]);
    if (!scope)
      return scope.takeError();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = driver.cuStreamIsCapturing(launching.streams[d], &status);
    if (result != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
      return makeFailure(Failure::BadArgument, "cannot launch into the stream given for GPU {}: {}",
                         parts[d].device->ordinal(),
                         result != CUDA_SUCCESS ? driver.describe(result)
                                                : "its capture has failed");
    const bool capturing = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (d > 0 && capturing != launching.capturing)
      return makeFailure(Failure::BadArgument,
                         "the streams given for GPUs {} and {} are not captured alike: a launch "
                         "is in a graph with all its ranks, or with none",
                         parts[0].device->ordinal(), parts[d].device->ordinal());
    launching.capturing = capturing;
  }
  return llvm::Error::success();
}

llvm::Expected<LaunchShape> CudaGroup::shapeOf(const Launching &launching, int64_t r) const {
  return findUncutShape(launching.prepared.program->plan(),
                        launching.prepared.ranks[size_t(r)].facts, r, launching.argsOf(r),
                        launching.shards ? &*launching.shards : nullptr);
}

llvm::Error CudaGroup::checkBuffers(const Launching &launching, int64_t r) const {
  const RankFacts &facts = launching.prepared.ranks[size_t(r)].facts;
  if (launching.shapes[size_t(r)].count == 0)
    return llvm::Error::success();
  const LaunchArgs args = launching.argsOf(r);
  const Device &home = *parts[deviceOf(r)].device;
  bool hasIn = facts.needsIn, hasOut = facts.needsOut;
  if (launching.shards) {
    const CallerRows rows = launching.shards->callerRows(r);
    hasIn &= rows.inElements > 0;
    hasOut &= rows.outElements > 0;
  }
  llvm::Expected<ContextScope> scope = enter(parts[deviceOf(r)]);
  if (!scope)
    return scope.takeError();
  if (hasIn)
    if (llvm::Error e = checkMemory(home, args.in, r, "in"))
      return e;
  return hasOut ? checkMemory(home, args.out, r, "out") : llvm::Error::success();
}

llvm::Error CudaGroup::findShapes(Launching &launching) {
  const Plan &plan = launching.prepared.program->plan();
  const llvm::ArrayRef<UnevenCounts> uneven = launching.options.uneven;
  if (!uneven.empty()) {
    if (uneven.size() != 1 && (peers || int64_t(uneven.size()) != theRanks))
      return makeFailure(Failure::BadArgument, "an uneven launch on {} ranks has counts of {}",
                         theRanks, uneven.size());
    for (size_t r = 0; r < uneven.size(); ++r)
      if (llvm::Error e = checkUneven(plan, peers ? peers->host().rank() : int64_t(r), uneven[r]))
        return e;
    std::vector<UnevenCounts> counts(uneven.begin(), uneven.end());
    if (peers && !uneven.front().receives.empty())
      if (llvm::Error e = gatherCounts(launching, counts))
        return e;
    llvm::Expected<UnevenShards> shards = UnevenShards::make(plan, counts);
    if (!shards)
      return shards.takeError();
    launching.shards.emplace(std::move(*shards));
    std::string text;
    for (const UnevenCounts &of : counts)
      text += fmt::format("{};{};", fmt::join(of.counts, ","), fmt::join(of.receives, ","));
    launching.countsPrint = fingerprint(text);
  }
  int64_t formOwner = -1;
  launching.shapes.resize(size_t(theRanks));
  for (const Part &part : parts)
    for (int64_t r : part.ranks) {
      llvm::Expected<LaunchShape> shape = shapeOf(launching, r);
      if (!shape)
        return shape.takeError();
      launching.shapes[size_t(r)] = *shape;
      if (llvm::Error e = checkBuffers(launching, r))
        return e;
    }
  if (peers)
    launching.shapes.assign(size_t(theRanks), launching.shapes[size_t(peers->host().rank())]);
  for (int64_t r = 0; r < theRanks; ++r) {
    const LaunchShape *shape = &launching.shapes[size_t(r)];
    if (shape->form == Form::Either)
      continue;
    if (formOwner < 0)
      formOwner = r;
    if (const Form first = launching.shapes[size_t(formOwner)].form; first != shape->form)
      return makeFailure(Failure::Mismatch, "ranks {} and {} disagree on the form: {} and {}",
                         formOwner, r, name(first), name(shape->form));
  }
  return llvm::Error::success();
}

/// "1 rank", "2 ranks".
static std::string counted(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

/// What to do where blocks have no room.
static std::string howToFit(bool isShim, int64_t instances) {
  std::string text = "fewer ranks on each GPU (--cuda-devices) need less room";
  if (instances > 1)
    text += ", and so do fewer instances (--instances)";
  return isShim ? text + "; CCL_SHIM_DEVICES and CCL_SHIM_SMS say how many GPUs there are, and how "
                         "large they are"
                : text;
}

llvm::Error CudaGroup::cut(Launching &launching) {
  const Prepared &prepared = launching.prepared;
  const Plan &plan = prepared.program->plan();
  GpuCutRules rules;
  rules.slotBytes = options.slotBytes;
  rules.atLeast = launching.options.microBatches;
  rules.instances =
      launching.options.instances != 0 ? launching.options.instances : options.instances;
  rules.resident = std::min(instanceLimit, prepared.resident);
  llvm::Expected<GpuCut> cut =
      chooseGpuCut(plan, prepared.ranks.front().facts, launching.shapes.front().runCount, rules);
  if (!cut)
    return cut.takeError();
  for (size_t d = 0; d < parts.size(); ++d) {
    const Grid &grid = prepared.grids[d];
    const int64_t ranks = int64_t(parts[d].ranks.size());
    const int64_t blocks = (ranks * grid.blocks + grid.engines) * cut->instances;
    if (blocks > grid.mostBlocks)
      return makeFailure(
          Failure::BadArgument,
          "{} (hash {}) needs {} blocks that run at once ({} of {}{}, {}), but {}; {}",
          plan.program, plan.hash, blocks, counted(ranks, "rank"), counted(grid.blocks, "agent"),
          grid.engines > 0 ? fmt::format(", {}", counted(grid.engines, "copy engine")) : "",
          counted(cut->instances, "instance"), grid.describe,
          howToFit(driver.isShim(), cut->instances));
    if (llvm::Error e = checkEngines(prepared, d, cut->instances))
      return e;
  }
  launching.batchShift = cut->batchShift;
  for (LaunchShape &shape : launching.shapes) {
    shape.cut = cut->cut;
    shape.instances = cut->instances;
  }
  return llvm::Error::success();
}

} // namespace ccl::cuda
