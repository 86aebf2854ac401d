//===- EmulatedNic.cpp ------------------------------------------------------===//
#include "runtime/rdma/Emulation.h"

#include "llvm/ADT/StringExtras.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace ccl::rdma {
namespace {

class EmulatedRegion final : public Region {
public:
  EmulatedRegion(std::shared_ptr<EmulatedFabric> fabric, const EmulatedMemory &memory)
      : fabric(std::move(fabric)) {
    std::lock_guard lock(this->fabric->mutex);
    // Keys of the two kinds differ, and by more than one: a mix-up or a miscount finds none.
    localKey = this->fabric->lastKey += 0x101;
    remoteKey = this->fabric->lastKey += 0x101;
    this->fabric->localKeys[localKey] = memory;
    this->fabric->remoteKeys[remoteKey] = memory;
  }
  ~EmulatedRegion() override {
    std::unique_lock lock(fabric->mutex);
    fabric->localKeys.erase(localKey);
    fabric->remoteKeys.erase(remoteKey);
    fabric->waitForBatch(lock);
  }

private:
  std::shared_ptr<EmulatedFabric> fabric;
};

class EmulatedNic final : public Nic {
public:
  EmulatedNic(std::shared_ptr<EmulatedFabric> fabric, EmulatedPort &port)
      : fabric(std::move(fabric)), port(port) {
    const Fabric::Options &options = this->fabric->options;
    ownFacts.device = port.name;
    ownFacts.gid = fmt::format("::ffff:10.0.{}.{}", port.gid[14], port.gid[15]);
    ownFacts.mtu = options.mtu;
    ownFacts.gbits = 100;
    ownFacts.mostBytes = options.mostBytes;
    ownFacts.mostWorkRequests = options.mostWorkRequests;
    ownFacts.mostCompletions = EmulatedFabric::mostCompletions;
  }
  ~EmulatedNic() override {
    std::unique_lock lock(fabric->mutex);
    port.isOpen = false;
    port.completions.clear();
    port.pending = 0;
    ::close(port.descriptor);
    port.descriptor = -1;
    fabric->waitForBatch(lock);
  }

  const NicFacts &facts() const override { return ownFacts; }

  llvm::Expected<std::unique_ptr<Region>> registerMemory(void *address, size_t bytes) override {
    if (!address || !bytes)
      return makeFailure(Failure::Machine, "{}: memory of {} bytes at {} cannot be registered",
                         port.name, bytes, address);
    return std::make_unique<EmulatedRegion>(
        fabric, EmulatedMemory{reinterpret_cast<uint64_t>(address), bytes, &port});
  }

  llvm::Expected<std::unique_ptr<QueuePair>> createQueuePair(const QueueLimits &limits) override {
    if (limits.sends < 1 || limits.sends > ownFacts.mostWorkRequests || limits.receives < 0 ||
        limits.receives > EmulatedFabric::mostCompletions)
      return makeFailure(Failure::Machine,
                         "{}: no queue pair of {} sends and {} receives: a send queue has from 1 "
                         "to {}",
                         port.name, limits.sends, limits.receives, ownFacts.mostWorkRequests);
    if (limits.inlineBytes > EmulatedFabric::mostInline ||
        limits.pieces > EmulatedFabric::mostPieces)
      return makeFailure(Failure::Machine,
                         "{}: no queue pair with {} inline bytes and {} pieces of a work request: "
                         "at most {} and {}",
                         port.name, limits.inlineBytes, limits.pieces, EmulatedFabric::mostInline,
                         EmulatedFabric::mostPieces);
    {
      std::lock_guard lock(fabric->mutex);
      if (port.reserved + limits.sends + limits.receives > EmulatedFabric::mostCompletions)
        return makeFailure(Failure::Machine,
                           "{}: one more queue pair could make more completions than the {} that "
                           "a queue of completions has",
                           port.name, EmulatedFabric::mostCompletions);
    }
    return makeEmulatedQueue(fabric, port, limits);
  }

  int poll(ibv_wc *completions, int n) override {
    if (port.isLost.load(std::memory_order_acquire))
      return -1;
    if (port.pending.load(std::memory_order_acquire) == 0)
      return 0;
    std::lock_guard lock(fabric->mutex);
    const Clock::time_point now = Clock::now();
    int taken = 0;
    bool frees = false;
    for (; taken < n && !port.completions.empty() && port.completions.front().visible <= now;
         ++taken) {
      const EmulatedCompletion &front = port.completions.front();
      completions[taken] = front.completion;
      front.queue->sends -= front.sends;
      front.queue->receivesTaken -= front.receives;
      frees = true;
      port.completions.pop_front();
    }
    port.pending.store(int64_t(port.completions.size()), std::memory_order_release);
    if (frees)
      takeEvent();
    return taken;
  }

