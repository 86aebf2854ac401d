//===- CudaPeers.cpp --------------------------------------------------------===//
#include "runtime/cuda/CudaPeers.h"

#include "runtime/Log.h"
#include "runtime/Memory.h"

#include <cstring>

namespace ccl::cuda {
namespace {

/// Of a place: behind the number of a segment.
constexpr unsigned offsetBits = 44;
constexpr size_t leastPool = size_t(2) << 20, mostPool = size_t(64) << 20, boundary = 256;

std::string_view name(CudaPeers::Topic topic) {
  using Topic = CudaPeers::Topic;
  switch (topic) {
  case Topic::Open: return "a new communicator of GPUs";
  case Topic::Program: return "the first launch of a program";
  case Topic::Launch: return "a launch";
  case Topic::Counts: return "the counts of a launch";
  case Topic::Place: return "the buffers of a launch";
  case Topic::Allocate: return "an allocation";
  case Topic::Register: return "a registration";
  }
  return "something else";
}

} // namespace

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<CudaPeers>> CudaPeers::create(std::unique_ptr<Member> member,
                                                             Device &home,
                                                             std::optional<Sharing> sharing,
                                                             Milliseconds timeout) {
  if (!sharing) {
    llvm::Expected<Sharing> best = SharedMemory::waysOf(home);
    if (!best)
      return best.takeError();
    sharing = *best;
  }
  std::unique_ptr<CudaPeers> peers(new CudaPeers(std::move(member), home, *sharing, timeout));
  llvm::Error error = [&]() -> llvm::Error {
    if (llvm::Error e = peers->checkDevices())
      return e;
    llvm::Expected<bootstrap::PeerSockets> sockets =
        bootstrap::PeerSockets::connect(*peers->member, timeout);
    if (!sockets)
      return sockets.takeError();
    peers->sockets.emplace(std::move(*sockets));
    return llvm::Error::success();
  }();
  if (error)
    return peers->fail(std::move(error));
  return peers;
}

CudaPeers::~CudaPeers() {
  bool lasting = true;
  for (const SharedMemory &segment : own)
    lasting &= segment.sharing() == Sharing::Virtual;
  theirs.clear();
  if (!lasting && !failure())
    if (auto met = member->exchange({}, Milliseconds(2000)); !met)
      llvm::consumeError(met.takeError());
}

/// Kernels of ranks wait for each other, so all of them have to get on.
llvm::Error CudaPeers::checkDevices() {
  const Driver &driver = home.api();
  CUuuid uuid{};
  if (llvm::Error e = driver.check(driver.cuDeviceGetUuid_v2(&uuid, home.context().device()),
                                   "ask for the number of GPU {}", home.ordinal()))
    return e;
  int slices = 0;
  if (llvm::Error e = driver.check(
          driver.cuDeviceGetAttribute(&slices, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
                                      home.context().device()),
          "ask whether GPU {} divides its time", home.ordinal()))
    return e;
  Facts mine{};
  std::memcpy(mine.data(), uuid.bytes, sizeof uuid.bytes);
  mine[2] = uint64_t(slices != 0);
  mine[3] = uint64_t(driver.isShim());
  llvm::Expected<std::vector<Facts>> all = meet(Topic::Open, mine);
  if (!all)
    return all.takeError();
  for (size_t b = 0; b < all->size(); ++b)
    for (size_t a = 0; a < b; ++a) {
      if ((*all)[a][3] != (*all)[b][3])
        return makeFailure(Failure::Mismatch,
                           "ranks {} and {} use different drivers: a GPU and the stand-in", a, b);
      if ((*all)[a][0] != (*all)[b][0] || (*all)[a][1] != (*all)[b][1])
        continue;
      if (!(*all)[a][2])
        return makeFailure(Failure::BadArgument,
                           "ranks {} and {} are on one GPU, which runs kernels of one process at a "
                           "time: they would wait for each other for ever",
                           a, b);
      if (!driver.isShim() && isLocal(int64_t(b)))
        log::warn(log::Subsystem::Init, member->rank(),
                  "shares a GPU with rank {}: the driver lets them run in turn, which is slow", a);
    }
  return llvm::Error::success();
}

llvm::Expected<std::vector<CudaPeers::Facts>> CudaPeers::meet(Topic topic, const Facts &mine) {
  Member::Words words{};
  std::copy(mine.begin(), mine.end(), words.begin());
  words.back() = uint64_t(topic);
  auto all = member->exchange(words, timeout);
  if (!all)
    return all.takeError();
  std::vector<Facts> result;
  for (size_t r = 0; r < all->size(); ++r) {
    const Member::Words &there = (*all)[r];
    if (there.back() != all->front().back())
      return makeFailure(Failure::Mismatch, "ranks 0 and {} disagree on what they do: {} and {}", r,
                         name(Topic(all->front().back())), name(Topic(there.back())));
    Facts &facts = result.emplace_back();
    std::copy_n(there.begin(), facts.size(), facts.begin());
  }
  return result;
}

llvm::Expected<std::vector<std::vector<uint64_t>>>
CudaPeers::gather(llvm::ArrayRef<uint64_t> mine) {
  std::vector<std::vector<uint64_t>> result(size_t(member->ranks()));
  for (size_t begin = 0; begin < mine.size(); begin += Member::Words().size()) {
    Member::Words words{};
    const size_t count = std::min(words.size(), mine.size() - begin);
    std::copy_n(mine.begin() + begin, count, words.begin());
    auto all = member->exchange(words, timeout);
    if (!all)
      return all.takeError();
    for (size_t r = 0; r < all->size(); ++r)
      result[r].insert(result[r].end(), (*all)[r].begin(), (*all)[r].begin() + count);
  }
  return result;
}

llvm::Expected<std::vector<std::string>> CudaPeers::tell(std::string_view text) {
  Member::Words words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words - sizeof words[0]));
  auto all = member->exchange(words, timeout);
  if (!all)
    return all.takeError();
  std::vector<std::string> result;
  for (const Member::Words &there : *all)
    result.emplace_back(reinterpret_cast<const char *>(there.data()));
  return result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

