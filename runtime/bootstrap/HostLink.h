//===- HostLink.h - Messages between the processes of ranks on several hosts ------===//
//
// Ranks find each other at rank 0's address over TCP. Both sides prove, before anything else is
// read, that they know the job's secret: an HMAC-SHA256 over the nonces of both and their ranks
// each way. Every process keeps one connection to rank 0's, which passes messages on. Nothing
// here blocks on a peer: what cannot be sent yet is kept.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ccl::bootstrap {

/// Who shares memory and sees the other's processes: boot id, and the namespaces of pids, ipc and
/// mounts, of this process; or CCL_HOST_ID.
std::string hostIdentity(const std::string &given);

struct HostLinkOptions {
  int64_t rank = -1, ranks = 0;
  std::string address; ///< of rank 0: "host:port", "[v6]:port"; rank 0 listens there, only there
  std::string secret;  ///< of the job; not empty
  std::string host;    ///< hostIdentity()
  Milliseconds timeout = defaultTimeout; ///< until all have met
};

class HostLink {
public:
  /// Meets the others. Errors, on all alike where that can be told: which rank is missing, which
  /// versions or numbers of ranks differ, that a secret is wrong, that nobody listens.
  static llvm::Expected<std::unique_ptr<HostLink>> meet(const HostLinkOptions &options);
  /// Tells the others that this rank leaves, and joins the thread.
  virtual ~HostLink() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// The same on all: a number that no other job has.
  virtual uint64_t job() const = 0;
  /// Of each rank.
  virtual const std::string &hostOf(int64_t rank) const = 0;
  virtual const std::string &addressOf(int64_t rank) const = 0; ///< numeric, as rank 0 sees it
  virtual int64_t pidOf(int64_t rank) const = 0;

  /// To each of `to` (not oneself), in the order of calls. Any thread. At most 64 MiB.
  virtual void send(llvm::ArrayRef<int64_t> to, uint32_t kind, llvm::StringRef bytes) = 0;

  class Listener {
  public:
    virtual ~Listener() = default;
    /// All three on the link's thread, one after the other.
    virtual void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) = 0;
    /// Its connection is closed or broken, or it has been silent for `longSilence`; once a rank.
    /// "its connection to rank 0 was closed". Without rank 0 nobody is reached any more: all are
    /// gone then.
    virtual void onGone(int64_t rank, const std::string &how) = 0;
    /// It has left in order.
    virtual void onLeft(int64_t rank) = 0;
  };
  /// Starts the thread that reads; messages that came before are handed over first. Once.
  virtual llvm::Error start(Listener &listener) = 0;
  /// How long nothing has been heard of `rank` (which sends a heartbeat each `heartbeat`). Any
  /// thread.
  virtual Milliseconds silence(int64_t rank) const = 0;

  static constexpr Milliseconds heartbeat{250};
  /// A host that has crashed says nothing, and closes nothing.
  static constexpr Milliseconds longSilence{10000};
};

} // namespace ccl::bootstrap
