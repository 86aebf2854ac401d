#include "frontend/msccl/Blocks.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

namespace ccl::msccl {
namespace {

/// A step in its block.
struct Position {
  int32_t block = -1, index = -1;
};

/// Deals steps to blocks.
class Dealer {
public:
  Dealer(const Lanes &lanes, const BlockOptions &options) : lanes(lanes), options(options) {}
  /// The block of every op; -1 of what is no step.
  std::vector<std::vector<int32_t>> deal(const std::vector<std::vector<Op>> &agents);

  struct Made {
    int32_t send = -1, recv = -1, channel = 0; ///< lanes; channel of both
    int32_t steps = 0;
  };
  std::vector<Made> blocks;

private:
  void joinLanes(const std::vector<Op> &ops);
  /// The block of a step, which is the `current` one of its agent from there on.
  int32_t blockFor(const Op &op, int32_t &current);

  const Lanes &lanes;
  const BlockOptions &options;
  std::unordered_map<int32_t, int32_t> blockOfRecv, blockOfSend; ///< by lane
};

/// The blocks of one agent: lanes that a step joins, then what goes well together.
void Dealer::joinLanes(const std::vector<Op> &ops) {
  std::vector<int32_t> in, out;
  for (const Op &op : ops) {
    if (op.recv >= 0 && blockOfRecv.emplace(op.recv, -1).second)
      in.push_back(op.recv);
    if (op.send >= 0 && blockOfSend.emplace(op.send, -1).second)
      out.push_back(op.send);
  }
  auto join = [&](int32_t recv, int32_t send) {
    int32_t lane = recv >= 0 ? recv : send;
    int32_t number = int32_t(blocks.size());
    blocks.push_back({send, recv, lanes[lane].channel, 0});
    if (recv >= 0)
      blockOfRecv[recv] = number;
    if (send >= 0)
      blockOfSend[send] = number;
  };
  for (const Op &op : ops)
    if (op.recv >= 0 && op.send >= 0 && blockOfRecv[op.recv] < 0)
      join(op.recv, op.send);
  // Both directions of one peer.
  std::map<std::pair<int32_t, int32_t>, int32_t> sends; // by peer and channel
  for (int32_t lane : out)
    if (blockOfSend[lane] < 0)
      sends.emplace(std::pair(lanes[lane].dst, lanes[lane].channel), lane);
  for (int32_t lane : in) {
    auto send = sends.find({lanes[lane].src, lanes[lane].channel});
    if (blockOfRecv[lane] < 0 && send != sends.end() &&
        lanes[send->second].segment == lanes[lane].segment)
      join(lane, send->second);
  }
  if (options.packs || (in.size() == 1 && out.size() == 1)) {
    std::multimap<int32_t, int32_t> left; // by channel
    for (int32_t lane : out)
      if (blockOfSend[lane] < 0)
        left.emplace(lanes[lane].channel, lane);
    for (int32_t lane : in) {
      auto send = left.lower_bound(lanes[lane].channel);
      if (blockOfRecv[lane] >= 0 || send == left.end() || send->first != lanes[lane].channel)
        continue;
      join(lane, send->second);
      left.erase(send);
    }
  }
  for (int32_t lane : in)
    if (blockOfRecv[lane] < 0)
      join(lane, -1);
  for (int32_t lane : out)
    if (blockOfSend[lane] < 0)
      join(-1, lane);
}

int32_t Dealer::blockFor(const Op &op, int32_t &current) {
  if (op.recv >= 0)
    return current = blockOfRecv.at(op.recv);
  if (op.send >= 0)
    return current = blockOfSend.at(op.send);
  // A local step stays with the step before it.
  bool isFull = current >= 0 && options.stepsPerBlock > 0 &&
                blocks[size_t(current)].steps >= options.stepsPerBlock;
  if (current >= 0 && !isFull)
    return current;
  blocks.push_back({});
  return current = int32_t(blocks.size() - 1);
}

std::vector<std::vector<int32_t>> Dealer::deal(const std::vector<std::vector<Op>> &agents) {
  std::vector<std::vector<int32_t>> result;
  for (const std::vector<Op> &ops : agents) {
    joinLanes(ops);
    std::vector<int32_t> blockOf(ops.size(), -1);
    int32_t current = -1;
    // Local steps before the first message go with that one.
    for (const Op &op : ops)
      if (op.recv >= 0 || op.send >= 0) {
        blockFor(op, current);
        break;
      }
    for (size_t i = 0; i < ops.size(); ++i)
      if (ops[i].kind == Op::Kind::Step) {
        blockOf[i] = blockFor(ops[i], current);
        ++blocks[size_t(blockOf[i])].steps;
      }
    result.push_back(std::move(blockOf));
  }
  return result;
}

/// How much of each of many rows (blocks, agents) is done: nothing of most of them.
class Counts {
public:
  int32_t of(int32_t row) const {
    auto it = find(row);
    return it != counts.end() && it->first == row ? it->second : 0;
  }
  void raise(int32_t row, int32_t count) {
    auto it = find(row);
    if (it == counts.end() || it->first != row)
      counts.insert(it, {row, count});
    else if (it->second < count)
      counts[size_t(it - counts.begin())].second = count;
  }
  void raise(const Counts &other);

private:
  using Rows = std::vector<std::pair<int32_t, int32_t>>; ///< sorted
  Rows::const_iterator find(int32_t row) const {
    return std::lower_bound(counts.begin(), counts.end(), std::pair(row, 0));
  }
  Rows counts;
};
using SharedCounts = std::shared_ptr<const Counts>;

void Counts::raise(const Counts &other) {
  Rows merged;
  auto a = counts.begin();
  for (const auto &[row, count] : other.counts) {
    for (; a != counts.end() && a->first < row; ++a)
      merged.push_back(*a);
    bool both = a != counts.end() && a->first == row;
    merged.emplace_back(row, both ? std::max(count, a->second) : count);
    a += both;
  }
  merged.insert(merged.end(), a, counts.end());
  counts = std::move(merged);
}

/// Finds what every step has to wait for, going through the ops of all agents in an order
/// that may happen.
class Orderer {
public:
  Orderer(const std::vector<std::vector<Op>> &agents, const Layout &layout, int32_t rank,
          const model::RankProgram &program, const BlockOptions &options, size_t numBlocks)
      : agents(agents), layout(layout), rank(rank), program(program), options(options),
        heard(agents.size(), std::make_shared<Counts>()), before(agents.size()),
        knows(numBlocks, std::make_shared<Counts>()), sizes(numBlocks, 0) {}

