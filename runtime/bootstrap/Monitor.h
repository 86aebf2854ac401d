//===- Monitor.h - Notices when a peer process is gone ------------------------===//
//
// One thread of this process polls the pidfds and sockets of all peers. A peer that ends,
// however it ends, or that closes its socket, is reported within milliseconds. The thread
// also ticks, which the world uses as a sign that this process runs at all.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/Rendezvous.h"

#include <functional>
#include <memory>
#include <string>

namespace ccl {

class Monitor {
public:
  /// Called on the monitor's thread, once for each peer that is gone: "its process 4711
  /// ended: killed by signal 9 (Killed)" as far as that is known.
  using Gone = std::function<void(int64_t rank, const std::string &how)>;
  /// Called on the monitor's thread at the start and then about every `tickInterval`.
  using Tick = std::function<void()>;
  static constexpr Milliseconds tickInterval{100};

  /// Takes over pidfds and sockets of `meeting`. Fails if no thread can be started.
  static llvm::Expected<std::unique_ptr<Monitor>> start(Meeting &meeting, Gone gone, Tick tick);
  /// Stops the thread and closes what it watches.
  ~Monitor();

  /// For fault injection: closes this rank's sockets while it lives on.
  void closeSockets();
  /// In a forked child: closes the descriptors without touching the thread, which exists in
  /// the parent only. Async-signal-safe.
  void closeInChild();

private:
  struct State;
  explicit Monitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace ccl
