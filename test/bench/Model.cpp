// How long bounds take: `./dev bench model`.
//
// Networks of 512 ranks without symmetry (some links of 64 boxes have failed; the same with the
// switches unwound into 35,840 links), and of 16,384 ranks with it. Each row is everything from a
// topology to a bound that `verify` accepts. The last column says what is wrong, if something is.
// Arguments, if there are any, are parts of the names of the cases to run.

#include "dialect/bound/Bound.h"
#include "test/unit/bound/Networks.h"

#include <fmt/format.h>

#include <chrono>
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

std::string check(const Topology &topology, const std::optional<BandwidthBound> &bound) {
  if (!bound)
    return "no bound";
  if (std::string error = verify(makeFabric(topology), *bound); !error.empty())
    return error;
  // What nobody has a schedule for may still be a bound, but a loose one.
  if (bound->attained < (1 - worstGap) * bound->algbw)
    return fmt::format("attained is only {:.6g} GB/s", bound->attained);
  return "";
}

/// Whether it is right, and soon enough.
bool measure(const Case &c, const Topology &topology, Collective collective) {
  double limit = isByPrices(collective) ? c.priceLimit : c.cutLimit;
  auto start = std::chrono::steady_clock::now();
  std::optional<BandwidthBound> bound = bandwidthBound(topology, collective);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string error = check(topology, bound);
  if (error.empty() && seconds > limit)
    error = "too slow";
  BandwidthBound b = bound.value_or(BandwidthBound());
  fmt::print("{:<22} {:>6} {:>7} {:<14} {:>9.3f} {:>6.0f} {:>7} {:>10.4f} {:>9.3f}  {}\n", c.name,
             topology.ranks(), topology.links.size(), name(collective), seconds, limit, b.flows,
             b.algbw, b.algbw > 0 ? 100 * b.attained / b.algbw : 0, error.empty() ? "ok" : error);
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
      {"boxes 64x8, failures", [&] { return failed(boxes(64, 8, 450, 50, 1), 40); }, 3, 60},
      {"boxes 64x8, 8 rails", [&] { return failed(boxes(64, 8, 450, 50, 8), 40); }, 3, 60},
      {"unwound 64x8", [] { return unwound(64, 63, 1); }, 3, 60},
      {"unwound 64x8, failures", [&] { return failed(unwound(64, 63, 1), 100); }, 3, 60},
      {"torus 16x32x32", [] { return torus({16, 32, 32}); }, 1, 1},
      {"boxes 2048x8", [] { return boxes(2048, 8, 450, 50, 1); }, 1, 1},
  };
  fmt::print("{:<22} {:>6} {:>7} {:<14} {:>9} {:>6} {:>7} {:>10} {:>9}  {}\n", "network", "ranks",
             "links", "collective", "seconds", "limit", "flows", "algbw", "attained%", "verdict");
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
