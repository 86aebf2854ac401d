//===- WireFailure.h - The first thing that went wrong on a wire -------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/rdma/Nic.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace ccl::rdma {

/// Any thread may call any function.
class WireFailure {
public:
  /// Only the first one is kept.
  template <typename... T>
  void raise(int64_t culprit, fmt::format_string<T...> format, T &&...values) {
    const std::lock_guard lock(mutex);
    if (!error)
      error.emplace(Failure::Machine, fmt::format(format, std::forward<T>(values)...), culprit);
    failed.store(true, std::memory_order_release);
  }
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }
  std::optional<RuntimeError> get() {
    const std::lock_guard lock(mutex);
    return error;
  }

private:
  std::mutex mutex;
  std::optional<RuntimeError> error;
  std::atomic<bool> failed{false};
};

/// "rxe0 (port 1, GID 1)".
inline std::string describePort(const NicFacts &facts) {
  return fmt::format("{} (port {}, GID {})", facts.device, facts.port, facts.gidIndex);
}

} // namespace ccl::rdma
