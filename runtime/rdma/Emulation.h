//===- Emulation.h - The emulated wire, inside -----------------------------------===//
//
// All state is under one mutex. One thread, the engine, carries messages: it draws a batch of
// packets under the lock, copies them without it, and completes what is through. Whoever takes
// memory or a queue pair away waits for the batch under way.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/rdma/Nic.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace ccl::rdma {

using Clock = std::chrono::steady_clock;

struct EmulatedPort;

struct EmulatedMemory {
  uint64_t base = 0, bytes = 0;
  const EmulatedPort *port = nullptr;
};

/// A work request.
struct EmulatedSend {
  uint64_t id = 0, remote = 0;
  uint32_t remoteKey = 0;
  uint32_t immediate = 0; ///< as it travels: big endian
  bool hasImmediate = false, isSignaled = false, isInlined = false;
  std::vector<ibv_sge> pieces;
  std::vector<uint8_t> inlined; ///< the data, instead of `pieces`
  int64_t bytes = 0;
  Clock::time_point due; ///< not carried before
  // From when it is under way:
  ibv_wc_status failure = IBV_WC_SUCCESS;
  int64_t packets = 0, carried = 0;
  int64_t first = 0, stride = 1; ///< packet number i to be carried: (first + i * stride) % packets
};

struct EmulatedQueue {
  enum class State : uint8_t { Initial, Ready, Broken };

  uint32_t number = 0;
  EmulatedPort *port = nullptr;
  QueueLimits limits;
  State state = State::Initial;
  uint32_t peer = 0;
  std::deque<EmulatedSend> waiting, underWay;
  /// Work requests that occupy the send queue: a completion that has been polled frees its own
  /// and those before it.
  int64_t sends = 0;
  int64_t unreported = 0;                  ///< done since the last completion
  std::deque<uint64_t> receives;           ///< ids of those that are posted
  int64_t receivesTaken = 0;               ///< posted, or used and not polled
  std::optional<Clock::time_point> giveUp; ///< the peer has not answered since retryTime before
};

struct EmulatedCompletion {
  ibv_wc completion{};
  EmulatedQueue *queue = nullptr;
  int64_t sends = 0, receives = 0; ///< that it frees
  Clock::time_point visible;
  bool isAnnounced = false;
};

/// A NIC as the wire sees it; outlives the Nic as a name that does not answer.
struct EmulatedPort {
  std::string name;
  std::array<uint8_t, 16> gid{};
  bool isUp = true, isOpen = true;
  std::atomic<bool> isLost = false;
  std::deque<EmulatedCompletion> completions;
  std::atomic<int64_t> pending = 0; ///< completions.size(), for a look without the lock
  bool isArmed = false, hasEvent = false;
  int descriptor = -1;
  int64_t reserved = 0; ///< completions that its queue pairs can make
  std::optional<int64_t> failAfter;
  ibv_wc_status failStatus = IBV_WC_SUCCESS;
  int64_t sentBytes = 0;
  std::vector<std::string> events;
};

class EmulatedFabric final : public Fabric, public std::enable_shared_from_this<EmulatedFabric> {
public:
  static constexpr int mostCompletions = 1 << 16, mostInline = 512, mostPieces = 16;

  explicit EmulatedFabric(const Options &options);
  ~EmulatedFabric() override;
  std::unique_ptr<Nic> addNic(const std::string &name) override;
  void setLink(const std::string &name, bool up) override;
  void failAfter(const std::string &name, int64_t after, ibv_wc_status status) override;
  void removeDevice(const std::string &name) override;
  int64_t sentBytes(const std::string &name) const override;

  // What follows is for NICs and queue pairs, which hold `mutex` where it says so.

  /// With the lock: the engine has something to look at.
  void wake();
  /// With the lock, after the state says that something is gone: no copy of it is under way.
  void waitForBatch(std::unique_lock<std::mutex> &lock);
  /// With the lock: to the error state. The first work request that is not done ends with
  /// `status`, all others are flushed.
  void breakQueue(EmulatedQueue &queue, ibv_wc_status status, Clock::time_point now);

  const Options options;
  std::mutex mutable mutex;
  std::map<uint32_t, EmulatedMemory> localKeys, remoteKeys;
  std::map<uint32_t, EmulatedQueue *> queues;
  std::map<std::string, EmulatedPort> ports;
  uint32_t lastKey = 0x1000, lastQueue = 0x10;

private:
  struct Copy {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
  };

  EmulatedPort *portOf(const std::string &name);
  void run();
  /// Null while nothing gets from `queue` to its peer.
  EmulatedQueue *reach(const EmulatedQueue &queue) const;
  void admit(EmulatedQueue &queue, Clock::time_point now);
  void start(EmulatedQueue &queue, EmulatedSend &send);
  ibv_wc_status check(const EmulatedQueue &queue, const EmulatedSend &send) const;
  void finish(EmulatedQueue &queue, Clock::time_point now);
  bool deliver(EmulatedQueue &queue, const EmulatedSend &send, Clock::time_point now);
  void watchPeer(EmulatedQueue &queue, Clock::time_point now);
  bool carry(std::unique_lock<std::mutex> &lock);
  EmulatedSend *draw(EmulatedQueue *&from);
  void gather(const EmulatedSend &send, int64_t offset, int64_t bytes);
  void complete(EmulatedQueue &queue, ibv_wc completion, int64_t sends, int64_t receives,
                Clock::time_point now);
  /// Makes what is due visible; when the next is, if any.
  void announce(EmulatedPort &port, Clock::time_point now);
  Clock::time_point nextTime(Clock::time_point now) const;
  int64_t packetBytes() const { return options.seed ? options.mtu : int64_t(1) << 20; }

  std::mt19937_64 random;
  std::vector<Copy> copies; ///< of the batch under way
  bool isCopying = false, isEnding = false, hasChanged = false;
  uint64_t batch = 0;
  uint32_t lastServed = 0;
  std::condition_variable work, settled;
  std::thread engine;
};

/// A queue pair, which has to be connected.
std::unique_ptr<QueuePair> makeEmulatedQueue(std::shared_ptr<EmulatedFabric> fabric,
                                             EmulatedPort &port, const QueueLimits &limits);

} // namespace ccl::rdma
