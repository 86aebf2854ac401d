//===- Routes.h - Which links a message takes -----------------------------===//
//
// A message from rank to rank goes over one way, through switches only: the direct link if there
// is one, else fewest hops, of these the widest; equal ways are spread over the pairs of ranks, so
// that the same pair always takes the same.
//
// Links between the same two nodes work as one, a *wire*, if they have the same latency and share
// nothing with others: hardware stripes over them.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <span>

namespace ccl::model {

struct Wire {
  int32_t src = 0, dst = 0;   ///< nodes
  double bandwidth = 0;       ///< GB/s of all its links
  double latency = 0;         ///< microseconds
  std::vector<int32_t> links; ///< index into Topology::links, ascending
};

class Routes {
public:
  /// Only of a topology whose `check()` finds nothing; it must outlive the routes.
  explicit Routes(const Topology &topology);

  const std::vector<Wire> &wires() const { return allWires; }
  /// Those from a node to another.
  std::span<const Wire> between(int32_t src, int32_t dst) const;
  /// Wires from `src` to `dst`, in order; none if they are one rank, or if every way leads through
  /// another rank. Ask for pairs ordered by source: what is computed per source is kept for the
  /// last one only. The result lives until the next call.
  const std::vector<int32_t> &way(int32_t src, int32_t dst);
  /// Whether the last one asked for is not one of several that are as good. Then symmetries of the
  /// topology take it to the ways of other ranks.
  bool isOnly() const { return only; }

private:
  void explore(int32_t src);
  void addDirect(int32_t src, int32_t dst);
  void addOneOf(int32_t src, int32_t dst);

  const int32_t ranks;
  std::vector<Wire> allWires;   ///< sorted by source, then destination
  std::vector<size_t> firstOut; ///< by node, into allWires
  std::vector<int32_t> in;      ///< wires, by destination
  std::vector<size_t> firstIn;  ///< by node, into `in`
  int32_t explored = -1;        ///< the source that the following belong to
  std::vector<int32_t> levels;  ///< hops from there, or -1
  std::vector<double> widths;   ///< bandwidth of the widest of the shortest ways
  std::vector<int32_t> candidates, result;
  bool only = true;
};

} // namespace ccl::model
