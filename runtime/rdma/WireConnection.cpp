//===- WireConnection.cpp -----------------------------------------------------===//
#include "runtime/rdma/WireConnection.h"

#include "llvm/Support/MathExtras.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace ccl::rdma {

//===----------------------------------------------------------------------===//
// Stripes
//===----------------------------------------------------------------------===//

constexpr uint64_t sequenceMask = (uint64_t(1) << sequenceBits) - 1;

void Stripe::push(const Request &request, uint32_t end) {
  const uint64_t id = (pushes() & sequenceMask) | uint64_t(end) << sequenceBits;
  waiting.push_back(request);
  waiting.back().work.wr_id = id;
}

int Stripe::post(bool &progress) {
  while (hasBacklog() && posted - completed < depth) {
    const size_t room = size_t(depth - (posted - completed));
    const size_t end = std::min(waiting.size(), next + room);
    for (size_t i = next; i < end; ++i) {
      Request &request = waiting[i];
      // Only now: it has moved as the list grew.
      if (request.writesValue)
        request.part.addr = reinterpret_cast<uintptr_t>(&request.value);
      request.work.sg_list = &request.part;
      request.work.next = i + 1 < end ? &waiting[i + 1].work : nullptr;
    }
    waiting[end - 1].work.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr *bad = nullptr;
    if (const int error = queue->post(&waiting[next].work, &bad))
      return error;
    posted += end - next;
    next = end;
    progress = true;
  }
  if (!hasBacklog()) {
    waiting.clear();
    next = 0;
  }
  return 0;
}

void Stripe::complete(uint64_t id) { completed += (id + 1 - completed) & sequenceMask; }

int Stripe::replaceReceive() {
  if (++usedReceives * 4 < queue->limits().receives)
    return 0;
  const int number = usedReceives;
  usedReceives = 0;
  return queue->postReceives(number, receiveId);
}

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

void Connection::finishSetup(uint64_t address, llvm::ArrayRef<uint32_t> keys) {
  home = address;
  homeKeys.assign(keys.begin(), keys.end());
  limits = options.limits;
  limits.stripes = int(stripes.size());
  for (const Stripe &stripe : stripes) {
    const QueueLimits has = stripe.queue->limits();
    const int64_t most = nics[stripe.nic]->facts().mostBytes;
    limits.inlineBytes = std::min<int64_t>(limits.inlineBytes, has.inlineBytes);
    limits.signalEvery = std::min(limits.signalEvery, std::max(has.sends / 2, 1));
    if (most > 0)
      limits.mostBytes = std::min(limits.mostBytes, most);
  }
  // Lengths have 32 bits in a work request.
  limits.mostBytes = std::clamp<int64_t>(limits.mostBytes, 1, int64_t(1) << 31);
  done.assign(stripes.size(), 0);
  messages.assign(stripes.size(), 0);
}

Request Connection::plainRequest(size_t stripe) const {
  Request request;
  request.work.opcode = IBV_WR_RDMA_WRITE;
  request.work.wr.rdma.remote_addr = home;
  request.work.wr.rdma.rkey = homeKeys[stripe];
  return request;
}

void Connection::begin(llvm::ArrayRef<OutEnd *> newData, llvm::ArrayRef<OutEnd *> newSignals,
                       llvm::ArrayRef<InEnd *> newFreeing) {
  data.assign(newData.begin(), newData.end());
  signals.assign(newSignals.begin(), newSignals.end());
  freeing.assign(newFreeing.begin(), newFreeing.end());
  for (OutEnd *end : data)
    end->base = end->taken;
}

bool Connection::serve(const Wire::Pieces &pieces, Traffic &sent) {
  bool progress = false;
  for (size_t stripe = 0; stripe < stripes.size(); ++stripe)
    done[stripe] = left ? stripes[stripe].pushes() : stripes[stripe].done();
  for (OutEnd *end : data)
    if (!end->publish(done, progress)) {
      failure.raise(peer,
                    "rank {}: rank {} has freed slots of tag {} that were not sent: it does "
                    "not keep to the protocol",
                    rank, peer, end->key.tag);
      return true;
    }
  // What is first seen goes first: nothing overtakes what waits for room.
  if (std::none_of(stripes.begin(), stripes.end(),
                   [](const Stripe &stripe) { return stripe.hasBacklog(); })) {
    for (InEnd *end : freeing)
      tellFreed(*end, sent);
    for (OutEnd *end : signals)
      takeSignals(*end, sent);
    for (OutEnd *end : data)
      takeMessages(*end, pieces, sent);
  }
  if (left)
    return progress;
  for (Stripe &stripe : stripes)
    if (const int error = stripe.post(progress))
      raise(stripe, receiveId, fmt::format("cannot post: {}", std::strerror(error)));
  return progress;
}

bool Connection::isDrained() const {
  for (const OutEnd *end : data)
    if (end->departed() != end->taken)
      return false;
  for (const OutEnd *end : signals)
    if (end->departed() != end->taken)
      return false;
  if (left)
    return true;
  for (const InEnd *end : freeing)
    if (end->departed() != end->told)
      return false;
  // Whether a peer knows already what is freed is no matter of this launch.
  for (size_t stripe = 0; stripe < stripes.size(); ++stripe)
    if (stripes[stripe].hasBacklog() || int64_t(stripes[stripe].done() - messages[stripe]) < 0)
      return false;
  return true;
}

bool Connection::hasRoom() const {
  return std::all_of(stripes.begin(), stripes.end(),
                     [](const Stripe &stripe) { return stripe.hasRoom(); });
}

