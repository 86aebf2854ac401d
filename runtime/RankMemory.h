//===- RankMemory.h - Where the buffers of a launch are -------------------------===//
//
// The same for all machines: a kernel runs on the caller's buffers where it may, else on
// stand-ins that are copied from and to. Where memory comes from and how it is copied is behind
// MemorySource.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launch.h"
#include "runtime/World.h"

namespace ccl {

/// Memory of one rank: of a world, copied by the caller's thread, or of a GPU, copied in the
/// order of a stream.
class MemorySource {
public:
  virtual ~MemorySource() = default;
  /// Memory that peers reach as this rank does, not initialized, on a boundary that suits
  /// every element. Fails with Failure::Machine.
  virtual llvm::Expected<Block> allocate(size_t bytes) = 0;
  /// No launch that begins after this call uses it.
  virtual void release(Block block) = 0;
  /// Whether peers that access it as told reach the caller's memory at `address`, and do so
  /// in less time than a copy takes.
  virtual bool isReachable(const void *address, int64_t bytes, bool read, bool written) const = 0;

  /// `rows` times `bytes`, and zeros behind each row, all in bytes. What is copied does not
  /// overlap with where it is copied to, unless that is one piece.
  struct Rows {
    char *to;
    int64_t toPitch;
    const char *from;
    int64_t fromPitch;
    int64_t rows, bytes, zeros;
    bool isOnePiece() const { return zeros == 0 && toPitch == bytes && fromPitch == bytes; }
  };
  virtual llvm::Error copy(const Rows &rows) = 0;
};

/// Memory of a world.
class WorldMemory final : public MemorySource {
public:
  explicit WorldMemory(World &world) : world(world) {}
  llvm::Expected<Block> allocate(size_t bytes) override { return world.allocate(bytes); }
  void release(Block block) override { world.release(block, false); }
  bool isReachable(const void *address, int64_t bytes, bool read, bool written) const override;
  llvm::Error copy(const Rows &rows) override;

private:
  World &world;
};

/// to[i] = final value of from[i], of one row: a FinishFunction, wherever it runs.
using FinishRow = llvm::function_ref<llvm::Error(char *to, const char *from, int64_t elements)>;

/// Memory of one rank that launches share: scratch and stand-ins for the caller's
/// buffers, all of it reachable by peers. Grows only at the start of the owner's launch: by
/// then every peer that read the old memory directly has told so, since the owner's last
/// launch waited.
class RankMemory {
public:
  /// `source` outlives it.
  explicit RankMemory(MemorySource &source) : source(source) {}
  /// Hands over all memory.
  void takeBlocks(std::vector<Block> &blocks);

  /// Fills `pointers` (one per plan buffer) and copies the input where the kernel
  /// does not take it from the caller's buffer: because the form or the padding asks for
  /// it, or because peers could not reach that buffer. Scratch of the first instance; that of
  /// the others follows, see scratchPitch().
  llvm::Error place(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
                    const LaunchArgs &args, int64_t rank, std::vector<void *> &pointers);
  /// Of the last place(): bytes from a scratch buffer to that of the next instance.
  int64_t scratchPitch() const { return instanceBytes; }
  /// Copies the result out, if the kernel did not write it into the caller's buffer, and
  /// puts it through `finish`, if there is one.
  llvm::Error finish(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
                     const LaunchArgs &args, FinishRow finish) const;

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
  struct Widths {
    int64_t callersIn, callersOut, kernelsIn, kernelsOut;
    bool fitsIn, fitsOut; ///< the kernel may run on the caller's
  };
  /// Takes the caller's rows or stand-ins; `copyIn(to)` fills that of the input.
  llvm::Expected<Bases> placeRows(const RankFacts &facts, const LaunchShape &shape,
                                  const LaunchArgs &args, const Widths &widths,
                                  llvm::function_ref<llvm::Error(char *)> copyIn);
  llvm::Error placeScratch(const Plan &plan, const LaunchShape &shape,
                           std::vector<void *> &pointers);
  /// Shards between rows of different pitch.
  llvm::Error copyShards(char *to, int64_t toPitch, const char *from, int64_t fromPitch,
                         int64_t shards, int64_t shardBytes) const;
  /// Shards that differ in where they lie, and zeros for what pads them.
  llvm::Error copyShards(char *to, const char *from, const std::vector<ShardCopy> &copies,
                         int64_t elementBytes) const;
  /// Makes room for `bytes`; what was in it is lost if it has to grow.
  llvm::Error reserve(Block &block, int64_t bytes);

  MemorySource &source;
  Block scratch, inStandIn, outStandIn;
  int64_t instanceBytes = 0;           ///< of scratch
  const char *result = nullptr;        ///< where `finish` copies from; null: nothing to copy
  std::vector<ShardCopy> resultCopies; ///< of an uneven launch: from `result` to `out`
  int64_t resultElements = 0;          ///< of an uneven launch: all of `out`
};

} // namespace ccl
