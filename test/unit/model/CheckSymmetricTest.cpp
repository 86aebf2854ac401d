// One rank for all: the same answers as with all ranks, for right and for wrong programs.

#include "Algorithms.h"

#include "dialect/model/CheckSymmetric.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace ccl::model;

namespace {

constexpr uint32_t seed = 20251;

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

/// The program of rank 0, what it is to do, and how it is shifted.
struct Symmetric {
  const char *name;
  Program rankZero;
  Symmetry symmetry;
  Contract contract;
};

/// A program of one block.
Program blockProgram(std::vector<Buffer> buffers, std::vector<Channel> channels,
                     std::vector<Instruction> code) {
  Program program;
  program.buffers = std::move(buffers);
  program.ranks = {{std::move(channels), {{false, 0, std::move(code)}}}};
  return program;
}

Symmetric ring(int64_t n, int32_t slots, bool fused) {
  Program program = ringProgram(n, slots, fused);
  program.ranks.resize(1);
  return {"ring",
          program,
          {{n}, {{{n, {1}}}}, {}},
          makeContract(Collective::AllReduce, n, n, Reduction::Sum)};
}

/// All-gather on an a x b grid: around the row, then whole rows around the column.
Symmetric grid(int64_t a, int64_t b, int32_t slots) {
  std::vector<Channel> channels = {{true, int32_t(1 % b), 0, slots},
                                   {false, int32_t(b - 1), 0, slots},
                                   {true, int32_t(1 % a * b), 1, slots},
                                   {false, int32_t((a - 1) * b), 1, slots}};
  auto out = [&](int64_t row, int64_t column) {
    return local(1, modulo(row, a) * b + modulo(column, b));
  };
  std::vector<Instruction> code = {transfer({local(0, 0)}, {out(0, 0)})};
  for (int64_t s = 1; s < b; ++s) {
    code.push_back(transfer({out(0, 1 - s)}, {channel(0)}));
    code.push_back(transfer({channel(1)}, {out(0, -s)}));
  }
  for (int64_t s = 1; s < a; ++s)
    for (int64_t j = 0; j < b; ++j) {
      code.push_back(transfer({out(1 - s, j)}, {channel(2)}));
      code.push_back(transfer({channel(3)}, {out(-s, j)}));
    }
  return {"grid",
          blockProgram({{"in", Role::In, 1}, {"out", Role::Out, a * b}}, channels, code),
          {{a, b}, {{{1, {0, 0}}}, {{a, {1, 0}}, {b, {0, 1}}}}, {}},
          makeContract(Collective::AllGather, a * b, 1)};
}

/// Reduce-scatter or all-gather by reading from all others, one after another. A signal
/// says that the peer may read, another that it has.
Symmetric direct(int64_t n, bool gathers) {
  std::vector<Channel> channels;
  std::vector<Instruction> code = {transfer({local(0, 0)}, {local(1, 0)})};
  for (int32_t s = 1; s < n; ++s) {
    int32_t peer = s, back = int32_t(n) - s, first = int32_t(channels.size());
    channels.insert(
        channels.end(),
        {{true, back, 1, 0}, {false, peer, 1, 0}, {true, peer, 2, 0}, {false, back, 2, 0}});
    code.push_back(signal(first));
    code.push_back(wait(first + 1));
    if (gathers)
      code.push_back(transfer({ccl::model::peer(s, 1, s)}, {local(1, s)}));
    else
      code.push_back(transfer({ccl::model::peer(s, 0, 0), local(1, 0)}, {local(1, 0)}, true));
    code.push_back(signal(first + 2));
    code.push_back(wait(first + 3));
  }
  ShiftedAxis moves{n, {1}}, stays{1, {0}};
  return {gathers ? "direct all-gather" : "direct reduce-scatter",
          blockProgram({{"in", Role::In, gathers ? 1 : n}, {"out", Role::Out, gathers ? n : 1}},
                       channels, code),
          {{n}, {{gathers ? stays : moves}, {gathers ? moves : stays}}, {}},
          makeContract(gathers ? Collective::AllGather : Collective::ReduceScatter, n, 1,
                       gathers ? Reduction::None : Reduction::Sum)};
}

std::vector<Symmetric> allPrograms() {
  std::vector<Symmetric> all;
  for (int64_t n = 2; n <= 6; ++n) {
    for (bool fused : {false, true})
      for (int32_t slots : {1, 2})
        all.push_back(ring(n, slots, fused));
    all.push_back(direct(n, false));
    all.push_back(direct(n, true));
  }
  for (auto [a, b] : {std::pair(2, 2), {2, 3}, {3, 2}, {1, 4}, {4, 1}})
    all.push_back(grid(a, b, 1));
  return all;
}

std::string first(const std::vector<Fault> &faults) {
  return faults.empty() ? "" : faults.front().message;
}

/// Of rank 0, but for deadlocks, which show what is in between.
std::string messages(const std::vector<Fault> &faults) {
  std::vector<std::string> lines;
  for (const Fault &fault : faults)
    if (fault.rank == 0 && fault.kind != FaultKind::Deadlock)
      lines.push_back(fault.message + "\n");
  std::sort(lines.begin(), lines.end());
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

void mutate(Program &program, std::mt19937 &random) {
  auto pick = [&](size_t n) { return size_t(random() % n); };
  std::vector<Instruction> &code = program.ranks[0].agents[0].code;
  if (code.empty())
    return;
  size_t i = pick(code.size());
  std::vector<Operand> &side = pick(2) ? code[i].from : code[i].to;
  switch (pick(8)) {
  case 0: code.erase(code.begin() + ptrdiff_t(i)); break;
  case 1: code.insert(code.begin() + ptrdiff_t(i), Instruction(code[i])); break;
  case 2: std::swap(code[i], code[pick(code.size())]); break;
  case 3: code[i].reduce = !code[i].reduce; break;
  case 4:
    if (!side.empty())
      side.erase(side.begin() + ptrdiff_t(pick(side.size())));
    break;
  case 5: {
    size_t buffer = pick(program.buffers.size());
    side.push_back(local(int32_t(buffer), int64_t(pick(size_t(program.buffers[buffer].chunks)))));
    break;
  }
  case 6:
    for (Operand &operand : side)
      if (operand.kind != Operand::Kind::Channel)
        operand.chunk += int64_t(pick(3)) - 1;
    break;
  case 7: {
    std::vector<Channel> &channels = program.ranks[0].channels;
    Channel &channel = channels[pick(channels.size())];
    if (channel.slots > 0 && pick(2))
      channel.slots = int32_t(1 + pick(3));
    else
      channel.peer = int32_t(pick(6));
    break;
  }
  }
}

} // namespace

TEST_CASE("one rank tells what all would") {
  for (const Symmetric &right : allPrograms()) {
    CAPTURE(right.name);
    CAPTURE(right.contract.ranks);
    for (bool inPlace : {false, true}) {
      std::string why;
      auto one = checkSymmetric(right.rankZero, right.contract, right.symmetry,
                                {.inPlace = inPlace}, &why);
      CHECK(why == "");
      REQUIRE(one);
      ProgramReport all =
          check(unfold(right.rankZero, right.symmetry), right.contract, {.inPlace = inPlace});
      CHECK(messages(one->faults) == messages(all.faults));
      CHECK(one->ok() == all.ok());
      CHECK(one->minSlots == all.minSlots);
      CHECK(one->instructions == all.instructions);
      CHECK(one->divisible == all.divisible);
      CHECK(one->unevenSafe == all.unevenSafe);
    }
  }
}

TEST_CASE("fuzz: mutants have one verdict, from one rank and from all") {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0, refused = 0, doubted = 0, safe = 0;
  for (const Symmetric &right : allPrograms())
    for (int round = 0; round < 400; ++round) {
      Program mutant = right.rankZero;
      for (uint32_t times = random() % 4; times--;)
        mutate(mutant, random);
      CAPTURE(right.name);
      CAPTURE(right.contract.ranks);
      CAPTURE(round);
      for (Channel &channel : mutant.ranks[0].channels)
        channel.peer %= int32_t(right.contract.ranks);
      ProgramCheckOptions options{.maxFaults = 1000, .inPlace = random() % 4 == 0};
      std::string why;
      auto one = checkSymmetric(mutant, right.contract, right.symmetry, options, &why);
      if (!one) {
        CHECK(why != "");
        ++doubted;
        continue;
      }
      ProgramReport all = check(unfold(mutant, right.symmetry), right.contract, options);
      std::string here = first(one->faults), there = first(all.faults);
      CAPTURE(here);
      CAPTURE(there);
      REQUIRE(verdict(one->faults, right.contract) == verdict(all.faults, right.contract));
      REQUIRE(one->minSlots == all.minSlots);
      REQUIRE(one->unevenSafe == all.unevenSafe);
      safe += one->unevenSafe;
      ++(one->ok() ? accepted : refused);
      // Word for word, where places are the rank's own.
      if (!std::string_view(right.name).starts_with("direct"))
        REQUIRE(messages(one->faults) == messages(all.faults));
    }
  CHECK(accepted > 500);
  CHECK(refused > 5000);
  CHECK(doubted > 20);
  CHECK(safe > 100);
  MESSAGE(accepted, " right, ", refused, " wrong, ", doubted, " not decided by one rank");
}

TEST_CASE("faults are those of rank 0, and say that all do the same") {
  Symmetric wrong = ring(5, 2, true);
  wrong.rankZero.ranks[0].agents[0].code[1].from[1].chunk = 0;
  auto report = checkSymmetric(wrong.rankZero, wrong.contract, wrong.symmetry);
  REQUIRE(report);
  REQUIRE(!report->ok());
  CHECK(report->faults.front().rank == 0);
  CHECK(report->faults.front().notes.back().message == "all 5 ranks do the same, shifted");

  Symmetric stuck = ring(5, 1, true);
  report = checkSymmetric(stuck.rankZero, stuck.contract, stuck.symmetry);
  REQUIRE(report);
  REQUIRE(report->faults.size() == 1);
  CHECK(report->faults.front().message ==
        "deadlock: rank 0, block 0, instruction 1 waits for a free slot to rank 1, tag 0 (of 1), "
        "and so does every rank, for another");
  CHECK(report->minSlots == 2);
}

TEST_CASE("a collective with a root is not symmetric") {
  Symmetric rooted = ring(4, 2, true);
  rooted.contract = makeContract(Collective::Reduce, 4, 4, Reduction::Sum);
  std::string why;
  CHECK(!checkSymmetric(rooted.rankZero, rooted.contract, rooted.symmetry, {}, &why));
  CHECK(why == "reduce sum changes when the ranks are shifted by 1");
}

TEST_CASE("shifts that are none of the contract are refused") {
  Symmetric a = grid(2, 3, 1);
  for (std::vector<int64_t> steps : {std::vector<int64_t>{0, 0}, {1, 1}, {1, 2}}) {
    Symmetric other = a;
    other.symmetry.buffers[1][0].steps = {steps[0], 0};
    other.symmetry.buffers[1][1].steps = {0, steps[1]};
    bool right = steps == std::vector<int64_t>{1, 1};
    CHECK(contradiction(other.symmetry, a.rankZero.buffers, a.contract, false).empty() == right);
  }
  // Once around the ranks must be no shift of the chunks.
  Symmetric uneven = a;
  uneven.symmetry.buffers[1] = {{6, {1, 0}}};
  CHECK(contradiction(uneven.symmetry, a.rankZero.buffers, a.contract, false) ==
        "out: the shifts do not act on its chunks");
}

TEST_CASE("chunks that part on other ranks are not for one rank to prove") {
  Symmetric two = ring(4, 2, true);
  two.rankZero.ranks[0].agents[0].code = {transfer({local(0, 0)}, {local(0, 2)}, false, 2)};
  std::string why;
  CHECK(!checkSymmetric(two.rankZero, two.contract, two.symmetry, {}, &why));
  CHECK(why == "rank 0, block 0, instruction 0 moves chunks that are not adjacent on other ranks");
}

TEST_CASE("accesses to a peer need an order") {
  Symmetric gather = direct(4, true);
  std::vector<Instruction> &code = gather.rankZero.ranks[0].agents[0].code;
  std::swap(code[0], code[1]); // offers what it has not written yet
  std::string why;
  CHECK(!checkSymmetric(gather.rankZero, gather.contract, gather.symmetry, {}, &why));
  CHECK(why == "rank 0, block 0, instruction 3: nothing orders it with another access to out[1]");
}

TEST_CASE("sweeps: a loop over all chunks, the same on all ranks") {
  // All chunks are copied to `out`, in the order of their numbers, and summed up there.
  int64_t n = 4;
  Symmetric copied = ring(n, 1, false);
  copied.rankZero.buffers = {{"in", Role::In, n}, {"out", Role::Out, n}};
  ShiftedAxis chunk{n, {1}};
  copied.symmetry.buffers = {{chunk}, {chunk}};
  std::vector<Instruction> &code = copied.rankZero.ranks[0].agents[0].code;
  for (Instruction &instruction : code)
    for (std::vector<Operand> *operands : {&instruction.from, &instruction.to})
      for (Operand &operand : *operands)
        if (operand.kind == Operand::Kind::Local)
          operand.buffer = 1;
  for (int64_t k = n; k-- > 0;)
    code.insert(code.begin(), transfer({local(0, k)}, {local(1, k)}));
  copied.symmetry.sweeps = {{0, 0, 1, int32_t(n), {chunk}}};
  std::string why;
  auto report = checkSymmetric(copied.rankZero, copied.contract, copied.symmetry, {}, &why);
  CHECK(why == "");
  REQUIRE(report);
  CHECK(first(report->faults) == "");

  SUBCASE("iterations must not use each other's results") {
    code[2].from[0] = local(1, 1);
    CHECK(!checkSymmetric(copied.rankZero, copied.contract, copied.symmetry, {}, &why));
    CHECK(why == "rank 0, block 0, instruction 0 begins a loop whose iterations use each other's "
                 "results");
  }
  SUBCASE("nor send in an order that the peer does not share") {
    code[1].to.push_back(channel(0));
    code.push_back(transfer({channel(1)}, {local(1, 1)}));
    CHECK(!checkSymmetric(copied.rankZero, copied.contract, copied.symmetry, {}, &why));
    CHECK(why == "rank 0, block 0, instruction 1 is in a loop that the peer executes in another "
                 "order");
  }
  SUBCASE("nor lie outside the code") {
    copied.symmetry.sweeps[0].length = 100;
    CHECK(!checkSymmetric(copied.rankZero, copied.contract, copied.symmetry, {}, &why));
    CHECK(why == "loops are not nested");
  }
}

TEST_CASE("fuzz: intervals of ranks are shifted as their members are") {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{7}, {3, 4}, {2, 3, 2}, {1, 5}, {4, 1, 3}}) {
    Symmetry symmetry{shape, {{{1, std::vector<int64_t>(shape.size(), 0)}}}, {}};
    ShiftGroup group(symmetry);
    int64_t n = group.numRanks();
    for (int round = 0; round < 300; ++round) {
      int64_t shift = random() % uint64_t(n), low = random() % uint64_t(n);
      int64_t high = low + int64_t(random() % uint64_t(n - low + 1));
      Multisets::Intervals intervals;
      group.moveRanks(shift, low, high, intervals);
      std::vector<int64_t> got, want;
      for (auto [from, to] : intervals)
        for (int64_t rank = from; rank < to; ++rank)
          got.push_back(rank);
      for (int64_t rank = low; rank < high; ++rank)
        want.push_back(group.moveRank(shift, rank));
      std::sort(got.begin(), got.end());
      std::sort(want.begin(), want.end());
      REQUIRE(got == want);
      CHECK(group.moveRank(group.inverse(shift), group.moveRank(shift, low)) == low);
    }
  }
}
