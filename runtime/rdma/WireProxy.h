//===- WireProxy.h - The thread that makes progress on a wire ----------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/bootstrap/Descriptor.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <vector>

namespace ccl::rdma {

/// While it is awake it works, yields and then sleeps for short times: what a program does wakes
/// nobody. Else it sleeps until a NIC has something, unless it has been awake just now: the next
/// launch mostly follows soon, and is not to pay for waking it.
class WireProxy {
public:
  class Work {
  public:
    virtual ~Work() = default;
    /// Whether anything happened.
    virtual bool work() = 0;
    /// Something else than the proxy has tried to work since the last call.
    virtual bool hadHelp() = 0;
    /// Asks the NICs to make descriptors readable; false: there is something to do at once.
    virtual bool prepareSleep() = 0;
    /// Nothing is to be done any more.
    virtual bool isOver() const = 0;
  };

  /// `descriptors`: readable when there is something to do. Error (Failure::Machine): no thread.
  static llvm::Expected<std::unique_ptr<WireProxy>> start(Work &work, std::vector<int> descriptors);
  /// Ends the thread.
  ~WireProxy();
  WireProxy(const WireProxy &) = delete;
  WireProxy &operator=(const WireProxy &) = delete;

  /// Any thread.
  void setAwake(bool awake);

private:
  WireProxy(Work &work, std::vector<int> descriptors)
      : work(work), descriptors(std::move(descriptors)) {}
  void run();
  void runAwake();
  void linger();
  void sleep();
  void ring();

  Work &work;
  const std::vector<int> descriptors;
  Descriptor bell;
  std::atomic<bool> awake{false}, asleep{false}, stopping{false};
  pthread_t thread{};
  bool isStarted = false;
};

} // namespace ccl::rdma
