//===- EmulatedQueue.cpp ----------------------------------------------------===//
#include "runtime/rdma/Emulation.h"

#include <algorithm>
#include <cerrno>

namespace ccl::rdma {
namespace {

class EmulatedQueuePair final : public QueuePair {
public:
  EmulatedQueuePair(std::shared_ptr<EmulatedFabric> fabric, EmulatedPort &port,
                    const QueueLimits &limits)
      : fabric(std::move(fabric)) {
    queue.port = &port;
    queue.limits = limits;
    std::lock_guard lock(this->fabric->mutex);
    queue.number = ++this->fabric->lastQueue;
    port.reserved += limits.sends + limits.receives;
    this->fabric->queues[queue.number] = &queue;
  }

  ~EmulatedQueuePair() override {
    std::unique_lock lock(fabric->mutex);
    fabric->queues.erase(queue.number);
    queue.state = EmulatedQueue::State::Broken;
    fabric->waitForBatch(lock);
    EmulatedPort &port = *queue.port;
    port.reserved -= queue.limits.sends + queue.limits.receives;
    std::erase_if(port.completions, [&](const auto &c) { return c.queue == &queue; });
    port.pending = int64_t(port.completions.size());
    fabric->wake();
  }

  QueueAddress address() const override {
    QueueAddress address;
    address.gid = queue.port->gid;
    address.queuePair = queue.number;
    address.firstPacket = queue.number * 7919 & 0xffffff;
    address.mtu = IBV_MTU_256;
    for (int bytes = 256; bytes < fabric->options.mtu && address.mtu < IBV_MTU_4096; bytes *= 2)
      ++address.mtu;
    address.linkLayer = IBV_LINK_LAYER_ETHERNET;
    return address;
  }

  llvm::Error connect(const QueueAddress &peer) override;
  int post(ibv_send_wr *first, ibv_send_wr **bad) override;
  int postReceives(int number, uint64_t id) override;
  uint32_t number() const override { return queue.number; }
  QueueLimits limits() const override { return queue.limits; }

  void breakOff() override {
    std::unique_lock lock(fabric->mutex);
    if (queue.state == EmulatedQueue::State::Broken)
      return;
    queue.state = EmulatedQueue::State::Broken;
    fabric->waitForBatch(lock);
    fabric->breakQueue(queue, IBV_WC_WR_FLUSH_ERR, Clock::now());
    fabric->wake();
  }

private:
  int take(const ibv_send_wr &request, EmulatedSend &send) const;
  Clock::time_point due(Clock::time_point now) const;

  std::shared_ptr<EmulatedFabric> fabric;
  EmulatedQueue queue;
};

} // namespace

std::unique_ptr<QueuePair> makeEmulatedQueue(std::shared_ptr<EmulatedFabric> fabric,
                                             EmulatedPort &port, const QueueLimits &limits) {
  return std::make_unique<EmulatedQueuePair>(std::move(fabric), port, limits);
}

llvm::Error EmulatedQueuePair::connect(const QueueAddress &peer) {
  std::lock_guard lock(fabric->mutex);
  if (queue.state != EmulatedQueue::State::Initial)
    return makeFailure(Failure::Machine, "{}: queue pair {} has been connected before",
                       queue.port->name, queue.number);
  const bool isKnown = std::any_of(fabric->ports.begin(), fabric->ports.end(),
                                   [&](const auto &p) { return p.second.gid == peer.gid; });
  if (!isKnown)
    return makeFailure(Failure::Machine,
                       "{} port 1, GID index 0: no route to the peer's GID ...{}.{}: it is not a "
                       "NIC of this wire",
                       queue.port->name, peer.gid[14], peer.gid[15]);
  queue.peer = peer.queuePair;
  queue.state = EmulatedQueue::State::Ready;
  fabric->wake();
  return llvm::Error::success();
}

/// 0, or why the request is not taken.
int EmulatedQueuePair::take(const ibv_send_wr &request, EmulatedSend &send) const {
  if (request.opcode != IBV_WR_RDMA_WRITE && request.opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
    return EINVAL;
  if (request.num_sge < 0 || request.num_sge > queue.limits.pieces)
    return EINVAL;
  send.id = request.wr_id;
  send.remote = request.wr.rdma.remote_addr;
  send.remoteKey = request.wr.rdma.rkey;
  send.hasImmediate = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  send.immediate = send.hasImmediate ? request.imm_data : 0;
  send.isSignaled = request.send_flags & IBV_SEND_SIGNALED;
  send.isInlined = request.send_flags & IBV_SEND_INLINE;
  for (int i = 0; i < request.num_sge; ++i)
    send.bytes += request.sg_list[i].length;
  if (send.bytes > fabric->options.mostBytes ||
      (send.isInlined && send.bytes > queue.limits.inlineBytes))
    return EINVAL;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge &piece = request.sg_list[i];
    if (!send.isInlined) {
      send.pieces.push_back(piece);
      continue;
    }
    // Its key is not looked at, and the memory is the caller's again when post() returns.
    const auto *data = reinterpret_cast<const uint8_t *>(piece.addr);
    send.inlined.insert(send.inlined.end(), data, data + piece.length);
  }
  return 0;
}

/// Not before the message in front of it.
Clock::time_point EmulatedQueuePair::due(Clock::time_point now) const {
  Clock::time_point due = now + fabric->options.delay;
  if (!queue.waiting.empty())
    due = std::max(due, queue.waiting.back().due);
  return due;
}

int EmulatedQueuePair::post(ibv_send_wr *first, ibv_send_wr **bad) {
  std::lock_guard lock(fabric->mutex);
  const Clock::time_point now = Clock::now();
  int error = queue.state == EmulatedQueue::State::Initial ? EINVAL : 0;
  ibv_send_wr *request = first;
  for (; request && !error; request = error ? request : request->next) {
    EmulatedSend send;
    if (queue.sends >= queue.limits.sends)
      error = ENOMEM;
    else
      error = take(*request, send);
    if (error)
      break;
    send.due = due(now);
    ++queue.sends;
    queue.waiting.push_back(std::move(send));
  }
  if (error && bad)
    *bad = request;
  if (queue.state == EmulatedQueue::State::Broken)
    fabric->breakQueue(queue, IBV_WC_WR_FLUSH_ERR, now);
  fabric->wake();
  return error;
}

int EmulatedQueuePair::postReceives(int number, uint64_t id) {
  std::lock_guard lock(fabric->mutex);
  if (number < 0)
    return EINVAL;
  if (queue.receivesTaken + number > queue.limits.receives)
    return ENOMEM;
  queue.receivesTaken += number;
  queue.receives.insert(queue.receives.end(), size_t(number), id);
  if (queue.state == EmulatedQueue::State::Broken)
    fabric->breakQueue(queue, IBV_WC_WR_FLUSH_ERR, Clock::now());
  fabric->wake();
  return 0;
}

} // namespace ccl::rdma
