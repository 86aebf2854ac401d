//===- Generators.cpp - The table of known algorithms --------------------------===//
//
// One row per name and collective. In the formulas n is the number of ranks and B the
// bytes of one shard; a condition counts 1 if it holds. Sources: docs/algorithms.md.
//===----------------------------------------------------------------------===//
#include "passes/synthesis/generators/Generators.h"
#include "passes/synthesis/generators/Families.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace ccl {

using model::Collective;

static std::string anyRanks(const GeneratorRequest &request) {
  if (request.ranks < 1)
    return "needs at least one rank";
  if (request.root < 0 || request.root >= request.ranks)
    return llvm::formatv("needs a root in [0, {0}), not {1}", request.ranks, request.root);
  return "";
}

static std::string powerOfTwo(const GeneratorRequest &request) {
  if (std::string why = anyRanks(request); !why.empty())
    return why;
  return llvm::isPowerOf2_64(request.ranks) ? "" : "needs a power of two";
}

static std::string permutation(const GeneratorRequest &request) {
  if (std::string why = anyRanks(request); !why.empty())
    return why;
  if (request.targets.empty())
    return "";
  if (int64_t(request.targets.size()) != request.ranks)
    return llvm::formatv("needs one target for each of {0} ranks, not {1}", request.ranks,
                         request.targets.size());
  llvm::SmallVector<bool> taken(request.ranks, false);
  for (int64_t target : request.targets) {
    if (target < 0 || target >= request.ranks)
      return llvm::formatv("needs targets in [0, {0}), not {1}", request.ranks, target);
    if (taken[target])
      return llvm::formatv("needs one sender for each rank, and rank {0} has two", target);
    taken[target] = true;
  }
  return "";
}

static std::string twoAxes(const GeneratorRequest &request) {
  if (std::string why = anyRanks(request); !why.empty())
    return why;
  if (request.grid.empty())
    return squarestGrid(request.ranks).front() > 1 ? "" : "needs a composite rank count";
  bool fits = request.grid.size() == 2 && request.grid[0] >= 1 && request.grid[1] >= 1 &&
              request.ranks % request.grid[0] == 0 &&
              request.ranks / request.grid[0] == request.grid[1];
  return fits ? "" : llvm::formatv("needs a grid of two axes with {0} ranks", request.ranks).str();
}

template <Collective collective>
static constexpr Collective only[] = {collective};

