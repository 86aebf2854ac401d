//===- Lanes.h - Which message of a program goes over which connection --------------===//
//
// For the writer. A channel of the program is a FIFO from rank to rank; the format has one
// connection for (sender, receiver, channel), and a block has one to send and one to receive
// with the same channel. So a FIFO becomes one or several *lanes*: its messages in order, cut
// where a block would have too many steps. Lanes that a step joins (what arrives on one goes
// out on the other) must lie in one block on that rank, and so have one channel.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"
#include "frontend/msccl/Targets.h"

#include <map>
#include <unordered_map>

namespace ccl::msccl {

struct Lane {
  int32_t src = 0, dst = 0, tag = 0, segment = 0;
  int32_t group = -1; ///< lanes of one group have one channel
  int32_t channel = -1;
  /// The lane of the receiver that goes on with what arrives, and of the sender that it
  /// comes from, in one step; -1: none.
  int32_t next = -1, last = -1;
};

/// A program without what has no counterpart: see `refuse` in Write.cpp.
class Lanes {
public:
  /// `limits` may be null. `segments` has, for FIFOs (by their number) that are cut, how
  /// many messages a lane may have.
  Lanes(const model::Program &program, const Limits *limits,
        const std::map<int32_t, int32_t> &segments);

  const std::vector<Lane> &all() const { return lanes; }
  const Lane &operator[](int32_t lane) const { return lanes[size_t(lane)]; }
  int32_t fifoOf(int32_t lane) const { return fifoOfLane[size_t(lane)]; }
  int32_t messagesOf(int32_t fifo) const { return fifos[size_t(fifo)].messages; }
  int32_t numChannels() const { return channels; }
  bool hasFusedSteps() const { return !limits || limits->hasFusedSteps; }
  /// Chunks that one step may move.
  int32_t countLimit() const { return partLimit; }

  /// Goes through the messages of one rank's end, in the order of its agents' instructions.
  class Cursor {
  public:
    Cursor(const Lanes &lanes, int32_t rank) : lanes(lanes), rank(rank) {}
    /// The lane of the next message on the rank's channel.
    int32_t take(int32_t channel);

  private:
    const Lanes &lanes;
    const int32_t rank;
    std::unordered_map<int32_t, int32_t> next; ///< by FIFO; a rank has one end of each
  };

private:
  struct Fifo {
    int32_t src, dst, tag;
    int32_t messages = 0, segment = 0, firstLane = 0;
  };
  void addFifos();
  void count();
  void addLanes(const std::map<int32_t, int32_t> &segments);
  void joinLanes();
  void color();
  int32_t parts(const model::Instruction &instruction) const;
  /// How often a transfer takes from one lane and gives to another: by (receiving, sending).
  using Joints = std::map<std::pair<int32_t, int32_t>, int32_t>;
  void countJoints(int32_t rank, Joints &joints) const;

  const model::Program &program;
  const Limits *const limits;
  int32_t partLimit;
  std::vector<Fifo> fifos;
  std::vector<std::vector<int32_t>> fifoOfChannel; ///< by rank and channel; -1: signals
  std::vector<Lane> lanes;
  std::vector<int32_t> fifoOfLane;
  int32_t channels = 0;
};

} // namespace ccl::msccl
