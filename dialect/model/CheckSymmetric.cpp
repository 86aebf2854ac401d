#include "dialect/model/CheckSymmetric.h"

#include "dialect/model/ProgramCheck.h"
#include "dialect/model/SymmetricOrder.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::model {
namespace {

class SymmetricCheck : public ProgramCheck {
public:
  SymmetricCheck(const Program &rankZero, const Contract &contract, const Symmetry &symmetry,
                 const ProgramCheckOptions &options)
      : ProgramCheck(
            rankZero, contract, options, contract.ranks,
            Network(rankZero, contract.ranks,
                    [&](int32_t rank) { return int32_t(ShiftGroup(symmetry).inverse(rank)); })),
        rankZero(rankZero), contract(contract), symmetry(symmetry), group(symmetry),
        sweeps(symmetry, network, execution,
               [this](const NetworkAgent &agent, const Operand &o) { return placeOf(agent, o); }) {}

  std::optional<ProgramReport> prove(std::string &why);

protected:
  bool prepare() override;
  Place placeOf(const NetworkAgent &agent, const Operand &operand) const override;
  Contents fromPeer(int32_t peer, Contents value) override { return shifted(peer, value); }
  // What rank 0 does to p's place, the rank that sees 0 as p does to rank 0's.
  Contents toPeer(int32_t peer, Contents value) override {
    return shifted(group.inverse(peer), value);
  }
  void fire(int32_t agent, int32_t instruction) override;

private:
  Contents shifted(int64_t shift, Contents value);
  bool needsOrder() const;
  void follow(const NetworkAgent &agent, int32_t index);

  const Program &rankZero;
  const Contract &contract;
  const Symmetry &symmetry;
  const ShiftGroup group;
  SweepOrder sweeps;
  std::optional<PeerOrder> peers; ///< if ranks or agents touch places of others
  std::string doubt;              ///< why rank 0 may not tell about all
};

Place SymmetricCheck::placeOf(const NetworkAgent &, const Operand &operand) const {
  Place place{0, operand.buffer, operand.chunk};
  if (operand.kind == Operand::Kind::Peer && execution.isPlace(place, 1))
    place.chunk = group.moveChunk(group.inverse(operand.peer), operand.buffer, operand.chunk);
  return place;
}

Contents SymmetricCheck::shifted(int64_t shift, Contents value) {
  if (shift == 0)
    return value;
  int32_t input = -1;
  for (size_t b = 0; b < rankZero.buffers.size(); ++b)
    if (rankZero.buffers[b].role == Role::In || rankZero.buffers[b].role == Role::InOut)
      input = int32_t(b);
  bool whole = input >= 0 && rankZero.buffers[size_t(input)].role == Role::InOut;
  return execution.multisets().renamed(
      value,
      [&](int64_t chunk) { // of the contract, which lies where the rank says in `inout`
        if (!whole)
          return group.moveChunk(shift, input, chunk);
        return group.moveChunk(shift, input, contract.inPosition(0, chunk)) -
               contract.inPosition(shift, 0);
      },
      [&](int64_t low, int64_t high, Multisets::Intervals &out) {
        group.moveRanks(shift, low, high, out);
      });
}

/// Whether a place can be accessed by others than one agent of its rank.
bool SymmetricCheck::needsOrder() const {
  if (network.agents().size() > 1)
    return true;
  auto isPeer = [](const Operand &operand) { return operand.kind == Operand::Kind::Peer; };
  for (const NetworkAgent &agent : network.agents())
    for (const Instruction &instruction : agent.agent->code)
      if (std::any_of(instruction.from.begin(), instruction.from.end(), isPeer) ||
          std::any_of(instruction.to.begin(), instruction.to.end(), isPeer))
        return true;
  return false;
}

bool SymmetricCheck::prepare() {
  doubt = sweeps.check(rankZero);
  for (const NetworkAgent &agent : network.agents())
    for (size_t i = 0; i < agent.agent->code.size(); ++i) {
      const Instruction &instruction = agent.agent->code[i];
      for (const std::vector<Operand> *operands : {&instruction.from, &instruction.to})
        for (const Operand &operand : *operands)
          if (operand.kind != Operand::Kind::Channel &&
              execution.isPlace({0, operand.buffer, operand.chunk}, 1) &&
              !group.keepsTogether(operand.buffer, operand.chunk, instruction.count))
            doubt = network.str(agent.index, int64_t(i)) +
                    " moves chunks that are not adjacent on other ranks";
    }
  if (doubt.empty() && needsOrder())
    peers.emplace(symmetry, network, sweeps, execution.numPlaces());
  return doubt.empty();
}

/// The order that an instruction adds to and relies on.
void SymmetricCheck::follow(const NetworkAgent &agent, int32_t index) {
  struct Order {
    SymmetricCheck &check;
    const NetworkAgent &agent;
    int32_t index;
    int32_t event() const { return int32_t(agent.firstEvent) + index; }
    int64_t rankOf(const Operand &operand) const {
      return operand.kind == Operand::Kind::Peer ? check.group.inverse(operand.peer) : 0;
    }
    void takes(int32_t link) { check.peers->receive(link, event()); }
    void sends(int32_t link) { check.peers->send(link, event()); }
    void reads(const Operand &operand, const Place &place) {
      note(check.peers->read(check.execution.at(place), rankOf(operand), event()), operand);
    }
    void writes(const Operand &operand, const Place &place) {
      note(check.peers->write(check.execution.at(place), rankOf(operand), event()), operand);
    }
    void note(bool isOrdered, const Operand &operand) {
      if (!isOrdered && check.doubt.empty())
        check.doubt =
            fmt::format("{}: nothing orders it with another access to {}[{}]",
                        check.network.str(agent.index, index),
                        check.rankZero.buffers[size_t(operand.buffer)].name, operand.chunk);
    }
  };
  tell(agent, index, Order{*this, agent, index});
}

void SymmetricCheck::fire(int32_t agent, int32_t instruction) {
  if (peers)
    follow(network.agents()[size_t(agent)], instruction);
  ProgramCheck::fire(agent, instruction);
}

std::optional<ProgramReport> SymmetricCheck::prove(std::string &why) {
  if (execution.check().empty()) // else there is a fault that says it
    if (why = contradiction(symmetry, rankZero.buffers, contract, options.inPlace); !why.empty())
      return std::nullopt;
  ProgramReport report = run();
  if (why = doubt; !why.empty())
    return std::nullopt;
  // One rank does not tell what is known at the end: take it that nothing is.
  report.entryBarrier = report.exitBarrier = report.batchBarrier = peers.has_value();
  report.instructions *= uint64_t(std::max<int64_t>(contract.ranks, 1));
  for (Fault &fault : report.faults)
    fault.notes.push_back({-1, fmt::format("all {} ranks do the same, shifted", contract.ranks)});
  return report;
}

} // namespace

std::optional<ProgramReport> checkSymmetric(const Program &rankZero, const Contract &contract,
                                            const Symmetry &symmetry,
                                            const ProgramCheckOptions &options, std::string *why) {
  std::string reason = "it is not the program of one rank";
  std::optional<ProgramReport> report;
  if (rankZero.ranks.size() == 1)
    report = SymmetricCheck(rankZero, contract, symmetry, options).prove(reason);
  if (why)
    *why = reason;
  return report;
}

} // namespace ccl::model
