//===- Monitor.cpp ----------------------------------------------------------===//
#include "runtime/bootstrap/Monitor.h"

#include "runtime/bootstrap/Connection.h"
#include "runtime/bootstrap/Handles.h"
#include "runtime/bootstrap/QuietThread.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace ccl {

using bootstrap::Clock;

namespace {

/// A process closes its sockets a moment before it is seen to end.
constexpr Milliseconds patience{100};

/// What is known about the end of a process: ": killed by signal 9 (Killed)" if it is our
/// child and nobody has asked for its status yet, which stays there for who asks.
std::string describeEnd(int pidfd) {
  siginfo_t info{};
  if (waitid(idtype_t(P_PIDFD), id_t(pidfd), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return "";
  if (info.si_code == CLD_EXITED)
    return fmt::format(": exit status {}", info.si_status);
  return fmt::format(": killed by signal {} ({})", info.si_status, strsignal(info.si_status));
}

struct Watch {
  int64_t rank = 0;
  pid_t pid = 0;
  Descriptor pidfd, socket;
  bool isDone = false;
  bool isDeaf = false; ///< its socket says nothing any more
  std::optional<Clock::time_point> hungUp;
};

} // namespace

struct Monitor::State {
  Gone gone;
  Tick tick;
  std::vector<Watch> watches;
  Descriptor stop;
  pthread_t thread{};
  bool inChild = false;
  std::atomic<bool> stopping{false};
  std::atomic<bool> closedOwn{false}; ///< then an end of file says nothing of the peer

  void run();
  Clock::time_point look(Clock::time_point until);
  void readSocket(Watch &watch);
  void report(Watch &watch, const std::string &how);
};

void Monitor::State::report(Watch &watch, const std::string &how) {
  watch.isDone = true;
  const std::string process = watch.pid > 0 ? fmt::format(" {}", watch.pid) : "";
  gone(watch.rank, fmt::format("its process{} {}", process, how));
}

/// Nobody sends anything after the meeting; what comes all the same is thrown away.
void Monitor::State::readSocket(Watch &watch) {
  char buffer[4096];
  const ssize_t got = recv(watch.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
    return;
  if (closedOwn.load(std::memory_order_acquire))
    watch.isDeaf = true;
  else
    watch.hungUp = Clock::now();
}

/// Waits until something happens or `until`. Descriptors stay open whatever happens: a child
/// that is forked right now closes the same numbers.
Clock::time_point Monitor::State::look(Clock::time_point until) {
  std::vector<pollfd> polled{{stop.get(), POLLIN, 0}};
  std::vector<Watch *> of{nullptr};
  for (Watch &watch : watches) {
    if (watch.isDone)
      continue;
    if (watch.pidfd) {
      polled.push_back({watch.pidfd.get(), POLLIN, 0});
      of.push_back(&watch);
    }
    if (watch.socket && !watch.hungUp && !watch.isDeaf) {
      polled.push_back({watch.socket.get(), POLLIN, 0});
      of.push_back(&watch);
    }
    if (watch.hungUp)
      until = std::min(until, *watch.hungUp + patience);
  }
  bootstrap::pollUntil(polled, until);
  for (size_t i = 1; i < polled.size(); ++i) {
    Watch &watch = *of[i];
    if (!polled[i].revents || watch.isDone)
      continue;
    if (polled[i].fd == watch.pidfd.get())
      report(watch, "ended" + describeEnd(watch.pidfd.get()));
    else
      readSocket(watch);
  }
  const Clock::time_point now = Clock::now();
  for (Watch &watch : watches)
    if (!watch.isDone && watch.hungUp && now >= *watch.hungUp + patience)
      report(watch, "closed its connection");
  return now;
}

void Monitor::State::run() {
  pthread_setname_np(pthread_self(), "ccl-monitor");
  Clock::time_point nextTick = Clock::now();
  while (!stopping.load(std::memory_order_acquire)) {
    if (Clock::now() >= nextTick) {
      tick();
      nextTick = Clock::now() + tickInterval;
    }
    look(nextTick);
  }
}

Monitor::Monitor(std::unique_ptr<State> state) : state(std::move(state)) {}

llvm::Expected<std::unique_ptr<Monitor>> Monitor::start(Meeting &meeting, Gone gone, Tick tick) {
  auto state = std::make_unique<State>();
  state->gone = std::move(gone);
  state->tick = std::move(tick);
  state->stop = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->stop)
    return makeFailure(Failure::Machine, "cannot make an eventfd: {}", std::strerror(errno));
  for (int64_t rank = 0; rank < meeting.ranks; ++rank) {
    PeerLink &peer = meeting.peers[size_t(rank)];
    if (!peer.pidfd && !peer.socket)
      continue;
    Watch watch;
    watch.rank = rank;
    watch.pid = peer.pid;
    watch.pidfd = std::move(peer.pidfd);
    watch.socket = std::move(peer.socket);
    state->watches.push_back(std::move(watch));
  }
  const int error = bootstrap::startQuietThread(
      state->thread,
      [](void *state) -> void * {
        static_cast<State *>(state)->run();
        return nullptr;
      },
      state.get());
  if (error != 0)
    return makeFailure(Failure::Machine, "cannot start the thread that watches the other ranks: {}",
                       std::strerror(error));
  return std::unique_ptr<Monitor>(new Monitor(std::move(state)));
}

Monitor::~Monitor() {
  if (state->inChild)
    return;
  state->stopping.store(true, std::memory_order_release);
  // Without it the thread would go on to its next tick.
  const uint64_t one = 1;
  while (write(state->stop.get(), &one, sizeof one) < 0 && errno == EINTR)
    ;
  pthread_join(state->thread, nullptr);
}

void Monitor::closeSockets() {
  state->closedOwn.store(true, std::memory_order_release);
  for (Watch &watch : state->watches)
    if (watch.socket)
      shutdown(watch.socket.get(), SHUT_RDWR);
}

void Monitor::closeInChild() {
  state->inChild = true;
  for (Watch &watch : state->watches) {
    watch.pidfd.reset();
    watch.socket.reset();
  }
  state->stop.reset();
}

} // namespace ccl
