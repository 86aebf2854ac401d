//===- CudaGroup.cpp - Making and waiting ----------------------------------------===//
#include "runtime/cuda/CudaGroup.h"

#include "runtime/Log.h"
#include "runtime/cuda/SyncBlock.h"

#include <cstring>
#include <memory>

namespace ccl::cuda {

// Ranks are told apart by 32-bit numbers; all are in this process.
constexpr int64_t mostRanks = 4096, mostSlotBytes = int64_t(1) << 40;

static llvm::Error checkOptions(int64_t ranks, CudaGroupOptions &options) {
  if (ranks < 1 || ranks > mostRanks)
    return makeFailure(Failure::BadArgument,
                       "a communicator of one process has 1 to {} ranks, "
                       "not {}",
                       mostRanks, ranks);
  if (options.slotBytes < 1 || options.slotBytes > mostSlotBytes)
    return makeFailure(Failure::BadArgument, "slots have 1 to {} bytes, not {} (CCL_SLOT_BYTES)",
                       mostSlotBytes, options.slotBytes);
  options.slotBytes = roundUp(options.slotBytes, int64_t(cacheLine));
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<CudaGroup>> CudaGroup::create(const Driver &driver, int64_t ranks,
                                                             llvm::ArrayRef<int> devices,
                                                             CudaGroupOptions options) {
  if (llvm::Error e = checkOptions(ranks, options))
    return e;
  if (devices.empty())
    return makeFailure(Failure::BadArgument, "a communicator of {} ranks names no GPU", ranks);
  for (size_t d = 0; d < devices.size(); ++d)
    if (llvm::is_contained(devices.take_front(d), devices[d]))
      return makeFailure(Failure::BadArgument, "GPU {} is named twice", devices[d]);
  std::unique_ptr<CudaGroup> group(new CudaGroup(driver, ranks, options));
  const RelaxedCapture relaxed(driver);
  if (llvm::Error e = group->open(devices.take_front(size_t(ranks))))
    return e;
  log::info(log::Subsystem::Init, -1, "communicator of {} ranks on {} GPUs, slots of {} bytes",
            ranks, group->parts.size(), options.slotBytes);
  return group;
}

llvm::Expected<std::unique_ptr<CudaGroup>> CudaGroup::join(const Driver &driver,
                                                           std::unique_ptr<Member> host,
                                                           int ordinal, CudaGroupOptions options,
                                                           Milliseconds timeout) {
  const int64_t ranks = host->ranks();
  std::unique_ptr<CudaGroup> group(new CudaGroup(driver, ranks, options));
  const RelaxedCapture relaxed(driver);
  llvm::Error error = checkOptions(ranks, group->options);
  if (!error)
    error = group->openPart(ordinal);
  // Others need not wait for who cannot come.
  if (error)
    return host->fail(std::move(error));
  if (llvm::Error e = group->joinPeers(std::move(host), timeout))
    return e;
  log::info(log::Subsystem::Init, group->peers->host().rank(),
            "communicator of {} processes with a GPU each, this one on GPU {}, slots of {} bytes",
            ranks, ordinal, group->options.slotBytes);
  return group;
}

llvm::Error CudaGroup::openPart(int ordinal) {
  llvm::Expected<std::unique_ptr<Device>> device = Device::open(driver, ordinal);
  if (!device)
    return device.takeError();
  Part &part = parts.emplace_back();
  part.device = std::move(*device);
  part.uploads = std::make_unique<Uploads>(*part.device);
  llvm::Expected<ContextScope> scope = part.device->enter();
  if (!scope)
    return scope.takeError();
  llvm::Expected<Stream> stream = makeStream(driver);
  if (!stream)
    return stream.takeError();
  part.own = std::move(*stream);
  llvm::Expected<Event> event = makeEvent(driver);
  if (!event)
    return event.takeError();
  part.last = std::move(*event);
  if (pinned)
    return llvm::Error::success();
  llvm::Expected<PinnedMemory> memory =
      allocatePinned(driver, sizeof(Control) + size_t(theRanks) * sizeof(FailureReport));
  if (!memory)
    return memory.takeError();
  pinned = std::move(*memory);
  new (pinned.get()) Control;
  std::uninitialized_default_construct_n(reinterpret_cast<FailureReport *>(control() + 1),
                                         theRanks);
  return llvm::Error::success();
}

llvm::Error CudaGroup::open(llvm::ArrayRef<int> ordinals) {
  for (int ordinal : ordinals)
    if (llvm::Error e = openPart(ordinal))
      return e;
  for (const Part &part : parts)
    for (const Part &other : parts)
      if (&part != &other)
        if (llvm::Error e = part.device->reachPeer(*other.device))
          return e;
  std::vector<Device *> devices;
  for (int64_t r = 0; r < theRanks; ++r) {
    parts[deviceOf(r)].ranks.push_back(r);
    devices.push_back(&device(r));
  }
  localHomes = std::make_unique<LocalHomes>(std::move(devices));
  homes = localHomes.get();
  return openRanks();
}

llvm::Error CudaGroup::joinPeers(std::unique_ptr<Member> host, Milliseconds timeout) {
  Part &part = parts.front();
  part.ranks.push_back(host->rank());
  auto made = CudaPeers::create(std::move(host), *part.device, options.sharing, timeout);
  if (!made)
    return made.takeError();
  peers = std::move(*made);
  homes = peers.get();
  llvm::Error error = [&]() -> llvm::Error {
    if (llvm::Error e = openRanks())
      return e;
    auto started = CudaWatch::start(peers->host(), control(), [this] { collect(); }, timeout);
    if (!started)
      return started.takeError();
    watch = std::move(*started);
    return llvm::Error::success();
  }();
  return error ? peers->fail(std::move(error)) : llvm::Error::success();
}

llvm::Error CudaGroup::openRanks() {
  // Where many ranks share a GPU there is no room for many instances of each.
  instanceLimit = mostInstances;
  for (const Part &part : parts)
    instanceLimit = std::min(instanceLimit, part.device->mostBlocks() / int64_t(part.ranks.size()));
  instanceLimit = std::max<int64_t>(instanceLimit, 1);
  if (peers) {
    auto all =
        peers->meet(CudaPeers::Topic::Open, {uint64_t(instanceLimit), uint64_t(options.slotBytes)});
    if (!all)
      return all.takeError();
    for (size_t r = 0; r < all->size(); ++r) {
      instanceLimit = std::min(instanceLimit, int64_t((*all)[r][0]));
      if ((*all)[r][1] != all->front()[1])
        return makeFailure(Failure::Mismatch,
                           "ranks 0 and {} disagree on the bytes of a slot: {} and {} "
                           "(CCL_SLOT_BYTES)",
                           r, all->front()[1], (*all)[r][1]);
    }
  }
  for (int64_t r = 0; r < theRanks; ++r) {
    RankPart &part = rankParts.emplace_back();
    if (!isLocal(r))
      continue;
    part.source = std::make_unique<GpuMemory>(device(r), parts.size() > 1, nullptr);
    part.memory = std::make_unique<RankMemory>(*part.source);
    if (!peers)
      continue;
    part.sharedSource = std::make_unique<GpuMemory>(device(r), true, peers.get());
    part.sharedMemory = std::make_unique<RankMemory>(*part.sharedSource);
  }
  channels = std::make_unique<GpuChannels>(*homes, options.slotBytes);
  return openSync();
}

llvm::Error CudaGroup::openSync() {
  const SyncBlock layout(theRanks, instanceLimit);
  std::vector<CUdeviceptr> blocks;
  for (int64_t r = 0; r < theRanks; ++r) {
    llvm::Expected<CUdeviceptr> block = homes->take(r, size_t(layout.bytes()));
    if (!block)
      return block.takeError();
    blocks.push_back(rankParts[size_t(r)].sync = *block);
  }
  for (int64_t r = 0; r < theRanks; ++r) {
    if (!isLocal(r))
      continue;
    const std::vector<char> contents = layout.contents(r, blocks);
    if (llvm::Error e = device(r).write(blocks[size_t(r)], contents.data(), contents.size()))
      return e;
  }
  return llvm::Error::success();
}

std::vector<int64_t> CudaGroup::localRanks() const {
  std::vector<int64_t> result;
  for (int64_t r = 0; r < theRanks; ++r)
    if (isLocal(r))
      result.push_back(r);
  return result;
}

CudaGroup::~CudaGroup() {
  llvm::consumeError(wait());
  if (watch)
    watch->end(); // its thread uses all of this, and `watch`
  watch.reset();
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

llvm::Error CudaGroup::wait() {
  const RelaxedCapture relaxed(driver);
  llvm::Error all = llvm::Error::success();
  for (const Part &part : parts) {
    if (!part.launched)
      continue;
    llvm::Expected<ContextScope> scope = part.device->enter();
    if (!scope) {
      all = llvm::joinErrors(std::move(all), scope.takeError());
      continue;
    }
    if (llvm::Error e = driver.check(driver.cuEventSynchronize(part.last.get()),
                                     "wait for what GPU {} was given", part.device->ordinal()))
      all = llvm::joinErrors(std::move(all), std::move(e));
  }
  return all;
}

llvm::Error CudaGroup::synchronize() {
  llvm::Error error = wait();
  if (watch)
    watch->settle();
  else
    collect();
  if (error)
    return fail(std::move(error));
  if (llvm::Error e = firstFailure())
    return e;
  return reclaim(/*now=*/true);
}

bool CudaGroup::wantsReclaim() const {
  bool wanted = false;
  for (const RankPart &part : rankParts)
    wanted |= part.source && part.source->hasRetired() && !everCaptured;
  return wanted;
}

llvm::Error CudaGroup::reclaim(bool now) {
  if (!wantsReclaim())
    return llvm::Error::success();
  if (now)
    if (llvm::Error e = wait())
      return e;
  for (const Part &part : parts) {
    if (!part.launched)
      continue;
    llvm::Expected<ContextScope> scope = part.device->enter();
    if (!scope)
      return scope.takeError();
    // An error of what was launched is synchronize()'s to tell.
    if (driver.cuEventQuery(part.last.get()) != CUDA_SUCCESS)
      return llvm::Error::success();
  }
  for (const RankPart &part : rankParts)
    if (part.source && !everCaptured) // a graph may use what was given back
      part.source->reclaim();
  return llvm::Error::success();
}

} // namespace ccl::cuda