  /// Calls emit(op, block, awaited) for every step.
  using Emit = std::function<void(const Op &op, int32_t block, const std::vector<Position> &)>;
  void run(const std::vector<std::vector<int32_t>> &blockOf, const Emit &emit,
           BlocksResult &result);

private:
  struct Access {
    Position at;
    int32_t agent = -1, op = -1;
    int64_t time = -1; ///< in the order of this run
  };
  struct Cell {
    Access write;
    std::vector<Access> reads; ///< since then, the last one of every block
  };
  using LastSteps = std::map<int32_t, Access>; ///< by block
  /// What a signal tells.
  struct Token {
    int32_t agent, ops; ///< who sends it, and how many of its ops are done
    SharedCounts heard;
    LastSteps before;
  };
  bool advance(size_t agent, int32_t op);
  void receive(size_t agent, const Token &token);
  void addStep(const Op &op, Access self, const Emit &emit);
  void touch(const Op &op, Access self, std::vector<Access> &conflicts);
  void touchCell(int64_t cell, bool writes, const Access &self, std::vector<Access> &conflicts);
  std::vector<Position> reduce(std::vector<Access> awaited, int32_t block);

  const std::vector<std::vector<Op>> &agents;
  const Layout &layout;
  const int32_t rank;
  const model::RankProgram &program;
  const BlockOptions &options;
  bool hasUnordered = false;
  /// By agent: ops of others that it was told of by signals. Not for keepsOrder.
  std::vector<SharedCounts> heard;
  std::vector<LastSteps> before;               ///< keepsOrder: what the agent's next step is after
  std::map<int32_t, std::deque<Token>> tokens; ///< by tag of a channel to itself
  std::unordered_map<int64_t, Cell> cells;
  std::vector<SharedCounts> knows; ///< by block: steps of others that it has waited for
  /// By block and step, if that is not too much: what was known when it was done.
  std::vector<std::vector<SharedCounts>> known;
  std::vector<int32_t> sizes; ///< steps of every block so far
  int64_t time = 0;
};

/// Beyond that, only what a block has itself waited for is known.
constexpr size_t knowledgeLimit = 256;

void Orderer::run(const std::vector<std::vector<int32_t>> &blockOf, const Emit &emit,
                  BlocksResult &result) {
  if (sizes.size() <= knowledgeLimit)
    known.resize(sizes.size());
  std::vector<int32_t> next(agents.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t a = 0; a < agents.size(); ++a)
      for (; size_t(next[a]) < agents[a].size(); ++next[a], moved = true) {
        const Op &op = agents[a][size_t(next[a])];
        if (op.kind != Op::Kind::Step) {
          if (!advance(a, next[a]))
            break;
          continue;
        }
        int32_t block = blockOf[a][size_t(next[a])];
        addStep(op, {{block, sizes[size_t(block)]}, int32_t(a), next[a], time++}, emit);
      }
  }
  result.hasUnordered |= hasUnordered;
  for (size_t a = 0; a < agents.size(); ++a)
    if (size_t(next[a]) < agents[a].size() && !result.stuck)
      result.stuck = agents[a][size_t(next[a])].step.loc;
}

/// A signal or a wait. False: what it waits for has not been sent yet.
bool Orderer::advance(size_t agent, int32_t index) {
  const Op &op = agents[agent][size_t(index)];
  std::deque<Token> &queue = tokens[program.channels[size_t(op.channel)].tag];
  if (op.kind == Op::Kind::Signal) {
    queue.push_back({int32_t(agent), index + 1, heard[agent], before[agent]});
    return true;
  }
  if (queue.empty())
    return false;
  receive(agent, queue.front());
  queue.pop_front();
  return true;
}

void Orderer::receive(size_t agent, const Token &token) {
  if (!options.keepsOrder) {
    auto now = std::make_shared<Counts>(*heard[agent]);
    now->raise(*token.heard);
    now->raise(token.agent, token.ops);
    heard[agent] = std::move(now);
    return;
  }
  for (const auto &[block, step] : token.before) {
    auto [it, fresh] = before[agent].emplace(block, step);
    if (!fresh && it->second.at.index < step.at.index)
      it->second = step;
  }
}

void Orderer::touchCell(int64_t number, bool writes, const Access &self,
                        std::vector<Access> &conflicts) {
  Cell &cell = cells[number];
  auto conflict = [&](const Access &other) {
    if (other.time < 0 || other.time == self.time)
      return;
    hasUnordered |=
        other.agent != self.agent && heard[size_t(self.agent)]->of(other.agent) <= other.op;
    conflicts.push_back(other);
  };
  conflict(cell.write);
  if (writes) {
    for (const Access &read : cell.reads)
      conflict(read);
    cell.reads.clear();
    cell.write = self;
    return;
  }
  // Of the reads of one block and agent the last one tells of all.
  auto same = std::find_if(cell.reads.begin(), cell.reads.end(), [&](const Access &read) {
    return read.at.block == self.at.block && read.agent == self.agent;
  });
  if (same != cell.reads.end())
    *same = self;
  else
    cell.reads.push_back(self);
}

void Orderer::touch(const Op &op, Access self, std::vector<Access> &conflicts) {
  const Step &step = op.step;
  auto each = [&](Buf buf, int32_t offset, bool writes) {
    for (int32_t c = 0; c < step.count; ++c)
      touchCell(layout.cell(rank, {buf, int64_t(offset) + c}), writes, self, conflicts);
  };
  if (readsSrc(step.type))
    each(step.src, step.srcOffset, /*writes=*/false);
  if (writesDst(step.type))
    each(step.dst, step.dstOffset, /*writes=*/true);
}

std::vector<Position> Orderer::reduce(std::vector<Access> awaited, int32_t block) {
  // Later ones may have waited for earlier ones.
  std::sort(awaited.begin(), awaited.end(),
            [](const Access &a, const Access &b) { return a.time > b.time; });
  std::shared_ptr<Counts> mine;
  std::vector<Position> result;
  for (const Access &access : awaited) {
    const Counts &now = mine ? *mine : *knows[size_t(block)];
    auto [other, index] = access.at;
    if (other == block || now.of(other) > index)
      continue;
    result.push_back(access.at);
    if (!mine)
      mine = std::make_shared<Counts>(now);
    mine->raise(other, index + 1);
    if (!known.empty())
      mine->raise(*known[size_t(other)][size_t(index)]);
  }
  if (mine)
    knows[size_t(block)] = std::move(mine);
  return result;
}

void Orderer::addStep(const Op &op, Access self, const Emit &emit) {
  std::vector<Access> awaited;
  if (options.keepsOrder) {
    // The order of this run need not be that of steps that only messages put in order.
    LastSteps &last = before[size_t(self.agent)];
    for (const auto &[block, step] : last)
      awaited.push_back(step);
    last.clear();
    last.emplace(self.at.block, self);
  } else {
    touch(op, self, awaited);
  }
  int32_t block = self.at.block;
  std::vector<Position> positions = reduce(std::move(awaited), block);
  ++sizes[size_t(block)];
  if (!known.empty())
    known[size_t(block)].push_back(knows[size_t(block)]);
  emit(op, block, positions);
}

} // namespace

