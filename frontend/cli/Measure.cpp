//===- Measure.cpp - One program, many sizes, all ranks ----------------------===//
#include "frontend/cli/Measure.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <limits>

using llvm::Error;

namespace ccl::cli {

namespace {

using Clock = std::chrono::steady_clock;

// nccl-tests' defaults, and how long they may take for one size in one form.
constexpr int64_t defaultIterations = 20, defaultWarmup = 5;
constexpr double iterationBudgetUs = 120e3, warmupBudgetUs = 30e3;

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

int64_t launchesWithin(double budgetUs, double launchUs, int64_t most) {
  return std::clamp<int64_t>(int64_t(budgetUs / std::max(launchUs, 0.01)), 1, most);
}

/// What the ranks share: written between barriers only, but for `wrong`.
struct Shared {
  explicit Shared(int64_t ranks) : barrier(ranks), us(ranks) {}
  std::barrier<> barrier;
  std::vector<double> us; ///< by rank
  int64_t iterations = 0, warmup = 0;
  std::atomic<int64_t> wrong = 0;
};

/// The work of one rank, on its own thread.
class RankLoop {
public:
  RankLoop(Communicator &communicator, const std::shared_ptr<LoadedProgram> &program,
           const Workload &workload, const MeasureOptions &options, Shared &shared, int64_t rank,
           int64_t maxCount)
      : communicator(communicator), program(program), workload(workload), options(options),
        shared(shared), rank(rank), first(maxBytes(maxCount)),
        second(options.outOfPlace ? workload.outElements(maxCount) * workload.elementBytes() : 0) {}

  Error run(const std::vector<int64_t> &counts, const std::function<void()> &onFirstResult,
            const std::function<void(const Measurement &)> &report) {
    // A rank that fails must not leave the others waiting at our barrier.
    struct Drop {
      std::barrier<> &barrier;
      ~Drop() { (void)barrier.arrive_and_drop(); }
    } drop{shared.barrier};
    for (int64_t count : counts)
      for (bool inPlace : {false, true})
        if (inPlace ? options.inPlace : options.outOfPlace)
          if (Error error = runForm(count, inPlace, onFirstResult, report)) {
            communicator.abort("a rank of this run failed");
            return error;
          }
    return Error::success();
  }

private:
  Error runForm(int64_t count, bool inPlace, const std::function<void()> &onFirstResult,
                const std::function<void(const Measurement &)> &report) {
    place(count, inPlace);
    prepare(inPlace, round);
    shared.barrier.arrive_and_wait();
    Clock::time_point start = Clock::now();
    if (Error error = launch())
      return error;
    double coldUs = microsecondsSince(start);
    shared.barrier.arrive_and_wait();
    if (rank == 0) {
      if (round == 0)
        onFirstResult();
      shared.warmup = options.warmup >= 0 ? options.warmup
                                          : launchesWithin(warmupBudgetUs, coldUs, defaultWarmup);
    }
    shared.barrier.arrive_and_wait();
    start = Clock::now();
    for (int64_t i = 0; i < shared.warmup; ++i)
      if (Error error = launch())
        return error;
    double warmUs = shared.warmup ? microsecondsSince(start) / shared.warmup : coldUs;
    if (Error error = time(warmUs))
      return error;
    if (rank == 0)
      shared.wrong = 0;
    shared.barrier.arrive_and_wait();
    for (int64_t c = 0; c < options.checks; ++c)
      if (Error error = check(count, inPlace))
        return error;
    ++round;
    shared.barrier.arrive_and_wait();
    if (rank == 0)
      report({count, inPlace, *std::max_element(shared.us.begin(), shared.us.end()),
              shared.wrong.load()});
    return Error::success();
  }

  Error time(double launchUs) {
    if (rank == 0)
      shared.iterations = options.iterations >= 0
                              ? options.iterations
                              : launchesWithin(iterationBudgetUs, launchUs, defaultIterations);
    shared.barrier.arrive_and_wait();
    Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < shared.iterations; ++i)
      if (Error error = launch())
        return error;
    shared.us[rank] = shared.iterations ? microsecondsSince(start) / shared.iterations : 0;
    shared.barrier.arrive_and_wait();
    return Error::success();
  }

  Error check(int64_t count, bool inPlace) {
    prepare(inPlace, ++round);
    shared.barrier.arrive_and_wait();
    if (Error error = launch())
      return error;
    // Others may still write here if the program is wrong: look when all are through.
    shared.barrier.arrive_and_wait();
    int64_t wrong = workload.countWrong(rank, round, count, args.out) +
                    first.countDamaged(workload.elementBytes());
    if (!inPlace)
      wrong += second.countDamaged(workload.elementBytes()) +
               workload.countChanged(rank, round, workload.inElements(count), args.in);
    shared.wrong += wrong;
    return Error::success();
  }

  Error launch() {
    Error error = communicator.launch(rank, program, args);
    if (!error && options.blocking)
      shared.barrier.arrive_and_wait();
    return error;
  }

  int64_t maxBytes(int64_t count) const {
    int64_t in = workload.inElements(count), out = workload.outElements(count);
    return (options.inPlace ? std::max(in, out) : in) * workload.elementBytes();
  }

  /// Out of place `in` is the first buffer and `out` the second; in place both are in
  /// the first.
  void place(int64_t count, bool inPlace) {
    int64_t size = workload.elementBytes();
    int64_t in = workload.inElements(count), out = workload.outElements(count);
    args.count = count;
    args.timeout = options.timeout;
    args.microBatches = options.microBatches;
    if (inPlace) {
      char *data = first.place(std::max(in, out) * size);
      args.in = data + workload.inOffset(rank, count) * size;
      args.out = data + workload.outOffset(rank, count) * size;
    } else {
      args.in = first.place(in * size);
      args.out = second.place(out * size);
    }
  }

  void prepare(bool inPlace, uint64_t round) {
    (inPlace ? first : second).poison();
    workload.fill(rank, round, 0, workload.inElements(args.count), const_cast<void *>(args.in));
  }

  Communicator &communicator;
  const std::shared_ptr<LoadedProgram> &program;
  const Workload &workload;
  const MeasureOptions &options;
  Shared &shared;
  int64_t rank;
  GuardedBuffer first, second;
  LaunchArgs args;
  uint64_t round = 0; ///< the same on all ranks
};

} // namespace

int64_t bytesNeeded(const Workload &workload, int64_t count, bool outOfPlace) {
  const model::Contract &contract = workload.contract();
  int64_t in = contract.inShards(), out = contract.outShards();
  int64_t bytes = outOfPlace ? in + out : std::max(in, out);
  for (int64_t factor : {contract.ranks, workload.elementBytes(), count})
    if (llvm::MulOverflow(bytes, factor, bytes))
      return std::numeric_limits<int64_t>::max();
  return bytes;
}

Error measure(Communicator &communicator, const std::shared_ptr<LoadedProgram> &program,
              const Workload &workload, const std::vector<int64_t> &counts,
              const MeasureOptions &options, const std::function<void()> &onFirstResult,
              const std::function<void(const Measurement &)> &report) {
  int64_t ranks = communicator.ranks();
  int64_t maxCount = *std::max_element(counts.begin(), counts.end());
  Shared shared(ranks);
  std::vector<std::unique_ptr<RankLoop>> loops;
  for (int64_t rank = 0; rank < ranks; ++rank)
    loops.push_back(std::make_unique<RankLoop>(communicator, program, workload, options, shared,
                                               rank, maxCount));
  return onEveryRank(ranks,
                     [&](int64_t rank) { return loops[rank]->run(counts, onFirstResult, report); });
}

} // namespace ccl::cli
