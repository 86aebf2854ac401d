// How long simulations of large programs take: `./dev bench simulate`.
//
//   two-level   512 ranks in 64 boxes: all-reduce by rings in the box, across, in the box; switches
//   ring        all-reduce around a ring, received, reduced and sent in one
//   incast      everybody writes to everybody through one switch, at once
// An event is a message that gets to a link or arrives, or an agent that goes on.

#include "test/unit/simulate/Timing.h"

#include <fmt/format.h>

#include <chrono>

using namespace ccl::model;

namespace {

void report(const char *name, const Program &program, int64_t chunks, const Topology &topology,
            const SimulateOptions &options) {
  const int64_t ranks = int64_t(program.ranks.size());
  const Contract contract = makeContract(Collective::AllReduce, ranks, chunks, Reduction::Sum);
  const auto begin = std::chrono::steady_clock::now();
  const SimulateReport result = simulate(program, contract, topology, options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result.ok())
    fmt::print("{}: {}\n", name, result.faults[0].message);
  else
    fmt::print("{:<34} {:>5} {:>8} {:>10} {:>8.3f} {:>8.2f}\n", name, ranks, options.batches,
               result.events, seconds, double(result.events) / seconds / 1e6);
}

/// Every rank has an agent for each of the others.
Program incast(int64_t ranks) {
  ProgramMaker maker(ranks, {{"x", Role::InOut, ranks}}, 1);
  for (int32_t r = 0; r < ranks; ++r)
    for (int32_t s = 1; s < ranks; ++s) {
      const int32_t to = int32_t((r + s) % ranks);
      maker.add(r, transfer({local(0, to)}, {peer(to, 0, r)}), size_t(s - 1));
    }
  return maker.program;
}

} // namespace

int main() {
  fmt::print("{:<34} {:>5} {:>8} {:>10} {:>8} {:>8}\n", "", "ranks", "batches", "events", "seconds",
             "M/s");
  SimulateOptions options;
  options.count = 512 * 32 * 64, options.batches = 32;
  const Program twoLevel = twoLevelProgram(64, 8, 4);
  const Topology boxes = boxTopology(64, 8, 450, 50, 1, 5);
  report("two-level", twoLevel, 512, boxes, options);
  ++options.count;
  report("two-level, uneven lengths", twoLevel, 512, boxes, options);
  options.timeline = true;
  report("two-level, with timeline", twoLevel, 512, boxes, options);
  options.timeline = false, options.sharing = Sharing::Fair;
  report("two-level, fair", twoLevel, 512, boxes, options);

  SimulateOptions ring;
  ring.count = 64 * 1000, ring.batches = 250;
  report("ring", ringProgram(64, 2, true), 64, ringTopology(64, 25, 1), ring);
  ring.count = 512 * 1000, ring.batches = 4;
  report("ring", ringProgram(512, 2, true), 512, ringTopology(512, 25, 1), ring);

  SimulateOptions all;
  all.count = 128 * 1000, all.batches = 20;
  report("incast", incast(128), 128, starTopology(128, 25, 1), all);
  all.sharing = Sharing::Fair, all.batches = 1;
  report("incast, fair", incast(64), 64, starTopology(64, 25, 1), all);
}
