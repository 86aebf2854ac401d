//===- Measure.cpp - One program, many sizes, all ranks ----------------------===//
#include "frontend/cli/Measure.h"

#include "frontend/cli/Sizes.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <bit>
#include <limits>

using llvm::Error;

namespace ccl::cli {

int64_t launchesWithin(double budgetUs, double launchUs, int64_t most) {
  return std::clamp<int64_t>(int64_t(budgetUs / std::max(launchUs, 0.01)), 1, most);
}

namespace {

using Clock = std::chrono::steady_clock;

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The work of one rank.
class RankLoop {
public:
  RankLoop(Member &member, const std::shared_ptr<LoadedProgram> &program, const Workload &workload,
           const MeasureOptions &options, RankBuffers &buffers, const std::vector<Lengths> &sizes)
      : member(member), program(program), workload(workload), options(options), rank(member.rank()),
        first(buffers.first), second(buffers.second) {
    // By the rank itself, near to its core.
    first = GuardedBuffer(firstBytes(sizes));
    second = GuardedBuffer(secondBytes(sizes));
  }

  Error run(const std::vector<Lengths> &sizes, const std::function<void()> &onFirstResult,
            const std::function<void(const Measurement &)> &report) {
    for (const Lengths &size : sizes)
      for (bool inPlace : {false, true})
        if (inPlace ? options.inPlace : options.outOfPlace)
          if (Error error = runForm(size, inPlace, onFirstResult, report))
            return error;
    return Error::success();
  }

private:
  Error runForm(const Lengths &size, bool inPlace, const std::function<void()> &onFirstResult,
                const std::function<void(const Measurement &)> &report) {
    place(size, inPlace);
    prepare(inPlace, round);
    if (Error error = meet())
      return error;
    Clock::time_point start = Clock::now();
    if (Error error = launch())
      return error;
    double coldUs = microsecondsSince(start);
    if (Error error = meet())
      return error;
    if (rank == 0 && round == 0)
      onFirstResult();
    int64_t warmup = options.warmup;
    if (warmup < 0)
      if (Error error = ask(launchesWithin(warmupBudgetUs, coldUs, defaultWarmup), warmup))
        return error;
    start = Clock::now();
    for (int64_t i = 0; i < warmup; ++i)
      if (Error error = launch())
        return error;
    Measurement found{size, sizeOfLargerRow(), inPlace,
                      warmup ? microsecondsSince(start) / warmup : coldUs, 0};
    if (Error error = time(found.us))
      return error;
    int64_t wrong = 0;
    for (int64_t c = 0; c < options.checks; ++c)
      if (Error error = check(inPlace, wrong))
        return error;
    ++round;
    if (Error error = gather(found.us, wrong, found))
      return error;
    if (rank == 0)
      report(found);
    return Error::success();
  }

  /// `us` is how long a launch takes about; then what it took on this rank.
  Error time(double &us) {
    int64_t iterations = options.iterations;
    if (iterations < 0)
      if (Error error = ask(launchesWithin(iterationBudgetUs, us, defaultIterations), iterations))
        return error;
    if (Error error = meet())
      return error;
    Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < iterations; ++i)
      if (Error error = launch())
        return error;
    us = iterations ? microsecondsSince(start) / iterations : 0;
    return meet();
  }

  Error check(bool inPlace, int64_t &wrong) {
    prepare(inPlace, ++round);
    if (Error error = meet())
      return error;
    if (Error error = launch())
      return error;
    // Others may still write here if the program is wrong: look when all are through.
    if (Error error = meet())
      return error;
    wrong += workload.countWrong(rank, round, lengths, args.out) +
             first.countDamaged(workload.elementBytes());
    if (!inPlace)
      wrong += second.countDamaged(workload.elementBytes()) +
               workload.countChanged(rank, round, workload.inElements(rank, lengths), args.in);
    return Error::success();
  }

  Error launch() {
    Error error = member.launch(program, args);
    if (!error && options.blocking)
      return meet();
    return error;
  }

  Error meet() { return member.exchange({}, options.timeout).takeError(); }

  /// What rank 0 proposes is what all do.
  Error ask(int64_t proposal, int64_t &decided) {
    auto all = member.exchange({uint64_t(proposal)}, options.timeout);
    if (!all)
      return all.takeError();
    decided = int64_t(all->front()[0]);
    return Error::success();
  }

  /// The slowest rank's time and everybody's wrong elements.
  Error gather(double us, int64_t wrong, Measurement &found) {
    auto all = member.exchange({std::bit_cast<uint64_t>(us), uint64_t(wrong)}, options.timeout);
    if (!all)
      return all.takeError();
    for (const Member::Words &words : *all) {
      found.us = std::max(found.us, std::bit_cast<double>(words[0]));
      found.wrong += int64_t(words[1]);
    }
    return Error::success();
  }

