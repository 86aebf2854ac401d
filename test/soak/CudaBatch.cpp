//===- CudaBatch.cpp ----------------------------------------------------------------===//
#include "test/soak/CudaBatch.h"

#include "frontend/cli/MeasureCuda.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>

namespace ccl::soak {
namespace {

struct CudaProgram {
  CudaProgram(const Unit &unit, Plan plan)
      : unit(unit), plan(std::move(plan)), workload(this->plan.contract, unit.type) {}

  Unit unit;
  Plan plan;
  cli::Workload workload;
};

/// One program with all lengths in one way.
struct CudaRun {
  const CudaProgram *program = nullptr;
  int64_t instances = 1;
  int64_t microBatches = 0;
  int64_t graphLaunches = 0;
  int64_t turn = 0;

  /// The `ccl run` that does the same for these lengths.
  std::string command(std::string_view lengths, std::string_view form) const {
    const Unit &unit = program->unit;
    std::string text = fmt::format("{}ccl run {} {} {} --instances {}", unit.environment(),
                                   unit.options(), lengths, form, instances);
    if (microBatches)
      text += fmt::format(" --micro-batches {}", microBatches);
    if (graphLaunches)
      text += fmt::format(" -G {}", graphLaunches);
    return text;
  }
};

/// Runs of one batch, in a process of its own.
class CudaBatch {
public:
  CudaBatch(const std::vector<CudaRun> &runs, Milliseconds timeout,
            const Shared<std::atomic<int64_t>> &done, Tally &tally)
      : runs(runs), timeout(timeout), done(done), tally(tally) {}

  /// Those from the first one on that is not done.
  llvm::Error run() {
    auto opened = cuda::Driver::get("shim");
    if (!opened)
      return opened.takeError();
    driver = *opened;
    while (*done < int64_t(runs.size())) {
      if (llvm::Error error = runOne(runs[size_t(*done)]))
        return error;
      ++*done;
    }
    return llvm::Error::success();
  }

private:
  llvm::Error join(const CudaRun &run) {
    if (group && groupInstances == run.instances)
      return llvm::Error::success();
    group.reset();
    const Unit &unit = run.program->unit;
    cuda::CudaGroupOptions options;
    if (unit.slotBytes)
      options.slotBytes = unit.slotBytes;
    options.instances = groupInstances = run.instances;
    std::vector<int> devices;
    for (int d = 0; d < unit.devices; ++d)
      devices.push_back(d);
    auto created = cuda::CudaGroup::create(*driver, unit.ranks, devices, options);
    if (!created)
      return created.takeError();
    group = std::move(*created);
    return llvm::Error::success();
  }

  llvm::Error runOne(const CudaRun &run) {
    if (llvm::Error error = join(run))
      return error;
    auto program = cuda::LoadedCudaProgram::load(*driver, run.program->plan);
    if (!program)
      return program.takeError();
    const std::vector<int64_t> &counts = matrixCounts();
    if (llvm::Error error =
            measure(run, *program, {counts.begin(), counts.end()}, /*bothForms=*/true))
      return error;
    const model::Contract &contract = run.program->plan.contract;
    if (!model::hasUnevenForm(contract.collective))
      return llvm::Error::success();
    for (bool inPlace : {false, true}) {
      auto count = [&](int64_t p, int64_t q) {
        return counts[size_t(((2 * p + q) * 5 + run.turn) % int64_t(counts.size()))];
      };
      if (llvm::Error error = measure(run, *program, {unevenLengths(contract, inPlace, count)},
                                      /*bothForms=*/false, inPlace))
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error measure(const CudaRun &run, const std::shared_ptr<cuda::LoadedCudaProgram> &program,
                      const std::vector<cli::Lengths> &sizes, bool bothForms,
                      bool inPlace = false) {
    cli::MeasureOptions measuring;
    measuring.iterations = measuring.warmup = 0;
    measuring.inPlace = bothForms || inPlace;
    measuring.outOfPlace = bothForms || !inPlace;
    measuring.timeout = timeout;
    measuring.microBatches = run.microBatches;
    return cli::measureCuda(
        *group, *driver, program, run.program->workload, sizes, measuring, {run.graphLaunches},
        [] {}, [&](const cli::Measurement &found) { take(run, found); });
  }

  void take(const CudaRun &run, const cli::Measurement &found) {
    const Unit &unit = run.program->unit;
    ++tally.progress;
    ++tally.launches;
    ++tally.byCollective[uint32_t(unit.algorithm.collective)];
    if (found.wrong == 0)
      return;
    ++tally.wrong;
    say(fmt::format("wrong: {} elements: {}", found.wrong,
                    run.command(lengthsText(found.lengths, unit.ranks),
                                found.inPlace ? "--in-place" : "--out-of-place")));
  }

  const std::vector<CudaRun> &runs;
  const Milliseconds timeout;
  const Shared<std::atomic<int64_t>> &done;
  Tally &tally;
  const cuda::Driver *driver = nullptr;
  std::unique_ptr<cuda::CudaGroup> group;
  int64_t groupInstances = 0;
};

/// By instances, which a communicator has once and for all.
std::vector<CudaRun> runsOf(const std::vector<std::unique_ptr<CudaProgram>> &programs,
                            int64_t number) {
  std::vector<CudaRun> runs;
  for (int64_t instances : {1, 2, 4})
    for (size_t i = 0; i < programs.size(); ++i) {
      const int64_t turn = number + int64_t(i) + instances / 2;
      CudaRun run{programs[i].get(), instances, turn % 3 == 2 ? 3 : turn % 3, 0, turn};
      // A graph is captured on one GPU.
      run.graphLaunches = programs[i]->unit.devices == 1 && turn % 4 == 3;
      runs.push_back(run);
    }
  return runs;
}

} // namespace

void runCudaUnits(const std::vector<Unit> &units, int64_t number, Milliseconds timeout,
                  Tally &tally) {
  std::vector<std::unique_ptr<CudaProgram>> programs;
  for (const Unit &unit : units) {
    llvm::Expected<Plan> plan = compilePlan(unit);
    ++tally.progress;
    if (plan) {
      programs.push_back(std::make_unique<CudaProgram>(unit, std::move(*plan)));
      continue;
    }
    ++tally.failures;
    say(fmt::format("refused: {}: {}ccl run {}", llvm::toString(plan.takeError()),
                    unit.environment(), unit.options()));
  }
  const std::vector<CudaRun> runs = runsOf(programs, number);
  const Shared<std::atomic<int64_t>> done;
  CudaBatch batch(runs, timeout, done, tally);
  // Read when the stand-in is opened, in the children.
  setenv("CCL_SHIM_SMS", fmt::format("{}", shimMultiprocessors).c_str(), 1);
  setenv("CCL_SHIM_DEVICES", fmt::format("{}", shimDevices).c_str(), 1);
  while (*done < int64_t(runs.size())) {
    const std::string failed = runApart([&] { return batch.run(); }, tally.progress, 4 * timeout);
    if (failed.empty())
      break;
    ++tally.failures;
    const size_t at = std::min(size_t(*done), runs.size() - 1);
    const std::string lengths = fmt::format("--count {}", fmt::join(matrixCounts(), ","));
    say(fmt::format("failed: {}: {}", failed, runs[at].command(lengths, "")));
    // Only its other instances come again.
    ++*done;
  }
  tally.programs += int64_t(programs.size());
}

} // namespace ccl::soak
