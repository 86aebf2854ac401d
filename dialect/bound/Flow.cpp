//===- Flow.cpp - Maximum flow in integers --------------------------------===//

#include "dialect/bound/Flow.h"

#include <algorithm>

namespace ccl::model {

FlowGraph::FlowGraph(int32_t nodes, std::span<const Arc> fabricArcs) : nodes(nodes) {
  arcs.reserve(fabricArcs.size());
  for (const Arc &arc : fabricArcs)
    arcs.push_back({arc.src, arc.dst, arc.capacity});
}

int32_t FlowGraph::addNode() {
  built = false;
  return nodes++;
}

int32_t FlowGraph::addArc(int32_t src, int32_t dst, int64_t capacity) {
  built = false;
  arcs.push_back({src, dst, capacity});
  return int32_t(arcs.size() - 1);
}

void FlowGraph::build() {
  first.assign(size_t(nodes) + 1, 0);
  for (const GraphArc &arc : arcs)
    ++first[size_t(arc.src) + 1], ++first[size_t(arc.dst) + 1];
  for (size_t n = 0; n < size_t(nodes); ++n)
    first[n + 1] += first[n];

  halves.resize(2 * arcs.size());
  halfAtSrc.resize(arcs.size());
  std::vector<int32_t> fill(first.begin(), first.end() - 1);
  // The latest arcs first: those are what a caller adds to a graph, of a source to everything,
  // and at a node with many arcs they are found at once.
  for (size_t i = arcs.size(); i-- > 0;) {
    const GraphArc &arc = arcs[i];
    int32_t atSrc = fill[size_t(arc.src)]++, atDst = fill[size_t(arc.dst)]++;
    halves[size_t(atSrc)] = {arc.dst, atDst, int32_t(i), false, 0};
    halves[size_t(atDst)] = {arc.src, atSrc, int32_t(i), true, arc.capacity};
    halfAtSrc[i] = atSrc;
  }
  loaded.resize(arcs.size());
  for (size_t i = 0; i < arcs.size(); ++i)
    loaded[i] = arcs[i].capacity;
  level.assign(size_t(nodes), -1);
  next.assign(size_t(nodes), 0);
  isUsed.assign(arcs.size(), false);
  used.clear();
  changed.clear();
  queue.clear();
  built = true;
}

/// Takes the last run's flow away, and brings in capacities that were set since.
void FlowGraph::reset() {
  for (int32_t arc : used) {
    Half &back = halves[size_t(halfAtSrc[size_t(arc)])];
    back.in = 0;
    halves[size_t(back.mate)].in = loaded[size_t(arc)];
    isUsed[size_t(arc)] = false;
  }
  used.clear();
  for (int32_t arc : changed) {
    loaded[size_t(arc)] = arcs[size_t(arc)].capacity;
    halves[size_t(halves[size_t(halfAtSrc[size_t(arc)])].mate)].in = loaded[size_t(arc)];
  }
  changed.clear();
}

/// Numbers the nodes by their distance to the sink, up to the layer of the source.
bool FlowGraph::layer(int32_t source, int32_t sink) {
  for (int32_t node : queue)
    level[size_t(node)] = -1;
  queue.clear();
  queue.push_back(sink);
  level[size_t(sink)] = 0;
  for (size_t at = 0; at < queue.size(); ++at) {
    int32_t node = queue[at];
    next[size_t(node)] = first[size_t(node)];
    // What is in the source's layer, or beyond, does not matter.
    for (int32_t h = first[size_t(node)]; h < first[size_t(node) + 1] && level[size_t(source)] < 0;
         ++h) {
      const Half &half = halves[size_t(h)];
      if (half.in == 0 || level[size_t(half.other)] >= 0)
        continue;
      level[size_t(half.other)] = level[size_t(node)] + 1;
      queue.push_back(half.other);
    }
  }
  return level[size_t(source)] >= 0;
}

/// Lets `amount` come in at `half`.
void FlowGraph::move(int32_t h, int64_t amount) {
  Half &half = halves[size_t(h)];
  half.in -= amount;
  halves[size_t(half.mate)].in += amount;
  if (!isUsed[size_t(half.arc)]) {
    isUsed[size_t(half.arc)] = true;
    used.push_back(half.arc);
  }
}

/// Sends what the path from the source to the sink lets through, `limit` at most. The path is
/// then cut where it is full, next to the sink, so that the search goes on from there; a half
/// that is not full keeps its turn.
int64_t FlowGraph::push(int64_t limit) {
  int64_t amount = limit;
  for (int32_t h : path)
    amount = std::min(amount, halves[size_t(h)].in);
  size_t keep = path.size();
  for (size_t i = path.size(); i-- > 0;) {
    move(path[i], amount);
    if (halves[size_t(path[i])].in == 0)
      keep = i;
  }
  path.resize(keep);
  return amount;
}

/// A blocking flow in the layers: depth first, from the sink towards the source.
int64_t FlowGraph::augment(int32_t source, int32_t sink, int64_t limit) {
  int64_t total = 0;
  path.clear();
  int32_t node = sink;
  while (total < limit) {
    if (node == source) {
      total += push(limit - total);
      node = path.empty() ? sink : halves[size_t(path.back())].other;
      continue;
    }
    int32_t &h = next[size_t(node)], end = first[size_t(node) + 1];
    while (h < end) {
      const Half &half = halves[size_t(h)];
      if (half.in > 0 && level[size_t(half.other)] == level[size_t(node)] + 1)
        break;
      ++h;
    }
    if (h < end) {
      path.push_back(h);
      node = halves[size_t(h)].other;
    } else {
      if (path.empty())
        return total;
      // Nothing comes to this node any more: its turn at the node before is over.
      node = halves[size_t(halves[size_t(path.back())].mate)].other;
      path.pop_back();
      ++next[size_t(node)];
    }
  }
  return total;
}

/// Everything that the source can send goes down the layers as far as it gets, all nodes of a
/// layer at once; then what got stuck goes back. Not a blocking flow, but it takes one pass over
/// the arcs where paths one by one would take as many as they are long.
int64_t FlowGraph::wave(int32_t source, int32_t sink, int64_t limit) {
  std::vector<int32_t> depth(size_t(nodes), -1), order = { sink };
  depth[size_t(sink)] = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    int32_t node = order[at];
    for (int32_t h = first[size_t(node)]; h < first[size_t(node) + 1]; ++h) {
      int32_t other = halves[size_t(h)].other;
      if (halves[size_t(h)].in == 0 || other == source || depth[size_t(other)] >= 0)
        continue;
      depth[size_t(other)] = depth[size_t(node)] + 1;
      order.push_back(other);
    }
  }