llvm::Expected<CUdeviceptr> CudaPeers::allocateSegment(size_t bytes) {
  llvm::Expected<SharedMemory> segment = SharedMemory::allocate(home, bytes, sharing);
  if (!segment) {
    Failure category = Failure::Machine;
    std::string text;
    llvm::handleAllErrors(segment.takeError(), [&](const RuntimeError &e) {
      category = e.category;
      text = e.message;
    });
    return makeFailureOf(member->rank(), category, "rank {}: {}", member->rank(), text);
  }
  own.push_back(std::move(*segment));
  return own.back().base();
}

llvm::Error CudaPeers::sendNew(int64_t rank, llvm::ArrayRef<MemoryOffer> offers,
                               llvm::ArrayRef<Descriptor> descriptors) {
  for (size_t i = 0; i < offers.size(); ++i)
    if (llvm::Error e =
            sockets->send(rank, {reinterpret_cast<const char *>(&offers[i]), sizeof offers[i]},
                          descriptors[i].get()))
      return e;
  return llvm::Error::success();
}

llvm::Error CudaPeers::receiveNew(int64_t rank, uint64_t count) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (uint64_t i = 0; i < count; ++i) {
    llvm::Expected<bootstrap::PeerSockets::Received> received =
        sockets->receive(rank, sizeof(MemoryOffer), deadline);
    if (!received)
      return received.takeError();
    MemoryOffer offer;
    std::memcpy(&offer, received->bytes.data(), sizeof offer);
    if (offer.sharing == Sharing::Virtual && !received->descriptor)
      return makeFailureOf(rank, Failure::Machine, "rank {} sent no descriptor for its memory",
                           rank);
    llvm::Expected<SharedMemory> memory =
        SharedMemory::import(home, offer, std::move(received->descriptor));
    if (!memory)
      return memory.takeError();
    theirs[size_t(rank)].push_back(std::move(*memory));
  }
  return llvm::Error::success();
}

llvm::Error CudaPeers::share() {
  std::vector<MemoryOffer> offers;
  std::vector<Descriptor> descriptors;
  for (size_t s = shared; s < own.size(); ++s) {
    llvm::Expected<MemoryOffer> offer = own[s].offer(descriptors.emplace_back());
    if (!offer)
      return offer.takeError();
    offers.push_back(*offer);
  }
  auto counts = member->exchange({offers.size()}, timeout);
  if (!counts)
    return counts.takeError();
  for (int64_t r = 0; r < member->ranks(); ++r)
    if (!isLocal(r))
      if (llvm::Error e = sendNew(r, offers, descriptors))
        return e;
  for (int64_t r = 0; r < member->ranks(); ++r)
    if (!isLocal(r))
      if (llvm::Error e = receiveNew(r, (*counts)[size_t(r)][0]))
        return e;
  shared = own.size();
  return meet(); // all have it before anybody uses it
}

llvm::Error CudaPeers::meet() {
  auto met = member->exchange({}, timeout);
  return met ? llvm::Error::success() : met.takeError();
}

llvm::Error CudaPeers::growPools(size_t bytes) {
  const size_t size =
      roundUp(std::max(bytes, std::min(leastPool << std::min<size_t>(pools.size(), 10), mostPool)),
              leastPool);
  llvm::Expected<CUdeviceptr> segment = allocateSegment(size);
  if (!segment)
    return segment.takeError();
  if (llvm::Error e = share())
    return e;
  Pool pool;
  for (int64_t r = 0; r < member->ranks(); ++r)
    pool.bases.push_back(isLocal(r) ? *segment : theirs[size_t(r)].back().base());
  pool.used.assign(pool.bases.size(), 0);
  pool.bytes = size;
  pools.push_back(std::move(pool));
  return llvm::Error::success();
}

