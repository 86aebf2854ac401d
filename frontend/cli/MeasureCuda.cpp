//===- MeasureCuda.cpp - The same as Measure.cpp, with ranks on GPUs ------------===//
#include "frontend/cli/MeasureCuda.h"

#include "frontend/cli/Sizes.h"

#include <algorithm>
#include <bit>

using llvm::Error;

namespace ccl::cli {

namespace {

using cuda::Driver;

/// A row of a rank with its red zones, here and on the rank's GPU.
struct MirroredRow {
  GuardedBuffer host{0};
  cuda::DeviceMemory memory;
  int64_t bytes = 0; ///< of the row

  char *place(int64_t size) {
    bytes = size;
    return host.place(size);
  }
  cuda::CUdeviceptr device() const { return memory.get() + GuardedBuffer::guardBytes; }
  char *begin() const { return host.data() - GuardedBuffer::guardBytes; }
  size_t total() const { return size_t(bytes + 2 * GuardedBuffer::guardBytes); }
};

struct RankRows {
  MirroredRow first, second;
  const char *in = nullptr;
  char *out = nullptr; ///< on the host
};

/// All ranks, one size after the other.
class CudaLoop {
public:
  CudaLoop(cuda::CudaGroup &group, const Driver &driver,
           const std::shared_ptr<cuda::LoadedCudaProgram> &program, const Workload &workload,
           const MeasureOptions &options, const CudaMeasureOptions &cudaOptions)
      : group(group), driver(driver), program(program), workload(workload), options(options),
        cudaOptions(cudaOptions), ranks(group.localRanks()), rows(ranks.size()),
        args(ranks.size()) {}

  Error open(const std::vector<Lengths> &sizes);
  Error run(const std::vector<Lengths> &sizes, const std::function<void()> &onFirstResult,
            const std::function<void(const Measurement &)> &report);

private:
  /// What one GPU's launches are queued in, and timed by.
  struct Lane {
    cuda::Stream stream;
    cuda::Event begin, end;
  };

  Error openLanes();
  Error runForm(const Lengths &size, bool inPlace, Measurement &found);
  void place(const Lengths &size, bool inPlace);
  Error prepare(bool inPlace);
  Error launch();
  Error launchOnce();
  /// So many launches as the graph that launch() replays; 0: none.
  Error capture(int64_t launches);
  Error wait();
  /// `launches` of them: microseconds of one on the slowest GPU.
  Error time(int64_t launches, double &us);
  Error check(bool inPlace, int64_t &wrong);
  Error copy(RankRows &rank, size_t number, bool inPlace, bool toDevice);
  int64_t sizeOfLargerRow() const;
  /// Of all processes; each has one rank, or one process has all.
  Error sumUp(int64_t &wrong);
  Error slowest(double &us);
  cuda::CUcontext contextOf(size_t i) const { return group.context(group.deviceOf(ranks[i])); }

