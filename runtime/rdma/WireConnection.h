//===- WireConnection.h - Queue pairs to one peer, and what goes through them ------===//
//
// One thread at a time.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/rdma/Chain.h"
#include "runtime/rdma/Wire.h"
#include "runtime/rdma/WireChannel.h"
#include "runtime/rdma/WireFailure.h"

#include "llvm/ADT/ArrayRef.h"

namespace ccl::rdma {

/// Identity of a work request: how many its queue pair had before it (40 bits), and whose it is.
/// Receives have one that none of them has.
constexpr int sequenceBits = 40;
constexpr uint64_t receiveId = ~uint64_t(0);
constexpr uint32_t mostEnds = (1u << (64 - sequenceBits)) - 1;

/// One queue pair, and the work requests that wait for room in it.
class Stripe {
public:
  Stripe(size_t nic, std::unique_ptr<QueuePair> queue)
      : nic(nic), queue(std::move(queue)), depth(uint64_t(this->queue->limits().sends)) {}

  size_t nic; ///< index in the wire
  std::unique_ptr<QueuePair> queue;
  int64_t mtu = 4096; ///< bytes of a message in one packet

  /// Copies `request`; its memory stays as it is until it is done.
  void push(const Request &request, uint32_t end);
  /// Hands over what there is room for; the last one of it is signalled. 0 or an errno.
  int post(bool &progress);
  /// The work request `id` is done, so are all before it.
  void complete(uint64_t id);
  /// A receive has been used up: posts new ones now and then. 0 or an errno.
  int replaceReceive();

  bool hasBacklog() const { return next != waiting.size(); }
  bool hasRoom() const { return waiting.size() - next + (posted - completed) < depth; }
  /// Work requests so far, and of these those that are done.
  uint64_t pushes() const { return posted + (waiting.size() - next); }
  uint64_t done() const { return completed; }

private:
  uint64_t depth;
  std::vector<Request> waiting; ///< from `next` on
  size_t next = 0;
  uint64_t posted = 0, completed = 0;
  int usedReceives = 0;
};

class Connection {
public:
  Connection(int64_t rank, int64_t peer, const WireOptions &options, llvm::ArrayRef<Nic *> nics,
             WireFailure &failure)
      : rank(rank), peer(peer), options(options), nics(nics), failure(failure) {}

  const int64_t rank, peer;
  std::vector<Stripe> stripes;
  bool isConnected = false;
  std::vector<WireEnd *> ends; ///< by WireEnd::index

  /// The number of stripes is decided: limits and templates follow.
  void finishSetup(uint64_t home, llvm::ArrayRef<uint32_t> homeKeys);
  /// Of a work request that brings an immediate alone.
  Request plainRequest(size_t stripe) const;

  /// A launch: which of the ends it uses.
  void begin(llvm::ArrayRef<OutEnd *> data, llvm::ArrayRef<OutEnd *> signals,
             llvm::ArrayRef<InEnd *> freeing);
  /// Takes what the program has done and hands it to the NICs; adds to `sent` what that is.
  /// Whether anything happened.
  bool serve(const Wire::Pieces &pieces, Traffic &sent);
  /// Whether everything that the program did is with the NIC, and messages are done.
  bool isDrained() const;
  /// Nothing goes to the peer any more. What has come from it is still taken.
  void leave() { left = true; }
  bool hasLeft() const { return left; }

  /// Raises what a completion or a call has shown.
  void raise(const Stripe &stripe, uint64_t id, const std::string &what);

private:
  bool hasRoom() const;
  void tellFreed(InEnd &end, Traffic &sent);
  void takeSignals(OutEnd &end, Traffic &sent);
  void takeMessages(OutEnd &end, const Wire::Pieces &pieces, Traffic &sent);
  void pushChain(OutEnd &end, uint32_t messages, char *local, uint64_t remote, Traffic &sent);
  bool findPieces(const OutEnd &end, const Wire::Pieces &pieces);
  bool isInSlot(const OutEnd &end, uint64_t message);
  bool sendsTooLate(const OutEnd &end);

  const WireOptions &options;
  const llvm::ArrayRef<Nic *> nics;
  WireFailure &failure;
  ChainLimits limits;
  uint64_t home = 0;
  std::vector<uint32_t> homeKeys;
  bool left = false;

  std::vector<OutEnd *> data, signals;
  std::vector<InEnd *> freeing;
  std::vector<uint64_t> done;     ///< by stripe: Stripe::done
  std::vector<uint64_t> messages; ///< by stripe: Stripe::pushes after the last message
  std::vector<int64_t> placed;    ///< see appendMessage
  std::vector<Piece> pieceList;
  std::vector<WorkRequest> chain;
};

} // namespace ccl::rdma