// clang-format off
static const Generator table[] = {
  {"ring", "every chunk goes around once to be summed, once more to be spread",
   only<Collective::AllReduce>, anyRanks, ringAllReduce, "2 (n - 1)", "2 (n - 1) / n B"},
  {"ring", "every shard goes around once",
   only<Collective::AllGather>, anyRanks, ringAllGather, "n - 1", "(n - 1) B"},
  {"ring", "the sum of every shard goes around once, to its owner",
   only<Collective::ReduceScatter>, anyRanks, ringReduceScatter, "n - 1", "(n - 1) B"},
  {"ring", "a chain that starts at the root",
   only<Collective::Broadcast>, anyRanks, ringBroadcast, "n - 1", "B"},
  {"ring", "a chain that ends at the root",
   only<Collective::Reduce>, anyRanks, ringReduce, "n - 1", "B"},

  {"one_shot", "every rank reads all inputs",
   only<Collective::AllReduce>, anyRanks, oneShotAllReduce, "1", "(n - 1) B"},
  {"one_shot", "every rank reads all inputs",
   only<Collective::AllGather>, anyRanks, oneShotAllGather, "1", "(n - 1) B"},
  {"one_shot", "every rank reads its shard of all inputs",
   only<Collective::ReduceScatter>, anyRanks, oneShotReduceScatter, "1", "(n - 1) B"},
  {"one_shot", "every rank reads the root's input",
   only<Collective::Broadcast>, anyRanks, oneShotBroadcast, "1", "(n - 1) B"},
  {"one_shot", "the root reads all inputs",
   only<Collective::Reduce>, anyRanks, oneShotReduce, "1", "(n - 1) B"},
  {"one_shot", "the root reads all inputs",
   only<Collective::Gather>, anyRanks, oneShotGather, "1", "(n - 1) B"},
  {"one_shot", "every rank reads its shard of the root's input",
   only<Collective::Scatter>, anyRanks, oneShotScatter, "1", "(n - 1) B"},
  {"one_shot", "every rank reads the input that is sent to it",
   only<Collective::Permute>, permutation, oneShotPermute, "1", "B"},
  {"two_shot", "rank r sums up chunk r of all inputs, then everybody reads the sums",
   only<Collective::AllReduce>, anyRanks, twoShotAllReduce, "2", "2 (n - 1) / n B"},
  {"two_shot", "rank r reads chunk r of the root's input, then everybody reads those of the others",
   only<Collective::Broadcast>, anyRanks, twoShotBroadcast, "1 + (n > 2)", "2 (n - 1) / n B"},
  {"two_shot", "rank r sums up chunk r of all inputs, then the root reads the sums",
   only<Collective::Reduce>, anyRanks, twoShotReduce, "2", "2 (n - 1) / n B"},
  {"in_switch", "rank r reads the sum of chunk r of all inputs, and writes it to everybody at once",
   only<Collective::AllReduce>, anyRanks, inSwitchAllReduce, "2", "2 (n - 1) / n B"},
  {"in_switch", "the root writes its input to everybody at once",
   only<Collective::Broadcast>, anyRanks, inSwitchBroadcast, "1", "(n - 1) B"},
  {"pairwise", "in round s rank r sends to rank r + s",
   only<Collective::AllToAll>, anyRanks, pairwiseAllToAll, "1", "(n - 1) B"},
  {"pairwise", "in round s rank r sends to rank r + s",
   only<Collective::AllToAllV>, anyRanks, pairwiseAllToAll, "1", "(n - 1) B"},
  {"entry", "nothing moves: a launch begins when all ranks have come",
   only<Collective::Barrier>, anyRanks, entryBarrier, "0", "0"},

  {"binomial", "the ranks that have it double in every step",
   only<Collective::Broadcast>, anyRanks, binomialBroadcast, "ceil(log2 n)", "ceil(log2 n) B"},
  {"binomial", "the ranks whose input is left halve in every step",
   only<Collective::Reduce>, anyRanks, binomialReduce, "ceil(log2 n)", "ceil(log2 n) B"},
  {"binomial", "reduced to rank 0, then broadcast",
   only<Collective::AllReduce>, anyRanks, binomialAllReduce, "2 ceil(log2 n)", "ceil(log2 n) B"},
  {"binomial", "the ranks whose shard is on its way halve in every step",
   only<Collective::Gather>, anyRanks, binomialGather, "ceil(log2 n)", "(n - 1) B"},
  {"binomial", "the ranks that have something double in every step",
   only<Collective::Scatter>, anyRanks, binomialScatter, "ceil(log2 n)", "(n - 1) B"},

  {"recursive_doubling", "partners at distance 1, 2, 4, ... exchange their sums",
   only<Collective::AllReduce>, anyRanks, recursiveDoublingAllReduce,
   "floor(log2 n) + 2 (n is no power of two)",
   "(floor(log2 n) + (n is no power of two)) B"},
  {"recursive_doubling", "partners at distance 1, 2, 4, ... exchange what they have",
   only<Collective::AllGather>, powerOfTwo, recursiveDoublingAllGather, "log2 n", "(n - 1) B"},
  {"recursive_halving", "partners at distance n / 2, n / 4, ... exchange half of their sums",
   only<Collective::ReduceScatter>, powerOfTwo, recursiveHalvingReduceScatter, "log2 n",
   "(n - 1) B"},
  {"bruck", "every rank reads what rank r + 1, r + 2, r + 4, ... holds by then",
   only<Collective::AllGather>, anyRanks, bruckAllGather, "ceil(log2 n)", "(n - 1) B"},

  {"hierarchical", "reduce-scatter inside, all-reduce across, all-gather inside, each a ring",
   only<Collective::AllReduce>, twoAxes, hierarchicalAllReduce,
   "2 (a - 1) + 2 (b - 1) on a grid of a b ranks", "2 (n - 1) / n B"},
};
// clang-format on

llvm::ArrayRef<Generator> generators() { return table; }

static llvm::StringRef defaultName(Collective collective) {
  switch (collective) {
  case Collective::AllReduce:
  case Collective::AllGather:
  case Collective::ReduceScatter: return "ring";
  case Collective::Broadcast:
  case Collective::Reduce: return "binomial";
  case Collective::Gather:
  case Collective::Scatter:
  case Collective::Permute: return "one_shot";
  case Collective::AllToAll:
  case Collective::AllToAllV: return "pairwise";
  case Collective::Barrier: return "entry";
  case Collective::Custom: return "";
  }
  return "";
}

const Generator *findGenerator(Collective collective, llvm::StringRef name) {
  if (name.empty())
    name = defaultName(collective);
  for (const Generator &generator : table)
    if (generator.name == name && llvm::is_contained(generator.collectives, collective))
      return &generator;
  return nullptr;
}

} // namespace ccl
