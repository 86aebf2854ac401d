//===- CudaWatch.h - Failures between kernels, and between processes -------------------===//
//
// A thread of each process of a communicator. It sees when the communicator has failed (a process
// that has ended, an error of another rank) and ends the kernels here, which wait for memory only;
// and it shows other processes why kernels here gave up, so that whoever was first can say who is
// to blame.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/plan/CudaAbi.h"

#include <atomic>
#include <functional>
#include <thread>

namespace ccl::cuda {

class CudaWatch {
public:
  /// Collective. `control`, with reports of all ranks behind it, outlives this.
  /// `onTimeout` is called once, on the thread of the watch, if kernels here gave up.
  static llvm::Expected<std::unique_ptr<CudaWatch>>
  start(Member &member, Control *control, std::function<void()> onTimeout, Milliseconds timeout);
  ~CudaWatch();
  /// Its thread does nothing any more once this has returned.
  void end();

  /// What a wait of `rank` waited for when it was over, if its process has said so yet. Any thread.
  const WaitReport *reportOf(int64_t rank) const;
  /// If kernels here were ended early: waits until the communicator knows why.
  void settle() const;

private:
  /// In memory that all processes reach.
  struct Shown {
    std::atomic<uint32_t> gaveUp{0}, written{0};
    WaitReport report;
  };
  CudaWatch(Member &member, Control *control, std::function<void()> onTimeout)
      : member(member), control(control), onTimeout(std::move(onTimeout)) {}
  void run();
  void look();
  FailureReport *reports() const { return reinterpret_cast<FailureReport *>(control + 1); }

  Member &member;
  Control *const control;
  const std::function<void()> onTimeout;
  std::vector<Shown *> shown; ///< by rank
  bool told = false;
  std::atomic<bool> stop{false};
  std::thread thread;
};

} // namespace ccl::cuda
