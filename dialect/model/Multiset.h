//===- Multiset.h - Multisets of contributions, each stored once ----------===//
//
// What a place holds is a multiset of contributions (`Atom`). Equal multisets have
// the same number, so comparing is comparing numbers, and a union is computed once.
// A multiset is a list of runs over the number chunk * ranks + rank: neighbours in a
// ring or tree make one or two runs, whatever their count.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Contract.h"

#include <functional>
#include <utility>

namespace ccl::model {

/// Number of a multiset in its `Multisets`.
using Contents = uint32_t;

class Multisets {
public:
  /// Nothing was ever written: the empty multiset.
  static constexpr Contents nothing = 0;
  /// A fault was reported about it: whatever comes of it is not reported again.
  static constexpr Contents poison = 1;
  /// What contributions have in common that differ.
  static constexpr int64_t mixed = -1;

  Multisets(int64_t ranks, int64_t chunksPerShard);

  Contents atom(Atom atom);
  /// Chunk `chunk` of the input of every rank.
  Contents ofEveryRank(int64_t chunk);
  /// Multiplicities add up. Poison if either is.
  Contents unite(Contents a, Contents b);
  /// What `a` has more of than `b`.
  Contents minus(Contents a, Contents b);
  /// The same contributions, each once.
  Contents distinct(Contents a);

  /// What becomes of a multiset when chunks and ranks are renamed: chunk c to
  /// `chunkOf(c)`, the ranks [low, high) to the intervals that `ranksOf` appends. All
  /// chunks of one length class must go to one class.
  using Intervals = std::vector<std::pair<int64_t, int64_t>>;
  using ChunkMap = std::function<int64_t(int64_t chunk)>;
  using RankMap = std::function<void(int64_t low, int64_t high, Intervals &out)>;
  Contents renamed(Contents a, const ChunkMap &chunkOf, const RankMap &ranksOf);

  /// How often the most frequent contribution is there.
  int64_t mostTimes(Contents a) const { return sets[a].mostTimes; }
  /// The chunk in its shard that all contributions have in common, or `mixed`.
  int64_t lengthClass(Contents a) const { return sets[a].lengthClass; }
  /// The rank, and the shard of its input, that all contributions have in common, or `mixed`.
  int64_t rank(Contents a) const { return sets[a].rank; }
  int64_t shard(Contents a) const { return sets[a].shard; }
  /// Number of different contributions.
  int64_t size(Contents a) const;
  /// The first contribution of a multiset that is not empty.
  Atom front(Contents a) const;
  /// "{0.3, 1.3 x2}": rank.chunk, long lists shortened; "nothing".
  std::string str(Contents a) const;

private:
  struct Run {
    int64_t begin, end; ///< [begin, end)
    int64_t times;
    friend bool operator==(const Run &, const Run &) = default;
  };
  struct Set {
    size_t first, count; ///< in `runs`
    uint64_t hash;
    int64_t mostTimes, lengthClass;
    int64_t rank, shard; ///< in common
  };
  struct Union {
    uint64_t key = 0; ///< both operands; no union has key 0
    Contents result = 0;
  };

  std::string atomName(int64_t linear, int64_t times) const;
  void combine(Contents a, Contents b, int64_t sign);
  void append(int64_t begin, int64_t end, int64_t times);
  Contents intern(int64_t lengthClass);
  void growIndex();
  void growUnions();

  int64_t ranks, chunksPerShard;
  std::vector<Run> runs;
  std::vector<Set> sets;
  std::vector<Run> built;      ///< the multiset under construction
  std::vector<Contents> index; ///< open addressing, 0 is free
  std::vector<Union> unions;   ///< open addressing
  size_t numUnions = 0;
};

} // namespace ccl::model
