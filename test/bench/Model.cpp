// How long bounds take: `./dev bench model`.
//
// Networks of 512 ranks without symmetry (links that failed at random: boxes behind switches, the
// switches unwound into 35,840 links, hybrid meshes, tori with holes), and of 16,384 ranks with it.
// Each row is everything from a topology to a bound that `verify` accepts. `goal` is what the time,
// `at most` what the gap between the bound and what a schedule attains has to be (cuts leave none
// but at switches with more capacity out than in, which is no matter of search); `load` is the
// machine's (of the last minute) when the row ended: others on it make rows slower. The last column
// says what is wrong, if something is. Arguments, if there are any, are parts of the names of the
// cases to run.

#include "dialect/bound/Bound.h"
#include "test/unit/bound/Networks.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>

using namespace ccl::model;
using namespace networks;

namespace {

constexpr uint64_t seed = 1; // of the failures
constexpr double worstGap = 0.02;

struct Case {
  std::string name;
  std::function<Topology()> make;
  double cutLimit, priceLimit; ///< seconds
};

bool isByPrices(Collective c) { return c == Collective::AllReduce || c == Collective::AllToAll; }

double gapOf(const BandwidthBound &b) { return b.algbw > 0 ? 1 - b.attained / b.algbw : 1; }

std::string check(const Topology &topology, Collective collective,
                  const std::optional<BandwidthBound> &bound) {
  if (!bound)
    return "no bound";
  if (std::string error = verify(makeFabric(topology), *bound); !error.empty())
    return error;
  // What nobody has a schedule for may still be a bound, but a loose one.
  return !isByPrices(collective) || gapOf(*bound) <= worstGap ? "" : "loose";
}

/// Whether it is right, and soon enough.
bool measure(const Case &c, const Topology &topology, Collective collective) {
  double limit = isByPrices(collective) ? c.priceLimit : c.cutLimit;
  auto start = std::chrono::steady_clock::now();
  std::optional<BandwidthBound> bound = bandwidthBound(topology, collective);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string error = check(topology, collective, bound);
  if (error.empty() && seconds > limit)
    error = "too slow";
  BandwidthBound b = bound.value_or(BandwidthBound());
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(
      "{:<28} {:>6} {:>7} {:<14} {:>8.3f} {:>6} {:>8.3f} {:>8} {:>10.4f} {:>7} {:>5.1f}  {}\n",
      c.name, topology.ranks(), topology.links.size(), name(collective), seconds,
      fmt::format("< {:g}", limit), 100 * gapOf(b),
      isByPrices(collective) ? fmt::format("{:g}", 100 * worstGap) : "-", b.algbw, b.flows, load,
      error.empty() ? "ok" : error);
  fflush(stdout);
  return error.empty();
}

} // namespace

int main(int argc, char **argv) {
  auto failed = [](Topology t, int64_t count) {
    std::mt19937_64 random(seed);
    return withFailures(std::move(t), count, random);
  };
  const std::vector<Case> cases = {
      {"boxes 64x8", [] { return boxes(64, 8, 450, 50, 1); }, 3, 60},
      {"boxes 64x8, 40 fail", [&] { return failed(boxes(64, 8, 450, 50, 1), 40); }, 3, 60},
      {"boxes 64x8, 8 rails, 40 fail", [&] { return failed(boxes(64, 8, 450, 50, 8), 40); }, 3, 60},
      {"unwound 64x8", [] { return unwound(64, 63, 1); }, 3, 60},
      {"unwound 64x8, 40 fail", [&] { return failed(unwound(64, 63, 1), 40); }, 3, 60},
      {"unwound 64x8, 500 fail", [&] { return failed(unwound(64, 63, 1), 500); }, 3, 60},
      {"unwound 64x8, 2000 fail", [&] { return failed(unwound(64, 63, 1), 2000); }, 3, 60},
      {"hybrid meshes 64x8, 100 fail", [&] { return failed(ndv2(64), 100); }, 3, 60},
      {"torus 8x8x8, 300 fail", [&] { return failed(torus({8, 8, 8}), 300); }, 3, 60},
      {"torus 16x32, 200 fail", [&] { return failed(torus({16, 32}), 200); }, 3, 60},
      {"torus 16x32x32", [] { return torus({16, 32, 32}); }, 1, 1},
      {"boxes 2048x8", [] { return boxes(2048, 8, 450, 50, 1); }, 1, 1},
  };
  fmt::print("{:<28} {:>6} {:>7} {:<14} {:>8} {:>6} {:>8} {:>8} {:>10} {:>7} {:>5}  {}\n",
             "network", "ranks", "links", "collective", "seconds", "goal", "gap %", "at most",
             "GB/s", "flows", "load", "verdict");
  int failures = 0;
  for (const Case &c : cases) {
    std::optional<Topology> topology;
    for (Collective collective :
         {Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast,
          Collective::Reduce, Collective::Scatter, Collective::Gather, Collective::AllReduce,
          Collective::AllToAll}) {
      bool wanted = argc < 2;
      std::string full = fmt::format("{} {}", c.name, name(collective));
      for (int i = 1; i < argc; ++i)
        wanted |= full.find(argv[i]) != std::string::npos;
      if (!wanted)
        continue;
      if (!topology)
        topology = c.make();
      failures += !measure(c, *topology, collective);
    }
  }
  return failures ? 1 : 0;
}
