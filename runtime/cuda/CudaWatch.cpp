//===- CudaWatch.cpp --------------------------------------------------------===//
#include "runtime/cuda/CudaWatch.h"

#include <system_error>

namespace ccl::cuda {

/// How late a kernel may hear of a failure.
constexpr Milliseconds interval{5};

llvm::Expected<std::unique_ptr<CudaWatch>> CudaWatch::start(Member &member, Control *control,
                                                            std::function<void()> onTimeout,
                                                            Milliseconds timeout) {
  std::unique_ptr<CudaWatch> watch(new CudaWatch(member, control, std::move(onTimeout)));
  llvm::Expected<SymmetricBuffer> buffer = member.allocate(sizeof(Shown), timeout);
  if (!buffer)
    return buffer.takeError();
  new (buffer->local) Shown;
  for (void *there : buffer->peers)
    watch->shown.push_back(static_cast<Shown *>(there));
  // Nobody looks before all have made theirs.
  if (auto met = member.exchange({}, timeout); !met)
    return met.takeError();
  try {
    watch->thread = std::thread([raw = watch.get()] { raw->run(); });
  } catch (const std::system_error &e) {
    return makeFailure(Failure::Machine, "rank {}: cannot start a thread: {}", member.rank(),
                       e.what());
  }
  return watch;
}

CudaWatch::~CudaWatch() { end(); }

void CudaWatch::end() {
  stop.store(true);
  if (thread.joinable())
    thread.join();
}

void CudaWatch::run() {
  while (!stop.load()) {
    look();
    std::this_thread::sleep_for(interval);
  }
}

void CudaWatch::look() {
  const auto me = size_t(member.rank());
  Shown &mine = *shown[me];
  bool over = member.failure().has_value();
  for (size_t r = 0; r < shown.size(); ++r)
    over |= r != me && shown[r]->gaveUp.load(std::memory_order_acquire) != 0;
  if (over)
    __atomic_store_n(&control->abort, 1u, __ATOMIC_RELEASE);
  FailureReport &report = reports()[me];
  if (mine.written.load(std::memory_order_relaxed) == 0 &&
      __atomic_load_n(&report.written, __ATOMIC_ACQUIRE) != 0) {
    mine.report = report; // without the words that other blocks still look at
    mine.written.store(1, std::memory_order_release);
  }
  if (!told && __atomic_load_n(&control->failure.written, __ATOMIC_ACQUIRE) != 0) {
    told = true;
    // The others' kernels end, and say whom they waited for.
    mine.gaveUp.store(1, std::memory_order_release);
    onTimeout();
  }
}

const WaitReport *CudaWatch::reportOf(int64_t rank) const {
  if (rank == member.rank()) {
    const FailureReport &report = reports()[rank];
    return __atomic_load_n(&report.written, __ATOMIC_ACQUIRE) != 0 ? &report : nullptr;
  }
  const Shown &there = *shown[size_t(rank)];
  return there.written.load(std::memory_order_acquire) != 0 ? &there.report : nullptr;
}

void CudaWatch::settle() const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  auto isOver = [&] {
    return __atomic_load_n(&control->abort, __ATOMIC_ACQUIRE) != 0 ||
           __atomic_load_n(&control->failure.written, __ATOMIC_ACQUIRE) != 0;
  };
  while (isOver() && !member.failure() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(1));
}

} // namespace ccl::cuda
