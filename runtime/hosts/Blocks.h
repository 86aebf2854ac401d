//===- Blocks.h - Control blocks of a communicator, one a host -------------------===//
#pragma once

#include "runtime/World.h"
#include "runtime/bootstrap/HostLink.h"
#include "runtime/hosts/Frames.h"

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace ccl::hosts {

/// Keeps the blocks of this process' communicators like those of other hosts. See Hosts, which
/// says what the functions do.
class Blocks {
public:
  /// `nearIndex`: of each rank of the world, its rank in `near`, or -1. All outlive this.
  Blocks(World &near, bootstrap::HostLink &link, const std::vector<int64_t> &nearIndex)
      : near(near), link(link), nearIndex(nearIndex) {}

  void join(ControlBlock &control, int64_t rank);
  void leave(ControlBlock &control, int64_t rank);
  void tellArrived(ControlBlock &control, uint64_t operation);
  void tellFailed(ControlBlock &control, int64_t rank);
  void tellRejoins(ControlBlock &control, int64_t rank);
  void propose(ControlBlock &control, const std::vector<int64_t> &ranks);
  std::optional<std::vector<int64_t>> decision(ControlBlock &control);
  void look(ControlBlock &control);
  void send(ControlBlock &control, int64_t from, int64_t to, llvm::StringRef bytes);
  std::optional<std::string> receive(ControlBlock &control, int64_t from, int64_t to);

  /// What ranks of other hosts published, which the keeper has put into its own memory.
  void *reach(uint64_t shared) const;
  /// On the link's thread.
  void hear(int64_t from, uint32_t kind, llvm::StringRef bytes);

private:
  using Clock = std::chrono::steady_clock;
  /// Any process of a host may be the one that tells, so that messages overtake each other.
  struct FarHost {
    uint64_t entered = 0;                              ///< operations that were taken down
    std::map<uint64_t, std::string> waiting;           ///< entered, of later ones
    std::vector<std::pair<uint64_t, int32_t>> leaving; ///< ranks, and what they have entered
  };
  struct Known {
    ControlBlock *control = nullptr;
    int64_t rank = -1;               ///< of this process
    bool keeps = false;              ///< it writes the states of far ranks
    std::vector<int64_t> farKeepers; ///< of the other hosts, as ranks of the world
    /// All of the other hosts. What has to be heard although a keeper may be gone goes to them.
    std::vector<int64_t> farRanks;
    std::map<std::string, FarHost> hosts; ///< by name
    Clock::time_point lastLook{};
    /// What far ranks published, by rank and parity of the operation.
    std::map<std::pair<int64_t, size_t>, Block> blobs;
  };
  struct Heard {
    int64_t from;
    uint32_t kind;
    std::string bytes;
  };
  bool isNear(const ControlBlock &control, int64_t rank) const;
  void tell(const std::vector<int64_t> &ranks, uint32_t kind, const std::string &frame) {
    if (!ranks.empty())
      link.send(ranks, kind, frame);
  }
  /// Of the keepers, or of everybody.
  void tellOf(ControlBlock &control, std::vector<int64_t> Known::*whom, uint32_t kind,
              const std::string &frame);
  // With the mutex held.
  void apply(Known &known, int64_t from, uint32_t kind, const Head &head, llvm::StringRef bytes);
  void applyEntered(Known &known, uint64_t operation, llvm::StringRef bytes);
  void catchUp(Known &known, FarHost &host);
  void applyFailed(Known &known, const Head &head, llvm::StringRef bytes);
  void applyStates(Known &known, const Head &head, llvm::StringRef bytes);
  void decide(const Head &head, llvm::StringRef bytes);
  void answer(const Known &known, int64_t asker);
  uint64_t keepBlob(Known &known, int64_t rank, size_t parity, llvm::StringRef bytes);

  World &near;
  bootstrap::HostLink &link;
  const std::vector<int64_t> &nearIndex;
  std::mutex mutex;
  std::map<uint64_t, Known> known;
  std::set<uint64_t> ended;                     ///< numbers of blocks that were left
  std::map<uint64_t, std::vector<Heard>> early; ///< of blocks that are not known yet
  std::map<uint64_t, std::vector<int64_t>> decisions;
  /// By communicator, sender and receiver.
  std::map<std::tuple<uint64_t, int32_t, int32_t>, std::deque<std::string>> mails;
};

} // namespace ccl::hosts
