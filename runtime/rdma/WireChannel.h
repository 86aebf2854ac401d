//===- WireChannel.h - Ends of channels to other hosts, and what is done for them ---===//
//
// The program sees a ChannelEnd. Everything else is the proxy's: it is touched by one thread at a
// time, apart from the counters that the program or the NIC writes.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Channels.h"
#include "runtime/Memory.h"
#include "runtime/rdma/Nic.h"

#include <array>

namespace ccl::rdma {

class Connection;

/// What a peer has freed is written by turns to so many words, of which the largest counts. Writes
/// of one queue pair may reach memory in any order until they are done: a word is written again
/// only when the write before is.
constexpr size_t creditWords = 4;

/// An ibv_send_wr, and what it points to.
struct Request {
  ibv_send_wr work{};
  ibv_sge part{};
  uint64_t value = 0;       ///< what is written if `writesValue`
  bool writesValue = false; ///< inline, instead of what `part` names
};

struct WireEnd {
  /// `counters`: `arrive`, and on the next line `depart`.
  WireEnd(const ChannelKey &key, bool to, int64_t slotBytes, char *slots, uint64_t *counters);

  ChannelEnd end;
  const ChannelKey key;
  Connection *connection = nullptr;
  uint32_t index = 0;      ///< among the ends of its connection
  uint32_t number = 0;     ///< of the channel at who receives
  bool isAccepted = false; ///< the peer has told of its end
  uint64_t launch = 0;     ///< the last one that uses it

  /// What the program has done.
  uint64_t departed() const { return __atomic_load_n(end.depart, __ATOMIC_ACQUIRE); }
  /// Tells it so.
  void arrive(uint64_t count) const { __atomic_store_n(end.arrive, count, __ATOMIC_RELEASE); }
};

struct OutEnd : WireEnd {
  OutEnd(const ChannelKey &key, int64_t slotBytes, char *slots, uint64_t *counters, uint64_t *freed)
      : WireEnd(key, true, slotBytes, slots, counters), freed(freed) {}

  static constexpr size_t unknown = ~size_t(0);
  uint64_t *const freed;          ///< by the peer, which writes them; null without slots
  uint64_t credit = 0;            ///< the largest of them so far
  uint64_t free = 0;              ///< what the program knows of it
  uint64_t taken = 0;             ///< messages that have been made work requests
  uint64_t sent = 0;              ///< of which the NIC is done with so many
  uint64_t base = 0;              ///< `taken` when the launch began
  size_t sending = unknown;       ///< index in Wire::begin
  uint64_t remote = 0;            ///< the peer's slot 0
  std::vector<Request> templates; ///< by stripe
  /// By slot and stripe: how many work requests of the stripe are done when this message is.
  std::vector<uint64_t> lasts;

  uint64_t *lastsOf(uint64_t message) {
    return lasts.data() + size_t(message % uint64_t(end.numSlots)) * templates.size();
  }
  /// Of what the program has put into the slot of `message`; see Wire.h.
  uint64_t sizeOf(uint64_t message) const {
    return __atomic_load_n(end.depart + 1 + message % uint64_t(end.numSlots), __ATOMIC_RELAXED);
  }
  /// Tells the program which slots may be filled again. `done`: work requests, by stripe.
  /// False: the peer has freed what has not been sent.
  bool publish(const std::vector<uint64_t> &done, bool &progress);
};

struct InEnd : WireEnd {
  InEnd(const ChannelKey &key, int64_t slotBytes, char *slots, uint64_t *counters, uint64_t *words)
      : WireEnd(key, false, slotBytes, slots, counters), words(words), isCut(size_t(key.slots)) {}

  /// Where `told` is written from if the NIC takes nothing inline; null without slots.
  uint64_t *const words;
  uint64_t told = 0;           ///< to the peer: how many slots have been freed
  uint64_t came = 0;           ///< messages whose first stripe has come
  uint64_t filled = 0;         ///< messages that have come
  uint64_t cuts = 0;           ///< of these, messages that were cut
  std::vector<uint8_t> isCut;  ///< by slot, of messages in [filled, came)
  std::vector<uint64_t> parts; ///< by stripe: how many parts have come
  Request credit;              ///< template, of the first word
  uint64_t credits = 0;        ///< how often it was told
  /// By word: how many work requests of the first stripe are done when its write is.
  std::array<uint64_t, creditWords> creditLasts{};

  /// An immediate has come. False: it cannot be of a peer that keeps to the protocol.
  bool receive(size_t stripe, uint32_t messages, bool part);

private:
  void advance();
};

} // namespace ccl::rdma
