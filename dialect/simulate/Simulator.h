//===- Simulator.h - The discrete-event engine ----------------------------===//
//
// Runs SimCode; Simulate.h says what it means. Nothing is allocated per event: messages come from a
// pool, events are 24 bytes in one heap.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/SimulateFair.h"

#include <optional>

namespace ccl::model {

/// What happens next, first: by time, key, agent.
struct SimEvent {
  double time;
  uint64_t key; ///< causes within the time (16 bits), agent in its rank (16), its events (32)
  int32_t agent;
  uint32_t subject; ///< kind in the upper 3 bits, then a message

  bool before(const SimEvent &other) const {
    if (time != other.time)
      return time < other.time;
    return key != other.key ? key < other.key : agent < other.agent;
  }
};

/// A heap of four children a node: half the depth of a binary one, for one line of cache.
class SimQueue {
public:
  bool empty() const { return heap.empty(); }
  const SimEvent &top() const { return heap.front(); }
  void push(const SimEvent &event);
  SimEvent pop();

private:
  std::vector<SimEvent> heap;
};

class Simulator {
public:
  /// `report` gets times, uses and, if asked for, the timeline.
  Simulator(const SimCode &code, const SimulateOptions &options, SimulateReport &report);
  void run();
  /// By wire and by shared resource.
  std::vector<LinkUse> wireUse, resourceUse;
  /// Agents that have not ended.
  int64_t running() const { return left; }

private:
  enum class Event : uint32_t { Start, Done, Hop, Arrive, Ended };
  enum class Message : uint8_t { Slot, Put, Pull, Signal };
  enum class Reason : uint8_t { None, Slot, Data, Signal, Batch };
  using Cause = Timeline::Cause;

  struct InFlight {
    int32_t way = 0, hop = 0, agent = 0, link = -1;
    Message kind = Message::Slot;
    double bytes = 0;
    double issue = 0;
    double queued = 0, longest = 0; ///< waited for links, and for that one that ...
    int32_t longestAt = -1;
    int32_t next = -1;    ///< of the free ones, or of the signals of a fence
    int32_t fence = -1;   ///< Put
    uint32_t version = 0; ///< fair: of the end that counts
    int64_t span = -1, flight = -1;
  };
  /// Writes into peers' places, and the signals that may arrive after them.
  struct Fence {
    int32_t missing = 0;
    int32_t firstSignal = -1, lastSignal = -1;
    int32_t next = -1;
  };
  struct State {
    uint32_t step = 0; ///< index in its code
    int64_t batch = 0;
    int32_t pending = 0; ///< messages that it waits for
    uint32_t events = 0;
    bool blocked = false, ended = false;
    Reason reason = Reason::None;
    Cause why = Cause::Launch;
    int64_t cause = -1, span = -1;
    double since = 0;                  ///< blocked
    double begin = 0;                  ///< of the transfer
    double bytes = 0;                  ///< of the transfer
    double laneEnd = 0;                ///< the lane is done with the transfer
    double until = 0;                  ///< what is sent has left
    double pullLink = 0, pushLink = 0; ///< of it, waiting for links
    double busy = 0;
    int32_t firstFence = -1, lastFence = -1;
  };

  void push(double time, Event kind, int32_t agent, int32_t message = 0);
  void handle(const SimEvent &event);
  void advance(int32_t agent);
  void endBatch(int32_t agent);
  void startNext(int32_t agent, int64_t cause);
  const SimUse *blockedUse(const SimStep &step) const;
  void block(State &state, const SimUse &use, int32_t agent);
  void settle(int32_t agent);
  void openSpan(int32_t agent);
  void closeSpan(int32_t agent);
  void startTransfer(int32_t agent, const SimStep &step);
  void startPushes(int32_t agent, const SimStep &step);
  void finishTransfer(int32_t agent);
  void send(int32_t agent, const SimSend &send, Message kind);
  void signal(int32_t agent, const SimSend &send);
  void hop(int32_t message);
  /// What is sent has left, or at the first link of its way is done, at `time`.
  void depart(int32_t message, double time);
  void arrive(int32_t message);
  void openGate(int32_t agent);
  void wake(int32_t &waiting, Cause why, int64_t cause);
  void joinFair(int32_t message);
  void settleFair();
  double busyTime(const SimWire &wire, double bytes) const;
  int32_t newMessage();
  void recordFlight(InFlight &message, double time);
  const SimStep &stepOf(int32_t agent) const {
    return code.steps[code.agents[size_t(agent)].firstStep + states[size_t(agent)].step];
  }

  const SimCode &code;
  const SimulateOptions &options;
  const CostModel &model;
  SimulateReport &report;
  Timeline *timeline = nullptr;
  std::optional<FairShares> fair;
  double laneUsPerByte = 0;

  SimQueue queue;
  double now = 0;
  uint64_t depth = 0; ///< causes within `now`
  int64_t left = 0;
  std::vector<State> states;
  std::vector<InFlight> messages;
  int32_t freeMessage = -1;
  std::vector<Fence> fences;
  int32_t freeFence = -1;
  std::vector<int64_t> tokens;                      ///< by link of the network
  std::vector<int32_t> room;                        ///< free slots
  std::vector<int32_t> waitsForToken, waitsForRoom; ///< agents, or -1
  std::vector<double> wireFree, resourceFree;
  std::vector<int32_t> ready;           ///< agents to look at
  std::vector<int32_t> joined, members; ///< by rank: at the end of the batch; with code
  std::vector<int32_t> firstOfRank;     ///< agents
  int32_t atBarrier = 0;
};

} // namespace ccl::model
