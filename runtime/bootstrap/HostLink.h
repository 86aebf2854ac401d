//===- HostLink.h - Messages between the processes of ranks on several hosts ------===//
//
// Ranks find each other at rank 0's address over TCP. Both sides prove, before anything else is
// read, that they know the job's secret: an HMAC-SHA256 over the nonces of both and their ranks
// each way (HostProof.h). Every process keeps one connection to rank 0's, which passes messages on.
// Nothing here blocks on a peer: what cannot be sent yet is kept, 256 MiB at most; a peer that
// takes less is cut off.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ccl::bootstrap {

/// Who shares memory and sees the other's processes: boot id, and the namespaces of pids, ipc,
/// mounts and users, of this process; or `given` (CCL_HOST_ID) if it is not empty.
std::string hostIdentity(const std::string &given);

/// What CCL_SECRET says, or the first line of CCL_SECRET_FILE; "": neither is set. Errors
/// (Failure::BadArgument): both are, the file cannot be read, is empty, or others may read it.
llvm::Expected<std::string> readSecret(const std::string &secret, const std::string &file);

struct HostLinkOptions {
  int64_t rank = -1, ranks = 0;
  std::string address; ///< of rank 0: "host:port", "[v6]:port"; rank 0 listens there, only there
  std::string secret;  ///< of the job; not empty
  std::string host;    ///< hostIdentity(); 1024 bytes at most
  Milliseconds timeout = defaultTimeout; ///< until all have met
};

class HostLink {
public:
  /// Meets the others. Errors, on all alike where that can be told: which rank is missing, which
  /// versions or numbers of ranks differ, that a secret is wrong, that nobody listens.
  static llvm::Expected<std::unique_ptr<HostLink>> meet(const HostLinkOptions &options);
  /// Sends what is queued, tells the others that this rank leaves, and joins the thread. Takes no
  /// longer than half a second without progress, 5 s in all. Not on the link's thread. In a child
  /// of fork it does nothing: there the link is closed and all calls are without effect.
  virtual ~HostLink() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// The same on all: a number that no other job has.
  virtual uint64_t job() const = 0;
  /// Of each rank.
  virtual const std::string &hostOf(int64_t rank) const = 0;
  virtual const std::string &addressOf(int64_t rank) const = 0; ///< numeric, as rank 0 sees it
  virtual int64_t pidOf(int64_t rank) const = 0;

  /// To each of `to` but oneself, in the order of calls. Any thread, also the link's. At most
  /// `mostBytes`; more is a line in the log and sent to nobody. Who is gone, or has left, gets
  /// nothing.
  virtual void send(llvm::ArrayRef<int64_t> to, uint32_t kind, llvm::StringRef bytes) = 0;

  class Listener {
  public:
    virtual ~Listener() = default;
    /// All three on the link's thread, one after the other; not any more once the destructor has
    /// been called. They have to return soon: meanwhile rank 0 passes nothing on, and others are
    /// not heard.
    virtual void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) = 0;
    /// Its connection is closed or broken, its host has not acknowledged anything for
    /// `longSilence`, or it does not take what is sent to it; once a rank. A process that is
    /// stopped is silent, not gone. "its connection to rank 0 was closed". Without rank 0 nobody
    /// is reached any more: if it is gone, all are.
    virtual void onGone(int64_t rank, const std::string &how) = 0;
    /// It has left in order. After rank 0 has, nothing is heard of anybody any more, and nothing
    /// sent arrives; the others are not gone for that.
    virtual void onLeft(int64_t rank) = 0;
  };
  /// Starts the thread that reads; messages that came before are handed over first. Once.
  virtual llvm::Error start(Listener &listener) = 0;
  /// How long nothing has been heard of `rank` (which sends a heartbeat each `heartbeat` from
  /// start() on), since the meeting at most; up to 3 heartbeats mean nothing. Of other ranks than 0
  /// rank 0 tells: while it is silent, all are. Any thread.
  virtual Milliseconds silence(int64_t rank) const = 0;

  static constexpr Milliseconds heartbeat{250};
  /// A host that has crashed says nothing, and closes nothing.
  static constexpr Milliseconds longSilence{10000};
  static constexpr size_t mostBytes = 64 << 20;   ///< of a message
  static constexpr size_t mostUnsent = 256 << 20; ///< for one peer
};

} // namespace ccl::bootstrap
