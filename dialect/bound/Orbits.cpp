//===- Orbits.cpp - What is equal by symmetry -----------------------------===//
//
// Candidates for automorphisms. Those that are none fail at their first arcs, mostly.
//===----------------------------------------------------------------------===//

#include "dialect/bound/Automorphisms.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace ccl::model {
namespace {

/// One direction of a grid of ranks.
struct Side : Orbits::Shift {
  int64_t at(int64_t rank) const { return rank / stride % size; }
};

class Search {
public:
  Search(const Fabric &fabric, const Topology &topology, bool latencies)
      : ranks(fabric.ranks), found(fabric, latencies) {
    int64_t stride = 1;
    for (size_t i = topology.axes.size(); i-- > 0; stride *= topology.axes[i].size)
      if (topology.axes[i].size > 1)
        stated.push_back({{stride, topology.axes[i].size}});
    if (stride != ranks)
      stated.clear();
  }

  Orbits run() {
    bool regular = !stated.empty();
    for (const Side &side : stated)
      regular &= attempt(side);
    std::vector<std::vector<Side>> grids = {stated};
    if (!regular)
      for (bool longFirst : {true, false})
        if (std::vector<Side> hidden = findGrid(longFirst); !hidden.empty()) {
          grids.push_back(std::move(hidden));
          regular = true;
        }
    for (const std::vector<Side> &grid : grids)
      turn(grid);
    exchangeBlocks(grids);
    Orbits orbits = found.orbits();
    if (regular) // the last grid is whole
      orbits.shifts.assign(grids.back().begin(), grids.back().end());
    return orbits;
  }

private:
  /// Tries what `image` makes of every rank.
  template <typename Image>
  bool attempt(Image image) {
    Automorphisms::Moves moves;
    for (int64_t rank = 0; rank < ranks; ++rank)
      if (int64_t to = image(rank); to != rank) {
        if (found.colour(int32_t(rank)) != found.colour(int32_t(to)))
          return false;
        moves.push_back({int32_t(rank), int32_t(to)});
      }
    return !moves.empty() && found.attempt(moves);
  }

  /// A grid that the topology does not state (that of an edge list, say): from the fastest side on,
  /// the longest, or the shortest, sides along which a shift is an automorphism. Empty: none.
  std::vector<Side> findGrid(bool longFirst) {
    constexpr int64_t maxRanks = 1 << 14;
    std::vector<Side> grid;
    if (ranks > maxRanks)
      return {};
    for (int64_t stride = 1; stride < ranks;) {
      int64_t rest = ranks / stride, size = 0;
      for (int64_t i = 2; i <= rest && size == 0; ++i) {
        int64_t candidate = longFirst ? rest + 2 - i : i;
        if (rest % candidate == 0 && attempt(Side{{stride, candidate}}))
          size = candidate;
      }
      if (size == 0)
        return {};
      grid.push_back({{stride, size}});
      stride *= size;
    }
    return grid;
  }

  /// Reflections, exchanges of sides of one size, exchanges of neighbours on a side.
  void turn(const std::vector<Side> &grid) {
    constexpr int64_t mostNeighbours = 16;
    auto look = [this](auto image) {
      if (!found.isComplete())
        attempt(image);
    };
    for (const Side &a : grid) {
      auto withCoordinate = [&a](int64_t rank, int64_t value) {
        return rank + (value - a.at(rank)) * a.stride;
      };
      if (a.size > 2) {
        look([&](int64_t rank) { return withCoordinate(rank, (a.size - a.at(rank)) % a.size); });
        for (int64_t v = 0; v < std::min(a.size - 1, mostNeighbours); ++v)
          look([&](int64_t rank) {
            const int64_t at = a.at(rank);
            return withCoordinate(rank, at == v ? v + 1 : at == v + 1 ? v : at);
          });
      }
      look([&](int64_t rank) { return withCoordinate(rank, a.size - 1 - a.at(rank)); });
      for (const Side &b : grid)
        if (&a < &b && a.size == b.size)
          look([&](int64_t rank) {
            return rank + (b.at(rank) - a.at(rank)) * (a.stride - b.stride);
          });
    }
  }

