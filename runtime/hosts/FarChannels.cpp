//===- FarChannels.cpp --------------------------------------------------------===//
#include "runtime/hosts/FarChannels.h"

#include "runtime/rdma/Schedule.h"

#include <algorithm>

namespace ccl {
llvm::Error FarChannels::open() {
  if (wire)
    return llvm::Error::success();
  rdma::WireOptions options;
  options.rank = group.rank;
  options.slotBytes = group.block().slotBytes;
  llvm::Expected<std::unique_ptr<rdma::Wire>> opened = group.world().hosts()->openWire(options);
  if (!opened)
    return opened.takeError();
  wire = std::move(*opened);
  return llvm::Error::success();
}

llvm::Expected<std::string> FarChannels::awaitMail(int32_t peer) {
  std::optional<std::string> bytes;
  const Group::Wait wait = group.waitUntil(
      peer,
      [&] {
        bytes = group.world().hosts()->receive(group.block(), peer, group.rank);
        return bytes.has_value();
      },
      [&] {
        return fmt::format("the set-up of channels between ranks {} and {}", group.rank, peer);
      });
  if (wait != Group::Wait::Done)
    return group.firstFailure();
  return std::move(*bytes);
}

/// Both ends say what the other has to know.
llvm::Error FarChannels::connect(const std::map<int32_t, Keys> &channels) {
  if (llvm::Error e = open())
    return e;
  for (const auto &[peer, keys] : channels) {
    llvm::Expected<std::string> offer = wire->offer(peer, keys);
    if (!offer)
      return offer.takeError();
    group.world().hosts()->send(group.block(), group.rank, peer, *offer);
  }
  for (const auto &[peer, keys] : channels) {
    llvm::Expected<std::string> offer = awaitMail(peer);
    if (!offer)
      return offer.takeError();
    if (llvm::Error e = wire->accept(peer, keys, *offer))
      return e;
    if (!llvm::is_contained(peers, peer))
      peers.push_back(peer);
  }
  // Nobody writes before the other side is ready to receive.
  for (const auto &[peer, keys] : channels)
    group.world().hosts()->send(group.block(), group.rank, peer, "ready");
  for (const auto &[peer, keys] : channels)
    if (llvm::Expected<std::string> ready = awaitMail(peer); !ready)
      return ready.takeError();
  return llvm::Error::success();
}

llvm::Error FarChannels::resolve(const Plan &plan, const RankFacts &facts,
                                 std::vector<ChannelEnd *> &table, FarProgram &program) {
  const KernelPlan &kernel = plan.kernels[size_t(facts.kernel)];
  std::map<int32_t, Keys> channels;
  struct Place {
    size_t entry;
    ChannelKey key;
    bool to;
    int32_t family, peer;
  };
  std::vector<Place> places;
  for (size_t f = 0; f < kernel.channels.size(); ++f)
    for (int32_t peer : kernel.peers[f][facts.indexInSet]) {
      if (group.isNear(peer))
        continue;
      const ChannelFamily &family = kernel.channels[f];
      const auto me = int32_t(group.rank);
      const ChannelKey key{family.to ? me : peer, family.to ? peer : me, family.tag, family.slots};
      channels[peer].push_back(key);
      places.push_back({f * size_t(group.ranks) + size_t(peer), key, family.to, int32_t(f), peer});
    }
  if (places.empty())
    return llvm::Error::success();
  if (!plan.hasWires || facts.indexInSet >= kernel.wires.size())
    return makeFailure(
        Failure::BadArgument,
        "{} (hash {}) has too many messages for a plan that says what goes from host "
        "to host",
        plan.program, plan.hash);
  for (auto &[peer, keys] : channels)
    std::sort(keys.begin(), keys.end());
  if (llvm::Error e = connect(channels))
    return e;
  for (const Place &place : places) {
    ChannelEnd *end = wire->end(place.key, place.to);
    table[place.entry] = end;
    program.ends.push_back(end);
    if (!place.to || place.key.slots == 0)
      continue;
    program.sending.push_back(end);
    std::vector<WireMessage> &messages = program.messages.emplace_back();
    for (const WireMessage &message : kernel.wires[facts.indexInSet].messages)
      if (message.family == place.family && message.peer == place.peer)
        messages.push_back(message);
  }
  return llvm::Error::success();
}

void FarChannels::begin(const FarProgram &program, const Plan &plan, const KernelArgs &args) {
  if (program.ends.empty())
    return;
  isRunning = true;
  const rdma::MessageCut cut{args.count, args.microBatches, args.stride, args.shards};
  auto pieces = [&program, cut, chunks = plan.contract.chunks, bytes = sizeOf(plan.type)](
                    size_t index, uint64_t number, std::vector<rdma::Piece> &result) {
    const std::vector<WireMessage> &messages = program.messages[index];
    rdma::appendPieces(messages[size_t(number % messages.size())], chunks, bytes, cut,
                       int64_t(number / messages.size()), result);
  };
  wire->begin(program.ends, program.sending, std::move(pieces));
}

/// Of a peer that has left in order nothing is missing, be it an acknowledgement.
void FarChannels::noticeLeavers() {
  std::erase_if(peers, [&](int32_t peer) {
    const bool left = group.block().rank(peer).left.load(std::memory_order_acquire);
    if (left)
      wire->leave(peer);
    return left;
  });
}

void FarChannels::progress() {
  if (!isRunning)
    return;
  wire->progress();
  noticeLeavers();
  if (std::optional<RuntimeError> failure = wire->failure())
    group.fail(failure->category, failure->message, failure->culprit);
}

void FarChannels::abandon() {
  if (std::exchange(isRunning, false))
    wire->end();
}

llvm::Error FarChannels::end(const std::function<std::string()> &what) {
  if (!isRunning)
    return llvm::Error::success();
  const Group::Wait wait = group.waitUntil(
      waitsForNobody,
      [&] {
        progress();
        return wire->isDrained();
      },
      [&] { return fmt::format("the NICs of {}", what()); });
  abandon();
  return wait == Group::Wait::Done ? llvm::Error::success() : group.firstFailure();
}

} // namespace ccl
