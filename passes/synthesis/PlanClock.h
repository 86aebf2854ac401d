//===- PlanClock.h - Where planning time goes ---------------------------------===//
#pragma once

#include <chrono>

namespace ccl {

/// Adds the seconds of its life to a sum.
class PlanClock {
public:
  explicit PlanClock(double &sum) : sum(sum) {}
  PlanClock(const PlanClock &) = delete;
  ~PlanClock() {
    sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  double &sum;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace ccl
