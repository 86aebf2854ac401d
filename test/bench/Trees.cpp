// How close trees come to the bounds, and how soon: `./dev bench trees`.
//
// Each row is everything from a topology to the order of messages. `fluid` is what the busiest
// limit lets through, `order` what the list schedule reaches with `pieces` of 1 MB chunks, both in
// percent of the exact bound; `best k` is the most that k equal trees a rank can reach. Arguments,
// if there are any, are parts of the names of the cases to run.

#include "dialect/bound/Bound.h"
#include "frontend/topology/Presets.h"
#include "passes/synthesis/solver/Order.h"
#include "passes/synthesis/solver/Pairs.h"
#include "passes/synthesis/solver/Rate.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

using namespace ccl;
using namespace ccl::solver;
using model::Collective;

namespace {

struct Case {
  std::string topology;
  Collective collective = Collective::AllGather;
  int32_t k = 1, slack = 1, pieces = 1, lanes = 1;
  bool symmetric = true;
};

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Forest repeated(const Forest &forest, const Case &c, OrderProblem &problem) {
  Forest result;
  for (const Tree &tree : forest.trees)
    for (int32_t piece = 0; piece < c.pieces; ++piece) {
      result.trees.push_back(tree);
      problem.piece.push_back(piece);
    }
  return result;
}

bool measureCase(const Case &c) {
  std::string error;
  std::optional<topology::Named> named =
      topology::namedTopology(c.topology, topology::Rates::Nominal, error);
  if (!named) {
    fmt::print("{}: {}\n", c.topology, error);
    return false;
  }
  const model::Topology &t = named->topology;
  auto start = std::chrono::steady_clock::now();
  const double bound = model::bandwidthBound(t, c.collective)->algbw;
  const double boundSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  Network network(t, {.symmetric = c.symmetric, .forbidden = {}});
  const double networkSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  PackProblem problem;
  problem.slack = c.slack;
  for (int32_t rank = 0; rank < network.representatives(); ++rank)
    for (int32_t j = 0; j < c.k; ++j)
      problem.trees.push_back({rank, c.collective == Collective::ReduceScatter});
  const double chunks = double(network.ranks()) * c.k;
  start = std::chrono::steady_clock::now();
  RateProblem rate;
  rate.trees = c.k, rate.up = c.collective == Collective::ReduceScatter,
  rate.symmetric = c.symmetric;
  problem.goal = leastTime(t, rate);
  const double rateSeconds = secondsSince(start);
  const double fluidUs = chunks * 1000 / bound;
  start = std::chrono::steady_clock::now();
  Forest forest = pack(network, problem);
  const double packSeconds = secondsSince(start);
  const Measure measured = measure(network, forest);
  start = std::chrono::steady_clock::now();
  OrderProblem ordering;
  ordering.lanes = c.lanes;
  Forest pieces = repeated(forest, c, ordering);
  std::vector<Hop> hops = order(network, pieces, ordering);
  fmt::print("{:<14} {:<14} {:>2} {:>3} {:>4} {:>2} {:>9.3f} {:>7.2f} {:>3} {:>7.2f} {:>7.2f} "
             "{:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {}\n",
             c.topology, name(c.collective), c.k, c.slack, c.pieces, c.lanes, bound,
             100 * algbw(chunks, measured.us()) / bound, measured.height,
             100 * fluidUs / problem.goal, 100 * fluidUs * c.pieces / finish(hops), boundSeconds,
             rateSeconds, networkSeconds, packSeconds, secondsSince(start), measured.error);
  fflush(stdout);
  return measured.error.empty();
}

bool measurePairs(const std::string &spec, int32_t chunks, int32_t slack) {
  std::string error;
  const model::Topology t =
      topology::namedTopology(spec, topology::Rates::Nominal, error)->topology;
  auto start = std::chrono::steady_clock::now();
  const double bound = model::bandwidthBound(t, Collective::AllReduce)->algbw;
  const double boundSeconds = secondsSince(start);
  const double halves = model::bandwidthBound(t, Collective::AllGather)->algbw / 2;
  Network network(t, {.symmetric = false, .forbidden = {}});
  PairProblem problem{chunks, slack, chunks * 1000 / bound};
  if (error = problem.check(network); !error.empty()) {
    fmt::print("{}: {}\n", spec, error);
    return false;
  }
  start = std::chrono::steady_clock::now();
  Forest forest = packPairs(network, problem);
  const Measure measured = measure(network, forest);
  fmt::print("{:<14} {:<14} {:>3} pairs, slack {}: bound {:.4f}, fluid {:.2f} % = {:.2f} x best "
             "reduce_scatter + all_gather, height {}; bound {:.2f} s, pack {:.2f} s {}\n",
             spec, "all_reduce", chunks, slack, bound, 100 * problem.goal / measured.us(),
             algbw(chunks, measured.us()) / halves, measured.height, boundSeconds,
             secondsSince(start), measured.error);
  fflush(stdout);
  return measured.error.empty();
}

/// The most that k trees a root can reach, in percent of the bound.
void printSweep(const std::string &spec, int32_t most) {
  std::string error;
  const model::Topology t =
      topology::namedTopology(spec, topology::Rates::Nominal, error)->topology;
  fmt::print("{:<14} k = 1 to {}:", spec, most);
  for (const RateRow &row : sweep(t, RateProblem(), most))
    fmt::print(" {:.2f}", 100 * row.share);
  fmt::print("\n");
}

} // namespace

