//===- Interrupt.cpp --------------------------------------------------------===//
#include "frontend/python/Interrupt.h"

#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <mutex>

namespace ccl::python {
namespace {

/// Waits for the signal handler to post, and aborts what the main thread waits for. Never
/// destroyed: its thread may outlive everything.
class Watch {
public:
  /// Of this process; a fork has neither the thread nor, perhaps, a free mutex.
  static Watch &get() {
    static Watch *current = nullptr;
    static pid_t owner = 0;
    if (owner != getpid()) {
      current = new Watch;
      owner = getpid();
    }
    return *current;
  }

  void set(std::shared_ptr<Communicator> communicator) {
    std::lock_guard lock(mutex);
    waited = std::move(communicator);
  }

  /// In a signal handler.
  void wake() { sem_post(&posted); }

private:
  Watch() {
    sem_init(&posted, 0, 0);
    // Signals are for other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { work(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void work() {
    while (true) {
      while (sem_wait(&posted)) {
      }
      std::lock_guard lock(mutex);
      if (waited)
        waited->abort(fmt::format("rank {} was interrupted (SIGINT)", waited->rank()));
    }
  }

  sem_t posted;
  std::mutex mutex;
  std::shared_ptr<Communicator> waited;
};

// For the signal handler, which has no arguments of its own. Written by the main thread
// while the handler is not installed.
Watch *watch = nullptr;
struct sigaction pythons;

void onInterrupt(int signal, siginfo_t *info, void *context) {
  watch->wake();
  if (pythons.sa_flags & SA_SIGINFO)
    pythons.sa_sigaction(signal, info, context);
  else
    pythons.sa_handler(signal);
}

bool isMainThread() { return syscall(SYS_gettid) == getpid(); }

/// Whether Python answers SIGINT with a KeyboardInterrupt.
bool raisesKeyboardInterrupt() {
  // Not destroyed: at exit the interpreter is gone.
  // The module below `signal`, which would look for an enumerator first.
  static const py::handle signals = py::module_::import("_signal").release();
  static const py::handle getsignal = py::object(signals.attr("getsignal")).release();
  static const py::handle usual = py::object(signals.attr("default_int_handler")).release();
  return getsignal(int(SIGINT)).is(usual);
}

} // namespace

Interruptible::Interruptible(std::shared_ptr<Communicator> communicator) {
  if (!isMainThread() || !raisesKeyboardInterrupt())
    return;
  Watch &current = Watch::get();
  struct sigaction ours{};
  sigaction(SIGINT, nullptr, &pythons);
  if (pythons.sa_handler == SIG_IGN || pythons.sa_handler == SIG_DFL)
    return; // somebody bypassed Python
  watch = &current;
  ours.sa_sigaction = onInterrupt;
  ours.sa_flags = SA_SIGINFO | (pythons.sa_flags & (SA_ONSTACK | SA_RESTART));
  ours.sa_mask = pythons.sa_mask;
  current.set(std::move(communicator));
  sigaction(SIGINT, &ours, nullptr);
  isArmed = true;
  // One that came before would go unseen until the call returns.
  if (PyErr_CheckSignals()) {
    sigaction(SIGINT, &pythons, nullptr);
    current.set(nullptr);
    throw py::error_already_set();
  }
}

Interruptible::~Interruptible() {
  if (!isArmed)
    return;
  sigaction(SIGINT, &pythons, nullptr);
  watch->set(nullptr);
}

} // namespace ccl::python