  cuda::CudaGroup &group;
  const Driver &driver;
  const std::shared_ptr<cuda::LoadedCudaProgram> &program;
  const Workload &workload;
  const MeasureOptions &options;
  const CudaMeasureOptions &cudaOptions;
  const std::vector<int64_t> ranks; ///< of this process
  std::vector<Lane> lanes;
  std::vector<cuda::CUstream> streams;
  std::vector<RankRows> rows;
  std::vector<cuda::CudaLaunchArgs> args;
  cuda::Graph graph;
  cuda::GraphExec replay;
  Lengths lengths;
  std::vector<UnevenCounts> stated;
  uint64_t round = 0;
  bool isFirst = true; ///< no launch is over yet
};

} // namespace

Error CudaLoop::openLanes() {
  for (size_t d = 0; d < group.devices(); ++d) {
    auto scope = cuda::ContextScope::enter(driver, group.context(d));
    if (!scope)
      return scope.takeError();
    auto stream = cuda::makeStream(driver);
    auto begin = cuda::makeEvent(driver, cuda::CU_EVENT_DEFAULT);
    auto end = cuda::makeEvent(driver, cuda::CU_EVENT_DEFAULT);
    Error error =
        llvm::joinErrors(stream.takeError(), llvm::joinErrors(begin.takeError(), end.takeError()));
    if (error)
      return error;
    streams.push_back(stream->get());
    lanes.push_back({std::move(*stream), std::move(*begin), std::move(*end)});
  }
  return Error::success();
}

Error CudaLoop::open(const std::vector<Lengths> &sizes) {
  if (Error error = openLanes())
    return error;
  for (size_t r = 0; r < ranks.size(); ++r) {
    int64_t first = 0, second = 0;
    for (const Lengths &size : sizes) {
      const int64_t in = workload.inElements(ranks[r], size) * workload.elementBytes();
      const int64_t out = workload.outElements(ranks[r], size) * workload.elementBytes();
      first = std::max({first, in, options.inPlace ? out : 0});
      second = std::max(second, options.outOfPlace ? out : 0);
    }
    auto scope = cuda::ContextScope::enter(driver, contextOf(r));
    if (!scope)
      return scope.takeError();
    for (auto [row, bytes] : {std::pair(&rows[r].first, first), {&rows[r].second, second}}) {
      row->host = GuardedBuffer(bytes);
      auto memory = cuda::allocate(driver, size_t(bytes + 2 * GuardedBuffer::guardBytes));
      if (!memory)
        return memory.takeError();
      row->memory = std::move(*memory);
    }
  }
  return Error::success();
}

Error CudaLoop::run(const std::vector<Lengths> &sizes, const std::function<void()> &onFirstResult,
                    const std::function<void(const Measurement &)> &report) {
  bool first = true;
  for (const Lengths &size : sizes)
    for (bool inPlace : {false, true}) {
      if (!(inPlace ? options.inPlace : options.outOfPlace))
        continue;
      Measurement found;
      if (Error error = runForm(size, inPlace, found))
        return error;
      if (std::exchange(first, false))
        onFirstResult();
      report(found);
    }
  return Error::success();
}

/// See RankLoop::place in Measure.cpp: the same rows, on GPUs.
void CudaLoop::place(const Lengths &size, bool inPlace) {
  lengths = size;
  stated.clear();
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t rank = ranks[r];
    if (lengths.isUneven())
      stated.push_back(lengths.stated(rank));
    RankRows &row = rows[r];
    const int64_t element = workload.elementBytes();
    const int64_t in = workload.inElements(rank, lengths) * element;
    const int64_t out = workload.outElements(rank, lengths) * element;
    auto on = [&](const MirroredRow &mirrored, const char *host) {
      return reinterpret_cast<char *>(mirrored.device() +
                                      cuda::CUdeviceptr(host - mirrored.host.data()));
    };
    if (inPlace) {
      char *data = row.first.place(std::max(in, out));
      row.in = data + workload.inOffset(rank, lengths) * element;
      row.out = data + workload.outOffset(rank, lengths) * element;
      args[r] = {on(row.first, row.in), on(row.first, row.out)};
    } else {
      row.in = row.first.place(in);
      row.out = row.second.place(out);
      args[r] = {on(row.first, row.in), on(row.second, row.out)};
    }
  }
}

Error CudaLoop::copy(RankRows &rank, size_t number, bool inPlace, bool toDevice) {
  const cuda::CUstream stream = streams[group.deviceOf(ranks[number])];
  auto scope = cuda::ContextScope::enter(driver, contextOf(number));
  if (!scope)
    return scope.takeError();
  for (MirroredRow *row : {&rank.first, inPlace ? nullptr : &rank.second}) {
    if (!row)
      continue;
    const cuda::CUresult result =
        toDevice
            ? driver.cuMemcpyHtoDAsync_v2(row->memory.get(), row->begin(), row->total(), stream)
            : driver.cuMemcpyDtoHAsync_v2(row->begin(), row->memory.get(), row->total(), stream);
    if (Error error = driver.check(result, "copy {} bytes of rank {}", row->total(), ranks[number]))
      return error;
  }
  return Error::success();
}