void Connection::tellFreed(InEnd &end, Traffic &sent) {
  const uint64_t freed = end.departed();
  const size_t word = size_t(end.credits % creditWords);
  if (freed == end.told || left || !stripes[0].hasRoom() ||
      int64_t(stripes[0].done() - end.creditLasts[word]) < 0)
    return;
  Request request = end.credit;
  request.value = freed;
  request.work.wr.rdma.remote_addr += word * sizeof(uint64_t);
  request.part.addr += word * sizeof(uint64_t);
  __atomic_store_n(end.words + word, freed, __ATOMIC_RELEASE);
  stripes[0].push(request, end.index);
  end.creditLasts[word] = stripes[0].pushes();
  ++end.credits;
  end.told = freed;
  ++sent.flags;
}

/// A peer that has left in order waits for nothing more.
bool Connection::sendsTooLate(const OutEnd &end) {
  if (left)
    failure.raise(peer, "rank {} cannot write to rank {} (tag {}): that rank has left", rank, peer,
                  end.key.tag);
  return left;
}

void Connection::takeSignals(OutEnd &end, Traffic &sent) {
  const uint64_t departed = end.departed();
  while (end.taken != departed && !sendsTooLate(end) && hasRoom()) {
    const auto number = uint32_t(std::min<uint64_t>(departed - end.taken, mostMessages));
    pieceList.clear();
    pushChain(end, number, nullptr, home, sent);
    end.taken += number;
  }
}

/// Whether the pieces of a message are in the slot.
bool Connection::isInSlot(const OutEnd &end, uint64_t message) {
  for (const Piece &piece : pieceList)
    if (piece.offset < 0 || piece.bytes < 0 || piece.bytes > end.end.slotBytes ||
        piece.offset > end.end.slotBytes - piece.bytes) {
      failure.raise(rank,
                    "malformed plan: message {} of rank {} to rank {} (tag {}) has {} bytes "
                    "at byte {} of a slot of {}",
                    message, rank, peer, end.key.tag, piece.bytes, piece.offset, end.end.slotBytes);
      return false;
    }
  return true;
}

/// Of the next message, to `pieceList`; false after a failure.
bool Connection::findPieces(const OutEnd &end, const Wire::Pieces &pieces) {
  const uint64_t message = end.taken - end.base;
  pieceList.clear();
  if (options.sized) {
    // What nobody meant to be a size is none of a slot.
    const uint64_t bytes = std::min<uint64_t>(end.sizeOf(end.taken), INT64_MAX);
    if (bytes > 0)
      pieceList.push_back({0, int64_t(bytes)});
  } else if (end.sending == OutEnd::unknown) {
    failure.raise(rank, "malformed plan: it does not say what rank {} sends to rank {} (tag {})",
                  rank, peer, end.key.tag);
    return false;
  } else {
    pieces(end.sending, message, pieceList);
  }
  return isInSlot(end, message);
}

void Connection::takeMessages(OutEnd &end, const Wire::Pieces &pieces, Traffic &sent) {
  const uint64_t departed = end.departed();
  while (end.taken != departed && !sendsTooLate(end) && hasRoom()) {
    if (!findPieces(end, pieces))
      return;
    const uint64_t slot = end.taken % uint64_t(end.end.numSlots) * uint64_t(end.end.slotBytes);
    pushChain(end, 1, end.end.slots + slot, end.remote + slot, sent);
    uint64_t *lasts = end.lastsOf(end.taken);
    for (size_t stripe = 0; stripe < stripes.size(); ++stripe)
      lasts[stripe] = messages[stripe];
    ++end.taken;
  }
}

/// Patches the templates of `end` for the message of `pieceList`.
void Connection::pushChain(OutEnd &end, uint32_t number, char *local, uint64_t remote,
                           Traffic &sent) {
  chain.clear();
  appendMessage(pieceList, limits, false, placed, chain);
  for (const WorkRequest &work : chain) {
    const auto stripe = size_t(work.stripe);
    Request request = end.templates[stripe];
    request.work.wr.rdma.remote_addr = remote + uint64_t(work.offset);
    if (work.bytes > 0) {
      request.part.addr = reinterpret_cast<uintptr_t>(local + work.offset);
      request.part.length = uint32_t(work.bytes);
      request.work.num_sge = 1;
    }
    if (work.immediate) {
      request.work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      request.work.imm_data = htonl(encodeImmediate(end.number, number, work.part));
    }
    request.work.send_flags =
        (work.inlined ? IBV_SEND_INLINE : 0u) | (work.signaled ? IBV_SEND_SIGNALED : 0u);
    stripes[stripe].push(request, end.index);
    messages[stripe] = stripes[stripe].pushes();
    sent.bytes += work.bytes;
    ++sent.requests;
    sent.packets += std::max<int64_t>(1, llvm::divideCeil(work.bytes, stripes[stripe].mtu));
    sent.immediates += work.immediate;
  }
}

void Connection::raise(const Stripe &stripe, uint64_t id, const std::string &what) {
  if (left)
    return;
  Nic &nic = *nics[stripe.nic];
  const uint64_t index = id >> sequenceBits;
  const std::string channel =
      id != receiveId && index < ends.size()
          ? fmt::format("; {} tag {}", ends[index]->end.to ? "channel" : "flow control of",
                        ends[index]->key.tag)
          : "";
  const std::string events = nic.events();
  failure.raise(peer, "rank {} cannot write to rank {} through {}: {}{}{}", rank, peer,
                describePort(nic.facts()), what, channel, events.empty() ? "" : "; " + events);
}

} // namespace ccl::rdma
