//===- Network.h - Agents and links of a program, and who waits for whom --===//
//
// The channel ends of a program, paired to links, and the program's agents as
// processes that only add and take tokens. Every end belongs to one agent, so the
// network is deterministic: whether it gets stuck does not depend on the schedule,
// and with more slots it gets stuck less.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Check.h"

#include <functional>
#include <utility>

namespace ccl::model {

/// A `to` end and the `from` end that it pairs with.
struct NetworkLink {
  int32_t src = 0, dst = 0, tag = 0;
  int32_t slots = 0; ///< 0: signals
  struct End {
    bool exists = false;
    int32_t slots = 0;
    int32_t agent = -1; ///< number of the agent that uses it, or -1
    int64_t uses = 0;   ///< transfers, signals or waits
  } to, from;
};

/// An agent of the whole program.
struct NetworkAgent {
  int32_t rank = 0, index = 0; ///< which agent of the rank
  const Agent *agent = nullptr;
  size_t firstEvent = 0; ///< number of its first instruction among all
};

class Network {
public:
  explicit Network(const Program &program)
      : program(program), ranks(int64_t(program.ranks.size())) {}
  /// Folded: the program is that of rank 0 of `ranks` that all do the same, shifted, at
  /// once. What rank 0 takes from rank p is what it sends itself to `inverse(p)`. Links
  /// are named as rank 0 sends on them.
  using Inverse = std::function<int32_t(int32_t rank)>;
  Network(const Program &program, int64_t ranks, Inverse inverse)
      : program(program), ranks(ranks), inverse(std::move(inverse)) {}

  /// Pairs the ends. What is wrong with channels and operands goes to `faults`, at
  /// most `maxFaults`; then the rest must not be called.
  void build(std::vector<Fault> &faults, size_t maxFaults);

  const std::vector<NetworkAgent> &agents() const { return allAgents; }
  const std::vector<NetworkLink> &links() const { return allLinks; }
  const std::vector<Buffer> &buffers() const { return program.buffers; }
  size_t numEvents() const { return events; }
  /// The link behind a channel of a rank.
  int32_t linkOf(int32_t rank, int32_t channel) const {
    return channelLinks[size_t(rank)][size_t(channel)];
  }
  int32_t agentOf(size_t event) const;
  /// "rank 1, block 0, instruction 3".
  std::string str(int32_t agent, int64_t instruction) const;
  /// The same of what another rank may do: folded, without the rank.
  std::string strOfAny(int32_t agent, int64_t instruction) const;
  /// From which rank to which a link goes, as one of its ends names them.
  std::pair<int32_t, int32_t> ranksOf(const NetworkLink &link, bool asReceiver) const;

  /// Runs until all have ended or none can go on; with `slots` slots a data channel
  /// (0: as written). Calls `fire` for each instruction, in an order that may happen.
  /// Returns for every agent the instruction where it stopped.
  using Fire = std::function<void(int32_t agent, int32_t instruction)>;
  std::vector<int32_t> run(int32_t slots, const Fire &fire = nullptr) const;
  bool isStuck(const std::vector<int32_t> &stops) const;
  /// The least slots of every data channel with which no agent gets stuck; 0 if there
  /// is no data channel, or no number helps.
  int32_t leastSlots() const;
  /// The agents that wait for each other, of a run that got stuck.
  Fault deadlock(const std::vector<int32_t> &stops, int32_t slots) const;

private:
  /// A token that an instruction adds to a link or takes from it.
  struct Use {
    int32_t link;
    bool adds;
  };
  void addLinks();
  void addAgents();
  void checkOperand(const NetworkAgent &agent, int32_t instruction, const Operand &operand,
                    bool destination);
  void checkInstruction(const NetworkAgent &agent, int32_t instruction);
  void addUse(const NetworkAgent &agent, int32_t instruction, int32_t channel, bool adds);
  void checkLink(const NetworkLink &link);
  void checkBalance(const NetworkLink &link, size_t index);
  /// The instruction of an agent that adds to (takes from) `link` for the n-th time.
  int32_t useOf(int32_t agent, int32_t link, bool adds, int64_t n) const;
  std::pair<const Use *, const Use *> usesOf(const NetworkAgent &agent, int64_t instruction) const;
  void report(FaultKind kind, const NetworkAgent &agent, int32_t instruction, std::string message,
              std::vector<Note> notes = {});
  void report(FaultKind kind, int32_t rank, const Channel &channel, std::string message);
  /// The tokens that a link holds at most.
  int64_t capacity(int32_t link, int32_t slots) const;
  /// The first use in [use, end) that cannot be done now, or null.
  const Use *blockedUse(const Use *use, const Use *end, const std::vector<int64_t> &tokens,
                        int32_t slots) const;

  const Program &program;
  const int64_t ranks;
  const Inverse inverse; ///< null: not folded
  std::vector<NetworkAgent> allAgents;
  std::vector<NetworkLink> allLinks;
  std::vector<std::vector<int32_t>> channelLinks;
  std::vector<Use> uses;
  std::vector<size_t> firstUse; ///< of every event, and one more
  size_t events = 0;
  std::vector<Fault> *faults = nullptr;
  size_t maxFaults = 0;
};

} // namespace ccl::model
