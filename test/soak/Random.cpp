//===- Random.cpp - Random collectives ------------------------------------------------------===//
//
// An epoch is a communicator from its beginning to the end of all that come from it. What is done
// follows from seed and epoch, so that one of them can be seen again.
//===----------------------------------------------------------------------===//
#include "runtime/Backoff.h"
#include "test/soak/RandomRank.h"
#include "test/soak/Soak.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::soak {
namespace {

constexpr int64_t launchesOfEpoch = 250, programsOfAllRanks = 16;
/// So many epochs have the same programs.
constexpr int64_t epochsOfPool = 16;
/// So many things that are wrong are enough.
constexpr int64_t mostFindings = 20;

class Epochs {
public:
  explicit Epochs(const RandomOptions &options) : options(options) {}

  int run() {
    const Clock::time_point start = Clock::now();
    for (Kind kind : options.kinds)
      runKind(kind);
    const RandomTally &found = *tally;
    say(fmt::format(
        "{} launches ({} epochs) with {} programs: {} in place, {} uneven, {} on "
        "symmetric buffers, counted by rank; {} communicators more, {} used by a second "
        "thread, {} left by their parent; seed {}, {} wrong, {} failed, {:.0f} s",
        found.launches.load(), epochs, programs, found.inPlace.load(), found.uneven.load(),
        found.symmetric.load(), found.communicators.load(), found.concurrent.load(),
        found.orphans.load(), options.seed, found.wrong.load(), found.failures.load(),
        std::chrono::duration<double>(Clock::now() - start).count()));
    return found.wrong ? 1 : found.failures ? 3 : 0;
  }

private:
  void runKind(Kind kind) {
    const int64_t before = tally->launches;
    int64_t tenth = 1;
    for (int64_t epoch = 0; tally->launches - before < options.collectives; ++epoch) {
      if (options.onlyEpoch >= 0)
        epoch = options.onlyEpoch;
      if (!openPool(epoch / epochsOfPool))
        return;
      runEpoch(kind, epoch);
      ++epochs;
      if (options.onlyEpoch >= 0 || tally->wrong + tally->failures >= mostFindings)
        return;
      if (const int64_t done = tally->launches - before; done * 10 >= tenth * options.collectives) {
        fmt::print(stderr, "soak random: {} of {} launches on {}, {} wrong, {} failed\n", done,
                   options.collectives, name(kind), tally->wrong.load(), tally->failures.load());
        tenth = done * 10 / options.collectives + 1;
      }
    }
  }

  /// Compiles the programs of these epochs, unless they are those of the last one.
  bool openPool(int64_t number) {
    if (pool && number == poolNumber)
      return true;
    poolNumber = number;
    pool.reset();
    llvm::Expected<Pool> made =
        Pool::make(options.ranks, Dice(options.seed, uint64_t(number)).next(), [&](int64_t ranks) {
          return std::max<int64_t>(
              programsOfAllRanks * ranks * ranks / (options.ranks * options.ranks), 2);
        });
    if (!made) {
      ++tally->failures;
      say("refused: " + llvm::toString(made.takeError()));
      return false;
    }
    pool = std::move(*made);
    programs += pool->size();
    return true;
  }

  void runEpoch(Kind kind, int64_t epoch) {
    Dice common(options.seed, uint64_t(epoch));
    const int64_t slots[] = {0, 0, smallSlotBytes, 16 << 10};
    const Crew crew{kind, options.ranks, slots[common.below(4)], options.timeout};
    const std::string again = fmt::format("soak random --seed {} -n {} --ranks {} --epoch {}",
                                          options.seed, options.ranks, name(kind), epoch);
    const std::string failed = runCrew(
        crew,
        [&](std::unique_ptr<Member> member) {
          const Dice own(Dice(options.seed, uint64_t(epoch)).next(), uint64_t(member->rank()) + 1);
          return RandomRank(*pool, *tally, own, options.timeout, again)
              .live(std::move(member), common, launchesOfEpoch);
        },
        tally->progress);
    if (failed.empty())
      return;
    ++tally->failures;
    say(fmt::format("failed: {}; again: {}", failed, again));
  }

  const RandomOptions &options;
  Shared<RandomTally> tally;
  std::optional<Pool> pool;
  int64_t poolNumber = -1, programs = 0, epochs = 0;
};

} // namespace

int runRandom(const RandomOptions &options) { return Epochs(options).run(); }

} // namespace ccl::soak