Error CudaLoop::prepare(bool inPlace) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    (inPlace ? rows[r].first : rows[r].second).host.poison();
    workload.fill(ranks[r], round, 0, workload.inElements(ranks[r], lengths),
                  const_cast<char *>(rows[r].in));
    if (Error error = copy(rows[r], r, inPlace, /*toDevice=*/true))
      return error;
  }
  return wait();
}

Error CudaLoop::launchOnce() {
  cuda::CudaLaunchOptions launching;
  launching.count = lengths.count();
  launching.uneven = stated;
  launching.streams = streams;
  launching.timeout = options.timeout;
  launching.microBatches = options.microBatches;
  return group.launch(program, args, launching);
}

Error CudaLoop::launch() {
  if (!replay)
    return launchOnce();
  auto scope = cuda::ContextScope::enter(driver, group.context(0));
  if (!scope)
    return scope.takeError();
  return driver.check(driver.cuGraphLaunch(replay.get(), streams.front()), "launch a graph");
}

Error CudaLoop::capture(int64_t launches) {
  replay.reset();
  graph.reset();
  if (launches == 0)
    return Error::success();
  const cuda::CUcontext context = group.context(0);
  auto scope = cuda::ContextScope::enter(driver, context);
  if (!scope)
    return scope.takeError();
  if (Error error = driver.check(driver.cuStreamBeginCapture_v2(
                                     streams.front(), cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                                 "capture a stream"))
    return error;
  Error error = Error::success();
  for (int64_t i = 0; i < launches && !error; ++i)
    error = launchOnce();
  cuda::CUgraph captured = nullptr;
  error = llvm::joinErrors(
      std::move(error),
      driver.check(driver.cuStreamEndCapture(streams.front(), &captured), "end a capture"));
  if (captured)
    graph = cuda::Graph(driver, context, captured);
  if (error)
    return error;
  cuda::CUgraphExec executable = nullptr;
  if (Error e = driver.check(driver.cuGraphInstantiateWithFlags(&executable, captured, 0),
                             "instantiate a graph"))
    return e;
  replay = cuda::GraphExec(driver, context, executable);
  return Error::success();
}

Error CudaLoop::wait() {
  for (size_t d = 0; d < lanes.size(); ++d) {
    auto scope = cuda::ContextScope::enter(driver, group.context(d));
    if (!scope)
      return scope.takeError();
    if (Error error = driver.check(driver.cuStreamSynchronize(streams[d]), "wait for GPU {}", d))
      return error;
  }
  return group.synchronize();
}

Error CudaLoop::time(int64_t launches, double &us) {
  auto record = [&](cuda::Event Lane::*event) -> Error {
    for (size_t d = 0; d < lanes.size(); ++d) {
      auto scope = cuda::ContextScope::enter(driver, group.context(d));
      if (!scope)
        return scope.takeError();
      if (Error error = driver.check(driver.cuEventRecord((lanes[d].*event).get(), streams[d]),
                                     "record an event"))
        return error;
    }
    return Error::success();
  };
  if (Error error = record(&Lane::begin))
    return error;
  for (int64_t i = 0; i < launches; ++i)
    if (Error error = launch())
      return error;
  if (Error error = record(&Lane::end))
    return error;
  if (Error error = wait())
    return error;
  us = 0;
  for (size_t d = 0; d < lanes.size(); ++d) {
    auto scope = cuda::ContextScope::enter(driver, group.context(d));
    if (!scope)
      return scope.takeError();
    float ms = 0;
    if (Error error =
            driver.check(driver.cuEventElapsedTime(&ms, lanes[d].begin.get(), lanes[d].end.get()),
                         "read a time"))
      return error;
    us = std::max(us, double(ms) * 1e3);
  }
  us /= double(std::max<int64_t>(launches, 1)) *
        double(std::max<int64_t>(replay ? cudaOptions.graphLaunches : 1, 1));
  return slowest(us);
}

/// How many launches follow depends on it, so all processes have to have the same.
Error CudaLoop::slowest(double &us) {
  if (!group.processes())
    return Error::success();
  auto all = group.processes()->host().exchange({std::bit_cast<uint64_t>(us)}, options.timeout);
  if (!all)
    return all.takeError();
  for (const Member::Words &there : *all)
    us = std::max(us, std::bit_cast<double>(there[0]));
  return Error::success();
}

Error CudaLoop::sumUp(int64_t &wrong) {
  if (!group.processes())
    return Error::success();
  auto all = group.processes()->host().exchange({uint64_t(wrong)}, options.timeout);
  if (!all)
    return all.takeError();
  wrong = 0;
  for (const Member::Words &there : *all)
    wrong += int64_t(there[0]);
  return Error::success();
}

Error CudaLoop::check(bool inPlace, int64_t &wrong) {
  ++round;
  if (Error error = prepare(inPlace))
    return error;
  if (Error error = launch())
    return error;
  if (Error error = wait())
    return error;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (Error error = copy(rows[r], r, inPlace, /*toDevice=*/false))
      return error;
  if (Error error = wait())
    return error;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t rank = ranks[r];
    const RankRows &row = rows[r];
    wrong += workload.countWrong(rank, round, lengths, row.out) +
             row.first.host.countDamaged(workload.elementBytes());
    if (!inPlace)
      wrong += row.second.host.countDamaged(workload.elementBytes()) +
               workload.countChanged(rank, round, workload.inElements(rank, lengths), row.in);
  }
  return Error::success();
}