int main(int argc, char **argv) {
  using enum Collective;
  const std::vector<Case> cases = {
      {"ring:8", AllGather, 2, 1, 16},
      {"torus:4x4", AllGather, 4, 1, 16},
      {"torus:8x8x8", AllGather, 6, 1, 4},
      {"torus:8x8x8", ReduceScatter, 6, 1, 4},
      {"mesh:4x4", AllGather, 2, 1, 16},
      {"cube:6", AllGather, 6, 1, 8},
      {"dgx1", AllGather, 6, 1, 16},
      {"dgx2:2", AllGather, 1, 3, 16},
      {"dgxa100:2", AllGather, 1, 3, 16},
      {"dgxa100:4", AllGather, 2, 3, 16},
      {"dgxh100:2", AllGather, 4, 3, 16},
      {"dgx-h100:64", AllGather, 1, 3, 4},
      {"h800:64", AllGather, 4, 3, 4},
      {"unwb:64", AllGather, 1, 2, 4},
      {"gb200-nvl72:8", AllGather, 4, 3, 4},
      {"ndv2:2", AllGather, 2, 3, 16},
      {"ndv2:4", AllGather, 2, 1, 16},
      {"mi250:2", AllGather, 7, 8, 16, 4},
      {"torus:16x16x16", AllGather, 6, 0, 1},
      {"dgx-h100:2048", AllGather, 1, 3, 1},
      {"unwb:64", AllGather, 1, 2, 1, 1, false},
  };
  fmt::print("{:<14} {:<14} {:>2} {:>3} {:>4} {:>2} {:>9} {:>7} {:>3} {:>7} {:>7} {:>7} {:>7} "
             "{:>7} {:>7} {:>7}\n",
             "topology", "collective", "k", "slk", "pcs", "ln", "bound", "fluid%", "h", "best k%",
             "order%", "bound s", "rate s", "net s", "pack s", "order s");
  int failures = 0;
  for (const Case &c : cases) {
    const std::string full = fmt::format("{} {}", c.topology, name(c.collective));
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i)
      wanted |= full.find(argv[i]) != std::string::npos;
    if (wanted)
      failures += !measureCase(c);
  }
  for (const char *spec : {"mi250:2", "dgxa100:2", "dgx-h100:2", "h800:64", "ndv2:4"})
    if (argc < 2)
      printSweep(spec, 8);
  struct Pairs {
    std::string topology;
    int32_t chunks, slack;
  };
  for (const Pairs &p : {Pairs{"mesh:4x4", 8, 4}, {"mesh:6x6", 12, 6}, {"mesh:16x16", 32, 8}}) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i)
      wanted |= (p.topology + " all_reduce").find(argv[i]) != std::string::npos;
    if (wanted)
      failures += !measurePairs(p.topology, p.chunks, p.slack);
  }
  return failures ? 1 : 0;
}
