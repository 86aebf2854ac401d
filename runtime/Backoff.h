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
  /// Pauses before the first yield; a pause is some 10 to 50 ns.
  static constexpr int mostSpins = 1000, fewestSpins = 8;
  explicit Backoff(int spins = fewestSpins) : spinsLeft(spins) {}

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
  /// Whether spinning was enough so far.
  bool onlySpun() const { return spinsLeft > 0; }

private:
  int spinsLeft;
  int yieldsLeft = 100;
  long sleepNanoseconds = 1000;
};

/// How long to spin: less after spinning was in vain, as when another process has taken the
/// core of the rank that is waited for, more after it was enough.
class SpinBudget {
public:
  /// `crowded`: more ranks than cores.
  explicit SpinBudget(bool crowded) : most(crowded ? Backoff::fewestSpins : Backoff::mostSpins) {}
  int spins() const { return current; }
  void learn(const Backoff &wait) {
    current =
        wait.onlySpun() ? std::min(2 * current, most) : std::max(current / 2, Backoff::fewestSpins);
  }

private:
  int most, current = most;
};

using Clock = std::chrono::steady_clock;

} // namespace ccl
