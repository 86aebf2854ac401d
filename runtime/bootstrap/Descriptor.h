//===- Descriptor.h - Owns a file descriptor ---------------------------------===//
#pragma once

#include <unistd.h>

#include <utility>

namespace ccl {

class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    if (this != &other) {
      reset();
      number = std::exchange(other.number, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }
  void reset() {
    if (number >= 0)
      ::close(std::exchange(number, -1));
  }
  int release() { return std::exchange(number, -1); }

private:
  int number = -1;
};

} // namespace ccl
