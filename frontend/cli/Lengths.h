//===- Lengths.h - How long the shards of a launch are ------------------------===//
//
// One count for all shards, or, of an uneven launch, one for each. docs/semantics.md says
// what the counts of an uneven launch belong to.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include "llvm/ADT/StringRef.h"

namespace ccl::cli {

enum class RowOf : uint8_t { In, Out };

class Lengths {
public:
  /// Every shard has `count` elements.
  Lengths(int64_t count = 0) : theCount(count) {}
  /// By shard, or, of all_to_all, by sender * ranks + receiver.
  static Lengths uneven(const model::Contract &contract, std::vector<int64_t> counts);

  bool isUneven() const { return !counts.empty(); }
  /// Elements of one shard; of the longest.
  int64_t count() const { return theCount; }
  const std::vector<int64_t> &unevenCounts() const { return counts; }

  /// Elements of a shard of a rank's row, and where it begins there.
  int64_t shard(RowOf row, int64_t rank, int64_t shard) const;
  int64_t start(RowOf row, int64_t rank, int64_t shard) const;
  /// Where `in` or `out` of a rank begins in the larger row, if that gathers or scatters.
  int64_t ownShard(int64_t rank) const;

  /// Whether every rank sends to another as much as it gets from there, or sends to nobody.
  bool isSymmetric() const;
  /// What `rank` states at launch.
  UnevenCounts stated(int64_t rank) const;

private:
  int64_t theCount = 0, ranks = 1;
  bool pairs = false, inIsOne = false, outIsOne = false; ///< all_to_all; rows of one shard
  std::vector<int64_t> counts;
};

/// "0,1,4K" or "1,2;3,4": one list, or one for each rank.
llvm::Expected<std::vector<std::vector<int64_t>>> parseUneven(llvm::StringRef text);
enum class Surplus : uint8_t { Ignore, Refuse };
/// Lengths for this contract. One list goes around: shard s, or pair p * ranks + q, takes
/// number s mod its length; what it has more than these is as `surplus` says. Several are the rows
/// of an all_to_all. Fails if the collective has no uneven form, or the numbers do not fit.
llvm::Expected<Lengths> unevenLengths(const model::Contract &contract,
                                      const std::vector<std::vector<int64_t>> &lists,
                                      Surplus surplus = Surplus::Ignore);

} // namespace ccl::cli
