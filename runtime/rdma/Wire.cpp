//===- Wire.cpp ---------------------------------------------------------------===//
#include "runtime/rdma/WireImpl.h"

#include "runtime/Log.h"

#include <arpa/inet.h>

#include <array>

namespace ccl::rdma {

llvm::Expected<std::unique_ptr<Wire>> Wire::create(std::vector<std::unique_ptr<Nic>> nics,
                                                   const WireOptions &options) {
  if (nics.empty())
    return makeFailure(Failure::BadArgument, "rank {} has no NIC to reach other hosts through",
                       options.rank);
  if (options.rank < 0 || options.slotBytes < 0)
    return makeFailure(Failure::BadArgument, "rank {} with slots of {} bytes", options.rank,
                       options.slotBytes);
  auto wire = std::make_unique<WireImpl>(std::move(nics), options);
  if (llvm::Error e = wire->start())
    return e;
  return wire;
}

WireImpl::WireImpl(std::vector<std::unique_ptr<Nic>> given, const WireOptions &options)
    : options(options), nics(std::move(given)), queues(nics.size()) {
  for (const std::unique_ptr<Nic> &nic : nics)
    devices.push_back(nic.get());
}

llvm::Error WireImpl::start() {
  std::vector<int> descriptors;
  descriptors.reserve(devices.size());
  for (const Nic *nic : devices)
    descriptors.push_back(nic->descriptor());
  llvm::Expected<std::unique_ptr<WireProxy>> started =
      WireProxy::start(*this, std::move(descriptors));
  if (!started)
    return started.takeError();
  proxy = std::move(*started);
  return llvm::Error::success();
}

WireImpl::~WireImpl() {
  proxy.reset();
  if (sent.requests + sent.flags > 0)
    log::info(log::Subsystem::Init, options.rank,
              "has sent to other hosts: {} bytes in {} writes, {} packets, {} immediates, {} flags",
              sent.bytes, sent.requests, sent.packets, sent.immediates, sent.flags);
  // Nothing is written any more when memory goes.
  for (const auto &[peer, connection] : connections)
    for (const Stripe &stripe : connection->stripes)
      stripe.queue->breakOff();
  connections.clear();
  slabs.clear();
}

ChannelEnd *WireImpl::end(const ChannelKey &key, bool to) {
  const std::lock_guard lock(mutex);
  if (to) {
    const auto place = outs.find(key);
    return place == outs.end() ? nullptr : &place->second->end;
  }
  const auto place = ins.find(key);
  return place == ins.end() ? nullptr : &place->second->end;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// What of a launch goes over one connection.
struct WireImpl::Parts {
  Connection *connection = nullptr;
  std::vector<OutEnd *> data, signals;
  std::vector<InEnd *> freeing;
};

void WireImpl::begin(llvm::ArrayRef<ChannelEnd *> ends, llvm::ArrayRef<ChannelEnd *> sending,
                     Pieces newPieces) {
  const std::lock_guard lock(mutex);
  ++launch;
  std::map<int64_t, Parts> parts;
  auto add = [&](const ChannelEnd *given, size_t index) {
    WireEnd *end = byEnd.lookup(given);
    if (!end || std::exchange(end->launch, launch) == launch)
      return;
    if (!end->isAccepted)
      return problem.raise(end->end.peer, "rank {} uses {}, of which rank {} has told nothing yet",
                           options.rank, describeChannel(end->key), end->end.peer);
    Parts &part = parts[end->end.peer];
    part.connection = end->connection;
    if (!end->end.to) {
      if (end->end.numSlots > 0)
        part.freeing.push_back(static_cast<InEnd *>(end));
      return;
    }
    auto *out = static_cast<OutEnd *>(end);
    out->sending = index;
    (end->end.numSlots > 0 ? part.data : part.signals).push_back(out);
  };
  for (size_t i = 0; i < sending.size(); ++i)
    add(sending[i], i);
  for (const ChannelEnd *end : ends)
    add(end, OutEnd::unknown);
  active.clear();
  for (const auto &[peer, part] : parts) {
    part.connection->begin(part.data, part.signals, part.freeing);
    active.push_back(part.connection);
  }
  pieces = std::move(newPieces);
  proxy->setAwake(!active.empty());
}

bool WireImpl::isDrained() {
  const std::lock_guard lock(mutex);
  advance();
  if (problem.hasFailed())
    return false;
  for (const Connection *connection : active)
    if (!connection->isDrained())
      return false;
  return true;
}

void WireImpl::end() {
  const std::lock_guard lock(mutex);
  proxy->setAwake(false);
  active.clear();
  pieces = nullptr;
}

void WireImpl::leave(int64_t peer) {
  const std::lock_guard lock(mutex);
  const auto place = connections.find(peer);
  if (place != connections.end())
    place->second->leave();
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

bool WireImpl::progress() {
  visits.fetch_add(1, std::memory_order_relaxed);
  return work();
}

bool WireImpl::work() {
  const std::unique_lock lock(mutex, std::try_to_lock);
  return lock.owns_lock() && advance();
}

bool WireImpl::hadHelp() {
  const uint64_t now = visits.load(std::memory_order_relaxed);
  return std::exchange(seenVisits, now) != now;
}

bool WireImpl::prepareSleep() {
  const std::lock_guard lock(mutex);
  for (size_t nic = 0; nic < devices.size() && !problem.hasFailed(); ++nic)
    if (!devices[nic]->arm())
      onLost(nic);
  return !advance() && !problem.hasFailed();
}

bool WireImpl::advance() {
  bool any = false;
  for (size_t nic = 0; nic < devices.size() && !problem.hasFailed(); ++nic)
    any |= pollNic(nic);
  for (Connection *connection : active) {
    if (problem.hasFailed())
      break;
    any |= connection->serve(pieces, sent);
  }
  if (!any && !active.empty())
    watchPorts();
  return any;
}

bool WireImpl::pollNic(size_t nic) {
  // Not for ever: others want to send, too.
  constexpr int mostRounds = 8;
  std::array<ibv_wc, 32> completions;
  bool any = false;
  for (int round = 0; round < mostRounds; ++round) {
    const int number = devices[nic]->poll(completions.data(), int(completions.size()));
    if (number < 0) {
      onLost(nic);
      return any;
    }
    const llvm::ArrayRef<ibv_wc> come(completions.data(), size_t(number));
    for (const ibv_wc &completion : come)
      if (completion.status == IBV_WC_SUCCESS && !problem.hasFailed())
        onCompletion(nic, completion);
    onErrors(nic, come);
    any |= number > 0;
    if (come.size() < completions.size() || problem.hasFailed())
      break;
  }
  return any;
}

void WireImpl::onCompletion(size_t nic, const ibv_wc &completion) {
  const Place place = queues[nic].lookup(completion.qp_num);
  if (!place.connection)
    return;
  // Also of a peer that has left: what it has sent is still to be read.
  Stripe &stripe = place.connection->stripes[place.stripe];
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    stripe.complete(completion.wr_id);
    return;
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
    onImmediate(place, ntohl(completion.imm_data));
  if (const int error = stripe.replaceReceive())
    place.connection->raise(stripe, receiveId,
                            fmt::format("cannot post receives: {}", std::strerror(error)));
}

void WireImpl::onImmediate(const Place &place, uint32_t immediate) {
  const uint32_t number = channelOf(immediate);
  InEnd *end = number < incoming.size() ? incoming[number] : nullptr;
  if (end && end->connection == place.connection &&
      end->receive(place.stripe, messagesOf(immediate), isPart(immediate)))
    return;
  const int64_t peer = place.connection->peer;
  problem.raise(peer,
                "rank {} has got {:#x} from rank {}, which is no message of {}: rank {} does "
                "not keep to the protocol",
                options.rank, immediate, peer,
                end ? describeChannel(end->key) : "any of its channels", peer);
}

/// Requests that are flushed tell nothing of the cause.
void WireImpl::onErrors(size_t nic, llvm::ArrayRef<ibv_wc> completions) {
  const ibv_wc *worst = nullptr;
  for (const ibv_wc &completion : completions) {
    const Place place = queues[nic].lookup(completion.qp_num);
    if (completion.status == IBV_WC_SUCCESS || !place.connection || place.connection->hasLeft())
      continue;
    if (!worst ||
        (worst->status == IBV_WC_WR_FLUSH_ERR && completion.status != IBV_WC_WR_FLUSH_ERR))
      worst = &completion;
  }
  if (!worst)
    return;
  const Place place = queues[nic].lookup(worst->qp_num);
  place.connection->raise(place.connection->stripes[place.stripe], worst->wr_id,
                          describeStatus(worst->status));
}

/// A queue pair whose packets are lost may retry for long, and one that only receives hears nothing
/// at all. A port that comes back soon harms nobody.
void WireImpl::watchPorts() {
  constexpr std::chrono::milliseconds between{50}, patience{1000};
  const auto now = std::chrono::steady_clock::now();
  if (now < nextWatch)
    return;
  nextWatch = now + between;
  downSince.resize(devices.size());
  for (size_t nic = 0; nic < devices.size() && !problem.hasFailed(); ++nic) {
    devices[nic]->events();
    if (!devices[nic]->isDown())
      downSince[nic].reset();
    else if (!downSince[nic])
      downSince[nic] = now;
    else if (now - *downSince[nic] > patience)
      onLost(nic);
  }
}

void WireImpl::onLost(size_t nic) {
  const std::string events = devices[nic]->events();
  problem.raise(options.rank, "rank {} has lost {}{}", options.rank,
                describePort(devices[nic]->facts()), events.empty() ? "" : ": " + events);
}

} // namespace ccl::rdma