  std::vector<int64_t> excess(depth.size(), 0), came(halves.size(), 0); // came: by half
  auto send = [&](int32_t h, int64_t amount) { // over the half at the sender
    const Half &half = halves[size_t(h)];
    amount = std::min(amount, halves[size_t(half.mate)].in);
    if (amount == 0)
      return amount;
    move(half.mate, amount);
    came[size_t(half.mate)] += amount;
    excess[size_t(half.other)] += amount;
    return amount;
  };
  for (int32_t h = first[size_t(source)]; h < first[size_t(source) + 1]; ++h)
    if (depth[size_t(halves[size_t(h)].other)] >= 0)
      limit -= send(h, limit);
  for (size_t at = order.size(); at-- > 1;) {
    int32_t node = order[at];
    int64_t &rest = excess[size_t(node)];
    for (int32_t h = first[size_t(node)]; h < first[size_t(node) + 1] && rest > 0; ++h)
      if (depth[size_t(halves[size_t(h)].other)] == depth[size_t(node)] - 1)
        rest -= send(h, rest);
  }
  for (size_t at = 1; at < order.size(); ++at) {
    int32_t node = order[at];
    int64_t &rest = excess[size_t(node)];
    for (int32_t h = first[size_t(node)]; h < first[size_t(node) + 1] && rest > 0; ++h) {
      int64_t amount = std::min(rest, came[size_t(h)]);
      if (amount == 0)
        continue;
      move(h, -amount);
      excess[size_t(halves[size_t(h)].other)] += amount;
      rest -= amount;
    }
  }
  return excess[size_t(sink)];
}

int64_t FlowGraph::run(int32_t source, int32_t sink, int64_t enough) {
  if (!built)
    build();
  reset();
  lastSource = source;
  constexpr int patience = 16; // layered graphs
  int64_t total = 0;
  for (int layered = 1; total < enough && layer(source, sink); ++layered) {
    total += augment(source, sink, enough - total);
    if (layered == patience)
      total += wave(source, sink, enough - total);
  }
  return total;
}

int64_t FlowGraph::flow(int32_t arc) const {
  return built ? halves[size_t(halfAtSrc[size_t(arc)])].in : 0;
}

std::vector<bool> FlowGraph::sourceSide() const {
  std::vector<bool> side(size_t(nodes), false);
  if (!built)
    return side;
  std::vector<int32_t> work = {lastSource};
  side[size_t(lastSource)] = true;
  while (!work.empty()) {
    int32_t node = work.back();
    work.pop_back();
    for (int32_t h = first[size_t(node)]; h < first[size_t(node) + 1]; ++h) {
      const Half &half = halves[size_t(h)];
      if (side[size_t(half.other)] || halves[size_t(half.mate)].in == 0)
        continue;
      side[size_t(half.other)] = true;
      work.push_back(half.other);
    }
  }
  return side;
}

} // namespace ccl::model
