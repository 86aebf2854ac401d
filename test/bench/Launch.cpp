//===- Launch.cpp - What a launch on GPUs costs the host ------------------------===//
//
// `./dev bench launch`, on the stand-in for CUDA's driver. Each line is a communicator, a program
// and what changes from launch to launch:
//
//   ours       of a launch, with a driver all of whose functions that launches call do nothing:
//              what is left is our own
//   calls      of the driver in it
//   peer       an empty kernel launched by the stand-in's driver, and nothing else
//   ours/peer  of one run
//   launch     all of it with the stand-in's driver, of that empty kernel instead of the program's
//
// In nanoseconds, the median of rounds. A known kind is launched: the first of each is not timed.

#include "codegen/cuda/ShimCompile.h"
#include "runtime/bootstrap/Star.h"
#include "runtime/cuda/CudaMember.h"
#include "test/unit/cuda/group/Programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sys/wait.h>
#include <unistd.h>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

constexpr int rounds = 15, launchesPerRound = 2000, bufferSets = 64;
constexpr int64_t count = 16;

/// What changes from one launch to the next.
enum class Change { Nothing, Two, All };

//===----------------------------------------------------------------------===//
// Drivers
//===----------------------------------------------------------------------===//

int64_t calls = 0;
CUcontext current = nullptr;
const Driver *real = nullptr;
CUfunction emptyKernel = nullptr;

/// The stand-in's, but for what launches call: that only counts.
Driver makeIdle(const Driver &driver) {
  Driver idle(driver);
  idle.cuCtxGetCurrent = [](CUcontext *context) {
    return ++calls, *context = current, CUDA_SUCCESS;
  };
  idle.cuCtxSetCurrent = [](CUcontext context) { return ++calls, current = context, CUDA_SUCCESS; };
  idle.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode *) {
    return ++calls, CUDA_SUCCESS;
  };
  idle.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus *status) {
    return ++calls, *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
  };
  idle.cuPointerGetAttribute = [](void *value, CUpointer_attribute, CUdeviceptr) {
    return ++calls, *static_cast<int *>(value) = 1, CUDA_SUCCESS;
  };
  idle.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return ++calls, CUDA_SUCCESS; };
  idle.cuEventRecord = [](CUevent, CUstream) { return ++calls, CUDA_SUCCESS; };
  idle.cuEventQuery = [](CUevent) { return ++calls, CUDA_SUCCESS; };
  idle.cuEventSynchronize = [](CUevent) { return ++calls, CUDA_SUCCESS; };
  idle.cuStreamSynchronize = [](CUstream) { return ++calls, CUDA_SUCCESS; };
  idle.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void *, size_t, CUstream) {
    return ++calls, CUDA_SUCCESS;
  };
  idle.cuLaunchCooperativeKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, CUstream,
                                      void **) { return ++calls, CUDA_SUCCESS; };
  return idle;
}

CUresult launchEmpty(CUstream stream) {
  return real->cuLaunchCooperativeKernel(emptyKernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr);
}

/// The stand-in's with an empty kernel in place of every other.
Driver makeEmpty(const Driver &driver) {
  Driver empty(driver);
  empty.cuLaunchCooperativeKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                       unsigned, unsigned, CUstream stream,
                                       void **) { return launchEmpty(stream); };
  return empty;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

void check(llvm::Error error) {
  if (!error)
    return;
  fmt::print(stderr, "{}\n", llvm::toString(std::move(error)));
  _exit(1);
}

/// Launches number i of what is measured.
using Launch = llvm::function_ref<llvm::Error(int64_t i)>;

double nanosecondsEach(int64_t &next, Launch launch) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launchesPerRound; ++i)
    check(launch(next++));
  return double(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count()) /
         launchesPerRound;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Result {
  double ours = 0, calls = 0, launch = 0, peer = 0;
  void print(std::string_view what, int64_t ranks, const Plan &plan, Change change) const {
    constexpr std::string_view names[] = {"nothing", "two sets", "all new"};
    fmt::print("{:<7} {:>5} {:<18} {:<9} {:>7.0f} {:>6.1f} {:>8.0f} {:>10.2f} {:>8.0f}\n", what,
               ranks, plan.program, names[size_t(change)], ours, calls, peer, ours / peer, launch);
  }
};