  /// Exchanges of equal blocks of ranks, first small ones, then what these are parts of.
  void exchangeBlocks(const std::vector<std::vector<Side>> &grids) {
    std::vector<int64_t> sizes;
    for (const std::vector<Side> &grid : grids)
      for (const Side &side : grid)
        for (int64_t part = 1; part < side.size; ++part)
          if (side.size % part == 0)
            sizes.push_back(side.stride * part);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    // What turns all equal ones at once comes first: it saves exchanges.
    for (auto step : {&Search::rotateBlocks, &Search::exchangeBlocksOf})
      for (int64_t size : sizes)
        if (!found.isComplete())
          (this->*step)(size);
  }

  /// What is told apart by nothing but names, by the ranks' colours.
  uint64_t keyOf(int64_t start, int64_t size) const {
    uint64_t key = 0;
    for (int64_t i = 0; i < size; ++i)
      key = key * 0x9e3779b97f4a7c15 + found.colour(int32_t(start + i));
    return key;
  }

  /// Every block of equal ones to the next: one automorphism instead of one for each.
  void rotateBlocks(int64_t size) {
    std::unordered_map<uint64_t, size_t> numbers; // looked up only
    std::vector<std::vector<int64_t>> equal;
    for (int64_t start = 0; start < ranks; start += size) {
      auto [it, isNew] = numbers.try_emplace(keyOf(start, size), equal.size());
      if (isNew)
        equal.emplace_back();
      equal[it->second].push_back(start);
    }
    for (const std::vector<int64_t> &starts : equal) {
      Automorphisms::Moves moves;
      bool joined = true;
      for (size_t b = 0; b < starts.size(); ++b) {
        const int64_t to = starts[(b + 1) % starts.size()];
        joined &= found.joined(int32_t(starts[b]), int32_t(to));
        for (int64_t i = 0; i < size; ++i)
          moves.push_back({int32_t(starts[b] + i), int32_t(to + i)});
      }
      if (!joined)
        found.attempt(moves);
    }
  }

  void exchangeBlocksOf(int64_t size) {
    constexpr size_t maxTries = 4;
    struct Equal {
      std::vector<int64_t> starts; ///< of blocks in different orbits, the latest last
      bool exchanged = false;
    };
    std::unordered_map<uint64_t, Equal> blocks; // looked up only
    for (int64_t start = 0; start < ranks && !found.isComplete(); start += size) {
      Equal &equal = blocks[keyOf(start, size)];
      bool isNew = true;
      for (size_t i = equal.starts.size(); i-- > 0 && isNew;) {
        int64_t other = equal.starts[i];
        // Once is enough of what is in one orbit by other automorphisms.
        bool known = found.joined(int32_t(start), int32_t(other));
        if ((!known || !equal.exchanged) && exchange(other, start, size))
          equal.exchanged = known = true;
        if (known)
          isNew = false, equal.starts[i] = start;
      }
      if (!isNew)
        continue;
      equal.starts.push_back(start);
      if (equal.starts.size() > maxTries)
        equal.starts.erase(equal.starts.begin());
    }
  }

  bool exchange(int64_t a, int64_t b, int64_t size) {
    Automorphisms::Moves moves;
    for (int64_t i = 0; i < size; ++i) {
      moves.push_back({int32_t(a + i), int32_t(b + i)});
      moves.push_back({int32_t(b + i), int32_t(a + i)});
    }
    return found.attempt(moves);
  }

  int64_t ranks;
  Automorphisms found;
  std::vector<Side> stated; ///< fastest first
};

} // namespace

Orbits trivialOrbits(const Fabric &fabric) {
  Orbits result;
  result.ofNode.resize(size_t(fabric.nodes));
  result.ofArc.resize(fabric.arcs.size());
  std::iota(result.ofNode.begin(), result.ofNode.end(), 0);
  std::iota(result.ofArc.begin(), result.ofArc.end(), 0);
  result.nodeOrbits = fabric.nodes;
  result.arcOrbits = int32_t(fabric.arcs.size());
  result.transitive = fabric.ranks < 2;
  return result;
}

Orbits findOrbits(const Fabric &fabric, const Topology &topology, bool latencies) {
  return Search(fabric, topology, latencies).run();
}

} // namespace ccl::model
