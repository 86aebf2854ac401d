//===- EmulatedEngine.cpp - What carries messages of the emulated wire ---------===//
#include "runtime/rdma/Emulation.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <unistd.h>

namespace ccl::rdma {

/// Work requests of a queue pair whose data may reach memory in any order, with a seed.
static constexpr size_t window = 8;
/// Packets that are copied between two looks at the state.
static constexpr int64_t mostPackets = 256;
static constexpr size_t page = 4096;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// As a device does it: an aligned word is written at once, all else in no order. Pages that are
/// equal already stay untouched, so that those of sparse memory are not made.
static void copyTo(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (bytes == sizeof(uint64_t) && reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t) == 0) {
    uint64_t word = 0;
    if (reinterpret_cast<uintptr_t>(from) % sizeof word == 0)
      word = __atomic_load_n(reinterpret_cast<const uint64_t *>(from), __ATOMIC_ACQUIRE);
    else
      std::memcpy(&word, from, sizeof word);
    __atomic_store_n(reinterpret_cast<uint64_t *>(to), word, __ATOMIC_RELEASE);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(page, bytes - done);
    if (part < page || std::memcmp(to + done, from + done, part) != 0)
      std::memcpy(to + done, from + done, part);
    done += part;
  }
}

static bool covers(const std::map<uint32_t, EmulatedMemory> &keys, uint32_t key,
                   const EmulatedPort *port, uint64_t address, uint64_t bytes) {
  const auto found = keys.find(key);
  if (found == keys.end() || (port && found->second.port != port))
    return false;
  const EmulatedMemory &memory = found->second;
  return address >= memory.base && bytes <= memory.bytes &&
         address - memory.base <= memory.bytes - bytes;
}

ibv_wc_status EmulatedFabric::check(const EmulatedQueue &queue, const EmulatedSend &send) const {
  for (const ibv_sge &piece : send.pieces)
    if (piece.length && !covers(localKeys, piece.lkey, queue.port, piece.addr, piece.length))
      return IBV_WC_LOC_PROT_ERR;
  const EmulatedQueue *peer = reach(queue);
  if (peer && send.bytes &&
      !covers(remoteKeys, send.remoteKey, peer->port, send.remote, uint64_t(send.bytes)))
    return IBV_WC_REM_ACCESS_ERR;
  return IBV_WC_SUCCESS;
}

/// Appends the copies of bytes [offset, offset + bytes) of a message.
void EmulatedFabric::gather(const EmulatedSend &send, int64_t offset, int64_t bytes) {
  auto *to = reinterpret_cast<uint8_t *>(send.remote + uint64_t(offset));
  if (send.isInlined) {
    copies.push_back({to, send.inlined.data() + offset, size_t(bytes)});
    return;
  }
  for (const ibv_sge &piece : send.pieces) {
    const int64_t length = piece.length;
    if (offset < length && bytes > 0) {
      const int64_t part = std::min(bytes, length - offset);
      copies.push_back(
          {to, reinterpret_cast<const uint8_t *>(piece.addr + uint64_t(offset)), size_t(part)});
      to += part;
      bytes -= part;
      offset += part;
    }
    offset -= length;
  }
}

//===----------------------------------------------------------------------===//
// Completions
//===----------------------------------------------------------------------===//

void EmulatedFabric::complete(EmulatedQueue &queue, ibv_wc completion, int64_t sends,
                              int64_t receives, Clock::time_point now) {
  EmulatedPort &port = *queue.port;
  if (!port.isOpen)
    return;
  completion.qp_num = queue.number;
  EmulatedCompletion entry{completion, &queue, sends, receives, now, false};
  if (options.seed && random() % 4 == 0)
    entry.visible += std::chrono::microseconds(random() % 200);
  if (!port.completions.empty())
    entry.visible = std::max(entry.visible, port.completions.back().visible);
  port.completions.push_back(entry);
  port.pending.store(int64_t(port.completions.size()), std::memory_order_release);
  announce(port, now);
}

void EmulatedFabric::announce(EmulatedPort &port, Clock::time_point now) {
  bool isNew = false;
  for (auto entry = port.completions.rbegin(); entry != port.completions.rend(); ++entry) {
    if (entry->isAnnounced)
      break;
    if (entry->visible <= now)
      isNew = entry->isAnnounced = true;
  }
  if (!isNew || !port.isArmed)
    return;
  port.isArmed = false;
  const uint64_t one = 1;
  port.hasEvent = ::write(port.descriptor, &one, sizeof one) == sizeof one;
}

