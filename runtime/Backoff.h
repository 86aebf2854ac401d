//===- Backoff.h - How a rank waits for another -----------------------------===//
//
// Spin, then yield, then sleep. Ranks may outnumber cores: whoever is waited for
// might need the core that the waiter spins on, so spinning is short, and shorter
// still when it cannot help.
//===----------------------------------------------------------------------===//
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ccl {

inline void relaxCpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

class Backoff {
public:
  /// `crowded`: more ranks than cores.
  explicit Backoff(bool crowded) : spinsLeft(crowded ? 4 : 1000) {}

  /// Lets a moment pass. True about once in a few microseconds or less often: then it is
  /// worth reading the clock and the abort word.
  bool pause() {
    if (spinsLeft > 0) {
      relaxCpu();
      return --spinsLeft == 0;
    }
    if (yieldsLeft > 0) {
      sched_yield();
      return --yieldsLeft % 8 == 0;
    }
    timespec duration{0, sleepNanoseconds};
    nanosleep(&duration, nullptr);
    sleepNanoseconds = std::min(2 * sleepNanoseconds, long(100'000));
    return true;
  }

private:
  int spinsLeft;
  int yieldsLeft = 100;
  long sleepNanoseconds = 1000;
};

using Clock = std::chrono::steady_clock;

} // namespace ccl
