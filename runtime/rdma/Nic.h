//===- Nic.h - One port of an RDMA device ---------------------------------------===//
//
// What the transport between hosts needs of verbs, and no more: memory that peers write,
// reliable connected queue pairs, lists of real `ibv_send_wr`, completions. Two kinds: verbs
// (libibverbs, loaded at run time) and an emulation for tests, which consumes the same lists.
//
// Of the header of libibverbs only types and constants are used: none of its functions is
// linked. Calls on one Nic and its queue pairs are made by one thread at a time, unless said
// otherwise.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ccl::rdma {

/// What a queue pair of another host has to know to connect to one: a fixed struct that travels
/// as bytes.
struct QueueAddress {
  std::array<uint8_t, 16> gid{}; ///< of the port, at the index that its owner has chosen
  uint32_t queuePair = 0, firstPacket = 0;
  uint16_t lid = 0; ///< 0 on Ethernet
  uint8_t mtu = 0;  ///< an ibv_mtu: the active one of the port, or less by NicOptions
  uint8_t linkLayer = 0;
};

struct NicFacts {
  std::string device; ///< "mlx5_0", "rxe0"
  int port = 1;
  int gidIndex = 0;
  std::string gid;    ///< as text: "::ffff:10.77.0.1"
  std::string netdev; ///< of the GID, "" if there is none
  bool ethernet = true;
  int mtu = 0;      ///< active, in bytes
  double gbits = 0; ///< of the link
  int numaNode = -1;
  int64_t mostBytes = 0;    ///< of one work request
  int mostWorkRequests = 0; ///< of a send queue
  int mostCompletions = 0;  ///< of a completion queue
  std::string problem;      ///< why it cannot be used and what to do; "" if it can
};

/// Which port, and how; see docs/rdma.md for the settings.
struct NicOptions {
  std::string device; ///< "rxe0", "mlx5_1:2" with a port
  int gidIndex = -1;  ///< -1: the best one: RoCE v2 with a global IPv4 address, then IPv6
  int pkeyIndex = 0;
  int trafficClass = 0, serviceLevel = 0;
  int mtu = 0;      ///< bytes, at most; 0: what both ports have (the smaller of the two)
  int timeout = 14; ///< of an acknowledgement: 4.096 us * 2^timeout
  int retries = 6;  ///< then the queue pair ends in an error; at 7 rxe never gives up
};

/// Memory that this NIC reads and peers write, as long as it lives.
class Region {
public:
  virtual ~Region() = default;
  uint32_t localKey = 0, remoteKey = 0;
};

struct QueueLimits {
  int sends = 256;    ///< work requests under way
  int receives = 512; ///< of immediates
  int inlineBytes = 64;
  int pieces = 4; ///< ibv_sge of a work request
};

/// A reliable connection. Work requests are done in the order in which they are posted; a
/// completion with an error (or of a flushed request) is the last thing that happens on it.
class QueuePair {
public:
  virtual ~QueuePair() = default;
  virtual QueueAddress address() const = 0;
  /// To ready-to-send. Errors name device, port, GID and what to change.
  virtual llvm::Error connect(const QueueAddress &peer) = 0;
  /// As ibv_post_send: 0, or an errno with *bad the first that was not taken.
  virtual int post(ibv_send_wr *first, ibv_send_wr **bad) = 0;
  /// So many receives without memory, for immediates, with `id` as wr_id. 0 or an errno.
  virtual int postReceives(int number, uint64_t id) = 0;
  /// Of all completions of it: ibv_wc::qp_num.
  virtual uint32_t number() const = 0;
  /// What it has room for: at least what was asked, but fewer inline bytes if the device has less.
  virtual QueueLimits limits() const = 0;
  /// To the error state: everything posted is flushed.
  virtual void breakOff() = 0;
};

class Nic {
public:
  virtual ~Nic() = default;
  virtual const NicFacts &facts() const = 0;
  /// Peers may write there. Any thread. Errors (Failure::Machine) say what the limit is and what
  /// to raise (`ulimit -l`), or what the device refuses.
  virtual llvm::Expected<std::unique_ptr<Region>> registerMemory(void *address, size_t bytes) = 0;
  /// Any thread. Memory, queue pairs and what is posted go before the Nic.
  virtual llvm::Expected<std::unique_ptr<QueuePair>> createQueuePair(const QueueLimits &limits) = 0;
  /// At most `n` completions, of sends and receives of all queue pairs; a negative number: the
  /// device is lost.
  virtual int poll(ibv_wc *completions, int n) = 0;
  /// The next completion makes descriptor() readable; whoever calls it polls once more before it
  /// sleeps. False: the device is lost.
  virtual bool arm() = 0;
  /// For poll(2): completions after arm(). Events are taken by arm() and poll().
  virtual int descriptor() const = 0;
  /// What the device said of itself since the last call (port down, device removed), in words;
  /// "": nothing. Any thread.
  virtual std::string events() = 0;
  /// Whether the port went down, by the last of these events, and has not come back. Any thread.
  virtual bool isDown() const { return false; }
};

//===----------------------------------------------------------------------===//
// Verbs
//===----------------------------------------------------------------------===//

/// The ports of this machine, those that can be used first. An empty list: there is none. Error
/// (Failure::Machine): libibverbs is missing or cannot be used: what to install.
/// `library`: CCL_VERBS_LIBRARY, "" for the usual name.
llvm::Expected<std::vector<NicFacts>> listVerbs(const std::string &library);
llvm::Expected<std::unique_ptr<Nic>> openVerbs(const std::string &library,
                                               const NicOptions &options);

/// "remote access error", "transport retry counter exceeded", with what it mostly means.
std::string describeStatus(ibv_wc_status status);

//===----------------------------------------------------------------------===//
// Emulation
//===----------------------------------------------------------------------===//

/// NICs of one process (all threads) that are on one wire. Memory is copied by threads of the
/// emulation, so that it may be sparse and of any size.
class Fabric {
public:
  struct Options {
    std::chrono::microseconds delay{0}; ///< of each message
    /// What the standard leaves open is drawn: in which order packets of one message, and
    /// messages of different queue pairs, reach memory; how late a completion is seen. Messages of
    /// one queue pair reach different memory in any order, too, until an immediate tells that they
    /// are there. 0: in order.
    uint64_t seed = 0;
    int64_t mostBytes = int64_t(1) << 31; ///< of one work request
    int mostWorkRequests = 1024;
    int mtu = 4096;
    /// After so long without an answer a queue pair ends with "transport retry counter exceeded".
    std::chrono::milliseconds retryTime{500};
  };
  static std::shared_ptr<Fabric> create(const Options &options);
  virtual ~Fabric() = default;
  /// Null: no file descriptor is left, or there is a Nic of that name.
  virtual std::unique_ptr<Nic> addNic(const std::string &name) = 0;
  /// From now on: messages of `name` do not arrive (retries are used up, then errors), or do.
  virtual void setLink(const std::string &name, bool up) = 0;
  /// The next `after` work requests of `name` are done, then one ends with `status`.
  virtual void failAfter(const std::string &name, int64_t after, ibv_wc_status status) = 0;
  /// From now on the device is lost: poll() and arm() of its Nic say so, its peers get no answer.
  virtual void removeDevice(const std::string &name) = 0;
  /// Bytes of messages that have left `name`.
  virtual int64_t sentBytes(const std::string &name) const = 0;
};

} // namespace ccl::rdma
