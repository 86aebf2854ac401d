//===- Programs.cpp ---------------------------------------------------------------===//
#include "test/random/Programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

using namespace ccl::model;

namespace ccl::random {
namespace {

class Builder {
public:
  Builder(const Algorithm &algorithm, Dice &dice, const ProgramOptions &options)
      : moves(algorithm.moves), dice(dice), options(options) {}
  Program build();

private:
  /// A step of an agent: what it does between waits and signals.
  struct Node {
    int32_t agent;
    size_t index; ///< among the nodes of its agent
    Instruction instruction;
    std::vector<int32_t> waits = {}, signals = {}; ///< channels, before and after
    std::map<int32_t, size_t> seen = {};           ///< nodes of each agent that are over by its end
  };
  struct AgentOf {
    int32_t rank;
    int32_t sendPeer = -1, recvPeer = -1, chan = -1; ///< options.connections
    std::vector<size_t> nodes = {};
  };
  struct History {
    std::vector<size_t> writes, reads;
  };
  using Wire = std::array<int32_t, 3>; ///< from, to, chan or pair of agents

  /// The agent's next node, which begins with what is over by the end of the one before.
  size_t begin(int32_t agent, Instruction instruction) {
    std::vector<size_t> &own = agents[size_t(agent)].nodes;
    nodes.push_back({agent, own.size(), std::move(instruction)});
    if (!own.empty())
      nodes.back().seen = nodes[own.back()].seen;
    own.push_back(nodes.size() - 1);
    return nodes.size() - 1;
  }
  void inherit(size_t node, size_t earlier) {
    for (auto [agent, index] : nodes[earlier].seen)
      nodes[node].seen[agent] = std::max(nodes[node].seen[agent], index);
  }
  /// From here on the node itself is over.
  void close(size_t node) { nodes[node].seen[nodes[node].agent] = nodes[node].index + 1; }
  int32_t addAgent(int32_t rank) {
    agents.push_back({rank});
    ofRank[size_t(rank)].push_back(int32_t(agents.size()) - 1);
    return int32_t(agents.size()) - 1;
  }
  int32_t anyAgent(int32_t rank);
  int32_t connectedAgent(int32_t rank, int32_t peer, int32_t chan, bool sends);
  int32_t newTag(int32_t from, int32_t to) { return tags[{from, to}]++; }
  int32_t channel(int32_t rank, bool to, int32_t peer, int32_t tag, int32_t slots);

  void addMove(const Move &move);
  void addStaged(const Move &move);
  void touch(size_t node, const Place &place, int32_t count, bool writes);
  void waitFor(size_t node, size_t earlier);
  void emitCode(Program &program);

