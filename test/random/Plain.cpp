//===- Plain.cpp ------------------------------------------------------------------===//
#include "test/random/Plain.h"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <map>
#include <optional>

using namespace ccl::model;

namespace ccl::random {
namespace {

uint64_t numberOf(int64_t rank, int64_t chunk) {
  return Dice(uint64_t(rank) << 32 | uint64_t(chunk)).next();
}

class Memory {
public:
  Memory(const std::vector<Buffer> &buffers, const Contract &contract)
      : buffers(buffers), contract(contract), cells(size_t(contract.ranks)) {
    for (int64_t rank = 0; rank < contract.ranks; ++rank)
      for (const Buffer &buffer : buffers) {
        auto &row = cells[size_t(rank)].emplace_back(size_t(buffer.chunks));
        for (int64_t k = 0; k < contract.inChunks(); ++k) {
          if (!contract.defines(rank, k) || (buffer.role != Role::In && buffer.role != Role::InOut))
            continue;
          int64_t at = buffer.role == Role::In ? k : contract.inPosition(rank, k);
          if (at < buffer.chunks)
            row[size_t(at)] = numberOf(rank, k);
        }
      }
  }

  /// Null if there is no such place.
  std::optional<uint64_t> *at(int64_t rank, int64_t buffer, int64_t chunk) {
    if (rank < 0 || rank >= contract.ranks || buffer < 0 || buffer >= int64_t(buffers.size()) ||
        chunk < 0 || chunk >= buffers[size_t(buffer)].chunks)
      return nullptr;
    return &cells[size_t(rank)][size_t(buffer)][size_t(chunk)];
  }
  std::string read(int64_t rank, int64_t buffer, int64_t chunk, uint64_t &value) {
    auto *cell = at(rank, buffer, chunk);
    if (!cell || !*cell)
      return fmt::format("rank {}, buffer {}, chunk {} is read: {}", rank, buffer, chunk,
                         cell ? "nothing was written there" : "it does not exist");
    value = **cell;
    return "";
  }
  std::string write(int64_t rank, int64_t buffer, int64_t chunk, uint64_t value) {
    auto *cell = at(rank, buffer, chunk);
    if (!cell || buffers[size_t(buffer)].role == Role::In)
      return fmt::format("rank {}, buffer {}, chunk {} is written", rank, buffer, chunk);
    *cell = value;
    return "";
  }
  /// Compares with the contract.
  std::string atEnd() {
    std::vector<Atom> atoms;
    for (int64_t rank = 0; rank < contract.ranks; ++rank)
      for (size_t b = 0; b < buffers.size(); ++b)
        for (int64_t k = 0; k < contract.outChunks(); ++k) {
          if (buffers[b].role != Role::Out && buffers[b].role != Role::InOut)
            continue;
          contract.expected(rank, k, atoms);
          if (atoms.empty())
            continue;
          uint64_t want = 0, have = 0;
          for (const Atom &atom : atoms)
            want += numberOf(atom.rank, atom.chunk);
          int64_t place = buffers[b].role == Role::Out ? k : contract.outPosition(rank, k);
          if (std::string fault = read(rank, int64_t(b), place, have); !fault.empty())
            return "at the end " + fault;
          if (have != want)
            return fmt::format("rank {}, out[{}] is wrong at the end", rank, k);
        }
    return "";
  }

private:
  const std::vector<Buffer> &buffers;
  const Contract &contract;
  std::vector<std::vector<std::vector<std::optional<uint64_t>>>> cells;
};

} // namespace

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

static std::string executeMove(const Move &move, Memory &memory) {
  std::vector<uint64_t> values(size_t(std::max(move.count, 0)));
  for (int32_t i = 0; i < move.count; ++i) {
    if (auto fault =
            memory.read(move.src.rank, move.src.buffer, move.src.chunk + i, values[size_t(i)]);
        !fault.empty())
      return fault;
    uint64_t own = 0;
    if (move.kind == MoveKind::Reduce)
      if (auto fault = memory.read(move.dst.rank, move.dst.buffer, move.dst.chunk + i, own);
          !fault.empty())
        return fault;
    values[size_t(i)] += own;
  }
  for (int32_t i = 0; i < move.count; ++i)
    if (auto fault =
            memory.write(move.dst.rank, move.dst.buffer, move.dst.chunk + i, values[size_t(i)]);
        !fault.empty())
      return fault;
  return "";
}

std::string execute(const Algorithm &algorithm, Dice &dice) {
  Memory memory(algorithm.moves.buffers, algorithm.contract);
  const std::vector<Move> &moves = algorithm.moves.moves;
  for (size_t begin = 0, end = 0; begin < moves.size(); begin = end) {
    std::vector<size_t> step;
    for (; end < moves.size() && moves[end].step == moves[begin].step; ++end)
      step.push_back(end);
    dice.shuffle(step);
    for (size_t i : step)
      if (std::string fault = executeMove(moves[i], memory); !fault.empty())
        return fmt::format("move {}: {}", i, fault);
  }
  return memory.atEnd();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {

class Machine {
public:
  Machine(const Program &program, const Contract &contract, Dice &dice)
      : program(program), dice(dice), memory(program.buffers, contract) {
    for (size_t rank = 0; rank < program.ranks.size(); ++rank)
      for (size_t agent = 0; agent < program.ranks[rank].agents.size(); ++agent)
        states.push_back({int32_t(rank), int32_t(agent)});
  }
  std::string run();

private:
  struct State {
    int32_t rank, agent;
    size_t next = 0;
    bool wasRead = false; ///< the sources of `next` are in `values`
    std::vector<uint64_t> values = {};
    size_t size(const Program &p) const {
      return p.ranks[size_t(rank)].agents[size_t(agent)].code.size();
    }
  };
  struct Wire {
    int64_t filled = 0, reserved = 0, freed = 0; ///< signals count in `filled` and `freed`
    std::deque<std::vector<uint64_t>> messages;
  };

  const Channel &channelOf(const State &state, int32_t channel) const {
    return program.ranks[size_t(state.rank)].channels[size_t(channel)];
  }
  Wire &wire(const State &state, int32_t channel) {
    const Channel &c = channelOf(state, channel);
    return c.to ? wires[{state.rank, c.peer, c.tag}] : wires[{c.peer, state.rank, c.tag}];
  }
  bool isBlocked(const State &state, const Instruction &instruction);
  std::string read(State &state, const Instruction &instruction);
  std::string write(State &state, const Instruction &instruction);
  std::string step(State &state, bool &moved);

  const Program &program;
  Dice &dice;
  Memory memory;
  std::vector<State> states;
  std::map<std::array<int32_t, 3>, Wire> wires;
};

bool Machine::isBlocked(const State &state, const Instruction &i) {
  if (i.kind == Instruction::Kind::Signal)
    return false;
  if (i.kind == Instruction::Kind::Wait) {
    Wire &w = wire(state, i.channel);
    return w.filled == w.freed;
  }
  for (const Operand &o : i.from)
    if (o.kind == Operand::Kind::Channel && wire(state, o.channel).messages.empty())
      return true;
  for (const Operand &o : i.to)
    if (o.kind == Operand::Kind::Channel) {
      Wire &w = wire(state, o.channel);
      if (w.reserved - w.freed >= channelOf(state, o.channel).slots)
        return true;
    }
  return false;
}

std::string Machine::read(State &state, const Instruction &i) {
  state.values.assign(size_t(std::max(i.count, 0)), 0);
  for (const Operand &o : i.to)
    if (o.kind == Operand::Kind::Channel)
      ++wire(state, o.channel).reserved;
  for (const Operand &o : i.from) {
    if (o.kind == Operand::Kind::Channel) {
      Wire &w = wire(state, o.channel);
      std::vector<uint64_t> message = std::move(w.messages.front());
      w.messages.pop_front();
      if (message.size() != state.values.size())
        return "a message has another length";
      for (size_t k = 0; k < message.size(); ++k)
        state.values[k] += message[k];
      continue;
    }
    int64_t rank = o.kind == Operand::Kind::Peer ? o.peer : state.rank;
    for (int32_t k = 0; k < i.count; ++k) {
      uint64_t value = 0;
      if (std::string fault = memory.read(rank, o.buffer, o.chunk + k, value); !fault.empty())
        return fault;
      state.values[size_t(k)] += value;
    }
  }
  return "";
}

std::string Machine::write(State &state, const Instruction &i) {
  for (const Operand &o : i.from) // a slot is free when all is done
    if (o.kind == Operand::Kind::Channel)
      ++wire(state, o.channel).freed;
  for (const Operand &o : i.to) {
    if (o.kind == Operand::Kind::Channel) {
      wire(state, o.channel).messages.push_back(state.values);
      continue;
    }
    int64_t rank = o.kind == Operand::Kind::Peer ? o.peer : state.rank;
    for (int32_t k = 0; k < i.count; ++k)
      if (std::string fault = memory.write(rank, o.buffer, o.chunk + k, state.values[size_t(k)]);
          !fault.empty())
        return fault;
  }
  return "";
}

std::string Machine::step(State &state, bool &moved) {
  const Instruction &i =
      program.ranks[size_t(state.rank)].agents[size_t(state.agent)].code[state.next];
  if (!state.wasRead && isBlocked(state, i))
    return "";
  moved = true;
  std::string fault;
  if (i.kind == Instruction::Kind::Transfer && !state.wasRead) {
    state.wasRead = true;
    return read(state, i);
  }
  if (i.kind == Instruction::Kind::Transfer)
    fault = write(state, i);
  else if (i.kind == Instruction::Kind::Signal)
    ++wire(state, i.channel).filled;
  else
    ++wire(state, i.channel).freed;
  state.wasRead = false;
  ++state.next;
  return fault;
}

std::string Machine::run() {
  std::vector<size_t> live;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].size(program) > 0)
      live.push_back(i);
  // Some schedules prefer a few agents for long, which random ones never do.
  const bool greedy = dice.chance(50);
  while (!live.empty()) {
    bool any = false;
    if (!greedy || dice.chance(10))
      dice.shuffle(live);
    for (size_t k = 0; k < live.size() && !any; ++k)
      if (std::string fault = step(states[live[k]], any); !fault.empty())
        return fmt::format("rank {}, agent {}, instruction {}: {}", states[live[k]].rank,
                           states[live[k]].agent, states[live[k]].next, fault);
    if (!any)
      return "deadlock";
    std::erase_if(live, [&](size_t i) { return states[i].next == states[i].size(program); });
  }
  for (auto &[ends, w] : wires)
    if (!w.messages.empty() || w.filled > w.freed + w.reserved)
      return "a channel is left unbalanced";
  return memory.atEnd();
}

} // namespace

std::string execute(const Program &program, const Contract &contract, Dice &dice) {
  return Machine(program, contract, dice).run();
}

} // namespace ccl::random
