// Random mutants of right programs: the checks accept exactly those that a plain
// simulator, which shares no code with them, finds right.

#include "Algorithms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>

using namespace ccl::model;

namespace {

constexpr uint32_t seed = 7;

using Value = std::multiset<std::pair<int64_t, int64_t>>; // (rank, chunk)
using Key = std::array<int64_t, 3>;                       // rank, buffer (-1: shared), chunk

/// What the simulators share: places by name, and what a sum may be.
struct Plain {
  const std::vector<Buffer> &buffers;
  const Contract &contract;
  bool inPlace;
  std::map<Key, Value> held;

  Plain(const std::vector<Buffer> &buffers, const Contract &contract, bool inPlace)
      : buffers(buffers), contract(contract), inPlace(inPlace) {
    for (int64_t rank = 0; rank < contract.ranks; ++rank)
      for (size_t b = 0; b < buffers.size(); ++b)
        for (int64_t k = 0; k < contract.inChunks(); ++k) {
          if (!contract.defines(rank, k))
            continue;
          if (buffers[b].role == Role::In)
            held[key(rank, int64_t(b), k)] = {{rank, k}};
          if (buffers[b].role == Role::InOut)
            held[key(rank, int64_t(b), contract.inPosition(rank, k))] = {{rank, k}};
        }
  }
  Key key(int64_t rank, int64_t buffer, int64_t chunk) const {
    Role role = buffers[size_t(buffer)].role;
    if (inPlace && role == Role::In)
      return {rank, -1, contract.inPosition(rank, chunk)};
    if (inPlace && role == Role::Out)
      return {rank, -1, contract.outPosition(rank, chunk)};
    return {rank, buffer, chunk};
  }
  bool exists(int64_t rank, int64_t buffer, int64_t chunk) const {
    return rank >= 0 && rank < contract.ranks && buffer >= 0 && buffer < int64_t(buffers.size()) &&
           chunk >= 0 && chunk < buffers[size_t(buffer)].chunks;
  }
  bool mayWrite(int64_t buffer) const {
    return inPlace || buffers[size_t(buffer)].role != Role::In;
  }
  /// Whether all contributions differ and are equally long.
  bool isSum(const Value &value) const {
    for (auto atom : value)
      if (value.count(atom) > 1 ||
          atom.second % contract.chunks != value.begin()->second % contract.chunks)
        return false;
    return true;
  }
  bool ends() const {
    std::vector<Atom> atoms;
    for (int64_t rank = 0; rank < contract.ranks; ++rank)
      for (size_t b = 0; b < buffers.size(); ++b)
        for (int64_t k = 0; k < contract.outChunks(); ++k) {
          Role role = buffers[b].role;
          if (role != Role::Out && role != Role::InOut)
            continue;
          contract.expected(rank, k, atoms);
          if (atoms.empty())
            continue;
          Value want;
          for (Atom atom : atoms)
            want.insert({atom.rank, atom.chunk});
          auto it = held.find(
              key(rank, int64_t(b), role == Role::InOut ? contract.outPosition(rank, k) : k));
          if (it == held.end() || it->second != want)
            return false;
        }
    return true;
  }
};

/// Whether the moves of one step may run in any order.
bool independent(const Plain &plain, const std::vector<Move> &moves, size_t begin, size_t end) {
  auto touches = [&](const Place &place, int32_t count) {
    std::set<Key> keys;
    for (int32_t i = 0; i < count; ++i)
      keys.insert(plain.key(place.rank, place.buffer, place.chunk + i));
    return keys;
  };
  auto meet = [](const std::set<Key> &a, const std::set<Key> &b) {
    return std::any_of(a.begin(), a.end(), [&](const Key &key) { return b.count(key); });
  };
  for (size_t i = begin; i < end; ++i) {
    std::set<Key> src = touches(moves[i].src, moves[i].count);
    std::set<Key> dst = touches(moves[i].dst, moves[i].count);
    if (src != dst && meet(src, dst))
      return false;
    for (size_t j = i + 1; j < end; ++j) {
      std::set<Key> otherDst = touches(moves[j].dst, moves[j].count);
      bool reduces = moves[i].kind == MoveKind::Reduce && moves[j].kind == MoveKind::Reduce;
      if (meet(src, otherDst) || meet(dst, touches(moves[j].src, moves[j].count)) ||
          (!reduces && meet(dst, otherDst)))
        return false;
    }
  }
  return true;
}

bool isRight(const Moves &moves, const Contract &contract, bool inPlace) {
  Plain plain(moves.buffers, contract, inPlace);
  for (const Move &m : moves.moves)
    for (const Place &place : {m.src, m.dst})
      if (m.count < 1 || !plain.exists(place.rank, place.buffer, place.chunk) ||
          !plain.exists(place.rank, place.buffer, place.chunk + m.count - 1))
        return false;
  for (size_t i = 0; i < moves.moves.size();) {
    size_t end = i;
    while (end < moves.moves.size() && moves.moves[end].step == moves.moves[i].step)
      ++end;
    if (!independent(plain, moves.moves, i, end))
      return false;
    i = end;
  }
  for (const Move &m : moves.moves)
    for (int32_t c = 0; c < m.count; ++c) {
      auto src = plain.held.find(plain.key(m.src.rank, m.src.buffer, m.src.chunk + c));
      if (src == plain.held.end() || !plain.mayWrite(m.dst.buffer))
        return false;
      Value value = src->second;
      Key to = plain.key(m.dst.rank, m.dst.buffer, m.dst.chunk + c);
      if (m.kind == MoveKind::Reduce) {
        auto dst = plain.held.find(to);
        if (dst == plain.held.end())
          return false;
        value.insert(dst->second.begin(), dst->second.end());
        if (!plain.isSum(value))
          return false;
      }
      plain.held[to] = value;
    }
  return plain.ends();
}

void mutate(Moves &moves, std::mt19937 &random) {
  auto pick = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  size_t i = size_t(pick(int64_t(moves.moves.size())));
  Move &move = moves.moves[i];
  const int32_t step = move.step;
  Place &place = pick(2) ? move.src : move.dst;
  switch (pick(9)) {
  case 0: moves.moves.erase(moves.moves.begin() + ptrdiff_t(i)); break;
  case 1: moves.moves.insert(moves.moves.begin() + ptrdiff_t(i), Move(move)); break;
  case 2: place.rank = int32_t(pick(moves.ranks + (pick(8) == 0))); break;
  case 3: place.buffer = int32_t(pick(int64_t(moves.buffers.size()))); break;
  case 4: place.chunk += pick(3) - 1; break;
  case 5: move.kind = move.kind == MoveKind::Copy ? MoveKind::Reduce : MoveKind::Copy; break;
  case 6: move.count = int32_t(pick(4)); break;
  case 7: // join this step with the next
    for (Move &later : moves.moves)
      if (later.step > step)
        --later.step;
    break;
  case 8: std::swap(move.src, move.dst); break;
  }
}

struct Right {
  std::string name;
  Moves moves;
  Contract contract;
};

/// All-to-all through scratch: out, then over, then in; two chunks a shard.
Right stagedAllToAll(int32_t n) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t in = b.buffer("in", Role::In, 2 * n), out = b.buffer("out", Role::Out, 2 * n);
  int32_t t = b.buffer("t", Role::Scratch, 2 * n);
  b.step();
  for (int32_t p = 0; p < n; ++p)
    for (int32_t q = 0; q < n; ++q)
      b.copy({p, in, 2 * q}, {q, t, 2 * p}, 2);
  b.step();
  for (int32_t q = 0; q < n; ++q)
    b.copy({q, t, 0}, {q, out, 0}, 2 * n);
  return {"all-to-all", b.moves, makeContract(Collective::AllToAll, n, 2)};
}

