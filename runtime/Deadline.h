//===- Deadline.h - Calls that may never return ----------------------------------===//
#pragma once

#include <chrono>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace ccl {

/// What `body` returns, or nothing if that takes longer than `limit`. Then it goes on, on a
/// thread that is left behind: it must own all that it uses. Where there is no thread to be had it
/// is called without a limit.
template <typename T>
std::optional<T> within(std::chrono::milliseconds limit, const std::function<T()> &body) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable over;
    std::optional<T> result;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread thread;
  try {
    thread = std::thread([shared, body] {
      T result = body();
      const std::lock_guard lock(shared->mutex);
      shared->result.emplace(std::move(result));
      shared->over.notify_all();
    });
  } catch (const std::system_error &) {
    return std::optional<T>(body());
  }
  std::unique_lock lock(shared->mutex);
  if (!shared->over.wait_for(lock, limit, [&] { return shared->result.has_value(); })) {
    thread.detach();
    return std::nullopt;
  }
  lock.unlock();
  thread.join();
  return std::move(shared->result);
}

} // namespace ccl