/// Buffers of one rank; set s begins s elements later.
struct Memory {
  DeviceMemory in, out;
};

int64_t setOf(Change change, int64_t i) {
  return change == Change::Nothing ? 0 : change == Change::Two ? i % 2 : i % bufferSets;
}

CudaLaunchArgs argsOf(const Memory &memory, Change change, int64_t i) {
  // Sets of "all new" differ in every combination for so long that none is known.
  const int64_t in = setOf(change, i), out = change == Change::All ? i / bufferSets % 4096 : in;
  return {pointerTo<int32_t>(memory.in.get()) + in, pointerTo<int32_t>(memory.out.get()) + out};
}

Memory makeMemory(const Driver &driver, int64_t ranks) {
  const auto bytes = size_t(4 * (ranks * count + 4096));
  return {llvm::cantFail(allocate(driver, bytes)), llvm::cantFail(allocate(driver, bytes))};
}

/// `launch` uses a communicator of `idle`, then one of `empty`.
Result measure(Launch idle, Launch empty, llvm::function_ref<void()> settle, CUstream stream) {
  Result result;
  std::vector<double> ours, whole, peer;
  int64_t first = 0, second = 0, third = 0;
  nanosecondsEach(first, idle); // the first of its kind, and what warms up
  nanosecondsEach(second, empty);
  settle();
  calls = 0;
  for (int r = 0; r < rounds; ++r)
    ours.push_back(nanosecondsEach(first, idle));
  result.calls = double(calls) / rounds / launchesPerRound;
  for (int r = 0; r < rounds; ++r) {
    whole.push_back(nanosecondsEach(second, empty));
    settle();
    peer.push_back(nanosecondsEach(third, [&](int64_t) {
      return real->check(launchEmpty(stream), "launch an empty kernel");
    }));
    real->cuStreamSynchronize(stream);
  }
  result.ours = median(ours);
  result.launch = median(whole);
  result.peer = median(peer);
  return result;
}

struct Tools {
  Tools() : driver(shim()), idle(makeIdle(driver)), empty(makeEmpty(driver)) {
    real = &driver;
    context = llvm::cantFail(PrimaryContext::retain(driver, 0));
    check(driver.check(driver.cuCtxSetCurrent(context.get()), "enter GPU 0"));
    current = context.get();
    stream = llvm::cantFail(makeStream(driver));
  }
  void loadEmpty(const std::string &image) {
    module = llvm::cantFail(loadModule(driver, image));
    emptyKernel = llvm::cantFail(findFunction(driver, module, "empty_kernel"));
  }
  const Driver &driver;
  Driver idle, empty;
  PrimaryContext context;
  Stream stream;
  Module module;
};

CudaLaunchOptions usualOptions() {
  CudaLaunchOptions options;
  options.count = count;
  return options;
}

void measureGroup(Tools &tools, const Plan &plan, int64_t ranks, Change change) {
  auto idle = llvm::cantFail(CudaGroup::create(tools.idle, ranks, {0}));
  auto empty = llvm::cantFail(CudaGroup::create(tools.empty, ranks, {0}));
  const Program one = llvm::cantFail(LoadedCudaProgram::load(tools.idle, plan)),
                other = llvm::cantFail(LoadedCudaProgram::load(tools.empty, plan));
  std::vector<Memory> memory;
  for (int64_t r = 0; r < ranks; ++r)
    memory.push_back(makeMemory(tools.driver, ranks));
  std::vector<CudaLaunchArgs> args{size_t(ranks)};
  const CudaLaunchOptions options = usualOptions();
  auto launch = [&](CudaGroup &group, const Program &program, int64_t i) {
    for (size_t r = 0; r < args.size(); ++r)
      args[r] = argsOf(memory[r], change, i);
    return group.launch(program, args, options);
  };
  measure([&](int64_t i) { return launch(*idle, one, i); },
          [&](int64_t i) { return launch(*empty, other, i); }, [&] { check(empty->synchronize()); },
          tools.stream.get())
      .print("group", ranks, plan, change);
}

