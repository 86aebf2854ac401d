//===- VerbsNic.h - A port with what is made of it --------------------------------===//
#pragma once

#include "runtime/rdma/VerbsPort.h"

#include <atomic>
#include <mutex>

namespace ccl::rdma {

/// Gives a handle of libibverbs back.
struct VerbsRelease {
  const VerbsLibrary *verbs = nullptr;
  void operator()(ibv_pd *domain) const { verbs->freeDomain(domain); }
  void operator()(ibv_comp_channel *channel) const { verbs->destroyChannel(channel); }
  void operator()(ibv_cq *completions) const { verbs->destroyCompletions(completions); }
  void operator()(ibv_mr *memory) const { verbs->deregisterMemory(memory); }
  void operator()(ibv_qp *queue) const { verbs->destroyQueuePair(queue); }
};
template <typename T>
using VerbsHandle = std::unique_ptr<T, VerbsRelease>;

class VerbsNic final : public Nic {
public:
  static llvm::Expected<std::unique_ptr<Nic>> open(VerbsPort port, const NicOptions &options);

  const NicFacts &facts() const override { return port.facts; }
  llvm::Expected<std::unique_ptr<Region>> registerMemory(void *address, size_t bytes) override;
  llvm::Expected<std::unique_ptr<QueuePair>> createQueuePair(const QueueLimits &limits) override;
  int poll(ibv_wc *completions, int n) override;
  bool arm() override;
  int descriptor() const override { return channel->fd; }
  std::string events() override;
  bool isDown() const override { return portIsDown.load(std::memory_order_relaxed); }

  /// A queue pair of `entries` work requests comes: the queue of completions has room for them.
  llvm::Error reserve(int64_t entries);
  void release(int64_t entries);

  const NicOptions options;
  VerbsPort port;
  VerbsHandle<ibv_pd> domain;
  std::atomic<int64_t> registered{0}; ///< bytes

private:
  VerbsNic(VerbsPort port, const NicOptions &options) : options(options), port(std::move(port)) {}
  llvm::Error registrationError(size_t bytes, int reason) const;
  void takeEvents();
  std::string eventText(const ibv_async_event &event);

  VerbsHandle<ibv_comp_channel> channel;
  VerbsHandle<ibv_cq> completions;
  std::mutex sizes; ///< of what follows
  int64_t reserved = 0, capacity = 0;
  std::mutex asynchronous; ///< taking events of the device
  std::atomic<bool> isLost = false;
  std::atomic<bool> portIsDown{false};
  bool isArmed = false;
};

/// A queue pair, which has to be connected.
llvm::Expected<std::unique_ptr<QueuePair>> makeVerbsQueue(VerbsNic &nic, ibv_cq &completions,
                                                          const QueueLimits &limits);

} // namespace ccl::rdma
