//===- WireProxy.cpp ----------------------------------------------------------===//
#include "runtime/rdma/WireProxy.h"

#include "runtime/Backoff.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace ccl::rdma {

llvm::Expected<std::unique_ptr<WireProxy>> WireProxy::start(Work &work,
                                                            std::vector<int> descriptors) {
  std::unique_ptr<WireProxy> proxy(new WireProxy(work, std::move(descriptors)));
  proxy->bell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!proxy->bell)
    return makeFailure(Failure::Machine, "cannot make an eventfd: {}", std::strerror(errno));
  // Signals are the application's: the thread starts with all of them blocked.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(
      &proxy->thread, nullptr,
      [](void *proxy) -> void * {
        static_cast<WireProxy *>(proxy)->run();
        return nullptr;
      },
      proxy.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    return makeFailure(Failure::Machine,
                       "cannot start the thread that serves channels to other hosts: {}",
                       std::strerror(error));
  proxy->isStarted = true;
  return proxy;
}

WireProxy::~WireProxy() {
  if (!isStarted)
    return;
  stopping.store(true, std::memory_order_release);
  ring();
  pthread_join(thread, nullptr);
}

void WireProxy::setAwake(bool value) {
  awake.store(value, std::memory_order_release);
  if (value)
    ring();
}

void WireProxy::ring() {
  const uint64_t one = 1;
  // Full or not: it is readable.
  [[maybe_unused]] const ssize_t written = write(bell.get(), &one, sizeof one);
}

void WireProxy::run() {
  pthread_setname_np(pthread_self(), "ccl-wire");
  while (!stopping.load(std::memory_order_acquire)) {
    if (awake.load(std::memory_order_acquire) && !work.isOver())
      runAwake();
    else
      sleep();
  }
}

void WireProxy::runAwake() {
  Backoff backoff;
  while (awake.load(std::memory_order_acquire) && !stopping.load(std::memory_order_acquire) &&
         !work.isOver()) {
    if (work.hadHelp()) {
      // Somebody else is at it, who needs the processor more.
      const timespec moment{0, 100'000};
      nanosleep(&moment, nullptr);
    } else if (work.work()) {
      backoff = Backoff();
    } else {
      backoff.pause();
    }
  }
}

void WireProxy::sleep() {
  std::vector<pollfd> polled{{bell.get(), POLLIN, 0}};
  if (!work.isOver()) {
    if (!work.prepareSleep())
      return;
    for (int descriptor : descriptors)
      polled.push_back({descriptor, POLLIN, 0});
  }
  ::poll(polled.data(), polled.size(), -1);
  uint64_t rings = 0;
  if (polled[0].revents) [[maybe_unused]]
    const ssize_t got = read(bell.get(), &rings, sizeof rings);
}

} // namespace ccl::rdma
