//===- Flow.h - Maximum flow in integers ----------------------------------===//
//
// Dinic's algorithm (1970): blocking flows in layered graphs. Layers are counted from the sink,
// and a run looks at no layer beyond the source's: a flow from near its sink costs no more than
// the part of the graph between them, however large the rest is. If it turns out to be long, a
// wave (Tarjan 1984) moves most of the rest at once.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "dialect/bound/Fabric.h"

namespace ccl::model {

/// A graph on which flows are computed again and again, from and to other nodes and with
/// other capacities. Arc numbers are positions in the order of `addArc`. Capacities are not
/// negative; the least cut between two nodes that are asked about must be below 2^63.
class FlowGraph {
public:
  explicit FlowGraph(int32_t nodes) : nodes(nodes) {}
  FlowGraph(int32_t nodes, std::span<const Arc> arcs);

  int32_t addNode();
  int32_t addArc(int32_t src, int32_t dst, int64_t capacity);
  void setCapacity(int32_t arc, int64_t capacity) {
    arcs[size_t(arc)].capacity = capacity;
    changed.push_back(arc);
  }
  int64_t capacity(int32_t arc) const { return arcs[size_t(arc)].capacity; }

  /// The most that can flow from `source` to `sink`, which differ; stops early once it is
  /// `enough`, with exactly that much. Capacities stay; the flow of the last run can be asked
  /// for.
  int64_t run(int32_t source, int32_t sink, int64_t enough = std::numeric_limits<int64_t>::max());
  int64_t flow(int32_t arc) const;
  /// After a run that did not stop early: the nodes on the source's side of a least cut. Of all
  /// least cuts the one with the fewest nodes there.
  std::vector<bool> sourceSide() const;

private:
  struct GraphArc {
    int32_t src, dst;
    int64_t capacity;
  };
  /// Where an arc shows at one of its ends. Each arc has two: at `dst`, where `in` is what can
  /// still come along it, and at `src`, where `in` is what can be sent back.
  struct Half {
    int32_t other; ///< the node at the other end
    int32_t mate;  ///< the half there
    int32_t arc;
    bool atDst;
    int64_t in;
  };

  void build();
  void reset();
  bool layer(int32_t source, int32_t sink);
  int64_t augment(int32_t source, int32_t sink, int64_t limit);
  int64_t push(int64_t limit);
  int64_t wave(int32_t source, int32_t sink, int64_t limit);
  void move(int32_t half, int64_t amount);

  int32_t nodes;
  std::vector<GraphArc> arcs;
  // What follows is made by `build` of the nodes and arcs there are then.
  bool built = false;
  std::vector<int32_t> first; ///< by node: its halves start here
  std::vector<Half> halves;
  std::vector<int32_t> halfAtSrc;          ///< by arc
  std::vector<int64_t> loaded;             ///< by arc: its capacity in the last run
  std::vector<int32_t> level, next, queue; ///< by node; level -1: not seen
  std::vector<int32_t> path;               ///< halves from the sink on
  std::vector<bool> isUsed;                ///< by arc: differs from an arc without flow
  std::vector<int32_t> used, changed;
  int32_t lastSource = 0;
};

} // namespace ccl::model
