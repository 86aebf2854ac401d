//===- FailureTest.cpp - Processes that end, stop and differ ----------------------------===//
#include "test/unit/cuda/member/Processes.h"

#include <csignal>
#include <thread>
#include <unistd.h>

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Launches a sum of `count` over and over until something goes wrong, and says what.
std::string sumUntilFailure(Process &process, const Plan &plan, int64_t count, Milliseconds timeout,
                            int64_t launches = 1 << 20) {
  const Program program = load(plan);
  const auto elements = size_t(std::max<int64_t>(count, 1));
  Buffer in(shim(), process.device(), elements), out(shim(), process.device(), elements);
  CudaMemberLaunch launch;
  launch.in = in.data();
  launch.out = out.data();
  launch.count = count;
  launch.timeout = timeout;
  for (int64_t i = 0; i < launches; ++i)
    if (std::string error = process.run(program, launch); !error.empty())
      return error;
  return "";
}

/// Ranks that all say what they have seen, and leave nothing.
struct Seen {
  std::vector<std::string> texts;
  Seen(int64_t ranks, const std::function<std::string(Process &)> &body,
       CudaGroupOptions options = {}) {
    Processes processes(
        ranks,
        [&](Process &process) {
          const std::string seen = body(process);
          // It is dead, and says why.
          const std::optional<RuntimeError> failure = process.member->failure();
          process.complaint.unless(seen.empty() || (failure && failure->message == seen),
                                   "the failure is '{}', not '{}'", failure ? failure->message : "",
                                   seen);
          process.member.reset();
          std::string text = process.complaint.text.empty() ? seen : process.complaint.text;
          process.complaint.text = text.empty() ? "nothing" : text;
        },
        options);
    texts = processes.texts();
  }
};

} // namespace

TEST_CASE("a process that is killed while kernels wait for it") {
  const int64_t n = 4;
  const Plan plan = ringAllReduce({n});
  const Seen seen(n, [&](Process &process) {
    if (process.rank != 1)
      return sumUntilFailure(process, plan, 4099, Milliseconds(20000));
    sumUntilFailure(process, plan, 4099, Milliseconds(20000), 20);
    kill(getpid(), SIGKILL);
    return std::string();
  });
  CHECK(seen.texts[1] == "ended by signal 9");
  for (const size_t r : {0, 2, 3}) {
    CAPTURE(r);
    CHECK(contains(seen.texts[r], "rank 1"));
    CHECK(contains(seen.texts[r], "ended"));
    CHECK(seen.texts[r] == seen.texts[0]);
  }
}

