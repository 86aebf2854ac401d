//===- Memory.h - Memory that the runtime owns ------------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace ccl {

/// No two counters share a line, and slots and scratch start on one.
inline constexpr size_t cacheLine = 64;

template <typename T>
constexpr T roundUp(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// What the system can still give without taking it from somebody; the largest number if it
/// does not say.
uint64_t availableMemory();

/// As much of `from` as there is room for, and zeros behind it, at least one.
template <size_t n>
void copyText(char (&to)[n], std::string_view from) {
  const size_t length = std::min(from.size(), n - 1);
  std::memcpy(to, from.data(), length);
  std::memset(to + length, 0, n - length);
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