/// Reduce-scatter by direct reads, in one place after the other.
Right directReduceScatter(int32_t n) {
  MovesBuilder b;
  b.moves.ranks = n;
  int32_t in = b.buffer("in", Role::In, n), out = b.buffer("out", Role::Out, 1);
  for (int32_t s = 0; s < n; ++s) {
    b.step();
    for (int32_t r = 0; r < n; ++r)
      b.add(s ? MoveKind::Reduce : MoveKind::Copy, {(r + s) % n, in, r}, {r, out, 0}, 1);
  }
  return {"reduce-scatter", b.moves, makeContract(Collective::ReduceScatter, n, 1, Reduction::Sum)};
}

std::vector<Right> rightAlgorithms() {
  std::vector<Right> all;
  for (int64_t n = 2; n <= 4; ++n) {
    auto sum = [&](int64_t chunks) {
      return makeContract(Collective::AllReduce, n, chunks, Reduction::Sum);
    };
    all.push_back({"ring", ringAllReduce(n), sum(n)});
    all.push_back({"tree", treeAllReduce(n), sum(1)});
    all.push_back({"one-shot", oneShotAllReduce(n), sum(1)});
    all.push_back(
        {"all-gather", ringAllGather(n, true), makeContract(Collective::AllGather, n, 1)});
    all.push_back(stagedAllToAll(int32_t(n)));
    all.push_back(directReduceScatter(int32_t(n)));
  }
  return all;
}

