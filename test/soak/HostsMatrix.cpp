//===- HostsMatrix.cpp - The conformance matrix over NICs -----------------------------===//
//
// All programs are compiled before ranks are forked, which run them on one communicator.
//===----------------------------------------------------------------------===//
#include "runtime/Backoff.h"
#include "test/soak/Batch.h"
#include "test/soak/Soak.h"

#include <map>

namespace ccl::soak {
namespace {

/// The first generator of each collective with all types and reductions, which is what moves
/// elements; the others with all of them, or with each in turn.
std::vector<Unit> hostsUnits(const HostsOptions &options) {
  UnitFilter filter = options.filter;
  filter.ranks = {options.place.ranks()};
  std::vector<Unit> refused, units;
  std::map<std::pair<const Generator *, model::Collective>, int64_t> seen;
  std::map<model::Collective, const Generator *> first;
  for (Unit &unit : matrixUnits(filter, refused)) {
    const Algorithm &algorithm = unit.algorithm;
    const Generator *whole = first.emplace(algorithm.collective, algorithm.generator).first->second;
    const int64_t number = seen[{algorithm.generator, algorithm.collective}]++;
    // A step that has no factor in common with the numbers of types and reductions.
    if (!options.allPairs && algorithm.generator != whole && number % 17 != 0)
      continue;
    unit.via = "staged";
    unit.slotBytes = 0;
    unit.wires = true;
    units.push_back(std::move(unit));
  }
  std::vector<Unit> part;
  for (size_t i = size_t(options.part.number - 1); i < units.size(); i += size_t(options.part.of))
    part.push_back(units[i]);
  return part;
}

} // namespace

int runHostsMatrix(const HostsOptions &options) {
  using Seconds = std::chrono::duration<double>;
  const Clock::time_point begun = Clock::now();
  const Shared<Tally> tally;
  std::vector<std::unique_ptr<Compiled>> programs;
  std::vector<Launch> launches;
  for (const Unit &unit : hostsUnits(options)) {
    llvm::Expected<Compiled> compiled = compileUnit(unit);
    if (!compiled) {
      ++tally->failures;
      say(fmt::format("refused: {}: ccl run {}", llvm::toString(compiled.takeError()),
                      unit.options()));
      continue;
    }
    programs.push_back(std::make_unique<Compiled>(std::move(*compiled)));
    for (Launch &launch : matrixLaunches(*programs.back(), int64_t(programs.size()),
                                         {options.counts, 1, options.largeCount, options.timeout}))
      launches.push_back(std::move(launch));
  }
  tally->programs += int64_t(programs.size());
  const double compiling = Seconds(Clock::now() - begun).count();
  runBatch(launches, options.place, *tally);
  for (uint32_t c = 0; c < uint32_t(model::Collective::Custom); ++c)
    if (const int64_t number = tally->byCollective[c])
      say(fmt::format("{:16} {:6} launches", model::name(model::Collective(c)), number));
  say(fmt::format("{} hosts x {} ranks: {} programs, {} launches, {} wrong, {} failed, {:.0f} s, "
                  "{:.0f} s of it to compile",
                  options.place.hosts, options.place.perHost, tally->programs.load(),
                  tally->launches.load(), tally->wrong.load(), tally->failures.load(),
                  Seconds(Clock::now() - begun).count(), compiling));
  return launches.empty() ? 2 : tally->exitStatus();
}

} // namespace ccl::soak
