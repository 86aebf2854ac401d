//===- Hosts.h - Ranks that share no memory with this one -----------------------===//
//
// A communicator may span hosts. Each host has a control block of it, with the states of all
// ranks: those of its own ranks are written by them, those of the others by the *keeper*, the
// process of the first rank of this host in the communicator, as messages say. Who arrives last
// of a host at the entry of an operation tells the other hosts what its ranks have announced.
// So all that ranks do with a control block is the same with and without hosts.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Control.h"
#include "runtime/Failure.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ccl {

namespace rdma {
class Wire;
struct WireOptions;
} // namespace rdma

/// What a world that spans hosts does besides. Ranks are those of the communicator of `control`,
/// unless said otherwise. Any thread.
class Hosts {
public:
  virtual ~Hosts() = default;

  /// Of ranks of the world: whether it is on this host, and a number of its host.
  virtual bool isNear(int64_t worldRank) const = 0;
  virtual int64_t hostOf(int64_t worldRank) const = 0;

  /// This process has a rank of `control` from now on, and no longer.
  virtual void join(ControlBlock &control, int64_t rank) = 0;
  virtual void leave(ControlBlock &control, int64_t rank) = 0;
  /// All ranks of this host have arrived at the entry of `operation`.
  virtual void tellArrived(ControlBlock &control, uint64_t operation) = 0;
  /// The failure of `rank`, of this host, is the one that counts here.
  virtual void tellFailed(ControlBlock &control, int64_t rank) = 0;
  /// `rank` wants to go on without those that are gone.
  virtual void tellRejoins(ControlBlock &control, int64_t rank) = 0;
  /// With these ranks. The first proposal of any is what decision() gives everywhere.
  virtual void propose(ControlBlock &control, const std::vector<int64_t> &ranks) = 0;
  virtual std::optional<std::vector<int64_t>> decision(ControlBlock &control) = 0;
  /// Asks the other hosts what their ranks do, at most so often as is worth it.
  virtual void look(ControlBlock &control) = 0;

  /// Bytes to a rank of another host, and those that came from one: first in, first out.
  virtual void send(ControlBlock &control, int64_t from, int64_t to, llvm::StringRef bytes) = 0;
  virtual std::optional<std::string> receive(ControlBlock &control, int64_t from, int64_t to) = 0;

  /// Through the NICs of this process.
  virtual llvm::Expected<std::unique_ptr<rdma::Wire>>
  openWire(const rdma::WireOptions &options) const = 0;
};

} // namespace ccl