llvm::Expected<CUdeviceptr> CudaPeers::take(int64_t rank, size_t bytes) {
  bytes = roundUp(std::max<size_t>(bytes, 1), boundary);
  auto cut = [&](Pool &pool) -> CUdeviceptr {
    size_t &used = pool.used[size_t(rank)];
    if (bytes > pool.bytes - used)
      return 0;
    used += bytes;
    return pool.bases[size_t(rank)] + used - bytes;
  };
  for (Pool &pool : pools)
    if (const CUdeviceptr found = cut(pool))
      return found;
  if (llvm::Error e = growPools(bytes))
    return e;
  return cut(pools.back());
}

uint64_t CudaPeers::placeOf(const void *address) const {
  const uint64_t at = addressOf(address);
  for (size_t s = 0; s < own.size(); ++s)
    if (at >= own[s].base() && at - own[s].base() < own[s].bytes())
      return uint64_t(s + 1) << offsetBits | (at - own[s].base());
  return 0;
}

void *CudaPeers::reach(int64_t rank, uint64_t place) const {
  if (place == 0)
    return nullptr;
  const std::vector<SharedMemory> &segments = isLocal(rank) ? own : theirs[size_t(rank)];
  const size_t segment = size_t(place >> offsetBits) - 1;
  if (segment >= segments.size())
    return nullptr;
  return reinterpret_cast<void *>(uintptr_t(segments[segment].base()) +
                                  uintptr_t(place & ((uint64_t(1) << offsetBits) - 1)));
}

//===----------------------------------------------------------------------===//
// Memory of the user
//===----------------------------------------------------------------------===//

llvm::Expected<SymmetricBuffer> CudaPeers::publish(void *address, int64_t bytes) {
  if (llvm::Error e = share())
    return e;
  const uint64_t place = placeOf(address);
  auto places = gather(place);
  if (!places)
    return places.takeError();
  SymmetricBuffer result{address, bytes, {}};
  for (int64_t r = 0; r < member->ranks(); ++r)
    result.peers.push_back(reach(r, (*places)[size_t(r)][0]));
  regions.push_back({reinterpret_cast<uintptr_t>(address), bytes});
  return result;
}

static llvm::Error checkBytes(llvm::ArrayRef<CudaPeers::Facts> all) {
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r][0] != all[0][0])
      return makeFailure(Failure::Mismatch, "ranks 0 and {} disagree on the bytes: {} and {}", r,
                         all[0][0], all[r][0]);
  return llvm::Error::success();
}

llvm::Expected<SymmetricBuffer> CudaPeers::allocate(int64_t bytes) {
  if (bytes < 1)
    return makeFailure(Failure::BadArgument, "an allocation of {} bytes", bytes);
  llvm::Expected<std::vector<Facts>> all = meet(Topic::Allocate, {uint64_t(bytes)});
  if (!all)
    return all.takeError();
  if (llvm::Error e = checkBytes(*all))
    return e;
  llvm::Expected<CUdeviceptr> segment = allocateSegment(size_t(bytes));
  if (!segment)
    return segment.takeError();
  return publish(pointerTo<void>(*segment), bytes);
}

llvm::Expected<SymmetricBuffer> CudaPeers::registerMemory(void *address, int64_t bytes) {
  if (!address || bytes < 1)
    return makeFailure(Failure::BadArgument, "a registration of {} bytes at {}", bytes,
                       fmt::ptr(address));
  llvm::Expected<std::vector<Facts>> all = meet(Topic::Register, {uint64_t(bytes)});
  if (!all)
    return all.takeError();
  if (llvm::Error e = checkBytes(*all))
    return e;
  if (placeOf(address) == 0) {
    llvm::Expected<SharedMemory> memory = SharedMemory::adopt(home, addressOf(address));
    if (!memory)
      return memory.takeError();
    own.push_back(std::move(*memory));
  }
  const uint64_t end = addressOf(address) + uint64_t(bytes) - 1;
  if (placeOf(address) >> offsetBits != placeOf(reinterpret_cast<void *>(end)) >> offsetBits)
    return makeFailure(Failure::BadArgument,
                       "cannot register {} bytes at {}: the allocation there ends before", bytes,
                       fmt::ptr(address));
  return publish(address, bytes);
}

uint64_t CudaPeers::regionOf(const void *address, int64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region &region = regions[i];
    if (at >= region.begin && at - region.begin <= uintptr_t(region.bytes) &&
        bytes <= region.bytes - int64_t(at - region.begin))
      return uint64_t(i + 1) << offsetBits | (at - region.begin);
  }
  return 0;
}

} // namespace ccl::cuda
