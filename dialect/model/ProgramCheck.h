//===- ProgramCheck.h - The execution that proves programs ---------------------===//
//
// Executes the instructions of a network on what the places hold. Rank programs are
// executed all (check in Check.h) or one for all that do the same (CheckSymmetric.h).
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Execution.h"
#include "dialect/model/Network.h"
#include "dialect/model/Races.h"

#include <deque>

namespace ccl::model {

class ProgramCheck {
public:
  ProgramCheck(const Program &program, const Contract &contract,
               const ProgramCheckOptions &options);
  virtual ~ProgramCheck() = default;

  ProgramReport run();

protected:
  /// For programs of ranks [0, network's) out of `ranks`.
  ProgramCheck(const Program &program, const Contract &contract, const ProgramCheckOptions &options,
               int64_t ranks, Network network);

  /// The place of the execution that an operand (no channel) means.
  virtual Place placeOf(const NetworkAgent &agent, const Operand &operand) const;
  /// One chunk that was read from `peer`'s place, or sent by it.
  virtual Contents fromPeer(int32_t /*peer*/, Contents contents) { return contents; }
  /// One chunk that goes to a place of `peer`.
  virtual Contents toPeer(int32_t /*peer*/, Contents contents) { return contents; }
  /// Called once when all is ready to be executed. False: nothing is, and no fault is
  /// reported. Of all ranks together it prepares to find races.
  virtual bool prepare();
  virtual void fire(int32_t agent, int32_t instruction);
  /// Tells `order` what an instruction relies on, touches and lets others rely on, in this
  /// order: takes(link), reads(operand, place), writes(operand, place), sends(link). Of places that
  /// exist, chunk by chunk.
  template <typename Order>
  void tell(const NetworkAgent &agent, int32_t instruction, Order &&order) const;

  const ProgramCheckOptions options;
  Network network;
  Execution execution;

private:
  struct Slot {
    int32_t writer; ///< event that filled it
    std::vector<Contents> chunks;
  };

  /// The rank whose place an operand (no channel) is.
  static int32_t ownerOf(const NetworkAgent &agent, const Operand &operand) {
    return operand.kind == Operand::Kind::Peer ? operand.peer : agent.rank;
  }
  Event describe(int32_t event) const;
  /// Calls f(operand, place) for every chunk that exists and an instruction reads or writes.
  template <typename F>
  void forEachAccess(const NetworkAgent &agent, const Instruction &instruction, bool writes,
                     const F &f) const;
  bool isItself(const NetworkAgent &agent, const Instruction &instruction,
                const Operand &destination) const;
  std::optional<Unguarded> unguarded(const std::optional<Races::Foreign> &foreign) const;
  /// Looks for races with what was before.
  void follow(int32_t agent, int32_t instruction, const Site &site);
  void reportRace(const Races::Conflict &conflict, bool writes, const Place &place,
                  const Site &site);
  Site siteOf(int32_t agent, int32_t instruction) const;
  bool exist(const NetworkAgent &agent, const Instruction &instruction, const Site &site);
  bool overlaps(const NetworkAgent &agent, const Instruction &instruction, const Site &site);
  /// What one source holds, `count` chunks; who wrote it goes to `writer`.
  std::vector<Contents> take(const NetworkAgent &agent, const Operand &operand,
                             const Instruction &instruction, const Site &site, int32_t &writer);
  std::vector<Contents> receive(const NetworkAgent &agent, const Operand &operand,
                                const Instruction &instruction, const Site &site, int32_t &writer);
  void put(const NetworkAgent &agent, const Operand &operand, const std::vector<Contents> &values,
           const Site &site);

  std::vector<std::deque<Slot>> slots; ///< of every link
  std::optional<Races> races;          ///< if there are places of several agents
};

template <typename F>
void ProgramCheck::forEachAccess(const NetworkAgent &agent, const Instruction &instruction,
                                 bool writes, const F &f) const {
  if (instruction.kind != Instruction::Kind::Transfer)
    return;
  for (const Operand &operand : writes ? instruction.to : instruction.from) {
    if (operand.kind == Operand::Kind::Channel)
      continue;
    Place place = placeOf(agent, operand);
    if (!execution.isPlace(place, instruction.count) ||
        (writes && isItself(agent, instruction, operand)))
      continue;
    for (int32_t c = 0; c < instruction.count; ++c, ++place.chunk)
      f(operand, place);
  }
}

template <typename Order>
void ProgramCheck::tell(const NetworkAgent &agent, int32_t index, Order &&order) const {
  const Instruction &instruction = agent.agent->code[size_t(index)];
  if (instruction.kind == Instruction::Kind::Wait)
    return order.takes(network.linkOf(agent.rank, instruction.channel));
  if (instruction.kind == Instruction::Kind::Signal)
    return order.sends(network.linkOf(agent.rank, instruction.channel));
  for (const Operand &operand : instruction.from)
    if (operand.kind == Operand::Kind::Channel)
      order.takes(network.linkOf(agent.rank, operand.channel));
  forEachAccess(agent, instruction, /*writes=*/false,
                [&](const Operand &operand, const Place &place) { order.reads(operand, place); });
  forEachAccess(agent, instruction, /*writes=*/true,
                [&](const Operand &operand, const Place &place) { order.writes(operand, place); });
  for (const Operand &operand : instruction.to)
    if (operand.kind == Operand::Kind::Channel)
      order.sends(network.linkOf(agent.rank, operand.channel));
}

} // namespace ccl::model
