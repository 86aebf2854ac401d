//===- Threads.h - Threads that wait for work ------------------------------------===//
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ccl::cuda::shim {

/// As many threads as ever ran at once. They receive no signals and have small stacks.
class Threads {
public:
  /// Runs body(0) ... body(n - 1), each on a thread of its own, all at once, and does not wait
  /// for them. False if there are not so many threads: then none has started.
  bool start(unsigned n, std::function<void(unsigned)> body);
  /// Ends all threads. False if some still work after a while: those go on.
  bool stop();

private:
  struct Worker {
    Threads *all;
    pthread_t thread{};
    std::condition_variable wake;
    std::shared_ptr<const std::function<void(unsigned)>> body; ///< null: nothing to do
    unsigned index = 0;
  };
  static void *main(void *worker);
  bool spawn();

  std::mutex mutex;
  std::condition_variable becameIdle;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Worker *> idle;
  bool stopping = false;
};

} // namespace ccl::cuda::shim
