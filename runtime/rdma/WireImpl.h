//===- WireImpl.h - Channels between ranks of different hosts ----------------------===//
#pragma once

#include "runtime/rdma/Wire.h"
#include "runtime/rdma/WireConnection.h"
#include "runtime/rdma/WireOffer.h"
#include "runtime/rdma/WireProxy.h"
#include "runtime/rdma/WireSlab.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace ccl::rdma {

class WireImpl final : public Wire, private WireProxy::Work {
public:
  WireImpl(std::vector<std::unique_ptr<Nic>> nics, const WireOptions &options);
  ~WireImpl() override;
  llvm::Error start();

  llvm::Expected<std::string> offer(int64_t peer, llvm::ArrayRef<ChannelKey> channels) override;
  llvm::Error accept(int64_t peer, llvm::ArrayRef<ChannelKey> channels,
                     llvm::StringRef offered) override;
  ChannelEnd *end(const ChannelKey &key, bool to) override;
  void begin(llvm::ArrayRef<ChannelEnd *> ends, llvm::ArrayRef<ChannelEnd *> sending,
             Pieces pieces) override;
  bool progress() override;
  bool isDrained() override;
  void end() override;
  void leave(int64_t peer) override;
  std::optional<RuntimeError> failure() override { return problem.get(); }
  Traffic traffic() const override {
    const std::lock_guard lock(mutex);
    return sent;
  }

private:
  struct Place {
    Connection *connection = nullptr;
    size_t stripe = 0;
  };
  struct Layout;
  struct Parts;

  // WireSetup.cpp: the mutex is held.
  llvm::Error check(int64_t peer, llvm::ArrayRef<ChannelKey> channels) const;
  llvm::Expected<std::unique_ptr<Connection>> makeConnection(int64_t peer);
  llvm::Expected<Layout> layOut(llvm::ArrayRef<ChannelKey> channels, bool needsHome) const;
  WireEnd *find(const ChannelKey &key) const;
  void addEnd(Connection &connection, const ChannelKey &key, const Layout &layout, size_t at,
              const WireSlab *slab, OfferedChannel &offered);
  llvm::Error match(const Connection &connection, llvm::ArrayRef<WireEnd *> expected,
                    const Offer &offer) const;
  llvm::Error connect(Connection &connection, const Offer &offer);
  void acceptEnd(WireEnd &end, const OfferedChannel &offered, const Offer &offer);

  // The mutex is held.
  bool advance();
  bool pollNic(size_t nic);
  void onCompletion(size_t nic, const ibv_wc &completion);
  void onImmediate(const Place &place, uint32_t immediate);
  void onErrors(size_t nic, llvm::ArrayRef<ibv_wc> completions);
  void onLost(size_t nic);
  void watchPorts();

  bool work() override;
  bool hadHelp() override;
  bool prepareSleep() override;
  bool isOver() const override { return problem.hasFailed(); }

  const WireOptions options;
  std::vector<std::unique_ptr<Nic>> nics;
  std::vector<Nic *> devices; ///< the same
  WireFailure problem;
  std::atomic<uint64_t> visits{0}; ///< calls of progress()
  uint64_t seenVisits = 0;         ///< of the proxy

  mutable std::mutex mutex; ///< of all that follows
  Traffic sent;
  std::chrono::steady_clock::time_point nextWatch{};
  /// By NIC: since when its port is down.
  std::vector<std::optional<std::chrono::steady_clock::time_point>> downSince;
  std::vector<std::unique_ptr<WireSlab>> slabs;
  std::map<int64_t, std::unique_ptr<Connection>> connections; ///< by peer
  std::map<ChannelKey, std::unique_ptr<OutEnd>> outs;
  std::map<ChannelKey, std::unique_ptr<InEnd>> ins;
  std::vector<InEnd *> incoming; ///< by WireEnd::number
  llvm::DenseMap<const ChannelEnd *, WireEnd *> byEnd;
  std::vector<llvm::DenseMap<uint32_t, Place>> queues; ///< by NIC, by number of the queue pair
  uint64_t launch = 0;
  std::vector<Connection *> active; ///< of the launch
  Pieces pieces;

  std::unique_ptr<WireProxy> proxy;
};

} // namespace ccl::rdma