  int64_t inBytes(const Lengths &size) const {
    return workload.inElements(rank, size) * workload.elementBytes();
  }
  int64_t outBytes(const Lengths &size) const {
    return workload.outElements(rank, size) * workload.elementBytes();
  }

  int64_t firstBytes(const std::vector<Lengths> &sizes) const {
    int64_t bytes = 0;
    for (const Lengths &size : sizes)
      bytes = std::max({bytes, inBytes(size), options.inPlace ? outBytes(size) : 0});
    return bytes;
  }

  int64_t secondBytes(const std::vector<Lengths> &sizes) const {
    int64_t bytes = 0;
    for (const Lengths &size : sizes)
      bytes = std::max(bytes, options.outOfPlace ? outBytes(size) : 0);
    return bytes;
  }

  int64_t sizeOfLargerRow() const {
    int64_t elements = 0;
    for (int64_t r = 0; lengths.isUneven() && r < member.ranks(); ++r)
      elements =
          std::max({elements, workload.inElements(r, lengths), workload.outElements(r, lengths)});
    return lengths.isUneven()
               ? elements * workload.elementBytes()
               : sizeInBytes(workload.contract(), lengths.count(), workload.elementBytes());
  }

  /// Out of place `in` is the first buffer and `out` the second; in place both are in
  /// the first.
  void place(const Lengths &size, bool inPlace) {
    lengths = size;
    stated = lengths.isUneven() ? lengths.stated(rank) : UnevenCounts();
    args.count = lengths.count();
    args.uneven = lengths.isUneven() ? &stated : nullptr;
    args.timeout = options.timeout;
    args.microBatches = options.microBatches;
    if (inPlace) {
      char *data = first.place(std::max(inBytes(lengths), outBytes(lengths)));
      args.in = data + workload.inOffset(rank, lengths) * workload.elementBytes();
      args.out = data + workload.outOffset(rank, lengths) * workload.elementBytes();
    } else {
      args.in = first.place(inBytes(lengths));
      args.out = second.place(outBytes(lengths));
    }
  }

  void prepare(bool inPlace, uint64_t round) {
    (inPlace ? first : second).poison();
    workload.fill(rank, round, 0, workload.inElements(rank, lengths), const_cast<void *>(args.in));
  }

  Member &member;
  const std::shared_ptr<LoadedProgram> &program;
  const Workload &workload;
  const MeasureOptions &options;
  const int64_t rank;
  GuardedBuffer &first, &second;
  Lengths lengths; ///< of the launches under way
  UnevenCounts stated;
  LaunchArgs args;
  uint64_t round = 0; ///< the same on all ranks
};

} // namespace

/// The same of uneven shards: their sum, one by one.
static int64_t unevenBytesNeeded(const Workload &workload, const Lengths &lengths,
                                 bool outOfPlace) {
  const model::Contract &contract = workload.contract();
  constexpr int64_t tooMany = std::numeric_limits<int64_t>::max();
  int64_t total = 0;
  for (int64_t rank = 0; rank < contract.ranks; ++rank) {
    int64_t in = 0, out = 0;
    for (int64_t s = 0; s < contract.inShards(); ++s)
      if (llvm::AddOverflow(in, lengths.shard(RowOf::In, rank, s), in))
        return tooMany;
    for (int64_t s = 0; s < contract.outShards(); ++s)
      if (llvm::AddOverflow(out, lengths.shard(RowOf::Out, rank, s), out))
        return tooMany;
    int64_t more = std::max(in, out), less = outOfPlace ? std::min(in, out) : 0;
    if (llvm::AddOverflow(total, more, total) || llvm::AddOverflow(total, less, total))
      return tooMany;
  }
  return llvm::MulOverflow(total, workload.elementBytes(), total) ? tooMany : total;
}

int64_t bytesNeeded(const Workload &workload, const Lengths &lengths, bool outOfPlace) {
  if (lengths.isUneven())
    return unevenBytesNeeded(workload, lengths, outOfPlace);
  const model::Contract &contract = workload.contract();
  int64_t in = contract.inShards(), out = contract.outShards(), count = lengths.count();
  int64_t bytes = outOfPlace ? in + out : std::max(in, out);
  for (int64_t factor : {contract.ranks, workload.elementBytes(), count})
    if (llvm::MulOverflow(bytes, factor, bytes))
      return std::numeric_limits<int64_t>::max();
  return bytes;
}

Error measure(Member &member, const std::shared_ptr<LoadedProgram> &program,
              const Workload &workload, const std::vector<Lengths> &sizes,
              const MeasureOptions &options, RankBuffers &buffers,
              const std::function<void()> &onFirstResult,
              const std::function<void(const Measurement &)> &report) {
  RankLoop loop(member, program, workload, options, buffers, sizes);
  Error error = loop.run(sizes, onFirstResult, report);
  // Whatever it was, nobody shall wait for this rank.
  if (error)
    member.abort("a rank of this run failed");
  return error;
}

} // namespace ccl::cli
