//===- WireNet.h - Ranks with NICs, and programs that check every byte --------------===//
//
// On an emulated fabric, or on the devices that the environment variable RDMA_TEST_NICS names
// ("rxe0,rxe1"), of which ranks use one after the other. Cases whose name begins with "channels:"
// run on both.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/rdma/Wire.h"

#include <functional>
#include <string>
#include <vector>

namespace ccl::test {

/// Messages through one channel, for every launch alike unless `pieces` says otherwise.
struct Flow {
  ChannelKey key{};
  int messages = 1;
  /// Of message m of all launches. Of a channel without slots: not asked.
  std::function<std::vector<rdma::Piece>(uint64_t m)> pieces;
};

struct NetOptions {
  int ranks = 2;
  std::vector<int> nics = {1}; ///< of each rank; the last one is that of the others
  int64_t slotBytes = 4096;
  rdma::ChainLimits limits;
  rdma::QueueLimits queues;
  rdma::Fabric::Options fabric;
  bool sized = false; ///< a message is one piece from the start of its slot, and says its size
  decltype(rdma::WireOptions::memory) memory{};
  bool ranksHelp = true; ///< they make progress while they wait
  std::chrono::milliseconds deadline{20000};
};

/// Ranks of one process, as threads.
class Net {
public:
  explicit Net(const NetOptions &options);
  /// Makes the channels of `flows`. "" or what went wrong.
  std::string open(const std::vector<Flow> &flows);
  /// Executes a launch of `flows` on every rank but those of `except`, `times` in a row. What each
  /// rank has to say: "" if all was right, `stopped` if another one was first to say something.
  std::vector<std::string> run(const std::vector<Flow> &flows, int times = 1,
                               const std::vector<int> &except = {});
  static constexpr const char *stopped = "stopped";
  /// All in one.
  std::string runAll(const std::vector<Flow> &flows, int times = 1);

  static bool isOnDevices();
  /// Nothing gets to or from a NIC any more, or again. Of a device NAME all of its netdev is lost:
  /// rxe1 is on nic1 in the VM.
  void setLink(int rank, int nic, bool up);
  /// As errors name it, without the index of its GID: "nic0.1 (port 1, GID ".
  static std::string portText(int rank, int nic);
  static std::string nicName(int rank, int nic) { return fmt::format("nic{}.{}", rank, nic); }
  int nicsOf(int rank) const {
    return options.nics[std::min(size_t(rank), options.nics.size() - 1)];
  }

  const NetOptions options;
  std::shared_ptr<rdma::Fabric> fabric; ///< null on devices
  std::vector<std::unique_ptr<rdma::Wire>> wires;

private:
  std::atomic<bool> isStopped{false};

  std::string runRank(int rank, const std::vector<Flow> &flows);
};

/// Bytes that a message must have: those of its pieces, one after the other.
void fillMessage(const ChannelKey &key, uint64_t message, char *to, size_t from, size_t bytes);

/// The same number of bytes each time, in one piece.
std::function<std::vector<rdma::Piece>(uint64_t)> whole(int64_t bytes);
/// Drawn: up to `mostBytes` in all, up to four pieces with gaps between some of them.
std::function<std::vector<rdma::Piece>(uint64_t)> drawn(uint64_t seed, int64_t mostBytes);

} // namespace ccl::test
