//===- Races.h - Accesses that nothing orders ------------------------------------===//
//
// Happens-before between the agents of all ranks: the order of each agent's code, and
// what is sent on a channel before what is taken from it. That a slot must be free before
// it is filled again orders nothing here, so the verdict does not depend on how many slots
// there are. Accesses to one place, at least one a write, that this does not order are a
// race. If there is one, then one is found in whatever order the instructions are executed
// (FastTrack, Flanagan and Freund 2009, section 3, with Clocks for its vectors).
//
// Only agents that touch a place which others touch, too, are chains of the clocks; places
// of one agent cost nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Clocks.h"
#include "dialect/model/Network.h"

#include <deque>
#include <optional>
#include <set>

namespace ccl::model {

class Races {
public:
  /// Of a program whose network was built; places are numbers below `places`.
  Races(const Network &network, size_t places);

  /// First every access of the program is told, in any order; then `prepare`: whether there is
  /// a place that more than one agent touches, or one of another rank than `owner`, whose it is.
  /// If not, nothing else need be called.
  void touch(size_t place, int32_t owner, int32_t agent);
  bool prepare();

  /// An access that was before. `order`: its number among all executed instructions.
  struct Access {
    int32_t agent = -1;
    uint32_t instruction = 0;
    uint64_t order = 0;
  };
  /// The access with which one that has just been told conflicts.
  struct Conflict {
    Access first;
    bool firstWrites = false;
  };

  /// Instruction `instruction` of `agent` is executed, as the `order`-th of all. Then, in this
  /// order, what it takes, reads, writes and sends. `owner`: the rank whose place it is; `scratch`:
  /// its memory is the same for every micro-batch.
  void begin(int32_t agent, int32_t instruction, uint64_t order);
  void receive(int32_t link);
  std::optional<Conflict> read(size_t place, int32_t owner, bool scratch);
  std::optional<Conflict> write(size_t place, int32_t owner, bool scratch);
  void send(int32_t link);
  /// Two instructions conflict in many chunks: true the first time only.
  bool isNews(const Conflict &conflict);

  /// All was executed: see ProgramReport.
  void finish();
  bool exitBarrier = false, batchBarrier = false;
  /// Some agent accesses a place of a rank that it has heard nothing from.
  bool entryBarrier = false;

  /// An access to a place of rank `owner` by another rank.
  struct Foreign {
    Access access;
    int32_t owner = -1;
  };
  /// The first one of which its owner has not heard when it leaves.
  std::optional<Foreign> tooLate;
  /// The first one, not of scratch, by an agent that had heard nothing from the owner. Looked for
  /// if `findsEarly`.
  std::optional<Foreign> tooEarly;
  bool findsEarly = false;

private:
  /// The first accesses of a micro-batch, with what their agents knew of it.
  struct Early {
    int32_t agent;
    bool writes;
    Clocks::Clock known;
  };
  struct History {
    Access write;
    std::vector<Access> reads; ///< since then, the last of each agent
    std::vector<Early> early;  ///< of scratch: up to the first write
    int32_t owner = -1;
    bool scratch = false, foreign = false; ///< touched by other ranks
  };

  int32_t rankOf(int32_t number) const { return network.agents()[size_t(number)].rank; }
  bool isKnown(const Access &access, const Clocks::Clock &clock) const {
    return clocks->at(clock, chains[size_t(access.agent)]) > access.instruction;
  }
  bool isOrdered(const Access &first) const {
    return first.agent < 0 || first.agent == agent || isKnown(first, known[size_t(agent)]);
  }
  History *historyOf(size_t place, int32_t owner, bool scratch);
  void addEarly(History &history, bool writes);
  /// Of the first access that its owner, when it leaves, has not heard the end of.
  std::optional<Access> leftBehind(const History &history) const;
  void noteEarly(const History &history);
  bool repeatsInTime(const History &history) const;
  bool repeatsInTime(const Access &last, const Early &early) const;

  static constexpr int32_t untouched = -1, shared = -2; ///< else: the only agent, its owner's

  const Network &network;
  std::vector<int32_t> toucher;    ///< of every place; after `prepare` its history, or -1
  std::vector<int32_t> chains;     ///< of every agent, or -1
  std::vector<int32_t> bystanders; ///< of every rank, the chain of its agents without one
  std::vector<int32_t> chainRank;  ///< of every chain
  std::optional<Clocks> clocks;
  std::vector<Clocks::Clock> known;            ///< of every agent, without itself
  std::vector<std::deque<Clocks::Clock>> sent; ///< on every link, not yet taken
  std::vector<Clocks::Clock> leaving;          ///< of every rank: known when it has ended
  std::vector<History> histories;
  std::set<std::pair<std::pair<int32_t, uint32_t>, std::pair<int32_t, uint32_t>>> reported;
  std::set<std::pair<int32_t, int32_t>> heardOf; ///< (agent, rank) where noteEarly found it so
  int32_t agent = -1;
  uint32_t instruction = 0;
  uint64_t order = 0;
};

} // namespace ccl::model
