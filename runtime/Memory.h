//===- Memory.h - Memory that the runtime owns ------------------------------===//
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace ccl {

/// No two counters share a line, and slots and scratch start on one.
inline constexpr size_t cacheLine = 64;

template <typename T>
constexpr T roundUp(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Uninitialized bytes on a cache line boundary; pages are touched by their user.
class AlignedBuffer {
public:
  /// Makes room for `bytes`; what was in it is lost if it has to grow. False if
  /// there is no memory: the old buffer is then gone, too.
  bool reserve(size_t bytes) {
    if (bytes <= capacity)
      return true;
    // The old memory goes first: both at once might not fit.
    memory.reset();
    capacity = 0;
    memory.reset(
        static_cast<char *>(::operator new(bytes, std::align_val_t(cacheLine), std::nothrow)));
    if (!memory)
      return false;
    capacity = bytes;
    return true;
  }
  char *data() const { return memory.get(); }
  size_t size() const { return capacity; }

private:
  struct Free {
    void operator()(char *p) const { ::operator delete(p, std::align_val_t(cacheLine)); }
  };
  std::unique_ptr<char, Free> memory;
  size_t capacity = 0;
};

} // namespace ccl