TEST_CASE("a rank that launches less than the others") {
  const int64_t n = 3;
  const Plan plan = ringAllReduce({n});
  const auto begin = std::chrono::steady_clock::now();
  const Seen seen(n, [&](Process &process) {
    if (process.rank != 2)
      return sumUntilFailure(process, plan, 100, Milliseconds(1500));
    const std::string error = sumUntilFailure(process, plan, 100, Milliseconds(1500), 5);
    while (!process.member->failure())
      std::this_thread::sleep_for(Milliseconds(5));
    return error.empty() ? process.member->failure()->message : error;
  });
  for (const std::string &text : seen.texts) {
    CHECK(contains(text, "timed out after 1500 ms in launch 6 of ring_all_reduce"));
    CHECK(contains(text, "rank 2 waits for nobody"));
    CHECK(text == seen.texts[0]);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("a process that is stopped") {
  const int64_t n = 3;
  const Plan plan = ringAllReduce({n});
  Processes processes(n, [&](Process &process) {
    if (process.rank == 1) {
      sumUntilFailure(process, plan, 100, Milliseconds(1500), 5);
      kill(getpid(), SIGSTOP);
      process.complaint.unless(process.member->failure().has_value(), "it goes on");
      return;
    }
    const std::string error = sumUntilFailure(process, plan, 100, Milliseconds(1500));
    process.complaint.unless(
        contains(error, "timed out after 1500 ms in launch 6 of ring_all_reduce") &&
            contains(error, "; rank 1 (process ") && contains(error, ") has not run for ") &&
            contains(error, " ms: stopped?"),
        "{}", error);
    process.complaint.unless(process.member->failure()->culprit == 1, "culprit {}",
                             process.member->failure()->culprit);
  });
  CHECK(processes.children[0].text() == "");
  CHECK(processes.children[2].text() == "");
  kill(processes.children[1].pid(), SIGCONT);
  CHECK(processes.children[1].text() == "");
}

TEST_CASE("ranks that want different things") {
  const int64_t n = 3;
  const Plan sum = ringAllReduce({n}), gather = ringAllGather({n});
  const Seen counts(n, [&](Process &process) {
    return sumUntilFailure(process, sum, process.rank == 2 ? 65 : 64, Milliseconds(20000), 1);
  });
  for (const std::string &text : counts.texts)
    CHECK(text == "ranks 0 and 2 disagree on the count of ring_all_reduce (hash 0123abcd): 64 and "
                  "65");
  // Later, too: the first of another kind is compared.
  const Seen later(n, [&](Process &process) {
    std::string error = sumUntilFailure(process, sum, 64, Milliseconds(20000), 3);
    return error.empty()
               ? sumUntilFailure(process, sum, process.rank == 1 ? 80 : 81, Milliseconds(20000), 1)
               : error;
  });
  for (const std::string &text : later.texts)
    CHECK(contains(text, "ranks 0 and 1 disagree on the count"));
  const Seen programs(n, [&](Process &process) {
    return sumUntilFailure(process, process.rank == 1 ? gather : sum, 10, Milliseconds(20000), 1);
  });
  for (const std::string &text : programs.texts)
    CHECK(contains(text, "ranks 0 and 1 disagree on the program: "));
  const Seen operations(n, [&](Process &process) -> std::string {
    if (process.rank != 1)
      return sumUntilFailure(process, sum, 10, Milliseconds(20000), 1);
    auto buffer = process.member->allocate(1000);
    return buffer ? "it has memory" : llvm::toString(buffer.takeError());
  });
  for (const std::string &text : operations.texts)
    CHECK(text == "ranks 0 and 1 disagree on what they do: the first launch of a program and an "
                  "allocation");
  // Known kinds are compared only if that is asked for.
  CudaGroupOptions checked;
  checked.checked = true;
  const Seen known(
      n,
      [&](Process &process) {
        for (int64_t count : {64, 65})
          if (std::string error = sumUntilFailure(process, sum, count, Milliseconds(20000), 1);
              !error.empty())
            return error;
        return sumUntilFailure(process, sum, process.rank == 2 ? 65 : 64, Milliseconds(20000), 1);
      },
      checked);
  for (const std::string &text : known.texts)
    CHECK(contains(text, "ranks 0 and 2 disagree on the count"));
}

TEST_CASE("a rank without memory, and wrong arguments") {
  const int64_t n = 3;
  const Plan sum = ringAllReduce({n});
  const Seen full(n, [&](Process &process) -> std::string {
    std::vector<DeviceMemory> hogs;
    if (process.rank == 1) {
      const ContextScope scope =
          llvm::cantFail(ContextScope::enter(shim(), process.member->context()));
      for (size_t bytes = size_t(32) << 30; bytes >= size_t(64) << 20;)
        if (llvm::Expected<DeviceMemory> memory = cuda::allocate(shim(), bytes)) {
          hogs.push_back(std::move(*memory));
        } else {
          llvm::consumeError(memory.takeError());
          bytes /= 2;
        }
    }
    auto buffer = process.member->allocate(int64_t(1) << 30);
    return buffer ? "it has memory" : llvm::toString(buffer.takeError());
  });
  for (const std::string &text : full.texts) {
    CHECK(contains(text, "rank 1: cannot allocate "));
    CHECK(contains(text, "CUDA_ERROR_OUT_OF_MEMORY"));
  }
  const Seen huge(n, [&](Process &process) -> std::string {
    auto buffer = process.member->allocate(INT64_MAX);
    return buffer ? "it has memory" : llvm::toString(buffer.takeError());
  });
  for (const std::string &text : huge.texts)
    CHECK(contains(text, "cannot"));
  const Seen nothing(n, [&](Process &process) -> std::string {
    int here = 0;
    auto buffer = process.member->registerBuffer(&here, 4);
    return buffer ? "it is registered" : llvm::toString(buffer.takeError());
  });
  for (const std::string &text : nothing.texts)
    CHECK(contains(text, "it is not from CUDA"));
  const Seen aborted(n, [&](Process &process) -> std::string {
    if (process.rank != 0)
      return sumUntilFailure(process, sum, 64, Milliseconds(20000));
    sumUntilFailure(process, sum, 64, Milliseconds(20000), 5);
    process.member->abort("enough");
    return "enough";
  });
  for (const std::string &text : aborted.texts)
    CHECK(text == "enough");
}
