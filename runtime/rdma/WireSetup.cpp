//===- WireSetup.cpp - Channels of a wire are made --------------------------------===//
#include "runtime/rdma/WireImpl.h"

#include <set>

namespace ccl::rdma {

constexpr size_t pageBytes = 4096;

/// Where the ends of an offer lie in their slab.
struct WireImpl::Layout {
  size_t bytes = 0;
  std::vector<size_t> slots, words; ///< of each channel
};

llvm::Error WireImpl::check(int64_t peer, llvm::ArrayRef<ChannelKey> channels) const {
  if (peer < 0 || peer == options.rank)
    return makeFailure(Failure::BadArgument, "rank {} has no channels to rank {}", options.rank,
                       peer);
  for (const ChannelKey &key : channels) {
    const bool isOut = key.source == options.rank && key.destination == peer;
    const bool isIn = key.destination == options.rank && key.source == peer;
    if (!isOut && !isIn)
      return makeFailure(Failure::BadArgument, "{} is not between rank {} and rank {}",
                         describeChannel(key), options.rank, peer);
    if (key.slots < 0 || (key.slots > 0 && options.slotBytes == 0))
      return makeFailure(Failure::BadArgument, "{}: slots of {} bytes", describeChannel(key),
                         options.slotBytes);
  }
  return llvm::Error::success();
}

WireEnd *WireImpl::find(const ChannelKey &key) const {
  if (key.source == options.rank) {
    const auto place = outs.find(key);
    return place == outs.end() ? nullptr : place->second.get();
  }
  const auto place = ins.find(key);
  return place == ins.end() ? nullptr : place->second.get();
}

//===----------------------------------------------------------------------===//
// Offers
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Connection>> WireImpl::makeConnection(int64_t peer) {
  auto connection = std::make_unique<Connection>(options.rank, peer, options, devices, problem);
  for (size_t stripe = 0; stripe < devices.size(); ++stripe) {
    const size_t nic = (size_t(options.rank) + stripe) % devices.size();
    QueueLimits limits = options.queues;
    if (const int most = devices[nic]->facts().mostWorkRequests; most > 0) {
      limits.sends = std::min(limits.sends, most);
      limits.receives = std::min(limits.receives, most);
    }
    limits.sends = std::max(limits.sends, 1);
    limits.receives = std::max(limits.receives, 1);
    // What is freed is told inline.
    limits.inlineBytes =
        std::max(int(std::min<int64_t>(options.limits.inlineBytes, limits.inlineBytes)),
                 int(sizeof(uint64_t)));
    llvm::Expected<std::unique_ptr<QueuePair>> queue = devices[nic]->createQueuePair(limits);
    if (!queue)
      return queue.takeError();
    connection->stripes.emplace_back(nic, std::move(*queue));
  }
  return connection;
}

/// Where the words lie that tell what is freed, behind the counters of a channel.
static size_t freedOffset(const ChannelKey &key, bool sized) {
  return cacheLine + roundUp(sizeof(uint64_t) * size_t(1 + (sized ? key.slots : 0)), cacheLine);
}

/// Counters and words first, on lines of their own, then slots; those of a page or more on pages.
llvm::Expected<WireImpl::Layout> WireImpl::layOut(llvm::ArrayRef<ChannelKey> channels,
                                                  bool needsHome) const {
  Layout layout;
  size_t words = needsHome ? cacheLine : 0;
  for (const ChannelKey &key : channels) {
    layout.words.push_back(words);
    words += freedOffset(key, options.sized);
    if (key.slots > 0)
      words += cacheLine;
  }
  layout.bytes = words;
  for (const ChannelKey &key : channels) {
    size_t bytes = 0, end = 0;
    if (__builtin_mul_overflow(size_t(key.slots), size_t(options.slotBytes), &bytes) ||
        __builtin_add_overflow(bytes, layout.bytes + 2 * pageBytes, &end))
      return makeFailure(Failure::BadArgument, "{}: slots of {} bytes are too many",
                         describeChannel(key), options.slotBytes);
    layout.bytes = roundUp(layout.bytes, bytes >= pageBytes ? pageBytes : cacheLine);
    layout.slots.push_back(layout.bytes);
    layout.bytes += bytes;
  }
  layout.bytes = roundUp(layout.bytes, pageBytes);
  return layout;
}

void WireImpl::addEnd(Connection &connection, const ChannelKey &key, const Layout &layout,
                      size_t at, const WireSlab *slab, OfferedChannel &offered) {
  offered.key = key;
  char *slots = key.slots > 0 ? slab->data() + layout.slots[at] : nullptr;
  char *first = slab->data() + layout.words[at];
  auto *counters = reinterpret_cast<uint64_t *>(first);
  uint64_t *words = key.slots > 0
                        ? reinterpret_cast<uint64_t *>(first + freedOffset(key, options.sized))
                        : nullptr;
  WireEnd *end = nullptr;
  if (key.source == options.rank) {
    auto made = std::make_unique<OutEnd>(key, options.slotBytes, slots, counters, words);
    made->templates.resize(connection.stripes.size());
    if (key.slots > 0)
      for (size_t stripe = 0; stripe < connection.stripes.size(); ++stripe)
        made->templates[stripe].part.lkey = slab->region(connection.stripes[stripe].nic).localKey;
    offered.address = reinterpret_cast<uintptr_t>(words);
    end = (outs[key] = std::move(made)).get();
  } else {
    auto made = std::make_unique<InEnd>(key, options.slotBytes, slots, counters, words);
    made->parts.resize(connection.stripes.size());
    if (key.slots > 0)
      made->credit.part.lkey = slab->region(connection.stripes[0].nic).localKey;
    made->number = offered.number = uint32_t(incoming.size());
    incoming.push_back(made.get());
    offered.address = reinterpret_cast<uintptr_t>(slots);
    end = (ins[key] = std::move(made)).get();
  }
  end->connection = &connection;
  end->index = uint32_t(connection.ends.size());
  connection.ends.push_back(end);
  byEnd[&end->end] = end;
}

llvm::Expected<std::string> WireImpl::offer(int64_t peer, llvm::ArrayRef<ChannelKey> channels) {
  const std::lock_guard lock(mutex);
  if (llvm::Error e = check(peer, channels))
    return e;
  std::vector<ChannelKey> added;
  std::set<ChannelKey> known;
  for (const ChannelKey &key : channels)
    if (!find(key) && known.insert(key).second)
      added.push_back(key);
  const auto place = connections.find(peer);
  const bool isFirst = place == connections.end();
  std::unique_ptr<Connection> made;
  if (isFirst) {
    llvm::Expected<std::unique_ptr<Connection>> connection = makeConnection(peer);
    if (!connection)
      return connection.takeError();
    made = std::move(*connection);
  }
  Connection &connection = isFirst ? *made : *place->second;
  if (incoming.size() + added.size() > mostChannels ||
      connection.ends.size() + added.size() > mostEnds)
    return makeFailure(Failure::BadArgument, "rank {} has {} channels from other hosts: too many",
                       options.rank, incoming.size() + added.size());
  llvm::Expected<Layout> layout = layOut(added, isFirst);
  if (!layout)
    return layout.takeError();

  Offer offer;
  offer.from = options.rank;
  offer.to = peer;
  offer.slotBytes = options.slotBytes;
  std::unique_ptr<WireSlab> slab;
  if (layout->bytes > 0) {
    llvm::Expected<std::unique_ptr<WireSlab>> memory =
        WireSlab::create(layout->bytes, devices, options.memory);
    if (!memory)
      return memory.takeError();
    slab = std::move(*memory);
    offer.home = reinterpret_cast<uintptr_t>(slab->data());
  }
  for (size_t stripe = 0; stripe < connection.stripes.size(); ++stripe) {
    const Stripe &of = connection.stripes[stripe];
    if (isFirst) {
      offer.queues.push_back(of.queue->address());
      queues[of.nic][of.queue->number()] = {&connection, stripe};
    }
    offer.keys.push_back(slab ? slab->region(of.nic).remoteKey : 0);
  }
  offer.channels.resize(added.size());
  for (size_t i = 0; i < added.size(); ++i)
    addEnd(connection, added[i], *layout, i, slab.get(), offer.channels[i]);
  if (slab)
    slabs.push_back(std::move(slab));
  if (made)
    connections[peer] = std::move(made);
  return encode(offer);
}

//===----------------------------------------------------------------------===//
// Acceptance
//===----------------------------------------------------------------------===//

llvm::Error WireImpl::match(const Connection &connection, llvm::ArrayRef<WireEnd *> expected,
                            const Offer &offer) const {
  const int64_t peer = connection.peer;
  auto differs = [&](const std::string &how) {
    return makeFailureOf(peer, Failure::Mismatch, "rank {} cannot use what rank {} offers: {}",
                         options.rank, peer, how);
  };
  if (offer.from != peer || offer.to != options.rank)
    return differs(fmt::format("it is of rank {} for rank {}", offer.from, offer.to));
  if (offer.slotBytes != options.slotBytes)
    return differs(fmt::format("slots of {} bytes, here they have {} (CCL_SLOT_BYTES)",
                               offer.slotBytes, options.slotBytes));
  if (offer.queues.empty() != connection.isConnected)
    return differs(connection.isConnected ? "queue pairs for a second time" : "no queue pairs");
  const size_t stripes = connection.isConnected
                             ? connection.stripes.size()
                             : std::min(connection.stripes.size(), offer.queues.size());
  if (offer.keys.size() < stripes)
    return differs(fmt::format("{} keys for {} queue pairs", offer.keys.size(), stripes));
  if (offer.channels.size() != expected.size())
    return differs(
        fmt::format("{} new channels, here there are {}", offer.channels.size(), expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (offer.channels[i].key != expected[i]->key)
      return differs(fmt::format("{} where here is {}", describeChannel(offer.channels[i].key),
                                 describeChannel(expected[i]->key)));
    if (offer.channels[i].number >= mostChannels)
      return differs(fmt::format("number {} of {}", offer.channels[i].number,
                                 describeChannel(expected[i]->key)));
  }
  return llvm::Error::success();
}

llvm::Error WireImpl::connect(Connection &connection, const Offer &offer) {
  while (connection.stripes.size() > offer.queues.size()) {
    const Stripe &last = connection.stripes.back();
    queues[last.nic].erase(last.queue->number());
    connection.stripes.pop_back();
  }
  for (size_t i = 0; i < connection.stripes.size(); ++i) {
    Stripe &stripe = connection.stripes[i];
    auto failed = [&](const std::string &how) {
      return makeFailureOf(connection.peer, Failure::Machine,
                           "rank {} cannot connect to rank {} through {}: {}", options.rank,
                           connection.peer, describePort(devices[stripe.nic]->facts()), how);
    };
    if (llvm::Error e = stripe.queue->connect(offer.queues[i]))
      return failed(llvm::toString(std::move(e)));
    const int mtu = std::min(stripe.queue->address().mtu, offer.queues[i].mtu);
    stripe.mtu = int64_t(128) << mtu; // IBV_MTU_256 is 1
    if (const int error = stripe.queue->postReceives(stripe.queue->limits().receives, receiveId))
      return failed(fmt::format("cannot post receives: {}", std::strerror(error)));
  }
  connection.isConnected = true;
  connection.finishSetup(offer.home, offer.keys);
  return llvm::Error::success();
}

void WireImpl::acceptEnd(WireEnd &end, const OfferedChannel &offered, const Offer &offer) {
  const Connection &connection = *end.connection;
  const size_t stripes = connection.stripes.size();
  end.isAccepted = true;
  if (!end.end.to) {
    auto &in = static_cast<InEnd &>(end);
    in.parts.resize(stripes);
    const uint32_t localKey = in.credit.part.lkey;
    in.credit = connection.plainRequest(0);
    in.credit.work.wr.rdma.remote_addr = offered.address;
    in.credit.work.wr.rdma.rkey = offer.keys[0];
    in.credit.work.num_sge = 1;
    in.credit.part = {reinterpret_cast<uintptr_t>(in.words), sizeof(uint64_t), localKey};
    in.credit.writesValue =
        connection.stripes[0].queue->limits().inlineBytes >= int(sizeof(uint64_t));
    if (in.credit.writesValue)
      in.credit.work.send_flags = IBV_SEND_INLINE;
    return;
  }
  auto &out = static_cast<OutEnd &>(end);
  out.number = offered.number;
  out.remote = offered.address;
  out.templates.resize(stripes);
  out.lasts.assign(size_t(end.key.slots) * stripes, 0);
  for (size_t stripe = 0; stripe < stripes; ++stripe) {
    const uint32_t localKey = out.templates[stripe].part.lkey;
    out.templates[stripe] = connection.plainRequest(stripe);
    out.templates[stripe].part.lkey = localKey;
    if (end.key.slots > 0)
      out.templates[stripe].work.wr.rdma.rkey = offer.keys[stripe];
  }
}

llvm::Error WireImpl::accept(int64_t peer, llvm::ArrayRef<ChannelKey> channels,
                             llvm::StringRef offered) {
  const std::lock_guard lock(mutex);
  if (llvm::Error e = check(peer, channels))
    return e;
  llvm::Expected<Offer> offer = decodeOffer(offered);
  if (!offer)
    return makeFailureOf(peer, Failure::Mismatch, "rank {} cannot use what rank {} offers: {}",
                         options.rank, peer, llvm::toString(offer.takeError()));
  const auto place = connections.find(peer);
  if (place == connections.end())
    return makeFailure(Failure::BadArgument, "rank {} has offered nothing to rank {}", options.rank,
                       peer);
  Connection &connection = *place->second;
  std::vector<WireEnd *> expected;
  std::set<ChannelKey> known;
  for (const ChannelKey &key : channels) {
    WireEnd *end = find(key);
    if (!end)
      return makeFailure(Failure::BadArgument, "rank {} has not offered {}", options.rank,
                         describeChannel(key));
    if (!end->isAccepted && known.insert(key).second)
      expected.push_back(end);
  }
  if (llvm::Error e = match(connection, expected, *offer))
    return e;
  if (!connection.isConnected)
    if (llvm::Error e = connect(connection, *offer))
      return e;
  for (size_t i = 0; i < expected.size(); ++i)
    acceptEnd(*expected[i], offer->channels[i], *offer);
  return llvm::Error::success();
}

} // namespace ccl::rdma
