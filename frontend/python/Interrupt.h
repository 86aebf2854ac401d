//===- Interrupt.h - Ctrl-C while the library waits --------------------------------===//
//
// Python runs signal handlers in the main thread, between two of its instructions; a thread
// that waits in the library executes none. So, while the main thread waits:
//
// - `blocking` (every call of a communicator): SIGINT is caught on its way to Python, and a
//   thread of ours aborts the communicator, which ends the call. Only if Python's handler is
//   the usual one, which raises KeyboardInterrupt: an application with its own handler might
//   want to go on, and its handler runs when the call has returned.
// - `abandonable` (open, rebuild: nothing there yet to abort): the work happens in a thread
//   that nobody waits for after an exception of any signal handler; it ends with its
//   time-out.
// - `untilDone` looks for signals now and then.
// - `withoutGil` (what waits for nobody, compiling for example) is not interrupted.
//
// All are called with the GIL and do their work without it. Elsewhere than in the main thread
// they only do that.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/python/Errors.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace ccl::python {

/// From its constructor on SIGINT aborts the communicator.
class Interruptible {
public:
  /// Throws if a signal handler raises an exception right now.
  explicit Interruptible(std::shared_ptr<Communicator> communicator);
  Interruptible(const Interruptible &) = delete;
  ~Interruptible();

private:
  bool isArmed = false;
};

/// Lets signal handlers run; throws what they raise. Does nothing outside the main thread.
inline void runSignalHandlers() {
  if (PyErr_CheckSignals())
    throw py::error_already_set();
}

template <typename Body>
auto withoutGil(Body &&body) {
  py::gil_scoped_release release;
  return body();
}

template <typename Body>
auto blocking(const std::shared_ptr<Communicator> &communicator, Body &&body) {
  Interruptible guard(communicator);
  auto result = withoutGil(body);
  runSignalHandlers();
  return result;
}

constexpr std::chrono::milliseconds signalInterval(50);

/// `body` owns what it uses.
template <typename Body>
auto abandonable(Body body) -> decltype(body()) {
  std::packaged_task<decltype(body())()> task(std::move(body));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  while (true) {
    if (withoutGil([&] { return result.wait_for(signalInterval); }) == std::future_status::ready)
      return result.get();
    runSignalHandlers();
  }
}

/// Calls waitAtMost(milliseconds) until it returns true; false if the time-out goes by first
/// (0: none).
template <typename Wait>
bool untilDone(std::chrono::milliseconds timeout, Wait &&waitAtMost) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begun = Clock::now();
  while (true) {
    auto slice = signalInterval;
    if (timeout.count() > 0) {
      auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
      if (spent >= timeout)
        return false;
      slice = std::min(slice, timeout - spent);
    }
    if (withoutGil([&] { return waitAtMost(slice); }))
      return true;
    runSignalHandlers();
  }
}

} // namespace ccl::python
