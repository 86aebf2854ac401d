//===- CopyEngines.h - Agents that copy engines execute ----------------------------===//
//
// Such an agent of an instance has a stream for the time of a launch, forked from the launch's
// stream and joined again, so that a capture of that takes it along. In it are the copies of its
// transfers, and between these steps: kernels of one block that wait, signal and meet others as
// blocks do (runtime/plan/CudaAbi.h: Step). Nothing is decided by the host when they run.
//
// Steps wait for each other and for the launch's grid, so all streams of a launch must advance at
// once: more of them than the GPU has queues might never end.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launch.h"
#include "runtime/cuda/Device.h"

namespace ccl::cuda {

/// A table where the kernels of `home` can read it, for good. `count` of waits and signals is that
/// of Step::tables.
llvm::Expected<Tables> uploadTables(const RankAgents &table, Device &home);

/// Streams that advance at once on a GPU of `driver`: what CUDA_DEVICE_MAX_CONNECTIONS says, 8 if
/// it says nothing (1 to 32); of the stand-in any number, unless it is set.
int64_t queuesOf(const Driver &driver);

struct EngineCopy {
  char *to;
  const char *from;
  int64_t bytes;
  friend bool operator==(const EngineCopy &, const EngineCopy &) = default;
};

/// Where the operands of one rank lie in a launch, as its kernels find them
/// (codegen/cuda/device/operands.cuh). All that is referred to outlives it.
struct EnginePlaces {
  const Plan &plan;
  int64_t rank;
  /// By rank and buffer of the plan, of the first instance.
  llvm::ArrayRef<std::vector<void *>> pointers;
  int64_t count; ///< elements of one shard
  Cut cut;
  int64_t scratchPitch;              ///< bytes from one instance's scratch to the next one's
  const ShardRange *const *shards{}; ///< KernelArgs::shards, or null

  /// Appends what a transfer copies: nothing of no bytes or from a place to itself, and what
  /// continues the copy before as a part of that.
  void addCopies(const RankAgents &table, const AgentInstruction &transfer, int64_t instance,
                 int64_t microBatch, std::vector<EngineCopy> &copies) const;

private:
  struct Place {
    char *data;
    int64_t length; ///< elements, if a row of shards tells, else -1
    bool isOwn;     ///< in a row of this rank
  };
  Place locate(const AgentOperand &operand, int64_t chunk, int64_t instance,
               int64_t microBatch) const;
  ShardRange slice(int64_t chunk, int64_t row, int64_t microBatch) const;
};

/// Streams of one GPU for these agents. The GPU's context is current where it is used.
class EngineStreams {
public:
  /// So many streams that go on from where `from` is; while that is captured they are, too.
  llvm::Expected<std::vector<CUstream>> fork(const Driver &driver, CUstream from, bool capturing,
                                             size_t streams);
  /// `to` goes on when those of the last fork() are done. Nothing if there are none.
  llvm::Error join(const Driver &driver, CUstream to);

private:
  struct Line {
    Stream stream;
    Event done;
  };
  llvm::Expected<bool> isFree(const Driver &driver, const Line &line,
                              std::optional<unsigned long> capture) const;
  std::vector<Line> lines;
  Event begun;
  std::vector<size_t> forked; ///< indices into lines
};

/// One agent of an instance in its stream. All that is referred to outlives it.
class EngineAgent {
public:
  /// `launch`: the kernels' Launch. `common`: what all its steps have alike; `what` of the first.
  EngineAgent(const Driver &driver, CUfunction kernel, CUstream stream, llvm::StringRef launch,
              const RankAgents &table, const AgentCode &code, const Step &common,
              const EnginePlaces &places)
      : driver(driver), kernel(kernel), stream(stream), launch(launch), table(table), code(code),
        common(common), places(places) {}

  int64_t instance() const { return common.instance; }
  /// Puts all of one micro-batch into the stream.
  llvm::Error enqueue(int64_t microBatch, bool isFirst, bool isLast);

private:
  llvm::Error step(int64_t begin, int64_t end, int64_t microBatch, int what) const;
  llvm::Error copy(int64_t begin, int64_t end, int64_t microBatch);

  const Driver &driver;
  const CUfunction kernel;
  const CUstream stream;
  const llvm::StringRef launch;
  const RankAgents &table;
  const AgentCode &code;
  const Step common;
  const EnginePlaces &places;
  std::vector<EngineCopy> copies;
};

} // namespace ccl::cuda
