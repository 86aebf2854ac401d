//===- HostRelay.h - The thread of a link between hosts -----------------------------===//
//
// Sends what was queued, reads, passes on (on rank 0), beats, and notices who is gone.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/HostLink.h"
#include "runtime/bootstrap/HostStream.h"

#include <atomic>
#include <mutex>

namespace ccl::bootstrap {

class HostRelay {
public:
  /// `streams` as in HostMeeting; `wake` is an eventfd.
  HostRelay(int64_t rank, int64_t ranks, std::vector<std::unique_ptr<HostStream>> streams,
            Descriptor wake);

  //===------------------------------------------------------------------===//
  // Any thread
  //===------------------------------------------------------------------===//

  /// A Message with its targets.
  void post(Frame frame);
  Milliseconds silence(int64_t rank) const;
  /// Makes run() say farewell and return.
  void stop();
  /// In a forked child: closes the descriptors. Async-signal-safe.
  void closeInChild();

  //===------------------------------------------------------------------===//
  // The link's thread
  //===------------------------------------------------------------------===//

  void run(HostLink::Listener &listener);
  /// Sends what is left, tells that this rank leaves, and closes. The last call, also without
  /// run().
  void farewell();

private:
  bool isHub() const { return rank == 0; }
  int64_t rankOf(size_t stream) const { return isHub() ? int64_t(stream) : 0; }
  /// Nothing if there is no open one.
  HostStream *streamOf(int64_t peer) const;
  void takePosted();
  void distribute(const Frame &frame, int64_t from);
  void tellOthers(FrameType type, int64_t about, const Body &body);
  void look(Clock::time_point until);
  void read(int64_t peer);
  void handle(int64_t peer, const Frame &frame);
  bool handleOfRank0(const Frame &frame);
  bool handleOfPeer(int64_t peer, const Frame &frame);
  void write(int64_t peer);
  void passOnTheLast();
  void beat();
  void hearBeat(const Frame &frame);
  void heard(int64_t who, Clock::time_point when);
  void leave(int64_t who);
  void lose(int64_t who, const std::string &how);

  const int64_t rank, ranks;
  const std::vector<std::unique_ptr<HostStream>> streams;
  Descriptor wake;
  HostLink::Listener *listener = nullptr;
  std::atomic<bool> stopping{false};
  std::vector<std::atomic<int64_t>> lastHeard; ///< by rank: nanoseconds of Clock
  std::vector<bool> isOver;                    ///< by rank: gone or has left
  std::vector<bool> hasNoted;                  ///< by rank: that rank 0 is leaving
  std::vector<uint64_t> sentAtBeat;            ///< by stream

  std::mutex mutex; ///< guards `posted`
  std::vector<Frame> posted;
};

} // namespace ccl::bootstrap
