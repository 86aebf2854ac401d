#include "Algorithms.h"

namespace ccl::model {
namespace {

int64_t modulo(int64_t value, int64_t n) { return ((value % n) + n) % n; }

} // namespace

Contract makeContract(Collective collective, int64_t ranks, int64_t chunks, Reduction reduction,
                      int64_t root) {
  Contract contract;
  contract.collective = collective;
  contract.reduction = reduction;
  contract.ranks = ranks;
  contract.chunks = chunks;
  contract.root = root;
  return contract;
}

int32_t MovesBuilder::buffer(std::string name, Role role, int64_t chunks) {
  int32_t index = int32_t(moves.buffers.size());
  moves.buffers.push_back({std::move(name), role, chunks, 1000 + index});
  return index;
}

void MovesBuilder::add(MoveKind kind, Place src, Place dst, int32_t count) {
  moves.moves.push_back({kind, src, dst, count, current, int32_t(moves.moves.size())});
}

Moves ringAllReduce(int64_t n) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t x = b.buffer("x", Role::InOut, n);
  for (int phase = 0; phase < 2; ++phase)
    for (int64_t s = 1; s < n; ++s) {
      b.step();
      for (int32_t r = 0; r < n; ++r) {
        int64_t chunk = modulo(r - s + 1 + phase, n);
        Place src{r, x, chunk}, dst{int32_t((r + 1) % n), x, chunk};
        b.add(phase ? MoveKind::Copy : MoveKind::Reduce, src, dst, 1);
      }
    }
  return b.moves;
}

Moves treeAllReduce(int64_t n) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t x = b.buffer("x", Role::InOut, 1);
  int64_t span = 1;
  for (; span < n; span *= 2) {
    b.step();
    for (int64_t r = 0; r + span < n; r += 2 * span)
      b.reduce({int32_t(r + span), x, 0}, {int32_t(r), x, 0});
  }
  for (span /= 2; span >= 1; span /= 2) {
    b.step();
    for (int64_t r = 0; r + span < n; r += 2 * span)
      b.copy({int32_t(r), x, 0}, {int32_t(r + span), x, 0});
  }
  return b.moves;
}

Moves oneShotAllReduce(int64_t n) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t in = b.buffer("in", Role::In, 1), out = b.buffer("out", Role::Out, 1);
  for (int32_t s = 0; s < n; ++s) {
    b.step();
    for (int32_t r = 0; r < n; ++r)
      b.add(s ? MoveKind::Reduce : MoveKind::Copy, {int32_t((r + s) % n), in, 0}, {r, out, 0}, 1);
  }
  return b.moves;
}

Moves ringAllGather(int64_t n, bool own) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t in = b.buffer("in", Role::In, 1), out = b.buffer("out", Role::Out, n);
  b.step();
  for (int32_t r = 0; r < n && own; ++r)
    b.copy({r, in, 0}, {r, out, r});
  for (int64_t s = 1; s < n; ++s) {
    b.step();
    for (int32_t r = 0; r < n; ++r) {
      int64_t chunk = modulo(r - s + 1, n);
      Place src = s == 1 ? Place{r, in, 0} : Place{r, out, chunk};
      b.copy(src, {int32_t((r + 1) % n), out, chunk});
    }
  }
  return b.moves;
}

Program unfold(const Program &rankZero, const Symmetry &symmetry) {
  ShiftGroup group(symmetry);
  Program all;
  all.buffers = rankZero.buffers;
  for (int64_t rank = 0; rank < group.numRanks(); ++rank) {
    RankProgram program = rankZero.ranks[0];
    for (Channel &channel : program.channels)
      channel.peer = int32_t(group.moveRank(rank, channel.peer));
    for (Agent &agent : program.agents)
      for (Instruction &instruction : agent.code)
        for (std::vector<Operand> *operands : {&instruction.from, &instruction.to})
          for (Operand &operand : *operands) {
            if (operand.kind == Operand::Kind::Peer)
              operand.peer = int32_t(group.moveRank(rank, operand.peer));
            if (operand.kind != Operand::Kind::Channel && operand.chunk >= 0 &&
                operand.chunk < all.buffers[size_t(operand.buffer)].chunks)
              operand.chunk = group.moveChunk(rank, operand.buffer, operand.chunk);
          }
    all.ranks.push_back(std::move(program));
  }
  return all;
}

Operand local(int32_t buffer, int64_t chunk) {
  return {Operand::Kind::Local, buffer, chunk, -1, -1};
}
Operand peer(int32_t rank, int32_t buffer, int64_t chunk) {
  return {Operand::Kind::Peer, buffer, chunk, rank, -1};
}
Operand channel(int32_t index) { return {Operand::Kind::Channel, -1, 0, -1, index}; }

Instruction transfer(std::vector<Operand> from, std::vector<Operand> to, bool reduce,
                     int32_t count) {
  return {Instruction::Kind::Transfer, reduce, std::move(from), std::move(to), count, -1, -1};
}
Instruction signal(int32_t channel) {
  return {Instruction::Kind::Signal, false, {}, {}, 1, channel, -1};
}
Instruction wait(int32_t channel) {
  return {Instruction::Kind::Wait, false, {}, {}, 1, channel, -1};
}

Program ringProgram(int64_t n, int32_t slots, bool fused) {
  Program program;
  program.buffers = {{"x", Role::InOut, n, 1000}};
  for (int64_t me = 0; me < n; ++me) {
    RankProgram rank;
    rank.channels = {{true, int32_t((me + 1) % n), 0, slots},
                     {false, int32_t(modulo(me - 1, n)), 0, slots}};
    Operand next = channel(0), prev = channel(1);
    auto x = [&](int64_t chunk) { return local(0, modulo(chunk, n)); };
    Agent block;
    std::vector<Instruction> &code = block.code;
    if (n > 1) {
      code.push_back(transfer({x(me)}, {next}));
      for (int64_t s = 1; s + 1 < n; ++s)
        if (fused) {
          code.push_back(transfer({prev, x(me - s)}, {next}, true));
        } else {
          code.push_back(transfer({prev, x(me - s)}, {x(me - s)}, true));
          code.push_back(transfer({x(me - s)}, {next}));
        }
      if (fused) {
        code.push_back(transfer({prev, x(me + 1)}, {x(me + 1), next}, true));
      } else {
        code.push_back(transfer({prev, x(me + 1)}, {x(me + 1)}, true));
        code.push_back(transfer({x(me + 1)}, {next}));
      }
      for (int64_t s = 1; s + 1 < n; ++s)
        if (fused) {
          code.push_back(transfer({prev}, {x(me + 1 - s), next}));
        } else {
          code.push_back(transfer({prev}, {x(me + 1 - s)}));
          code.push_back(transfer({x(me + 1 - s)}, {next}));
        }
      code.push_back(transfer({prev}, {x(me + 2)}));
    }
    for (size_t i = 0; i < code.size(); ++i)
      code[i].loc = int32_t(me * 1000 + int64_t(i));
    rank.agents.push_back(std::move(block));
    program.ranks.push_back(std::move(rank));
  }
  return program;
}

} // namespace ccl::model
