//===- Matrix.cpp - The conformance matrix -----------------------------------------------===//
//
// Programs for the same ranks and slots make a batch: they are compiled one after the other and
// run on one communicator of threads, then on one of processes. Workers, each a process, take
// batches until there are no more.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Forked.h"
#include "runtime/Backoff.h"
#include "test/soak/Batch.h"
#include "test/soak/CudaBatch.h"
#include "test/soak/Pairwise.h"
#include "test/soak/Soak.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

namespace ccl::soak {
namespace {

constexpr size_t programsOfBatch = 48;

/// Units for the same ranks and slots; or pairs of type and reduction that are to be refused.
struct Work {
  std::vector<Unit> units;
  bool refused = false;
};

class Matrix {
public:
  explicit Matrix(const MatrixOptions &options) : options(options) { plan(); }
  int run();

private:
  void plan();
  void keepPart(std::vector<Unit> &units) const;
  void addBatches(std::vector<Unit> units, bool refused);
  void work();
  void runUnits(const std::vector<Unit> &units, size_t number);
  void checkRefused(const Unit &unit);
  void sayProgress(double seconds) const;
  void summarize(double seconds) const;

  const MatrixOptions &options;
  Sample sample;
  std::vector<Work> batches;
  int64_t numPrograms = 0;
  Shared<Tally> tally;
  Shared<std::atomic<size_t>> nextBatch;
};

void Matrix::plan() {
  std::vector<Unit> refused;
  std::vector<Unit> units = matrixUnits(options.filter, refused);
  if (options.sample) {
    sample = samplePairwise(*options.sample, options.seed, options.filter);
    units = sample.units;
    // Of the pairs that do not exist a sample has as large a part, at least one.
    const size_t few = std::max<size_t>(units.size() / 16, 1);
    for (size_t i = 0; i < few && i < refused.size(); ++i)
      refused[i] = refused[i * refused.size() / few];
    refused.resize(std::min(few, refused.size()));
  }
  keepPart(units);
  keepPart(refused);
  numPrograms = int64_t(units.size());
  addBatches(std::move(units), false);
  addBatches(std::move(refused), true);
}

void Matrix::keepPart(std::vector<Unit> &units) const {
  std::vector<Unit> kept;
  for (size_t i = size_t(options.part.number - 1); i < units.size(); i += size_t(options.part.of))
    kept.push_back(units[i]);
  units = std::move(kept);
}

void Matrix::addBatches(std::vector<Unit> units, bool refused) {
  std::map<std::array<int64_t, 3>, std::vector<Unit>> groups;
  for (Unit &unit : units)
    groups[{unit.ranks, unit.slotBytes, unit.devices}].push_back(std::move(unit));
  for (auto &[key, group] : groups)
    for (size_t first = 0; first < group.size(); first += programsOfBatch) {
      auto begin = group.begin() + ptrdiff_t(first);
      auto end = begin + ptrdiff_t(std::min(programsOfBatch, group.size() - first));
      batches.push_back({{begin, end}, refused});
    }
  // Large ones first: then workers end at about the same time.
  if (refused)
    std::reverse(batches.begin(), batches.end());
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

void Matrix::checkRefused(const Unit &unit) {
  std::string happened = expectRefused(unit);
  ++tally->progress;
  if (happened.empty()) {
    ++tally->refusals;
    return;
  }
  ++tally->wrong;
  say(fmt::format("accepted: {}: ccl run {}", happened, unit.options()));
}

void Matrix::runUnits(const std::vector<Unit> &units, size_t number) {
  if (options.filter.onShim)
    return runCudaUnits(units, int64_t(number * programsOfBatch), options.timeout, *tally);
  std::vector<std::unique_ptr<Compiled>> programs;
  std::vector<Launch> launches;
  for (size_t i = 0; i < units.size(); ++i) {
    llvm::Expected<Compiled> compiled = compileUnit(units[i]);
    ++tally->progress;
    if (!compiled) {
      ++tally->failures;
      say(fmt::format("refused: {}: {}ccl run {}", llvm::toString(compiled.takeError()),
                      units[i].environment(), units[i].options()));
      continue;
    }
    programs.push_back(std::make_unique<Compiled>(std::move(*compiled)));
    std::vector<Launch> more =
        matrixLaunches(*programs.back(), int64_t(number * programsOfBatch + i),
                       {matrixCounts(), 2, 0, options.timeout});
    launches.insert(launches.end(), more.begin(), more.end());
  }
  for (Kind kind : options.kinds)
    runBatch(launches, kind, *tally);
  tally->programs += int64_t(programs.size());
}

void Matrix::work() {
  for (size_t number; (number = (*nextBatch)++) < batches.size();) {
    const Work &work = batches[number];
    if (!work.refused)
      runUnits(work.units, number);
    else
      for (const Unit &unit : work.units)
        checkRefused(unit);
  }
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

void Matrix::sayProgress(double seconds) const {
  fmt::print(stderr, "soak matrix: {} of {} programs, {} launches, {} wrong, {} failed, {:.0f} s\n",
             tally->programs.load(), numPrograms, tally->launches.load(), tally->wrong.load(),
             tally->failures.load(), seconds);
}

void Matrix::summarize(double seconds) const {
  for (uint32_t c = 0; c < uint32_t(model::Collective::Custom); ++c)
    if (int64_t launches = tally->byCollective[c])
      say(fmt::format("{:16} {:9} launches", model::name(model::Collective(c)), launches));
  if (options.sample)
    say(fmt::format("pairwise sample, seed {}: {} programs have {} of {} pairs", options.seed,
                    sample.units.size(), sample.covered, sample.pairs));
  say(fmt::format("{} programs, {} launches, {} unsupported pairs refused, {} wrong, {} failed, "
                  "{:.0f} s",
                  tally->programs.load(), tally->launches.load(), tally->refusals.load(),
                  tally->wrong.load(), tally->failures.load(), seconds));
}

int Matrix::run() {
  const Clock::time_point start = Clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (batches.empty()) {
    fmt::print(stderr, "soak matrix: nothing has this collective, generator and ranks\n");
    return 2;
  }
  int64_t workers = 0;
  for (int64_t i = 0; i < options.jobs; ++i)
    workers += cli::forkChild([&] {
                 work();
                 return 0;
               }) > 0;
  if (workers == 0) {
    fmt::print(stderr, "soak matrix: cannot fork\n");
    return 3;
  }
  double said = 0;
  while (workers > 0) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      --workers;
      if (status != 0) {
        ++tally->failures;
        say(fmt::format("failed: a worker ended with {} {}",
                        WIFSIGNALED(status) ? "signal" : "exit status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
      }
      continue;
    }
    usleep(20000);
    if (seconds() - said >= 10) {
      said = seconds();
      sayProgress(said);
    }
  }
  summarize(seconds());
  return tally->exitStatus();
}

} // namespace

int runMatrix(const MatrixOptions &options) { return Matrix(options).run(); }

} // namespace ccl::soak
