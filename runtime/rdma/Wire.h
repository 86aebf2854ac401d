//===- Wire.h - Channels between ranks of different hosts --------------------------===//
//
// To the code of programs a channel to another host is like every other: ChannelEnd with slots
// and counters in memory of this process. A proxy does the rest. What the program has put into a
// slot of a `to` end (*depart) goes to the peer's slot as RDMA writes; the immediate of the last
// one makes the peer's proxy count its `filled` up, which is what the program there waits for.
// What a `from` end has freed goes back as 8-byte writes of the absolute count. A slot may be
// filled again (*arrive of a `to` end) when the peer has freed it and the NIC here has read it.
// A channel without slots carries signals alone: messages of no bytes.
//
// How much of a slot a message takes the launch says, or the program: of a wire that is `sized`,
// the words behind *depart of a `to` end are bytes, one for each slot, from its start. The program
// writes that of the slot before *depart. So kernels of GPUs are served, whose launches no host
// takes part in.
//
// Progress is made by whoever calls progress(): the rank's thread while it waits, and a thread
// of each Wire while launches are under way, which yields, then sleeps. Any thread may call any
// function.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Channels.h"
#include "runtime/rdma/Chain.h"
#include "runtime/rdma/Nic.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <optional>

namespace ccl::rdma {

struct WireOptions {
  int64_t rank = 0; ///< for errors
  int64_t slotBytes = 0;
  ChainLimits limits;
  QueueLimits queues;
  bool sized = false; ///< messages say their size: see above
  /// Zeros on the boundary of a cache line, for slots and counters: memory that a GPU sees, too.
  /// Null: ordinary pages.
  std::function<llvm::Expected<std::shared_ptr<void>>(size_t bytes)> memory{};
};

/// What has been handed to NICs: enough to say how many bytes leave them.
struct Traffic {
  int64_t bytes = 0;      ///< of messages
  int64_t requests = 0;   ///< RDMA writes that carry these
  int64_t packets = 0;    ///< of these writes, by the MTU of their queue pairs
  int64_t immediates = 0; ///< of these writes, those that bring one
  int64_t flags = 0;      ///< further writes of 8 bytes: what has been freed
};

class Wire {
public:
  /// Of this process' rank, through `nics`: a message to a peer is cut over as many of them as
  /// both sides have, beginning with the one whose index is rank mod their number.
  static llvm::Expected<std::unique_ptr<Wire>> create(std::vector<std::unique_ptr<Nic>> nics,
                                                      const WireOptions &options);
  virtual ~Wire() = default;

  /// Makes this side's ends of `channels`, all of them between this rank and `peer`, those that
  /// exist excepted, and says what `peer` has to know of them (and of queue pairs, the first time).
  /// Both sides name the same channels in the same order, and hand each other what they get.
  /// Nobody begins a launch that uses them before both have accepted. Errors of accept() leave
  /// all as it was, unless it is the NIC that refuses to connect.
  virtual llvm::Expected<std::string> offer(int64_t peer, llvm::ArrayRef<ChannelKey> channels) = 0;
  virtual llvm::Error accept(int64_t peer, llvm::ArrayRef<ChannelKey> channels,
                             llvm::StringRef offered) = 0;
  /// Null if there is none. Stays where it is.
  virtual ChannelEnd *end(const ChannelKey &key, bool to) = 0;

  /// What of a slot message number `message` (of a launch, from 0) through channel `index` takes.
  using Pieces = std::function<void(size_t index, uint64_t message, std::vector<Piece> &pieces)>;
  /// A launch begins: what the program does with `ends` is carried out from now on. `sending[i]`
  /// are the `to` ends with slots. `pieces` is called by whoever makes progress, one thread at a
  /// time, until end(). Ends of no wire are passed over. Of a wire that is sized there are no
  /// `sending` and `pieces`, and `ends` are those of all launches until end().
  virtual void begin(llvm::ArrayRef<ChannelEnd *> ends, llvm::ArrayRef<ChannelEnd *> sending,
                     Pieces pieces) = 0;
  /// Posts and takes what can be without waiting; whether anything happened. False, too, if
  /// another thread is at it, and after a failure.
  virtual bool progress() = 0;
  /// The program is through: whether everything that it did has been handed to the NIC, and all
  /// messages and signals have been acknowledged, so that this rank may be destroyed. Makes
  /// progress itself. Never after a failure: whoever waits looks at failure().
  virtual bool isDrained() = 0;
  virtual void end() = 0;
  /// `peer` has left in order, after the end of its last launch: what it did not acknowledge any
  /// more is no failure. Sending to it from now on is one.
  virtual void leave(int64_t peer) = 0;

  /// The first thing that went wrong: "rank 2 cannot write to rank 0 through mlx5_0: transport
  /// retry counter exceeded (the peer does not answer)...", with the peer as culprit.
  virtual std::optional<RuntimeError> failure() = 0;
  /// So far. A wire says at its end, too (CCL_DEBUG=INFO).
  virtual Traffic traffic() const = 0;
  /// Bytes of messages that have been posted, without flags and headers.
  int64_t sentBytes() const { return traffic().bytes; }
};

} // namespace ccl::rdma
