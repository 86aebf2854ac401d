//===- Launch.h - What one launch of one rank does to memory ----------------===//
//
// Everything about a launch that needs no other rank: which form runs, where the
// buffers are, how chunks are cut. Pure functions of the plan and the arguments;
// ranks with equal arguments come to equal counts, forms and cuts.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Uneven.h"
#include "runtime/World.h"

namespace ccl {

/// What a plan says about one rank, found once.
struct RankFacts {
  bool needsIn = false;                    ///< `in` holds data at entry
  bool needsOut = false;                   ///< `out` must hold something at exit
  int64_t inShards = 0, outShards = 0;     ///< as the user counts
  int64_t inPosition = 0, outPosition = 0; ///< in place: shard in the larger buffer
  int64_t inWidth = 0, outWidth = 0;       ///< shards of the plan's buffers
  int64_t places = 0;                      ///< shards of the larger buffer
  bool inRead = false, inWritten = false;  ///< by peers, directly
  bool outRead = false, outWritten = false;
  int kernel = -1;        ///< index into Plan::kernels
  size_t indexInSet = 0;  ///< among the ranks of that kernel
  bool usesSlots = false; ///< some kernel of the program does
};
llvm::Expected<RankFacts> findFacts(const Plan &plan, int64_t rank);

/// How chunks are cut: see KernelArgs.
struct Cut {
  int64_t microBatches = 1;
  int64_t stride = 0;
};
/// Every slice of `plan.maxCount` chunks fits a slot of `slotBytes`; `atLeast` micro-
/// batches. Fails if a slot cannot hold even one element of each chunk.
llvm::Expected<Cut> chooseCut(const Plan &plan, const RankFacts &facts, int64_t count,
                              int64_t slotBytes, int64_t atLeast);

/// One launch of one rank.
struct LaunchShape {
  Form form = Form::Either; ///< of the caller's pointers
  bool runInPlace = false;  ///< the form that the kernel runs
  int64_t count = 0;        ///< the caller's; the longest shard if they are uneven
  int64_t runCount = 0;     ///< the kernel's: padded if the plan is `divisible`
  Cut cut;
  const UnevenShards *uneven = nullptr; ///< of this launch, if its shards are uneven
  bool packed = false;                  ///< the kernel runs on uneven shards as they are
  bool isPadded() const { return count != runCount; }
};
/// `uneven` are the shards if args.uneven.
llvm::Expected<LaunchShape> findShape(const Plan &plan, const RankFacts &facts, int64_t rank,
                                      const LaunchArgs &args, int64_t slotBytes,
                                      const UnevenShards *uneven = nullptr);

/// Memory of one rank that launches share: scratch and stand-ins for the caller's
/// buffers, all of it reachable by peers. Grows only at the start of the owner's launch: by
/// then every peer that read the old memory directly has told so, since the owner's last
/// launch waited.
class RankMemory {
public:
  explicit RankMemory(World &world) : world(world) {}
  /// Hands over all memory.
  void takeBlocks(std::vector<Block> &blocks);

  /// Fills `pointers` (one per plan buffer) and copies the input where the kernel
  /// does not take it from the caller's buffer: because the form or the padding asks for
  /// it, or because peers could not reach that buffer.
  llvm::Error place(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
                    const LaunchArgs &args, int64_t rank, std::vector<void *> &pointers);
  /// Copies the result out, if the kernel did not write it into the caller's buffer, and
  /// puts it through `finish`, if there is one.
  void finish(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
              const LaunchArgs &args, FinishFunction finish) const;

private:
  /// Where the kernel finds shard 0 of the plan's `in` and `out`.
  struct Bases {
    char *in = nullptr;
    char *out = nullptr;
  };
  llvm::Expected<Bases> placeInPlace(const RankFacts &facts, const LaunchShape &shape,
                                     const LaunchArgs &args, int64_t elementBytes);
  llvm::Expected<Bases> placeDisjoint(const RankFacts &facts, const LaunchShape &shape,
                                      const LaunchArgs &args, int64_t elementBytes);
  /// The same for uneven shards, in either form.
  llvm::Expected<Bases> placeUneven(const RankFacts &facts, const LaunchShape &shape,
                                    const LaunchArgs &args, int64_t rank, int64_t elementBytes);
  /// Rows of one rank out of place, in bytes.
  struct Rows {
    int64_t callersIn, callersOut, kernelsIn, kernelsOut;
    bool fitsIn, fitsOut; ///< the kernel may run on the caller's
  };
  /// Takes the caller's rows or stand-ins; `copyIn(to)` fills that of the input.
  llvm::Expected<Bases> placeRows(const RankFacts &facts, const LaunchShape &shape,
                                  const LaunchArgs &args, const Rows &rows,
                                  llvm::function_ref<void(char *)> copyIn);
  llvm::Error placeScratch(const Plan &plan, const LaunchShape &shape,
                           std::vector<void *> &pointers);
  /// Whether peers that access it as told reach the caller's memory at `address`, and do so
  /// in less time than a copy takes.
  bool isReachable(const void *address, int64_t bytes, bool read, bool written) const;
  /// Makes room for `bytes`; what was in it is lost if it has to grow.
  llvm::Error reserve(Block &block, int64_t bytes);

  World &world;
  Block scratch, inStandIn, outStandIn;
  const char *result = nullptr;        ///< where `finish` copies from; null: nothing to copy
  std::vector<ShardCopy> resultCopies; ///< of an uneven launch: from `result` to `out`
  int64_t resultElements = 0;          ///< of an uneven launch: all of `out`
};

} // namespace ccl
