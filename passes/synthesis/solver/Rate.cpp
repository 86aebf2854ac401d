//===- Rate.cpp -----------------------------------------------------------===//
#include "passes/synthesis/solver/Rate.h"

#include "dialect/bound/Automorphisms.h"
#include "dialect/bound/Bound.h"
#include "dialect/bound/Flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ccl::solver {
namespace {

using model::Arc;
using model::Fabric;
using model::FlowGraph;
using model::Orbits;
using model::Topology;

/// Arcs that carry equally much. A tree of one root and its images take them as often as there are
/// roots, each of the members equally often.
struct ArcClass {
  int64_t members = 0, capacity = 0; ///< capacity: of one
};

constexpr int32_t mostTrees = 4096;

class RateSearch {
public:
  RateSearch(const Topology &topology, const RateProblem &problem)
      : problem(problem), fabric(makeFabric(topology, problem.up)),
        orbits(findOrbits(fabric, topology)), graph(fabric.nodes, fabric.arcs),
        source(graph.addNode()) {
    findClasses();
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      if (!problem.root || *problem.root == rank)
        supplies.push_back(graph.addArc(source, rank, 0));
    for (int32_t rank = 0; rank < fabric.ranks; ++rank)
      if (!(problem.root && *problem.root == rank))
        sinks.push_back(rank);
    if (!problem.root && orbits.transitive)
      sinks.resize(1);
    least = fluid();
  }

  double fluidMicroseconds() const { return least * 1000 / fabric.unit; }

