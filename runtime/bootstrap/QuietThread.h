//===- QuietThread.h - Threads of ours in an application ---------------------------===//
#pragma once

#include <pthread.h>

#include <csignal>

namespace ccl::bootstrap {

/// Starts body(state) on a thread with all signals blocked: they are the application's. 0, or an
/// errno.
inline int startQuietThread(pthread_t &thread, void *(*body)(void *), void *state) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, nullptr, body, state);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

} // namespace ccl::bootstrap