/// What one of the processes does; all launch as often.
void measureMember(int64_t rank, int64_t ranks, bootstrap::Star &star, const Plan &plan,
                   const std::string &emptyImage, Change change) {
  JoinOptions join;
  join.rank = rank;
  join.ranks = ranks;
  join.sockets = star.keep(rank);
  Tools tools;
  tools.loadEmpty(emptyImage);
  auto host = llvm::cantFail(Member::join(join));
  auto second = llvm::cantFail(host->duplicate(defaultTimeout));
  auto last = llvm::cantFail(host->duplicate(defaultTimeout));
  auto idle = llvm::cantFail(CudaMember::join(tools.idle, std::move(host), 0));
  auto empty = llvm::cantFail(CudaMember::join(tools.empty, std::move(second), 0));
  const Program one = llvm::cantFail(LoadedCudaProgram::load(tools.idle, plan)),
                other = llvm::cantFail(LoadedCudaProgram::load(tools.empty, plan));
  const Memory memory = makeMemory(tools.driver, ranks);
  auto launch = [&](CudaMember &member, const Program &program, int64_t i) {
    const CudaLaunchArgs args = argsOf(memory, change, i);
    CudaMemberLaunch launch;
    launch.in = args.in;
    launch.out = args.out;
    launch.count = count;
    return member.launch(program, launch);
  };
  // All are there for the first of its kind; then the others keep out of the way.
  check(launch(*idle, one, 0));
  check(launch(*empty, other, 0));
  if (rank == 0)
    measure([&](int64_t i) { return launch(*idle, one, i); },
            [&](int64_t i) { return launch(*empty, other, i); },
            [&] { check(empty->synchronize()); }, tools.stream.get())
        .print("member", ranks, plan, change);
  auto met = last->exchange({}, std::chrono::minutes(5));
  if (!met)
    check(met.takeError());
  std::fflush(stdout);
}

/// Each rank in a process of its own, of which none has used CUDA before.
int measureMembers(const Plan &plan, const std::string &emptyImage, int64_t ranks, Change change) {
  bootstrap::Star star = llvm::cantFail(bootstrap::Star::make(ranks));
  std::vector<pid_t> children;
  std::fflush(stdout);
  for (int64_t r = 0; r < ranks; ++r) {
    children.push_back(fork());
    if (children.back() == 0) {
      measureMember(r, ranks, star, plan, emptyImage, change);
      _exit(0);
    }
  }
  star = bootstrap::Star();
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status;
  }
  return failed;
}

constexpr const char *emptyText = R"(#include <cstddef>
extern "C" __attribute__((visibility("default"))) int empty_kernel_shim(int, void **, unsigned, unsigned, size_t *) { return 0; }
)";

} // namespace

int main() {
  const std::string emptyImage =
      llvm::cantFail(llvm::cantFail(ShimCompiler::find("", "")).compile(emptyText));
  fmt::print("{:<7} {:>5} {:<18} {:<9} {:>7} {:>6} {:>8} {:>10} {:>8}\n", "", "ranks", "program",
             "changes", "ours", "calls", "peer", "ours/peer", "launch");
  const std::vector<Change> changes = {Change::Nothing, Change::Two, Change::All};
  for (const int64_t ranks : {1, 2})
    for (const Change change : changes)
      if (measureMembers(ringAllReduce({ranks}), emptyImage, ranks, change) != 0)
        return 1;
  Tools tools;
  tools.loadEmpty(emptyImage);
  for (const int64_t ranks : {1, 2, 8})
    for (const Change change : changes) {
      measureGroup(tools, ringAllReduce({ranks}), ranks, change);
      if (ranks > 1)
        measureGroup(tools, directAllGather({ranks}), ranks, change);
    }
  return 0;
}
