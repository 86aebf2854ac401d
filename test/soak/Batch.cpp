//===- Batch.cpp ----------------------------------------------------------------------===//
#include "test/soak/Batch.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::soak {

//===----------------------------------------------------------------------===//
// Launches of the matrix
//===----------------------------------------------------------------------===//

std::vector<Launch> matrixLaunches(const Compiled &program, int64_t number, const LaunchSet &set) {
  const model::Contract &contract = program.workload->contract();
  std::vector<Launch> launches;
  auto add = [&](cli::Lengths lengths, bool inPlace) {
    Launch &launch = launches.emplace_back();
    launch.program = &program;
    launch.lengths = std::move(lengths);
    launch.inPlace = inPlace;
    launch.round = uint64_t(number) * 64 + launches.size();
    launch.timeout = set.timeout;
  };
  const std::vector<int64_t> &counts = set.counts;
  for (bool inPlace : {false, true}) {
    for (int64_t count : counts)
      add(count, inPlace);
    if (set.largeCount > 0 && inPlace == (number % 2 != 0))
      add(set.largeCount, inPlace);
    if (model::hasUnevenForm(contract.collective))
      for (int64_t i = number; i < number + set.uneven; ++i)
        add(unevenLengths(contract, inPlace,
                          [&](int64_t p, int64_t q) {
                            return counts[size_t(((2 * p + q) * 5 + i) % int64_t(counts.size()))];
                          }),
            inPlace);
  }
  return launches;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// What the ranks found about a launch.
struct Result {
  std::atomic<int64_t> entered, done; ///< ranks
  std::atomic<int64_t> wrong, damaged, changed;
};

class RankOfBatch {
public:
  RankOfBatch(Member &member, const std::vector<Launch> &launches, const Shared<Result> &results,
              Tally &tally, int64_t ranksHere)
      : member(member), launches(launches), results(results), tally(tally), ranksHere(ranksHere) {}

  llvm::Error run(size_t first) {
    int64_t bytes = 0;
    for (size_t i = first; i < launches.size(); ++i)
      bytes = std::max(bytes, memoryBytes(launches[i], member.rank()));
    LaunchingRank rank(bytes);
    for (size_t i = first; i < launches.size(); ++i)
      if (llvm::Error error = runOne(rank, launches[i], results[i])) {
        member.abort("a rank of this run failed");
        return error;
      }
    return llvm::Error::success();
  }

private:
  llvm::Error runOne(LaunchingRank &rank, const Launch &launch, Result &result) {
    ++result.entered;
    llvm::Expected<Findings> found = rank.run(member, launch);
    if (!found)
      return found.takeError();
    result.wrong += found->wrong;
    // That all have come is all that a barrier does.
    if (launch.program->unit.algorithm.collective == model::Collective::Barrier)
      result.wrong += result.entered < ranksHere;
    result.damaged += found->damaged;
    result.changed += found->changed;
    ++result.done;
    ++tally.progress;
    return llvm::Error::success();
  }

  Member &member;
  const std::vector<Launch> &launches;
  const Shared<Result> &results;
  Tally &tally;
  const int64_t ranksHere;
};

/// Who runs launches: all of them, from `first` on.
struct Runner {
  std::string_view ranksAre; ///< for `ccl run`
  int64_t ranksHere;         ///< whose results are seen
  std::function<std::string(const std::function<llvm::Error(std::unique_ptr<Member>)> &)> run;
};

/// Counts launches [first, end) of which all ranks know; the first one that is not so, or `end`.
size_t takeResults(const std::vector<Launch> &launches, const Shared<Result> &results, size_t first,
                   const Runner &runner, Tally &tally) {
  for (size_t i = first; i < launches.size(); ++i) {
    const Unit &unit = launches[i].program->unit;
    const Result &result = results[i];
    if (result.done < runner.ranksHere)
      return i;
    ++tally.launches;
    ++tally.byCollective[uint32_t(unit.algorithm.collective)];
    if (Findings found{result.wrong, result.damaged, result.changed}; found.any()) {
      ++tally.wrong;
      say(fmt::format("wrong: {}: {}", found.str(), launches[i].command(runner.ranksAre)));
    }
  }
  return launches.size();
}

void runWith(const Runner &runner, const std::vector<Launch> &launches, Tally &tally) {
  const Shared<Result> results(launches.size());
  for (size_t first = 0; first < launches.size();) {
    std::string failed = runner.run([&](std::unique_ptr<Member> member) {
      return RankOfBatch(*member, launches, results, tally, runner.ranksHere).run(first);
    });
    const size_t end = takeResults(launches, results, first, runner, tally);
    if (end == launches.size() && failed.empty())
      return;
    ++tally.failures;
    const size_t at = std::min(end, launches.size() - 1);
    // There is no barrier at the end of a launch: a rank may have been in the next one.
    const bool further = at + 1 < launches.size() && results[at + 1].entered > 0;
    say(fmt::format("failed: {}: {}{}", failed.empty() ? "a rank did not finish" : failed,
                    launches[at].command(runner.ranksAre),
                    further ? "; or the next: " + launches[at + 1].command(runner.ranksAre) : ""));
    for (first = end; first < launches.size() && launches[first].program == launches[at].program;)
      ++first;
  }
}

} // namespace

void runBatch(const std::vector<Launch> &launches, Kind kind, Tally &tally) {
  if (launches.empty())
    return;
  const Unit &unit = launches.front().program->unit;
  const Crew crew{kind, unit.ranks, unit.slotBytes, launches.front().timeout};
  runWith({name(kind), unit.ranks,
           [&](const auto &body) { return runCrew(crew, body, tally.progress); }},
          launches, tally);
}

void runBatch(const std::vector<Launch> &launches, const HostsPlace &place, Tally &tally) {
  if (launches.empty())
    return;
  const Milliseconds timeout = launches.front().timeout;
  runWith({"processes", place.ranksHere(),
           [&](const auto &body) { return runHosts(place, timeout, body, tally.progress); }},
          launches, tally);
}

} // namespace ccl::soak
