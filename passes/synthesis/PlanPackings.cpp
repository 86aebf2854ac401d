//===- PlanPackings.cpp ---------------------------------------------------===//
#include "passes/synthesis/PlanPackings.h"

#include "passes/synthesis/solver/Pack.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl {

using model::Collective;

bool isRooted(Collective c) { return c == Collective::Broadcast || c == Collective::Reduce; }
bool goesUp(Collective c) {
  return c == Collective::ReduceScatter || c == Collective::AllReduce || c == Collective::Reduce;
}
bool goesDown(Collective c) {
  return c == Collective::AllGather || c == Collective::AllReduce || c == Collective::Broadcast;
}

/// What is this near to another packing counts as equal; nothing is looked for beyond so much of
/// the bound.
static constexpr double sameRate = 0.9995, goodEnough = 0.997;
/// Arcs of a forest at most, summed over its trees: more take minutes to pack.
static constexpr int64_t mostArcs = int64_t(1) << 21;

size_t Packing::upTrees() const {
  return size_t(std::count_if(forest.trees.begin(), forest.trees.end(),
                              [](const solver::Tree &tree) { return tree.up; }));
}

Packings::Packings(const solver::Network &network, const PlanRequest &request, double goalGBps)
    : network(network), request(request), goalGBps(goalGBps) {}

/// Few chunks first, so that of equal packings the smaller is found.
std::vector<int32_t> Packings::chunkCounts() const {
  constexpr int32_t usual = 8, mostPeers = 64;
  const bool rooted = isRooted(request.generator.collective);
  const int32_t peers = network.ranks() - 1;
  std::vector<int32_t> counts;
  for (int32_t k = 1; k <= (request.limits.chunks > 0 ? request.limits.chunks : usual); ++k)
    counts.push_back(k);
  // Behind one port, a chunk for every other rank.
  if (rooted && peers > counts.back() && request.limits.chunks <= 0 && peers <= mostPeers)
    counts.push_back(peers);
  const int64_t roots = rooted ? 1 : network.representatives();
  std::erase_if(counts, [&](int32_t k) { return k > 1 && k * roots * network.ranks() > mostArcs; });
  return counts;
}

int32_t Packings::phases() const {
  return goesUp(request.generator.collective) && goesDown(request.generator.collective) ? 2 : 1;
}

Packing Packings::pack(int32_t chunks, int32_t slack) const {
  const Collective collective = request.generator.collective;
  const bool rooted = isRooted(collective);
  Packing packing;
  packing.chunks = chunks, packing.slack = slack;
  packing.allChunks = double(chunks) * double(rooted ? 1 : network.ranks());
  solver::PackProblem problem;
  problem.slack = slack;
  problem.goal = packing.allChunks * 1000 / goalGBps;
  for (bool up : {true, false})
    for (int32_t r = 0; r < (rooted ? 1 : network.representatives()); ++r)
      for (int32_t j = 0; (up ? goesUp(collective) : goesDown(collective)) && j < chunks; ++j)
        problem.trees.push_back({rooted ? int32_t(request.generator.root) : r, up});
  solver::PackOptions options;
  options.seed = request.seed;
  options.deadline = request.deadline;
  options.isCancelled = request.isCancelled;
  const int64_t arcs = int64_t(problem.trees.size()) * network.ranks();
  options.rounds = int32_t(std::clamp<int64_t>((int64_t(1) << 18) / arcs, 2, 64));
  packing.forest = solver::pack(network, problem, options);
  packing.measure = solver::measure(network, packing.forest);
  packing.fluidGBps = solver::algbw(packing.allChunks, packing.measure.us());
  packing.height = phases() * packing.measure.height;
  packing.latencyUs = phases() * packing.measure.latency;
  for (const solver::Tree &tree : packing.forest.trees)
    for (int32_t rank = 0; rank < network.ranks(); ++rank) {
      if (rank == tree.root)
        continue;
      auto ways = tree.up ? network.out(rank) : network.in(rank);
      for (const solver::Use &use : network.uses(ways[size_t(tree.ways[size_t(rank)])]))
        packing.hopUs = std::max(packing.hopUs, use.weight);
    }
  return packing;
}

bool Packings::isBeaten(int32_t height, double fluidGBps) const {
  return std::any_of(kept.begin(), kept.end(), [&](const Packing &other) {
    return other.height <= height && other.fluidGBps >= fluidGBps * sameRate;
  });
}

void Packings::keep(Packing packing) {
  if (isBeaten(packing.height, packing.fluidGBps))
    return;
  std::erase_if(kept, [&](const Packing &other) {
    return packing.height <= other.height && packing.fluidGBps >= other.fluidGBps;
  });
  kept.push_back(std::move(packing));
}

std::string Packings::find() {
  const bool rooted = isRooted(request.generator.collective);
  solver::PackProblem any;
  any.trees.push_back({rooted ? int32_t(request.generator.root) : 0, false});
  if (std::string wrong = any.check(network); !wrong.empty())
    return wrong;
  std::string lowest;
  for (int32_t chunks : chunkCounts())
    for (int32_t slack : {0, 1, 2, 3, -1}) {
      // Nothing is gained by height beyond that of one that meets the bound.
      if (!kept.empty() && isBeaten(slack < 0 ? INT32_MAX : kept.front().height + phases() * slack,
                                    goalGBps * goodEnough / sameRate))
        continue;
      if (!kept.empty() && request.isOver())
        break;
      request.tell(fmt::format("trees: {} a root, slack {}", chunks,
                               slack < 0 ? std::string("any") : std::to_string(slack)));
      Packing packing = pack(chunks, slack);
      if (!packing.measure.error.empty())
        return packing.measure.error;
      if (request.limits.height > 0 && packing.height > request.limits.height) {
        if (lowest.empty() && slack == 0)
          lowest = fmt::format("no trees are at most {} messages high: the lowest here need {}",
                               request.limits.height, packing.height);
        continue;
      }
      keep(std::move(packing));
      std::sort(kept.begin(), kept.end(), [](const Packing &a, const Packing &b) {
        return a.height != b.height ? a.height < b.height : a.fluidGBps > b.fluidGBps;
      });
    }
  return kept.empty() ? lowest : "";
}

} // namespace ccl