  bool arm() override {
    std::lock_guard lock(fabric->mutex);
    takeEvent();
    port.isArmed = true;
    return !port.isLost;
  }

  int descriptor() const override { return port.descriptor; }

  std::string events() override {
    std::lock_guard lock(fabric->mutex);
    std::string all = llvm::join(port.events, "; ");
    port.events.clear();
    return all;
  }

private:
  void takeEvent() {
    if (!port.hasEvent)
      return;
    uint64_t count = 0;
    // It does not block, and that it was written is known.
    [[maybe_unused]] const ssize_t got = ::read(port.descriptor, &count, sizeof count);
    port.hasEvent = false;
  }

  std::shared_ptr<EmulatedFabric> fabric;
  EmulatedPort &port;
  NicFacts ownFacts;
};

} // namespace

//===----------------------------------------------------------------------===//
// The fabric
//===----------------------------------------------------------------------===//

std::shared_ptr<Fabric> Fabric::create(const Options &options) {
  return std::make_shared<EmulatedFabric>(options);
}

EmulatedFabric::EmulatedFabric(const Options &options) : options(options), random(options.seed) {
  engine = std::thread([this] { run(); });
}

EmulatedFabric::~EmulatedFabric() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
    wake();
  }
  engine.join();
}

std::unique_ptr<Nic> EmulatedFabric::addNic(const std::string &name) {
  const int descriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0)
    return nullptr;
  EmulatedPort *port = nullptr;
  {
    std::lock_guard lock(mutex);
    const size_t index = ports.size() + 1;
    const auto [found, isNew] = ports.try_emplace(name);
    port = &found->second;
    if (port->descriptor >= 0) {
      ::close(descriptor);
      return nullptr;
    }
    if (isNew) {
      port->name = name;
      port->gid[10] = port->gid[11] = 0xff;
      port->gid[12] = 10;
      port->gid[14] = uint8_t(index >> 8);
      port->gid[15] = uint8_t(index);
    }
    port->isOpen = port->isUp = true;
    port->isLost = port->isArmed = port->hasEvent = false;
    port->descriptor = descriptor;
  }
  return std::make_unique<EmulatedNic>(shared_from_this(), *port);
}

EmulatedPort *EmulatedFabric::portOf(const std::string &name) {
  const auto found = ports.find(name);
  return found == ports.end() ? nullptr : &found->second;
}

void EmulatedFabric::setLink(const std::string &name, bool up) {
  std::lock_guard lock(mutex);
  EmulatedPort *port = portOf(name);
  if (!port || port->isUp == up)
    return;
  port->isUp = up;
  port->events.push_back(
      fmt::format("port 1 of {} {}", name, up ? "is active again" : "went down"));
  wake();
}

void EmulatedFabric::failAfter(const std::string &name, int64_t after, ibv_wc_status status) {
  std::lock_guard lock(mutex);
  if (EmulatedPort *port = portOf(name)) {
    port->failAfter = after;
    port->failStatus = status;
  }
}

void EmulatedFabric::removeDevice(const std::string &name) {
  std::lock_guard lock(mutex);
  EmulatedPort *port = portOf(name);
  if (!port)
    return;
  port->isLost = true;
  port->events.push_back(fmt::format("{} is gone", name));
  // Who sleeps has to learn of it.
  const uint64_t one = 1;
  if (port->descriptor >= 0 && !port->hasEvent)
    port->hasEvent = ::write(port->descriptor, &one, sizeof one) == sizeof one;
  wake();
}

int64_t EmulatedFabric::sentBytes(const std::string &name) const {
  std::lock_guard lock(mutex);
  const auto found = ports.find(name);
  return found == ports.end() ? 0 : found->second.sentBytes;
}

void EmulatedFabric::wake() {
  hasChanged = true;
  work.notify_one();
}

void EmulatedFabric::waitForBatch(std::unique_lock<std::mutex> &lock) {
  const uint64_t current = batch;
  settled.wait(lock, [&] { return !isCopying || batch != current; });
}

} // namespace ccl::rdma