bool isRight(const Program &program, const Contract &contract, std::mt19937 &random) {
  Plain plain(program.buffers, contract, false);
  size_t ranks = program.ranks.size();
  std::map<std::array<int32_t, 2>, std::deque<Value>> wires; // (src, dst), one chunk a slot
  std::vector<size_t> pcs(ranks);
  auto wire = [&](size_t rank, const Operand &operand) -> std::deque<Value> & {
    const Channel &c = program.ranks[rank].channels[size_t(operand.channel)];
    int32_t me = int32_t(rank);
    return c.to ? wires[{me, c.peer}] : wires[{c.peer, me}];
  };
  auto isChannel = [](const Operand &o) { return o.kind == Operand::Kind::Channel; };
  for (size_t idle = 0; idle < 50 * ranks;) { // adversarial: any rank, one instruction
    size_t rank = random() % ranks;
    const std::vector<Instruction> &code = program.ranks[rank].agents[0].code;
    ++idle;
    if (pcs[rank] == code.size())
      continue;
    const Instruction &i = code[pcs[rank]];
    if (i.from.empty() || i.to.empty() || i.count != 1 || (!i.reduce && i.from.size() > 1))
      return false;
    auto blocked = [&](const Operand &o, bool to) {
      if (!isChannel(o))
        return false;
      int32_t slots = program.ranks[rank].channels[size_t(o.channel)].slots;
      return to ? wire(rank, o).size() >= size_t(slots) : wire(rank, o).empty();
    };
    if (std::any_of(i.from.begin(), i.from.end(), [&](auto &o) { return blocked(o, false); }) ||
        std::any_of(i.to.begin(), i.to.end(), [&](auto &o) { return blocked(o, true); }))
      continue;
    Value sum;
    for (const Operand &o : i.from) {
      Value value;
      if (isChannel(o)) {
        value = wire(rank, o).front();
        wire(rank, o).pop_front();
      } else {
        auto it = plain.held.find({int64_t(rank), o.buffer, o.chunk});
        if (it == plain.held.end())
          return false;
        value = it->second;
      }
      sum.insert(value.begin(), value.end());
    }
    if (!plain.isSum(sum))
      return false;
    for (const Operand &o : i.to) {
      if (isChannel(o))
        wire(rank, o).push_back(sum);
      else if (!plain.exists(int64_t(rank), o.buffer, o.chunk) || !plain.mayWrite(o.buffer))
        return false;
      else
        plain.held[{int64_t(rank), o.buffer, o.chunk}] = sum;
    }
    ++pcs[rank];
    idle = 0;
  }
  for (size_t rank = 0; rank < ranks; ++rank)
    if (pcs[rank] < program.ranks[rank].agents[0].code.size())
      return false;
  for (const auto &[ends, queue] : wires)
    if (!queue.empty())
      return false;
  return plain.ends();
}

void mutate(Program &program, std::mt19937 &random) {
  auto pick = [&](size_t n) { return size_t(random() % n); };
  std::vector<Instruction> &code = program.ranks[pick(program.ranks.size())].agents[0].code;
  if (code.empty())
    return;
  size_t i = pick(code.size());
  std::vector<Operand> &side = pick(2) ? code[i].from : code[i].to;
  switch (pick(7)) {
  case 0: code.erase(code.begin() + ptrdiff_t(i)); break;
  case 1: code.insert(code.begin() + ptrdiff_t(i), Instruction(code[i])); break;
  case 2: std::swap(code[i], code[pick(code.size())]); break;
  case 3: code[i].reduce = !code[i].reduce; break;
  case 4:
    if (!side.empty())
      side.erase(side.begin() + ptrdiff_t(pick(side.size())));
    break;
  case 5: side.push_back(local(0, int64_t(pick(size_t(program.buffers[0].chunks))))); break;
  case 6:
    for (Operand &operand : side)
      if (operand.kind == Operand::Kind::Local)
        operand.chunk += int64_t(pick(3)) - 1;
    break;
  }
}

} // namespace

TEST_CASE("fuzz: mutants of algorithms") {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0, acceptedInPlace = 0, refused = 0;
  for (const Right &right : rightAlgorithms()) {
    REQUIRE(isRight(right.moves, right.contract, false));
    bool whole = right.moves.buffers[0].role == Role::InOut;
    for (int round = 0; round < 400; ++round) {
      Moves mutant = right.moves;
      for (uint32_t times = 1 + random() % 3; times-- && !mutant.moves.empty();)
        mutate(mutant, random);
      CAPTURE(right.name);
      CAPTURE(right.contract.ranks);
      CAPTURE(round);
      AlgorithmReport report = check(mutant, right.contract);
      std::string message = report.ok() ? "" : report.faults.front().message;
      CAPTURE(message);
      REQUIRE(report.ok() == isRight(mutant, right.contract, false));
      REQUIRE(report.inPlace == isRight(mutant, right.contract, !whole));
      ++(report.ok() ? accepted : refused);
      acceptedInPlace += report.inPlace && !whole;
    }
  }
  // Both answers must occur, or nothing was tested.
  CHECK(accepted > 100);
  CHECK(acceptedInPlace > 100);
  CHECK(refused > 1000);
}

TEST_CASE("fuzz: mutants of programs, against an adversarial schedule") {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0, refused = 0;
  for (int64_t n = 2; n <= 4; ++n)
    for (bool fused : {false, true})
      for (int round = 0; round < 500; ++round) {
        Program mutant = ringProgram(n, int32_t(1 + random() % 3), fused);
        for (uint32_t times = random() % 3; times--;)
          mutate(mutant, random);
        Contract contract = makeContract(Collective::AllReduce, n, n, Reduction::Sum);
        CAPTURE(n);
        CAPTURE(fused);
        CAPTURE(round);
        ProgramReport report = check(mutant, contract);
        std::string message = report.ok() ? "" : report.faults.front().message;
        CAPTURE(message);
        REQUIRE(report.ok() == isRight(mutant, contract, random));
        ++(report.ok() ? accepted : refused);
      }
  CHECK(accepted > 300);
  CHECK(refused > 1000);
}