int64_t CudaLoop::sizeOfLargerRow() const {
  if (!lengths.isUneven())
    return sizeInBytes(workload.contract(), lengths.count(), workload.elementBytes());
  int64_t elements = 0;
  for (int64_t r = 0; r < group.ranks(); ++r)
    elements =
        std::max({elements, workload.inElements(r, lengths), workload.outElements(r, lengths)});
  return elements * workload.elementBytes();
}

Error CudaLoop::runForm(const Lengths &size, bool inPlace, Measurement &found) {
  place(size, inPlace);
  if (Error error = prepare(inPlace))
    return error;
  // Memory that a launch needs is there before it is captured.
  replay.reset();
  double coldUs = 0;
  if (Error error = time(1, coldUs))
    return error;
  if (std::exchange(isFirst, false) && cudaOptions.onFirstLaunch)
    cudaOptions.onFirstLaunch();
  if (Error error = capture(cudaOptions.graphLaunches))
    return error;
  int64_t warmup = options.warmup;
  if (warmup < 0)
    warmup = launchesWithin(warmupBudgetUs, coldUs, defaultWarmup);
  found = Measurement{size, sizeOfLargerRow(), inPlace, coldUs, 0};
  if (warmup > 0)
    if (Error error = time(warmup, found.us))
      return error;
  int64_t iterations = options.iterations;
  if (iterations < 0)
    iterations = launchesWithin(iterationBudgetUs, found.us, defaultIterations);
  if (iterations > 0)
    if (Error error = time(iterations, found.us))
      return error;
  // In place the second of two launches has another input.
  if (cudaOptions.graphLaunches > 1)
    if (Error error = capture(1))
      return error;
  for (int64_t c = 0; c < options.checks; ++c)
    if (Error error = check(inPlace, found.wrong))
      return error;
  return sumUp(found.wrong);
}

Error measureCuda(cuda::CudaGroup &group, const Driver &driver,
                  const std::shared_ptr<cuda::LoadedCudaProgram> &program, const Workload &workload,
                  const std::vector<Lengths> &sizes, const MeasureOptions &options,
                  const CudaMeasureOptions &cudaOptions, const std::function<void()> &onFirstResult,
                  const std::function<void(const Measurement &)> &report) {
  CudaLoop loop(group, driver, program, workload, options, cudaOptions);
  if (Error error = loop.open(sizes))
    return error;
  return loop.run(sizes, onFirstResult, report);
}

} // namespace ccl::cli