BlocksResult makeBlocks(const std::vector<std::vector<Op>> &agents, const Layout &layout,
                        const Lanes &lanes, int32_t rank, const model::RankProgram &program,
                        const BlockOptions &options) {
  BlocksResult result;
  Dealer dealer(lanes, options);
  std::vector<std::vector<int32_t>> blockOf = dealer.deal(agents);
  std::vector<std::vector<int32_t>> placed(dealer.blocks.size()); // steps without nops -> with
  for (size_t b = 0; b < dealer.blocks.size(); ++b) {
    const Dealer::Made &made = dealer.blocks[b];
    Block block;
    block.id = int32_t(b);
    block.send = made.send >= 0 ? lanes[made.send].dst : -1;
    block.recv = made.recv >= 0 ? lanes[made.recv].src : -1;
    block.channel = made.channel;
    result.blocks.push_back(std::move(block));
    result.lanes.emplace_back();
    for (int32_t lane : {made.recv, made.send})
      if (lane >= 0)
        result.lanes.back().push_back(lane);
  }
  Orderer orderer(agents, layout, rank, program, options, dealer.blocks.size());
  orderer.run(
      blockOf,
      [&](const Op &op, int32_t b, const std::vector<Position> &awaited) {
        std::vector<Step> &steps = result.blocks[size_t(b)].steps;
        Step step = op.step;
        for (size_t i = 0; i < awaited.size(); ++i) {
          int32_t index = placed[size_t(awaited[i].block)][size_t(awaited[i].index)];
          result.blocks[size_t(awaited[i].block)].steps[size_t(index)].hasDep = true;
          step.depBlock = awaited[i].block, step.depStep = index;
          // All but the last wait in a nop before the step.
          if (i + 1 == awaited.size())
            break;
          Step nop = step;
          nop.type = StepType::Nop;
          nop.src = Buf::In, nop.dst = Buf::Out;
          nop.srcOffset = nop.dstOffset = -1, nop.count = 0;
          steps.push_back(std::move(nop));
        }
        placed[size_t(b)].push_back(int32_t(steps.size()));
        steps.push_back(std::move(step));
      },
      result);
  return result;
}

} // namespace ccl::msccl