void EmulatedFabric::breakQueue(EmulatedQueue &queue, ibv_wc_status status, Clock::time_point now) {
  queue.state = EmulatedQueue::State::Broken;
  queue.giveUp.reset();
  for (std::deque<EmulatedSend> *list : {&queue.underWay, &queue.waiting})
    for (; !list->empty(); list->pop_front()) {
      ibv_wc completion{};
      completion.wr_id = list->front().id;
      completion.status = std::exchange(status, IBV_WC_WR_FLUSH_ERR);
      // Those in front that were done without a word are over, too.
      complete(queue, completion, 1 + std::exchange(queue.unreported, 0), 0, now);
    }
  for (; !queue.receives.empty(); queue.receives.pop_front()) {
    ibv_wc completion{};
    completion.wr_id = queue.receives.front();
    completion.status = IBV_WC_WR_FLUSH_ERR;
    completion.opcode = IBV_WC_RECV;
    complete(queue, completion, 0, 1, now);
  }
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

EmulatedQueue *EmulatedFabric::reach(const EmulatedQueue &queue) const {
  const auto found = queues.find(queue.peer);
  if (found == queues.end() || queue.state != EmulatedQueue::State::Ready)
    return nullptr;
  EmulatedQueue *peer = found->second;
  const auto answers = [](const EmulatedPort &p) { return p.isUp && p.isOpen && !p.isLost; };
  return peer->state == EmulatedQueue::State::Ready && peer->peer == queue.number &&
                 answers(*queue.port) && answers(*peer->port)
             ? peer
             : nullptr;
}

void EmulatedFabric::start(EmulatedQueue &queue, EmulatedSend &send) {
  EmulatedPort &port = *queue.port;
  send.failure = check(queue, send);
  if (port.failAfter && (*port.failAfter)-- == 0) {
    port.failAfter.reset();
    send.failure = port.failStatus;
  }
  send.packets = (send.bytes + packetBytes() - 1) / packetBytes();
  if (!options.seed || send.packets < 2)
    return;
  send.first = int64_t(random() % uint64_t(send.packets));
  do
    send.stride = 1 + int64_t(random() % uint64_t(send.packets));
  while (std::gcd(send.stride, send.packets) != 1);
}

void EmulatedFabric::admit(EmulatedQueue &queue, Clock::time_point now) {
  const EmulatedQueue *peer = reach(queue);
  if (!peer)
    return;
  // What follows an immediate for which no receive is there would be sent again by a device.
  size_t immediates = 0;
  for (const EmulatedSend &send : queue.underWay)
    immediates += send.hasImmediate;
  while (!queue.waiting.empty() && queue.waiting.front().due <= now &&
         queue.underWay.size() < (options.seed ? window : 1) &&
         (queue.underWay.empty() || (immediates <= peer->receives.size() &&
                                     queue.underWay.back().failure == IBV_WC_SUCCESS))) {
    EmulatedSend &send = queue.underWay.emplace_back(std::move(queue.waiting.front()));
    queue.waiting.pop_front();
    immediates += send.hasImmediate;
    start(queue, send);
  }
}

/// Whether the peer has taken it.
bool EmulatedFabric::deliver(EmulatedQueue &queue, const EmulatedSend &send,
                             Clock::time_point now) {
  EmulatedQueue *peer = reach(queue);
  if (!peer || (send.hasImmediate && peer->receives.empty()))
    return false;
  queue.port->sentBytes += send.bytes;
  if (!send.hasImmediate)
    return true;
  ibv_wc completion{};
  completion.wr_id = peer->receives.front();
  completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.wc_flags = IBV_WC_WITH_IMM;
  completion.imm_data = send.immediate;
  completion.byte_len = uint32_t(send.bytes);
  completion.src_qp = queue.number;
  peer->receives.pop_front();
  complete(*peer, completion, 0, 1, now);
  return true;
}

void EmulatedFabric::finish(EmulatedQueue &queue, Clock::time_point now) {
  while (!queue.underWay.empty()) {
    const EmulatedSend &send = queue.underWay.front();
    if (send.failure != IBV_WC_SUCCESS) {
      // The peer refuses what else may come, too.
      EmulatedQueue *peer = send.failure == IBV_WC_REM_ACCESS_ERR ? reach(queue) : nullptr;
      breakQueue(queue, send.failure, now);
      if (peer)
        breakQueue(*peer, IBV_WC_WR_FLUSH_ERR, now);
      return;
    }
    if (send.carried < send.packets || !deliver(queue, send, now))
      return;
    ++queue.unreported;
    if (send.isSignaled) {
      ibv_wc completion{};
      completion.wr_id = send.id;
      completion.opcode = IBV_WC_RDMA_WRITE;
      completion.byte_len = uint32_t(send.bytes);
      complete(queue, completion, std::exchange(queue.unreported, 0), 0, now);
    }
    queue.underWay.pop_front();
  }
}

/// Ends a queue pair whose peer has not answered for too long.
void EmulatedFabric::watchPeer(EmulatedQueue &queue, Clock::time_point now) {
  const bool hasWork =
      !queue.underWay.empty() || (!queue.waiting.empty() && queue.waiting.front().due <= now);
  if (queue.state != EmulatedQueue::State::Ready || !hasWork || reach(queue)) {
    queue.giveUp.reset();
    return;
  }
  if (!queue.giveUp)
    queue.giveUp = now + options.retryTime;
  else if (*queue.giveUp <= now)
    breakQueue(queue, IBV_WC_RETRY_EXC_ERR, now);
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// Of two messages of a queue pair to the same bytes the later one stays.
static bool hasToWait(const std::deque<EmulatedSend> &underWay, const EmulatedSend &send) {
  for (const EmulatedSend &earlier : underWay) {
    if (&earlier == &send)
      return false;
    if (earlier.carried < earlier.packets &&
        send.remote < earlier.remote + uint64_t(earlier.bytes) &&
        earlier.remote < send.remote + uint64_t(send.bytes))
      return true;
  }
  return false;
}

/// The message whose packets are next: of the next queue pair, or of any.
EmulatedSend *EmulatedFabric::draw(EmulatedQueue *&from) {
  std::vector<std::pair<EmulatedQueue *, EmulatedSend *>> all;
  for (auto &[number, queue] : queues) {
    if (!reach(*queue))
      continue;
    for (EmulatedSend &send : queue->underWay)
      if (send.failure == IBV_WC_SUCCESS && send.carried < send.packets &&
          !hasToWait(queue->underWay, send))
        all.emplace_back(queue, &send);
  }
  if (all.empty())
    return nullptr;
  auto chosen = all.begin();
  if (options.seed)
    chosen += ptrdiff_t(random() % all.size());
  else if (const auto next = std::find_if(
               all.begin(), all.end(), [&](const auto &a) { return a.first->number > lastServed; });
           next != all.end())
    chosen = next;
  from = chosen->first;
  lastServed = from->number;
  return chosen->second;
}

/// Copies a batch of packets; false: there is none.
bool EmulatedFabric::carry(std::unique_lock<std::mutex> &lock) {
  EmulatedQueue *queue = nullptr;
  EmulatedSend *send = draw(queue);
  if (!send)
    return false;
  // Memory may have been taken away since it was looked at.
  send->failure = check(*queue, *send);
  if (send->failure != IBV_WC_SUCCESS)
    return true;
  int64_t packets = 1;
  if (options.seed)
    packets += int64_t(random() % uint64_t(std::clamp<int64_t>(send->packets / 8, 1, mostPackets)));
  copies.clear();
  for (; packets > 0 && send->carried < send->packets; --packets, ++send->carried) {
    const int64_t offset =
        (send->first + send->carried * send->stride) % send->packets * packetBytes();
    gather(*send, offset, std::min(packetBytes(), send->bytes - offset));
  }
  isCopying = true;
  lock.unlock();
  for (const Copy &copy : copies)
    copyTo(copy.to, copy.from, copy.bytes);
  lock.lock();
  isCopying = false;
  ++batch;
  settled.notify_all();
  return true;
}

/// When there is something to do that nobody says, seen from `now`, the time of the last look.
Clock::time_point EmulatedFabric::nextTime(Clock::time_point now) const {
  Clock::time_point next = now + std::chrono::hours(1);
  for (const auto &[name, port] : ports)
    for (const EmulatedCompletion &entry : port.completions)
      if (!entry.isAnnounced) {
        next = std::min(next, entry.visible);
        break;
      }
  for (const auto &[number, queue] : queues) {
    if (queue->giveUp)
      next = std::min(next, *queue->giveUp);
    // One that is due and not under way waits for what somebody will tell.
    if (!queue->waiting.empty() && queue->waiting.front().due > now)
      next = std::min(next, queue->waiting.front().due);
  }
  return next;
}

void EmulatedFabric::run() {
  std::unique_lock lock(mutex);
  while (!isEnding) {
    hasChanged = false;
    const Clock::time_point now = Clock::now();
    for (auto &[name, port] : ports)
      announce(port, now);
    for (auto &[number, queue] : queues) {
      admit(*queue, now);
      finish(*queue, now);
      watchPeer(*queue, now);
    }
    if (carry(lock))
      continue;
    // What was finished may have made room for more.
    const bool hasMore = std::any_of(queues.begin(), queues.end(), [&](const auto &q) {
      return reach(*q.second) && q.second->underWay.empty() && !q.second->waiting.empty() &&
             q.second->waiting.front().due <= now;
    });
    if (!hasMore)
      work.wait_until(lock, nextTime(now), [&] { return hasChanged || isEnding; });
  }
}

} // namespace ccl::rdma
