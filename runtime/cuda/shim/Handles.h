//===- Handles.h - Objects that a caller names ----------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace ccl::cuda::shim {

/// No handle is given out twice, whatever it names, so that a stale one is found out.
inline uintptr_t nextHandle() {
  static std::atomic<uintptr_t> next{0x1000};
  return next.fetch_add(0x10, std::memory_order_relaxed);
}

template <typename Handle, typename T>
class Handles {
public:
  Handle add(std::shared_ptr<T> object) {
    const uintptr_t handle = nextHandle();
    std::lock_guard lock(mutex);
    objects.emplace(handle, std::move(object));
    return (Handle)handle;
  }
  /// Null if there is none.
  std::shared_ptr<T> find(Handle handle) const {
    std::lock_guard lock(mutex);
    auto found = objects.find((uintptr_t)handle);
    return found == objects.end() ? nullptr : found->second;
  }
  /// It has no handle any more.
  std::shared_ptr<T> take(Handle handle) {
    std::lock_guard lock(mutex);
    auto found = objects.find((uintptr_t)handle);
    if (found == objects.end())
      return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects.erase(found);
    return object;
  }
  /// Takes all that `which` is true of.
  template <typename Predicate>
  void takeAll(Predicate which) {
    std::unordered_map<uintptr_t, std::shared_ptr<T>> gone; // ends after the lock
    std::lock_guard lock(mutex);
    for (auto it = objects.begin(); it != objects.end();) {
      auto next = std::next(it);
      if (which(*it->second))
        gone.insert(objects.extract(it));
      it = next;
    }
  }

private:
  mutable std::mutex mutex;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects;
};

} // namespace ccl::cuda::shim
