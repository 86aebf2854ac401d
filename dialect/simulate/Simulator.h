//===- Simulator.h - The discrete-event engine ----------------------------===//
//
// Runs SimCode; Simulate.h says what it means. Nothing is allocated per event: messages come from a
// pool, events are 24 bytes in one heap.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/Circuits.h"
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
  /// `report` gets times, uses and, if asked for, the timeline. The topology and its wires are
  /// those of the code.
  Simulator(const SimCode &code, const SimulateOptions &options, const Topology &topology,
            const std::vector<Wire> &wires, SimulateReport &report);
  void run();
  /// By wire and by shared resource.
  std::vector<LinkUse> wireUse, resourceUse;
  /// Agents that have not ended.
  int64_t running() const { return left; }

private:
  enum class Event : uint32_t { Start, Done, Hop, Arrive, Ended };
  enum class Message : uint8_t { Slot, Put, Pull, Signal };
  using Cause = Timeline::Cause;
  using Reason = Timeline::Wait::For;

  struct InFlight {
    int32_t way = 0, hop = 0, agent = 0, link = -1;
    Message kind = Message::Slot;
    double bytes = 0;
    double issue = 0;
    double queued = 0, longest = 0; ///< waited for links, and for that one that ...
    double changed = 0;             ///< of the former, until a circuit was there
    SimPace pace;
    int32_t longestAt = -1;
    int32_t branch = -1;  ///< of what shares links with other messages
    int32_t next = -1;    ///< of the free ones, or of the signals of a fence
    int32_t fence = -1;   ///< Put
    uint32_t version = 0; ///< fair: of the end that counts
    int64_t span = -1, flight = -1;
  };
  /// A message that is copied, or combined with others, on its way.
  struct Branch {
    int32_t message = -1;
    int32_t trunk = -1;                    ///< branches: what it goes with, or into
    int32_t firstChild = -1, sibling = -1; ///< what goes with, or into, this
    int32_t joint = 0;                     ///< hops of the trunk up to where they part or meet
    int32_t own = 0;                       ///< its own hops, up to there
    double ready = 0;                      ///< there it can go on, or has come
    bool hasCome = false;
    int32_t waits = -1, missing = 0; ///< at this hop, for so many
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
    Reason reason = Reason::Slot; ///< blocked
    Cause why = Cause::Launch;
    int64_t cause = -1, span = -1;
    double since = 0;                      ///< blocked
    double begin = 0;                      ///< of the transfer
    double bytes = 0;                      ///< of the transfer
    double laneEnd = 0;                    ///< the lane is done with the transfer
    double until = 0;                      ///< what is sent has left
    double pullLink = 0, pushLink = 0;     ///< of it, waiting for links
    double pullChange = 0, pushChange = 0; ///< of these, for circuits
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
  Message kindOf(const SimStep &step, int32_t send) const {
    if (send < step.numPulls)
      return Message::Pull;
    return code.sends[step.firstSend + uint32_t(send)].link >= 0 ? Message::Slot : Message::Put;
  }
  void openSpan(int32_t agent);
  void closeSpan(int32_t agent);
  void startTransfer(int32_t agent, const SimStep &step);
  void startPushes(int32_t agent, const SimStep &step);
  void finishTransfer(int32_t agent);
  void sendAll(int32_t agent, const SimStep &step, int32_t first, int32_t count);
  void send(int32_t agent, const SimSend &send, Message kind);
  int32_t newTransferMessage(int32_t agent, const SimSend &send, Message kind);
  void setOff(int32_t message);
  void signal(int32_t agent, const SimSend &send);
  void hop(int32_t message);
  void hopOnCircuit(int32_t message);
  void recordService(InFlight &message, int32_t wire, double begin, double end, double busy);
  void goOn(int32_t message, double begin, double end, double delay);
  double nextStart(const InFlight &message, double begin, double end, double delay) const;
  double ownRate(const InFlight &message, const SimWire &wire) const;
  double slowest(const InFlight &message, const SimWire &wire) const;
  /// What is sent has left, or at the first link of its way is done, at `time`.
  void depart(int32_t message, double time);
  void arrive(int32_t message);
  void openGate(int32_t agent);
  void wake(int32_t &waiting, Cause why, int64_t cause);
  // Copies and sums in switches.
  void sendTree(int32_t agent, const SimStep &step, int32_t first, int32_t count);
  int32_t newBranch(int32_t message);
  bool isFollower(const InFlight &message) const {
    return message.branch >= 0 && branches[size_t(message.branch)].trunk >= 0;
  }
  void copyAt(const InFlight &trunk, double begin, double end, double delay);
  void combineAt(int32_t message, double next);
  void goOnTogether(int32_t trunk);
  void endTree(int32_t message, double time);
  template <typename Visit>
  void visitTree(int32_t message, Visit visit);
  void release(int32_t message);

  void joinFair(int32_t message);
  void settleFair();
  double busyTime(double bytes, double usPerByte, double latency) const;
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
  std::optional<Circuits> circuits;
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
  std::vector<Branch> branches;
  int32_t freeBranch = -1;
  std::vector<int32_t> group;                       ///< messages of the transfer that is being sent
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
