//===- Forest.h - Trees that carry chunks to all ranks, or from all ---------===//
//
// A solution: every tree carries one chunk, all chunks are equally long. Down, the chunk of the
// root goes to every rank; up, what all ranks have of the chunk is reduced into the root. A path
// goes from the root to one rank, or from that to the root.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Network.h"

#include <string>

namespace ccl::solver {

struct Tree {
  int32_t root = 0;
  bool up = false;
  /// By rank: the way to (up: from) its parent's side, a position in Network::in(rank) (up:
  /// Network::out(rank)). -1 at the root, and at ranks that a path does not pass.
  std::vector<int32_t> ways;
  int32_t leaf = -1; ///< of a path; the root itself: no message. -1: a tree

  bool has(int32_t rank) const { return ways[size_t(rank)] >= 0; }
};

struct Forest {
  std::vector<Tree> trees; ///< of the representatives' roots

  /// Between `rank`, which has a parent, and that.
  static const Way &way(const Network &network, const Tree &tree, int32_t rank);
  /// The parent of `rank`, or -1.
  static int32_t parent(const Network &network, const Tree &tree, int32_t rank);
};

/// What a forest needs of its network, computed from the trees alone.
struct Measure {
  /// First thing wrong: not a tree, a way that is not there. Else "".
  std::string error;
  std::vector<double> busy; ///< by limit: microseconds if every chunk is a megabyte
  int32_t busiest = -1;     ///< limit
  int32_t height = 0;       ///< messages one after the other, the most over trees
  double latency = 0;       ///< and microseconds of them
  double us() const { return busiest < 0 ? 0 : busy[size_t(busiest)]; }
};
Measure measure(const Network &network, const Forest &forest);

/// GB/s of nccl-tests' size if that is `chunks` chunks of a megabyte in `us`.
inline double algbw(double chunks, double us) { return us > 0 ? chunks * 1000 / us : 0; }

} // namespace ccl::solver
