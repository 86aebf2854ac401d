//===- Pairs.h - all_reduce by trees up and trees down --------------------------===//
//
// Every chunk of the buffer is reduced up a tree and comes down another of the same root. Where
// ranks have unequal links, as at the rim of a mesh, that beats reduce_scatter and all_gather,
// which make every rank the root of equally much: bound/TreePairs.h says by how much. Here the
// number of chunks is given, and their roots are chosen: what is near to all, for low trees, or
// spread out, for balance; or as the linear program divides roots, and the links between trees up
// and down, which are packed apart then. Its vertices are whole numbers for few chunks.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Pack.h"

#include <optional>

namespace ccl::solver {

/// A solution of the linear program.
struct PairShares {
  double algbw = 0;             ///< GB/s
  std::vector<double> roots;    ///< by rank: its share of the bytes
  std::vector<double> up, down; ///< by limit: the share of it that such trees may have
  std::vector<double> limits;   ///< GB/s
};
/// Of a network without shifts. Nothing: it took too long.
std::optional<PairShares> pairShares(const model::Topology &topology, const Network &network,
                                     double seconds);

struct PairProblem {
  int32_t chunks = 1; ///< of the buffer, equally long; each a pair of trees
  int32_t slack = 1;  ///< as PackProblem
  double goal = 0;    ///< as PackProblem: chunks * 1000 / (GB/s of allReduceBound)
  /// If given, what is packed.
  const PairShares *shares = nullptr;

  /// Something is wrong with the request, or ranks cannot reach each other: else "".
  std::string check(const Network &network) const;
};

/// Numbers of chunks, up to `most`, that are worth a try if a schedule has `algbw` GB/s in fluid
/// form (allReduceBound): those with which links lose least by carrying whole chunks; of equal ones
/// the smaller first, and not all. At most `count`.
std::vector<int32_t> pairChunks(const Network &network, double algbw, int32_t most,
                                int32_t count = 8);

/// The same for a solution of the linear program, of which roots and links give whole numbers.
std::vector<int32_t> pairChunks(const PairShares &shares, int32_t most, int32_t count = 8);

/// Trees 2i and 2i + 1 are the pair of chunk i, up and down, of one root. `check` has found
/// nothing; the network is one without shifts (Network::Options::symmetric false).
Forest packPairs(const Network &network, const PairProblem &problem,
                 const PackOptions &options = {});

} // namespace ccl::solver
