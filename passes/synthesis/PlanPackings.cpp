//===- PlanPackings.cpp ---------------------------------------------------===//
#include "passes/synthesis/PlanPackings.h"

#include "passes/synthesis/solver/Pairs.h"
#include "passes/synthesis/solver/Paths.h"
#include "passes/synthesis/solver/Rate.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cmath>

#include <algorithm>

namespace ccl {

using model::Collective;

bool isRooted(Collective c) { return c == Collective::Broadcast || c == Collective::Reduce; }
bool isPersonal(Collective c) { return c == Collective::Scatter || c == Collective::Gather; }
bool goesUp(Collective c) {
  return c == Collective::ReduceScatter || c == Collective::AllReduce || c == Collective::Reduce ||
         c == Collective::Gather;
}
bool goesDown(Collective c) {
  return c == Collective::AllGather || c == Collective::AllReduce || c == Collective::Broadcast ||
         c == Collective::Scatter;
}

/// What is this near to another packing counts as equal.
static constexpr double sameRate = 0.9998;
/// If pairs come so close, trees of all ranks are not looked for.
static constexpr double pairsSuffice = 0.98;
/// What has less than this of what others with more slack have lacks height.
static constexpr double tooLow = 0.75;
/// Forests with so many arcs cost nothing.
static constexpr double fewArcs = 256;
static constexpr int32_t usualChunks = 8, mostPairs = 128;
static constexpr int32_t slacks[] = {0, 1, 2, 3, 4, 6, 8, -1};
/// Arcs of a forest at most, summed over its trees: more take minutes to pack.
static constexpr int64_t mostArcs = int64_t(1) << 21;

size_t Packing::upTrees() const {
  return size_t(std::count_if(forest.trees.begin(), forest.trees.end(),
                              [](const solver::Tree &tree) { return tree.up; }));
}

Packings::Packings(const model::Topology &topology, const solver::Network &network,
                   const PlanRequest &request, double goalGBps)
    : topology(topology), network(network), request(request), goalGBps(goalGBps) {}

/// Few chunks first, so that of equal packings the smaller is found. Of one root there are few
/// trees each, and switches want many: one for every rank behind them.
std::vector<int32_t> Packings::chunkCounts() const {
  constexpr int32_t most = mostTreesOfRoot, fewRanks = 128;
  const bool many = isRooted(request.generator.collective) && network.ranks() <= fewRanks;
  const int32_t limit = request.limits.chunks;
  std::vector<int32_t> counts;
  for (int32_t k = 1; k <= (limit > 0 ? std::min(limit, most) : many ? most : usualChunks); ++k)
    if (k == 1 || trees({k}) * network.ranks() <= double(mostArcs))
      counts.push_back(k);
  return counts;
}

int32_t Packings::phases() const {
  return goesUp(request.generator.collective) && goesDown(request.generator.collective) ? 2 : 1;
}

/// Not of trees up and down, which share links as they like; nor of paths, which are found by the
/// flow that would say.
bool Packings::isExact() const {
  return phases() == 1 && !isPersonal(request.generator.collective);
}

/// GB/s that `chunks` equal trees of each root allow.
double Packings::most(int32_t chunks) const {
  if (!isExact())
    return goalGBps;
  solver::RateProblem rate;
  rate.trees = chunks;
  rate.up = goesUp(request.generator.collective);
  rate.symmetric = network.isSymmetric();
  rate.deadline = request.deadline;
  if (isRooted(request.generator.collective))
    rate.root = int32_t(request.generator.root);
  const double roots = rate.root ? 1 : network.ranks();
  return solver::algbw(chunks * roots, solver::leastTime(topology, rate));
}

/// Pairs, of which there may be any number.
std::vector<PackingKind> Packings::pairs() const {
  std::vector<Kind> list;
  const int32_t most = request.limits.chunks > 0 ? request.limits.chunks : mostPairs;
  for (int32_t chunks :
       shares ? solver::pairChunks(*shares, most) : solver::pairChunks(network, goalGBps, most))
    list.push_back({chunks, true, goalGBps, shares ? &*shares : nullptr});
  return list;
}

/// Those that allow more than fewer do; of one root also others that allow nearly all, since what
/// is allowed is not always found.
std::vector<PackingKind> Packings::equals() const {
  constexpr double nearlyAll = 0.95, apart = 1.4;
  const bool rooted = isRooted(request.generator.collective);
  std::vector<Kind> list;
  double best = 0;
  for (int32_t chunks : chunkCounts()) {
    const Kind kind{chunks, false, most(chunks)};
    if (!isExact() || kind.mostGBps > best * (2 - sameRate) ||
        (rooted ? kind.mostGBps >= goalGBps * nearlyAll &&
                      (chunks <= usualChunks || chunks >= apart * list.back().chunks)
                : isSmall(kind)))
      list.push_back(kind);
    best = std::max(best, kind.mostGBps);
  }
  return list;
}

double Packings::trees(const Kind &kind) const {
  const Collective collective = request.generator.collective;
  const bool one = kind.pairs || isRooted(collective);
  const int32_t each = isPersonal(collective) ? network.ranks() : network.representatives();
  return phases() * double(kind.chunks) * (one ? 1 : each);
}

bool Packings::isSmall(const Kind &kind) const { return trees(kind) * network.ranks() <= fewArcs; }

/// Rounds at first, and of what is promising.
static constexpr int32_t fewRounds = 2, manyRounds = 64;

solver::PackOptions Packings::options(bool thorough, double trees) const {
  solver::PackOptions options;
  options.seed = request.seed;
  options.deadline = request.deadline;
  options.isCancelled = request.isCancelled;
  constexpr double work = 1 << 18; // arcs that grow
  options.rounds =
      thorough ? int32_t(std::clamp<double>(work / trees / network.ranks(), fewRounds, manyRounds))
               : fewRounds;
  return options;
}

/// Trees up first, then those down.
solver::Forest Packings::packPairs(const Kind &kind, int32_t slack, double goalUs,
                                   const solver::PackOptions &options) const {
  const solver::Forest pairs =
      solver::packPairs(network, {kind.chunks, slack, goalUs, kind.shares}, options);
  solver::Forest sorted;
  for (size_t down : {0, 1})
    for (size_t t = down; t < pairs.trees.size(); t += 2)
      sorted.trees.push_back(pairs.trees[t]);
  return sorted;
}

solver::Forest Packings::packPaths(const Kind &kind, int32_t slack, double goalUs,
                                   const solver::PackOptions &options) const {
  solver::PathProblem problem;
  problem.root = int32_t(request.generator.root);
  problem.up = goesUp(request.generator.collective);
  problem.chunks = kind.chunks;
  problem.shortest = slack == 0;
  problem.goal = goalUs;
  return solver::packPaths(network, problem, options);
}

/// As many trees of each root.
solver::Forest Packings::packEqually(const Kind &kind, int32_t slack, double goalUs,
                                     const solver::PackOptions &options) const {
  const Collective collective = request.generator.collective;
  const bool rooted = isRooted(collective);
  solver::PackProblem problem;
  problem.slack = slack;
  problem.goal = goalUs;
  for (bool up : {true, false})
    for (int32_t r = 0; r < (rooted ? 1 : network.representatives()); ++r)
      for (int32_t j = 0; (up ? goesUp(collective) : goesDown(collective)) && j < kind.chunks; ++j)
        problem.trees.push_back({rooted ? int32_t(request.generator.root) : r, up});
  return solver::pack(network, problem, options);
}

Packing Packings::pack(const Kind &kind, int32_t slack, bool thorough) const {
  Packing packing;
  packing.kind = kind, packing.slack = slack;
  const bool rooted = isRooted(request.generator.collective);
  packing.allChunks = double(kind.chunks) * double(kind.pairs || rooted ? 1 : network.ranks());
  const double goalUs = packing.allChunks * 1000 / kind.mostGBps;
  const double trees =
      phases() * double(kind.chunks) * (kind.pairs || rooted ? 1 : network.representatives());
  const solver::PackOptions effort = options(thorough, trees);
  auto form = kind.pairs ? &Packings::packPairs : &Packings::packEqually;
  if (isPersonal(request.generator.collective))
    form = &Packings::packPaths;
  packing.forest = (this->*form)(kind, slack, goalUs, effort);
  judge(packing);
  return packing;
}

void Packings::judge(Packing &packing) const {
  packing.measure = solver::measure(network, packing.forest);
  packing.fluidGBps = solver::algbw(packing.allChunks, packing.measure.us());
  packing.height = phases() * packing.measure.height;
  packing.latencyUs = phases() * packing.measure.latency;
  for (const solver::Tree &tree : packing.forest.trees)
    for (int32_t rank = 0; rank < network.ranks(); ++rank) {
      if (!tree.has(rank))
        continue;
      for (const solver::Use &use : network.uses(solver::Forest::way(network, tree, rank)))
        packing.hopUs = std::max(packing.hopUs, use.weight);
    }
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
  std::sort(kept.begin(), kept.end(), [](const Packing &a, const Packing &b) {
    return a.height != b.height ? a.height < b.height : a.fluidGBps > b.fluidGBps;
  });
}

/// Whether trees were so slow with this slack, and with the next one, that height, not the number
/// of chunks, is what they lack.
bool Packings::isTooLow(int32_t slack) const {
  double best = 0;
  for (const auto &[other, reached] : bySlack)
    best = std::max(best, reached.fluidGBps);
  const size_t first = size_t(std::find(std::begin(slacks), std::end(slacks), slack) - slacks);
  for (size_t at = first; at < std::min(first + 2, std::size(slacks)); ++at) {
    auto before = bySlack.find(slacks[at]);
    if (before == bySlack.end() || before->second.fluidGBps >= tooLow * best)
      return false;
  }
  return true;
}

/// Not if there is something as low that is as good as these chunks allow.
bool Packings::isWorthIt(const Kind &kind, int32_t slack) const {
  if (isPersonal(request.generator.collective) && slack > 0)
    return false; // the shortest ways, or all
  if (kept.empty())
    return true;
  const int32_t height = slack < 0 ? INT32_MAX : kept.front().height + phases() * slack;
  return !isBeaten(height, kind.mostGBps) && (isSmall(kind) || !isTooLow(slack));
}

/// "" or what is wrong.
std::string Packings::attempt(const Kind &kind, int32_t slack, bool thorough) {
  request.tell(fmt::format("trees: {} {}, slack {}", kind.chunks, kind.pairs ? "pairs" : "a root",
                           slack < 0 ? std::string("any") : std::to_string(slack)));
  Packing packing = pack(kind, slack, thorough);
  if (!packing.measure.error.empty())
    return packing.measure.error;
  Reached &best = bySlack[slack];
  if (packing.fluidGBps > best.fluidGBps * (1 + 1e-9))
    best = {kind, packing.fluidGBps};
  if (request.limits.height <= 0 || packing.height <= request.limits.height)
    keep(std::move(packing));
  else if (lowest.empty() && slack == 0)
    lowest = fmt::format("no trees are at most {} messages high: the lowest here need {}",
                         request.limits.height, packing.height);
  return "";
}

/// With more and more slack, and little effort.
std::string Packings::explore(const std::vector<Kind> &kinds) {
  for (const Kind &kind : kinds)
    for (int32_t slack : slacks) {
      if (!kept.empty() && request.isOver())
        return "";
      if (!isWorthIt(kind, slack))
        continue;
      if (std::string wrong = attempt(kind, slack, isSmall(kind)); !wrong.empty())
        return wrong;
    }
  return "";
}

/// Pairs with roots that are near to all; as the linear program has them, which are higher; trees
/// of all ranks, which are many: each if those before are not good enough.
std::string Packings::exploreAll() {
  if (request.generator.collective == Collective::AllReduce && !network.isSymmetric()) {
    auto suffice = [&] { return isBeaten(INT32_MAX, goalGBps * pairsSuffice); };
    if (std::string wrong = explore(pairs()); !wrong.empty() || suffice() || request.isOver())
      return wrong;
    request.tell("roots: linear program");
    shares = solver::pairShares(topology, network, request.boundSeconds);
    if (shares)
      if (std::string wrong = explore(pairs()); !wrong.empty() || suffice())
        return wrong;
  }
  return explore(equals());
}

/// The best kind of each slack once more. (Paths are exact.)
std::string Packings::improve() {
  if (isPersonal(request.generator.collective))
    return "";
  for (int32_t slack : slacks) {
    auto found = bySlack.find(slack);
    if (found == bySlack.end() || !isWorthIt(found->second.kind, slack) || request.isOver())
      continue;
    const Kind kind = found->second.kind;
    if (std::string wrong = attempt(kind, slack, /*thorough=*/true); !wrong.empty())
      return wrong;
  }
  return "";
}

std::string Packings::find() {
  if (std::string wrong = findTrees(); !wrong.empty() || kept.empty())
    return wrong;
  const int32_t height = request.limits.height;
  if (std::optional<Packing> found = stars();
      found && (height <= 0 || found->height <= height) &&
      (found->height < kept.front().height || !isBeaten(found->height, found->fluidGBps)))
    kept.push_back(std::move(*found));
  return "";
}

/// Whether a switch that copies, and adds up where that `reduces`, joins all ranks by a link each
/// way.
static bool isJoined(const model::Topology &topology, bool reduces) {
  std::vector<int64_t> links(topology.switches.size(), 0);
  for (const model::Link &link : topology.links)
    for (auto [rank, node] : {std::pair(link.src, link.dst), std::pair(link.dst, link.src)})
      if (rank < topology.ranks() && node >= topology.ranks())
        ++links[size_t(node - topology.ranks())];
  for (size_t i = 0; i < links.size(); ++i)
    if (links[i] == 2 * topology.ranks() && topology.switches[i].multicast &&
        (topology.switches[i].reduce || !reduces))
      return true;
  return false;
}

/// All ranks around a root, if all its ways are two links that nothing else shares. `busy` gets
/// what that takes: the root's own link one message.
static std::optional<solver::Tree> starOf(const solver::Network &network, int32_t root, bool up,
                                          std::vector<double> &busy) {
  solver::Tree tree{root, up, std::vector<int32_t>(size_t(network.ranks()), -1)};
  bool isRootBusy = false;
  for (int32_t rank = 0; rank < network.ranks(); ++rank) {
    if (rank == root)
      continue;
    const auto ways = up ? network.out(rank) : network.in(rank);
    const auto way = llvm::find_if(
        ways, [&](const solver::Way &each) { return network.end(rank, each) == root; });
    if (way == ways.end() || way->numUses != 2)
      return std::nullopt;
    tree.ways[size_t(rank)] = int32_t(way - ways.begin());
    for (const solver::Use &use : network.uses(*way)) {
      const bool isRoots = (use.limit == way->exit) != up;
      if (!isRoots || !isRootBusy)
        busy[size_t(use.limit)] += use.weight;
    }
    isRootBusy = true;
  }
  return tree;
}

/// What the generator `in_switch` writes: stars of every rank, up and down, or the root's.
std::optional<Packing> Packings::stars() const {
  const Collective collective = request.generator.collective;
  const bool both = collective == Collective::AllReduce;
  if ((!both && collective != Collective::Broadcast) || !isJoined(topology, both))
    return std::nullopt;
  Packing packing;
  packing.inSwitch = true;
  packing.allChunks = both ? double(network.ranks()) : 1;
  std::vector<double> busy(size_t(network.limits()), 0);
  for (bool up : {true, false})
    for (int32_t r = 0; r < (both ? network.representatives() : up ? 0 : 1); ++r) {
      const int32_t root = both ? r : int32_t(request.generator.root);
      std::optional<solver::Tree> star = starOf(network, root, up, busy);
      if (!star)
        return std::nullopt;
      packing.forest.trees.push_back(std::move(*star));
    }
  packing.measure = solver::measure(network, packing.forest);
  packing.measure.busiest = int32_t(llvm::max_element(busy) - busy.begin());
  packing.measure.busy = std::move(busy);
  packing.hopUs = packing.measure.us();
  packing.height = phases(), packing.latencyUs = phases() * packing.measure.latency;
  packing.fluidGBps = packing.kind.mostGBps =
      solver::algbw(packing.allChunks, packing.measure.us());
  return packing;
}

std::string Packings::findTrees() {
  solver::PackProblem any;
  any.trees.push_back({int32_t(request.generator.root), false}); // 0 where no rank is special
  if (std::string wrong = any.check(network); !wrong.empty())
    return wrong;
  if (isPersonal(request.generator.collective) && trees({1}) * network.ranks() > double(mostArcs))
    return fmt::format("{} ranks: a path for each is looked for among at most {}", network.ranks(),
                       int64_t(std::sqrt(double(mostArcs))));
  for (std::string (Packings::*step)() : {&Packings::exploreAll, &Packings::improve})
    if (std::string wrong = (this->*step)(); !wrong.empty())
      return wrong;
  return kept.empty() ? lowest : "";
}

size_t Packings::findMore(size_t like) {
  constexpr int32_t mostTimes = 4;
  constexpr double aboutAsGood = 0.98;
  if (!varied.insert(like).second || isPersonal(request.generator.collective))
    return kept.size();
  const int32_t limit = request.limits.chunks > 0
                            ? request.limits.chunks
                            : (kept[like].kind.pairs ? mostPairs : usualChunks);
  const Kind kind = kept[like].kind;
  const int32_t slack = kept[like].slack, height = kept[like].height;
  const double enough = kept[like].fluidGBps * aboutAsGood;
  for (int32_t times = 2; times <= mostTimes && !request.isOver(); ++times) {
    Kind more = kind;
    more.chunks *= times;
    if (more.chunks > limit || trees(more) * network.ranks() > double(mostArcs))
      break;
    if (!more.pairs)
      more.mostGBps = most(more.chunks);
    request.tell(fmt::format("trees: {}, for their order", more.chunks));
    Packing packing = pack(more, slack, /*thorough=*/true);
    if (packing.measure.error.empty() && packing.height <= height && packing.fluidGBps >= enough)
      kept.push_back(std::move(packing));
  }
  return kept.size();
}

} // namespace ccl
