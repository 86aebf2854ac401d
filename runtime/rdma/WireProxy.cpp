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
  // With sleep(): one of both sees what the other has stored.
  awake.store(value, std::memory_order_seq_cst);
  if (value && asleep.load(std::memory_order_seq_cst))
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
    if (work.isOver() || !awake.load(std::memory_order_acquire)) {
      sleep();
      continue;
    }
    runAwake();
    linger();
  }
}

static void nap() {
  const timespec duration{0, 100'000};
  nanosleep(&duration, nullptr);
}

void WireProxy::runAwake() {
  Backoff backoff;
  while (awake.load(std::memory_order_acquire) && !stopping.load(std::memory_order_acquire) &&
         !work.isOver()) {
    if (work.hadHelp())
      nap(); // Somebody else is at it, who needs the processor more.
    else if (work.work())
      backoff = Backoff();
    else
      backoff.pause();
  }
}

void WireProxy::linger() {
  constexpr int mostNaps = 20;
  for (int i = 0; i < mostNaps && !awake.load(std::memory_order_acquire) &&
                  !stopping.load(std::memory_order_acquire) && !work.isOver();
       ++i) {
    work.work();
    nap();
  }
}

void WireProxy::sleep() {
  asleep.store(true, std::memory_order_seq_cst);
  std::vector<pollfd> polled{{bell.get(), POLLIN, 0}};
  bool isReady = awake.load(std::memory_order_seq_cst) && !work.isOver();
  if (!isReady && !work.isOver()) {
    isReady = !work.prepareSleep();
    for (int descriptor : descriptors)
      polled.push_back({descriptor, POLLIN, 0});
  }
  if (!isReady)
    ::poll(polled.data(), polled.size(), -1);
  asleep.store(false, std::memory_order_relaxed);
  uint64_t rings = 0;
  if (polled[0].revents) [[maybe_unused]]
    const ssize_t got = read(bell.get(), &rings, sizeof rings);
}

} // namespace ccl::rdma