  const Moves &moves;
  Dice &dice;
  const ProgramOptions options;
  int32_t slots = 1;
  std::vector<Node> nodes;
  std::vector<AgentOf> agents;
  std::vector<std::vector<int32_t>> ofRank;
  std::vector<std::vector<Channel>> channels; ///< by rank
  std::map<std::array<int32_t, 3>, History> places;
  std::map<std::pair<int32_t, int32_t>, int32_t> tags;   ///< next one, by (from, to)
  std::map<Wire, std::pair<int32_t, int32_t>> dataWires; ///< to the channels of both ends
  std::map<Wire, std::pair<int32_t, int32_t>> signalWires;
};

Operand local(const Place &place) { return {Operand::Kind::Local, place.buffer, place.chunk}; }
Operand peer(const Place &place) {
  return {Operand::Kind::Peer, place.buffer, place.chunk, place.rank};
}
Operand through(int32_t channel) {
  Operand operand;
  operand.kind = Operand::Kind::Channel;
  operand.channel = channel;
  return operand;
}
Instruction transfer(std::vector<Operand> from, Operand to, int32_t count) {
  Instruction i;
  i.reduce = from.size() > 1;
  i.from = std::move(from);
  i.to = {to};
  i.count = count;
  return i;
}

//===----------------------------------------------------------------------===//
// Agents and channels
//===----------------------------------------------------------------------===//

int32_t Builder::anyAgent(int32_t rank) {
  auto &all = ofRank[size_t(rank)];
  if (all.empty() || (all.size() < 4 && dice.chance(15)))
    return addAgent(rank);
  return dice.pick(all);
}

int32_t Builder::connectedAgent(int32_t rank, int32_t peer, int32_t chan, bool sends) {
  std::vector<int32_t> able;
  for (int32_t a : ofRank[size_t(rank)]) {
    const AgentOf &agent = agents[size_t(a)];
    int32_t end = sends ? agent.sendPeer : agent.recvPeer;
    if (agent.chan == chan && end == peer)
      return a; // one agent holds the connection
    if (end < 0 && (agent.chan < 0 || agent.chan == chan))
      able.push_back(a);
  }
  int32_t a = able.empty() || dice.chance(30) ? addAgent(rank) : dice.pick(able);
  agents[size_t(a)].chan = chan;
  (sends ? agents[size_t(a)].sendPeer : agents[size_t(a)].recvPeer) = peer;
  return a;
}

int32_t Builder::channel(int32_t rank, bool to, int32_t peer, int32_t tag, int32_t slots) {
  channels[size_t(rank)].push_back({to, peer, tag, slots});
  return int32_t(channels[size_t(rank)].size()) - 1;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Nodes are made in an order that all agents keep to, so waits never close a cycle.
void Builder::waitFor(size_t node, size_t earlier) {
  Node &self = nodes[node], &other = nodes[earlier];
  if (self.agent == other.agent)
    return;
  auto seen = self.seen.find(other.agent);
  if (seen != self.seen.end() && seen->second > other.index)
    return; // follows from something else
  const int32_t from = agents[size_t(other.agent)].rank, to = agents[size_t(self.agent)].rank;
  Wire key = {other.agent, self.agent, -1};
  auto it = signalWires.find(key);
  if (it == signalWires.end()) {
    int32_t tag = newTag(from, to);
    int32_t there = channel(from, true, to, tag, 0), here = channel(to, false, from, tag, 0);
    it = signalWires.emplace(key, std::pair(there, here)).first;
  }
  other.signals.push_back(it->second.first);
  self.waits.push_back(it->second.second);
  inherit(node, earlier);
}

/// Waits for what touched the place before, and notes that `node` does.
void Builder::touch(size_t node, const Place &place, int32_t count, bool writes) {
  std::vector<size_t> first;
  for (int32_t i = 0; i < count; ++i) {
    History &h = places[{place.rank, place.buffer, int32_t(place.chunk) + i}];
    first.insert(first.end(), h.writes.begin(), h.writes.end());
    if (writes) {
      first.insert(first.end(), h.reads.begin(), h.reads.end());
      h.reads.clear();
      h.writes = {node};
    } else {
      h.reads.push_back(node);
    }
  }
  // Later ones first: they may imply the earlier. A node may touch a place twice.
  std::sort(first.begin(), first.end(), std::greater<>());
  for (size_t earlier : first)
    if (earlier != node)
      waitFor(node, earlier);
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

void Builder::addStaged(const Move &move) {
  const int32_t from = move.src.rank, to = move.dst.rank;
  int32_t sender, receiver;
  Wire key;
  if (options.connections) {
    int32_t chan = int32_t(dice.below(2));
    sender = connectedAgent(from, to, chan, true);
    receiver = connectedAgent(to, from, chan, false);
    key = {from, to, chan};
  } else {
    sender = anyAgent(from);
    receiver = anyAgent(to);
    key = {sender, receiver, -1};
  }
  auto it = dataWires.find(key);
  if (it == dataWires.end()) {
    int32_t tag = options.connections ? key[2] : newTag(from, to);
    int32_t there = channel(from, true, to, tag, slots);
    int32_t here = channel(to, false, from, tag, slots);
    it = dataWires.emplace(key, std::pair(there, here)).first;
  }
  size_t send = begin(sender, transfer({local(move.src)}, through(it->second.first), move.count));
  touch(send, move.src, move.count, false);
  close(send);
  std::vector<Operand> sources = {through(it->second.second)};
  if (move.kind == MoveKind::Reduce)
    sources.push_back(local(move.dst));
  size_t receive = begin(receiver, transfer(sources, local(move.dst), move.count));
  inherit(receive, send);
  touch(receive, move.dst, move.count, true);
  close(receive);
}

void Builder::addMove(const Move &move) {
  const int32_t from = move.src.rank, to = move.dst.rank;
  if (from != to && (options.connections || (!options.direct && dice.chance(50))))
    return addStaged(move);
  const bool pushes = from != to && dice.chance(40);
  int32_t rank = pushes ? from : to;
  std::vector<Operand> sources = {from == rank ? local(move.src) : peer(move.src)};
  Operand target = to == rank ? local(move.dst) : peer(move.dst);
  if (move.kind == MoveKind::Reduce)
    sources.push_back(target);
  size_t node = begin(anyAgent(rank), transfer(sources, target, move.count));
  touch(node, move.src, move.count, false);
  touch(node, move.dst, move.count, true);
  close(node);
}

void Builder::emitCode(Program &program) {
  for (size_t a = 0; a < agents.size(); ++a) {
    Agent agent;
    auto mark = [&](Instruction::Kind kind, int32_t channel) {
      Instruction i;
      i.kind = kind;
      i.channel = channel;
      agent.code.push_back(i);
    };
    for (size_t n : agents[a].nodes) {
      for (int32_t channel : nodes[n].waits)
        mark(Instruction::Kind::Wait, channel);
      agent.code.push_back(nodes[n].instruction);
      for (int32_t channel : nodes[n].signals)
        mark(Instruction::Kind::Signal, channel);
    }
    RankProgram &rank = program.ranks[size_t(agents[a].rank)];
    agent.id = int32_t(rank.agents.size());
    rank.agents.push_back(std::move(agent));
  }
}

Program Builder::build() {
  const size_t ranks = size_t(moves.ranks);
  slots = options.connections ? 2 : 1 + int32_t(dice.below(3));
  ofRank.resize(ranks);
  channels.resize(ranks);
  if (options.connections) // tags 0 and 1 are data
    for (int32_t p = 0; p < moves.ranks; ++p)
      for (int32_t q = 0; q < moves.ranks; ++q)
        tags[{p, q}] = 2;
  for (const Move &move : moves.moves)
    addMove(move);
  Program program;
  program.buffers = moves.buffers;
  program.ranks.resize(ranks);
  emitCode(program);
  for (size_t rank = 0; rank < ranks; ++rank)
    program.ranks[rank].channels = channels[rank];
  return program;
}

} // namespace

Program randomProgram(const Algorithm &algorithm, Dice &dice, const ProgramOptions &options) {
  return Builder(algorithm, dice, options).build();
}

interchange::Foreign randomForeign(const Algorithm &algorithm, Dice &dice,
                                   const ProgramOptions &options) {
  interchange::Foreign foreign;
  foreign.name = fmt::format("a{}", algorithm.seed);
  foreign.contract = algorithm.contract;
  foreign.inPlace = algorithm.moves.buffers.front().role == Role::InOut;
  foreign.disjoint = !foreign.inPlace;
  foreign.program = randomProgram(algorithm, dice, options);
  return foreign;
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Removes the k-th signal of a channel and the k-th wait for it.
static void dropSignal(Program &program, RankProgram &rank, Agent &agent, size_t at) {
  const int32_t rankIndex = int32_t(&rank - program.ranks.data());
  const Channel out = rank.channels[size_t(agent.code[at].channel)];
  auto isIt = [](const RankProgram &r, const Instruction &i, Instruction::Kind kind, int32_t peer,
                 int32_t tag) {
    if (i.kind != kind)
      return false;
    const Channel &c = r.channels[size_t(i.channel)];
    return c.peer == peer && c.tag == tag && c.to == (kind == Instruction::Kind::Signal);
  };
  int64_t k = std::count_if(agent.code.begin(), agent.code.begin() + ptrdiff_t(at),
                            [&](const Instruction &i) {
                              return isIt(rank, i, Instruction::Kind::Signal, out.peer, out.tag);
                            });
  agent.code.erase(agent.code.begin() + ptrdiff_t(at));
  RankProgram &other = program.ranks[size_t(out.peer)];
  for (Agent &waiting : other.agents)
    for (size_t i = 0; i < waiting.code.size(); ++i)
      if (isIt(other, waiting.code[i], Instruction::Kind::Wait, rankIndex, out.tag) && k-- == 0) {
        waiting.code.erase(waiting.code.begin() + ptrdiff_t(i));
        return;
      }
}

static void shift(Program &program, Instruction &instruction, Dice &dice) {
  std::vector<Operand> &side = dice.chance(50) ? instruction.from : instruction.to;
  for (Operand &operand : side)
    if (operand.kind != Operand::Kind::Channel)
      operand.chunk = dice.below(program.buffers[size_t(operand.buffer)].chunks);
}

void plantFault(Program &program, Dice &dice) {
  std::vector<std::array<size_t, 3>> all;
  for (size_t r = 0; r < program.ranks.size(); ++r)
    for (size_t a = 0; a < program.ranks[r].agents.size(); ++a)
      for (size_t i = 0; i < program.ranks[r].agents[a].code.size(); ++i)
        all.push_back({r, a, i});
  if (all.empty())
    return;
  auto [r, a, i] = dice.pick(all);
  RankProgram &rank = program.ranks[r];
  Agent &agent = rank.agents[a];
  Instruction &instruction = agent.code[i];
  if (instruction.kind == Instruction::Kind::Signal && dice.chance(70))
    return dropSignal(program, rank, agent, i);
  switch (dice.below(6)) {
  case 0: agent.code.erase(agent.code.begin() + ptrdiff_t(i)); break;
  case 1: agent.code.insert(agent.code.begin() + ptrdiff_t(i), Instruction(instruction)); break;
  case 2: std::swap(instruction, agent.code[size_t(dice.below(int64_t(agent.code.size())))]); break;
  case 3: shift(program, instruction, dice); break;
  case 4:
    if (instruction.from.size() > 1) {
      instruction.from.pop_back();
      instruction.reduce = instruction.from.size() > 1;
    } else if (i + 1 < agent.code.size()) {
      std::swap(instruction, agent.code[i + 1]);
    }
    break;
  case 5:
    for (Channel &channel : rank.channels) // one end only
      if (dice.chance(30))
        channel.tag ^= 1;
    break;
  }
}

} // namespace ccl::random
