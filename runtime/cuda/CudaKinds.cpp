//===- CudaKinds.cpp - Launches like one before ------------------------------------===//
//
// What was found for a launch (checks of the arguments, shards, cuts, agreement, what kernels are
// started with) is kept, and is right for every launch of its kind: same program, counts, options
// and forms, and between processes the same facts. Only what may differ is looked at again: where
// buffers are and whether GPUs reach them, and what streams do.
//===----------------------------------------------------------------------===//
#include "runtime/Log.h"
#include "runtime/cuda/CudaGroup.h"

namespace ccl::cuda {

/// Kinds of one program that are kept; then the oldest goes.
constexpr size_t mostKinds = 64;
/// What is not used any more is freed so often.
constexpr uint64_t launchesPerReclaim = 64;

void CudaGroup::keep(std::unique_ptr<Launching> launching) {
  Prepared &prepared = launching->prepared;
  const llvm::ArrayRef<UnevenCounts> uneven = launching->options.uneven;
  // Graphs keep what is theirs; without heads nothing was launched.
  if (launching->capturing || launching->heads.empty())
    return;
  // Processes compare these each time.
  if (peers && (options.checked || (!uneven.empty() && !uneven.front().receives.empty()) ||
                (prepared.program->plan().direct && (!prepared.seenByAll || launching->shards))))
    return;
  launching->isNew = false;
  launching->uneven.assign(uneven.begin(), uneven.end());
  // The caller's.
  launching->args = {};
  launching->options.uneven = {};
  launching->options.streams = {};
  launching->options.reason = {};
  std::vector<std::unique_ptr<Launching>> &kinds = prepared.kinds;
  if (kinds.size() < mostKinds) {
    kinds.push_back(std::move(launching));
    return;
  }
  kinds[prepared.nextKind] = std::move(launching);
  prepared.nextKind = (prepared.nextKind + 1) % mostKinds;
}

CudaGroup::Launching *CudaGroup::findAlike(const LoadedCudaProgram *program,
                                           llvm::ArrayRef<CudaLaunchArgs> args,
                                           const CudaLaunchOptions &launchOptions) {
  const auto found = programs.find(program);
  if (found == programs.end() || log::tracesCollectives())
    return nullptr;
  // As a new one it gives back memory, if it can.
  if (launches % launchesPerReclaim == 0 && wantsReclaim())
    return nullptr;
  for (const std::unique_ptr<Launching> &kind : found->second.kinds)
    if (isAlike(*kind, args, launchOptions))
      return kind.get();
  return nullptr;
}

static bool isSame(const UnevenCounts &a, const UnevenCounts &b) {
  return a.counts == b.counts && a.receives == b.receives;
}

bool CudaGroup::isAlike(Launching &kind, llvm::ArrayRef<CudaLaunchArgs> args,
                        const CudaLaunchOptions &launchOptions) const {
  const CudaLaunchOptions &had = kind.options;
  if (had.count != launchOptions.count || had.instances != launchOptions.instances ||
      had.microBatches != launchOptions.microBatches || had.timeout != launchOptions.timeout ||
      !std::equal(kind.uneven.begin(), kind.uneven.end(), launchOptions.uneven.begin(),
                  launchOptions.uneven.end(), isSame))
    return false;
  kind.args = args;
  for (const Part &part : parts)
    for (int64_t r : part.ranks) {
      llvm::Expected<LaunchShape> shape = shapeOf(kind, r);
      if (!shape) {
        llvm::consumeError(shape.takeError()); // said again by who launches it as a new one
        return false;
      }
      // All else follows from these and from what was compared.
      const LaunchShape &before = kind.shapes[size_t(r)];
      if (shape->form != before.form || shape->runInPlace != before.runInPlace ||
          shape->packed != before.packed || shape->runCount != before.runCount)
        return false;
    }
  return !peers || factsOf(kind) == kind.told;
}

/// Whether it is launched, which one that is captured is not.
llvm::Expected<bool> CudaGroup::repeat(Launching &kind, const CudaLaunchOptions &launchOptions) {
  kind.options.streams = launchOptions.streams;
  llvm::Error error = findStreams(kind);
  kind.options.streams = {};
  if (error)
    return error;
  if (std::exchange(kind.capturing, false))
    return false;
  for (const Part &part : parts)
    for (int64_t r : part.ranks)
      if (llvm::Error e = checkBuffers(kind, r))
        return e;
  if (llvm::Error e = follow(kind))
    return e;
  if (llvm::Error e = place(kind))
    return e;
  if (llvm::Error e = startAll(kind))
    return e;
  kind.args = {};
  return true;
}

} // namespace ccl::cuda
