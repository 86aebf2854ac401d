//===- Timer.h - Where the time goes ------------------------------------------===//
#pragma once

#include <chrono>

namespace ccl {

/// Adds the time that it lives to a figure in milliseconds.
class Timer {
public:
  explicit Timer(double &ms) : ms(ms), start(std::chrono::steady_clock::now()) {}
  ~Timer() {
    ms +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

private:
  double &ms;
  std::chrono::steady_clock::time_point start;
};

} // namespace ccl
