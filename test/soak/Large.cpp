//===- Large.cpp - Large counts ---------------------------------------------------------------===//
#include "frontend/cli/Sizes.h"
#include "runtime/Backoff.h"
#include "runtime/Memory.h"
#include "test/soak/LargeSparse.h"
#include "test/soak/Soak.h"

#include <fmt/format.h>

namespace ccl::soak {
namespace {

using model::Collective;

/// The defaults of collectives whose buffers fit; a count that no power of two divides.
void runElements(const LargeOptions &options, Tally &tally) {
  for (Collective collective :
       {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce, Collective::AllGather,
        Collective::Broadcast, Collective::AllToAll})
    for (ElementType type : {ElementType::F32, ElementType::BF16, ElementType::I8})
      for (int64_t ranks : {2, 3}) {
        Unit unit{{findGenerator(collective, ""), collective}, type, model::Reduction::None, ranks};
        if (model::reduces(collective))
          unit.reduction = model::Reduction::Sum;
        llvm::Expected<Compiled> program = compileUnit(unit);
        if (!program) {
          ++tally.failures;
          say(fmt::format("refused: {}: ccl run {}", llvm::toString(program.takeError()),
                          unit.options()));
          continue;
        }
        std::vector<Launch> launches(2);
        for (size_t i = 0; i < launches.size(); ++i) {
          launches[i].program = &*program;
          launches[i].lengths = options.elements;
          launches[i].inPlace = i == 1;
          launches[i].round = i;
          launches[i].timeout = options.timeout;
        }
        for (Kind kind : options.kinds)
          runBatch(launches, kind, tally);
        ++tally.programs;
        fmt::print(stderr, "soak large: {}: {} wrong so far\n", unit.str(), tally.wrong.load());
      }
}

void runBytes(const LargeOptions &options, Tally &tally) {
  // The results of both ranks, on the stand-in their rows, and something for the rest of the
  // machine.
  const int64_t needed = options.bytes * (options.onShim ? 2 : 1) + options.bytes / 4;
  if (uint64_t available = availableMemory(); available < uint64_t(needed)) {
    ++tally.failures;
    say(fmt::format("failed: a buffer of {} needs {} of memory, {} are available (--bytes)",
                    cli::formatBytes(double(options.bytes)), cli::formatBytes(double(needed)),
                    cli::formatBytes(double(available))));
    return;
  }
  for (Collective collective : {Collective::Broadcast, Collective::AllGather}) {
    Unit unit{
        {findGenerator(collective, ""), collective}, ElementType::I8, model::Reduction::None, 2};
    if (options.onShim) {
      unit.protocol = "simple"; // of data in peers' memory
      runSparseOnShim(unit, options.bytes, options.timeout, tally);
      unit.via = "staged";
      for (const char *protocol : {"simple", "ll", "ll128"}) {
        unit.protocol = protocol;
        runSparseOnShim(unit, options.bytes, options.timeout, tally);
      }
      continue;
    }
    for (Kind kind : options.kinds)
      for (const char *via : {"staged", "auto"}) {
        unit.via = via;
        runSparse(unit, kind, options.bytes, options.timeout, tally);
      }
  }
}

} // namespace

int runLarge(const LargeOptions &options) {
  const Clock::time_point start = Clock::now();
  const Shared<Tally> tally;
  if (!options.onShim)
    runElements(options, *tally);
  if (options.bytes > 0)
    runBytes(options, *tally);
  say(fmt::format("{} programs, {} launches, {} wrong, {} failed, {:.0f} s", tally->programs.load(),
                  tally->launches.load(), tally->wrong.load(), tally->failures.load(),
                  std::chrono::duration<double>(Clock::now() - start).count()));
  return tally->exitStatus();
}

} // namespace ccl::soak
