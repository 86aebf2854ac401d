//===- Uneven.h - How an uneven launch cuts rows into shards ----------------===//
//
// Pure functions of a plan and of the counts that every rank stated: what is wrong with
// the counts, where the shards of all rows lie, and what has to be copied where the
// program cannot run on rows as the caller has them. Everything is in elements.
//
// Shards are *packed*: shard s + 1 of a row begins where shard s ends. A program that is
// not Plan::unevenSafe runs on *padded* rows, where every shard is as long as the longest:
// then KernelArgs::shards is null and KernelArgs::count is paddedCount().
//
// all_gather, gather, reduce_scatter, scatter: shard s is as long on every rank. all_to_all:
// with c[p][q] elements from rank p to rank q, shard s of the `in` of rank r has c[r][s]
// elements and shard s of its `out` has c[s][r].
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

namespace ccl {

/// What one rank sees wrong with its own counts: a collective without uneven form, the wrong
/// number of counts, negative ones, sums that no row holds.
llvm::Error checkUneven(const Plan &plan, int64_t rank, const UnevenCounts &counts);

/// `length` elements from one row to another; then `pad` elements that must be set to
/// something: what is reduced must be initialized.
struct ShardCopy {
  int64_t from = 0, to = 0, length = 0, pad = 0;
  friend bool operator==(const ShardCopy &, const ShardCopy &) = default;
};

/// The rows of one rank as its caller has them.
struct CallerRows {
  int64_t inElements = 0, outElements = 0;
  /// Where `in` and `out` begin in the larger row: launched in place, `in` is
  /// `out` + inOffset - outOffset. A rank without elements in one of them is in either form.
  int64_t inOffset = 0, outOffset = 0;
};

/// The rows of one rank as its kernel has them, packed or padded.
struct KernelRows {
  /// Out of place: rows as wide as the plan's buffers.
  int64_t inElements = 0, outElements = 0;
  /// In place: the larger row, and where the plan's `in` and `out` begin in it.
  int64_t wholeElements = 0, inBase = 0, outBase = 0;
  /// Out of place the caller's row is the same: the kernel may run on it. Without these a copy
  /// may look like none, but the kernel's row is longer than the caller's.
  bool callersIn = false, callersOut = false;
};

class UnevenShards {
public:
  /// `counts[p]` are those of rank p; each has passed checkUneven. But for all_to_all one entry
  /// is enough, if all ranks are known to have stated the same. Fails with Mismatch where
  /// ranks disagree: one counts shard s differently than rank 0, or q does not expect what
  /// p sends to it. The message is the same on every rank.
  static llvm::Expected<UnevenShards> make(const Plan &plan,
                                           const std::vector<UnevenCounts> &counts);

  /// In place, `in` and `out` of an all_to_all are one row: each rank must send as much to
  /// another as it receives. Fails with BadArgument, the same on every rank.
  llvm::Error checkInPlace() const;

  /// Elements of the longest shard; chunks, strides and micro-batches follow from it.
  int64_t longest() const { return theLongest; }
  /// KernelArgs::count of a padded launch: longest(), rounded up if the plan is `divisible`.
  int64_t paddedCount() const { return thePaddedCount; }
  /// The elements that move: of all shards, for all_to_all of those of all ranks.
  int64_t total() const { return theTotal; }

  CallerRows callerRows(int64_t rank) const;
  KernelRows kernelRows(int64_t rank, bool padded) const;
  /// From the caller's `in` to the kernel's `in`, and from the kernel's `out` to the caller's
  /// `out`, where the kernel's is other memory; `larger`: where it is the larger row.
  /// Neighbours are one copy.
  std::vector<ShardCopy> copyIn(int64_t rank, bool padded, bool larger) const {
    return copies(rowOf(false), rank, padded, larger);
  }
  std::vector<ShardCopy> copyOut(int64_t rank, bool padded, bool larger) const {
    return copies(rowOf(true), rank, padded, larger);
  }

  /// KernelArgs::shards of a packed launch, in either form; valid as long as this lives (also
  /// after it was moved).
  const ShardRange *const *tables() const { return rows.data(); }

  UnevenShards(UnevenShards &&) = default;
  UnevenShards &operator=(UnevenShards &&) = default;
  UnevenShards(const UnevenShards &) = delete; // `rows` points into `ranges`
  UnevenShards &operator=(const UnevenShards &) = delete;

private:
  enum class Kind : uint8_t { Gathers, Scatters, AllToAll };
  /// A caller's or plan's row against the larger one: all of it, or one shard.
  struct Row {
    bool out = false;
    bool callerNarrow = false, planNarrow = false;
  };

  explicit UnevenShards(const Plan &plan);
  llvm::Error takeVector(const std::vector<UnevenCounts> &counts);
  llvm::Error takeMatrix(const std::vector<UnevenCounts> &counts);
  /// The shards of the larger row, packed.
  const ShardRange *whole(bool out, int64_t rank) const;
  int64_t wholeElements(bool out, int64_t rank) const;
  Row rowOf(bool out) const;
  /// Copies between the caller's row and the kernel's; `larger`: that is the larger row.
  std::vector<ShardCopy> copies(const Row &row, int64_t rank, bool padded, bool larger) const;

  Kind kind;
  int64_t ranks;
  bool inNarrow, outNarrow; ///< the plan's rows hold one shard
  int64_t theLongest = 0, thePaddedCount = 0, theTotal = 0;
  std::vector<ShardRange> ranges;
  std::vector<const ShardRange *> rows; ///< by 2 * rank, + 1 for `out`
};

} // namespace ccl