  double microseconds() {
    // One more chunk everywhere than a fluid needs is enough.
    double room = 0;
    for (const ArcClass &c : classes)
      room = std::max(room, 1 / perTime(c));
    // Speeds may be far apart: not all changes are listed before most of them are out of question.
    double from = least, to = least + room;
    while (countChanges(from, to) > mostListed && !isLate()) {
      const double middle = from + (to - from) / 2;
      if (middle <= from || middle >= to)
        break;
      (isEnough(middle) ? to : from) = middle;
    }
    // Late, or messages are too many to tell one more from one less.
    if (countChanges(from, to) > mostListed || countChanges(0, to) > mostCounted)
      return from * 1000 / fabric.unit;
    std::vector<double> times = changes(from, to);
    size_t low = 0, high = times.size() - 1; // that is enough
    while (low < high && !isLate()) {
      const size_t middle = low + (high - low) / 2;
      if (isEnough(times[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    return times[low] * 1000 / fabric.unit;
  }

private:
  /// Switches copy nothing: trees do not ask them to.
  static Fabric makeFabric(const Topology &topology, bool up) {
    Fabric fabric = model::makeFabric(topology);
    if (up)
      fabric = fabric.reversed();
    fabric.copies.assign(fabric.copies.size(), false);
    fabric.combines.assign(fabric.combines.size(), false);
    return fabric;
  }

  void findClasses() {
    int32_t count = 0;
    if (findShiftClasses(count)) {
      images = fabric.ranks;
    } else {
      count = int32_t(fabric.arcs.size());
      classOf.resize(size_t(count));
      std::iota(classOf.begin(), classOf.end(), 0);
    }
    classes.resize(size_t(count));
    for (size_t arc = 0; arc < classOf.size(); ++arc) {
      ArcClass &c = classes[size_t(classOf[arc])];
      ++c.members;
      c.capacity = fabric.arcs[arc].capacity;
    }
    for (const ArcClass &c : classes)
      parts = images == 1 ? 1 : std::lcm(parts, c.members);
  }

  bool findShiftClasses(int32_t &count) {
    if (!problem.symmetric || problem.root || orbits.shifts.empty())
      return false;
    model::Automorphisms alone(fabric, /*latencies=*/false);
    for (const Orbits::Shift &shift : orbits.shifts) {
      model::Automorphisms::Moves moves;
      for (int32_t rank = 0; rank < fabric.ranks; ++rank)
        if (int64_t to = shift(rank); to != rank)
          moves.push_back({rank, int32_t(to)});
      if (!alone.attempt(moves))
        return false;
    }
    Orbits found = alone.orbits();
    classOf = found.ofArc;
    count = found.arcOrbits;
    return true;
  }

  static constexpr double mostListed = 1 << 20, mostCounted = double(int64_t(1) << 52);

  /// Arcs of one root's trees that a class takes in a unit of time.
  double perTime(const ArcClass &c) const {
    return double(c.capacity) * double(c.members) / double(images);
  }

  double countChanges(double from, double to) const {
    double count = 0;
    for (const ArcClass &c : classes)
      count += (to - from) * perTime(c);
    return count;
  }

  /// Times from `from` to `to` at which a class can take one more, and both.
  std::vector<double> changes(double from, double to) const {
    std::vector<double> rates;
    for (const ArcClass &c : classes)
      rates.push_back(perTime(c));
    std::sort(rates.begin(), rates.end());
    rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
    std::vector<double> times = {from, to};
    for (double rate : rates)
      for (double chunks = std::ceil(from * rate - slack); chunks <= to * rate; ++chunks)
        times.push_back(std::max(from, chunks / rate));
    std::sort(times.begin(), times.end());
    return times;
  }

  /// Whether every sink gets all. Chunks are cut into `parts`, so that members' shares are whole.
  bool isEnough(double time) {
    for (size_t arc = 0; arc < classOf.size(); ++arc) {
      const ArcClass &c = classes[size_t(classOf[arc])];
      const int64_t chunks = int64_t(std::floor(time * perTime(c) + slack));
      graph.setCapacity(int32_t(arc), chunks * images * parts / (images == 1 ? 1 : c.members));
    }
    for (int32_t supply : supplies)
      graph.setCapacity(supply, problem.trees * parts);
    const int64_t all = int64_t(supplies.size()) * problem.trees * parts;
    for (int32_t &sink : sinks) {
      if (isLate())
        return true;
      if (graph.run(source, sink, all) < all) {
        std::swap(sink, sinks.front()); // likely to fail again
        return false;
      }
    }
    return true;
  }

  /// Of trees that carry any share of a chunk.
  double fluid() const {
    const model::Collective collective =
        problem.root ? model::Collective::Broadcast : model::Collective::AllGather;
    model::BandwidthBound bound =
        model::cutBound(fabric, orbits, collective, problem.root.value_or(0));
    return bound.shardTime.value() * problem.trees;
  }

  bool isLate() const { return std::chrono::steady_clock::now() > problem.deadline; }

  static constexpr double slack = 1e-6; ///< of a chunk

  const RateProblem &problem;
  const Fabric fabric;
  const Orbits orbits;
  FlowGraph graph;
  int32_t source;
  double least = 0; ///< chunks / Fabric::unit
  std::vector<int32_t> supplies, sinks;
  std::vector<int32_t> classOf; ///< by arc
  std::vector<ArcClass> classes;
  int64_t images = 1; ///< ranks that a root stands for
  int64_t parts = 1;
};

} // namespace

std::string RateProblem::check(const Topology &topology) const {
  if (trees < 1 || trees > mostTrees)
    return fmt::format("{} trees: there can be 1 to {}", trees, mostTrees);
  if (topology.ranks() < 2)
    return "one rank needs no trees";
  if (root && (*root < 0 || *root >= topology.ranks()))
    return fmt::format("root {} is no rank of 0 to {}", *root, topology.ranks() - 1);
  return "";
}

double leastTime(const Topology &topology, const RateProblem &problem) {
  return RateSearch(topology, problem).microseconds();
}

std::vector<RateRow> sweep(const Topology &topology, RateProblem problem, int32_t most) {
  std::vector<RateRow> rows;
  for (problem.trees = 1; problem.trees <= most; ++problem.trees) {
    RateSearch search(topology, problem);
    const double us = search.microseconds();
    rows.push_back({problem.trees, us, search.fluidMicroseconds() / us});
  }
  return rows;
}

} // namespace ccl::solver
