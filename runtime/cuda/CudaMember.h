//===- CudaMember.h - One rank's part in a communicator of GPUs -----------------------===//
//
// Every rank is a process with one GPU. It is made on top of a host communicator (Member) of the
// same ranks, through which they find each other, compare and fail together. Several ranks may
// share a GPU where the device divides its time between processes; that is slow.
//
// Launches are asynchronous, in the caller's stream. A kind of launch (program, count, form,
// instances, where symmetric buffers are) that the communicator has not seen is compared by all
// ranks first, which waits for all of them and may allocate; later launches of that kind
// involve no other process. A rank that then launches another kind than the others is told by the
// time-out of those who wait, unless `checked` is set. Captured launches are compared when they
// are captured, and must be captured by all ranks.
//
// Programs that use memory of peers run on symmetric and registered buffers in place, on others
// through stand-ins; such buffers are given by all ranks at the same place of the same one.
// Programs are told apart by their object: all ranks load a program once.
//
// A member is used by one thread at a time, its constructor, destructor, abort() and failure()
// excepted. All that says *collective* is called by all ranks in the same order. After any error
// the communicator is dead, on all ranks, and every call answers with the first one. If a process
// ends, or gives up waiting, kernels of all others end in milliseconds.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudaGroup.h"

namespace ccl::cuda {

struct CudaMemberLaunch {
  const void *in = nullptr; ///< see LaunchArgs; on this rank's GPU
  void *out = nullptr;
  int64_t count = 0;                    ///< elements of one shard; ignored if `uneven`
  const UnevenCounts *uneven = nullptr; ///< an all_to_all of these waits for all ranks, always
  std::optional<CUstream> stream{};     ///< nothing: one of our own. Null is the default stream.
  Milliseconds timeout = defaultTimeout;
  int64_t microBatches = 0, instances = 0; ///< see CudaLaunchOptions; the same on all ranks
  std::string_view reason{};
};

class CudaMember {
public:
  /// `host` is for this alone (Member::duplicate()). Collective.
  static llvm::Expected<std::unique_ptr<CudaMember>> join(const Driver &driver,
                                                          std::unique_ptr<Member> host, int device,
                                                          CudaGroupOptions options = {},
                                                          Milliseconds timeout = defaultTimeout);

  int64_t rank() const { return group->processes()->host().rank(); }
  int64_t ranks() const { return group->ranks(); }
  CUcontext context() const { return group->context(0); }
  CUstream stream() const { return group->stream(0); }

  /// Queues this rank's part. Collective.
  llvm::Error launch(const std::shared_ptr<LoadedCudaProgram> &program,
                     const CudaMemberLaunch &launch);
  /// Zeroed memory of the same size on every rank, that all reach; it lives as long as the
  /// communicator. `peers` are addresses here. Collective.
  llvm::Expected<SymmetricBuffer> allocate(int64_t bytes, Milliseconds timeout = defaultTimeout) {
    return group->allocate(bytes, timeout);
  }
  /// The same for memory that the caller has, which is kept until all ranks have closed the
  /// communicator: from cuMemAlloc, or from cuMemCreate with a file descriptor as handle type.
  /// Collective; the same size everywhere.
  llvm::Expected<SymmetricBuffer> registerBuffer(void *address, int64_t bytes,
                                                 Milliseconds timeout = defaultTimeout) {
    return group->registerBuffer(address, bytes, timeout);
  }
  /// See CudaGroup. Only of this rank's part.
  llvm::Error synchronize() { return group->synchronize(); }
  /// On all ranks.
  void abort(std::string reason) { group->abort(std::move(reason)); }
  std::optional<RuntimeError> failure() { return group->failure(); }

private:
  explicit CudaMember(std::unique_ptr<CudaGroup> group) : group(std::move(group)) {}

  const std::unique_ptr<CudaGroup> group;
};

} // namespace ccl::cuda
