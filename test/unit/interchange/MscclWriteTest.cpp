// Programs as MSCCL XML, and what cannot be written.
#include "test/unit/interchange/Msccl.h"

using namespace ccl;
using namespace ccl::msccl;
using model::Instruction;
using model::Operand;

namespace {

Operand at(int32_t buffer, int64_t chunk) {
  Operand operand;
  operand.buffer = buffer, operand.chunk = chunk;
  return operand;
}
Operand over(int32_t channel) {
  Operand operand;
  operand.kind = Operand::Kind::Channel;
  operand.channel = channel;
  return operand;
}
Instruction transfer(std::vector<Operand> from, std::vector<Operand> to, int32_t count = 1) {
  Instruction instruction;
  instruction.reduce = from.size() > 1;
  instruction.from = std::move(from), instruction.to = std::move(to);
  instruction.count = count;
  return instruction;
}
Instruction sync(Instruction::Kind kind, int32_t channel) {
  Instruction instruction;
  instruction.kind = kind, instruction.channel = channel;
  return instruction;
}

/// A custom program of one agent a rank, with `in` (0), `out` (1) and scratch (2).
struct TestProgram {
  interchange::Foreign foreign;

  TestProgram(size_t ranks, int64_t in, int64_t out, int64_t scratch = 1) {
    foreign.name = "test";
    foreign.contract.collective = model::Collective::Custom;
    foreign.contract.reduction = model::Reduction::Sum;
    foreign.contract.ranks = int64_t(ranks);
    foreign.contract.customInChunks = in, foreign.contract.customOutChunks = out;
    foreign.program.buffers = {{"in", model::Role::In, in},
                               {"out", model::Role::Out, out},
                               {"scratch", model::Role::Scratch, scratch}};
    foreign.program.ranks.resize(ranks);
    for (model::RankProgram &rank : foreign.program.ranks)
      rank.agents.resize(1);
  }
  int32_t channel(size_t rank, bool to, int32_t peer, int32_t tag = 0, int32_t slots = 2) {
    foreign.program.ranks[rank].channels.push_back({to, peer, tag, slots});
    return int32_t(foreign.program.ranks[rank].channels.size() - 1);
  }
  void add(size_t rank, Instruction instruction, size_t agent = 0) {
    model::RankProgram &program = foreign.program.ranks[rank];
    while (program.agents.size() <= agent)
      program.agents.push_back({false, int32_t(program.agents.size()), {}});
    instruction.loc = int32_t(100 * rank + program.agents[agent].code.size());
    program.agents[agent].code.push_back(std::move(instruction));
  }
  void promise(int64_t outRank, int64_t outChunk, int64_t inRank, int64_t inChunk) {
    foreign.contract.rows.push_back({outRank, outChunk, inRank, inChunk});
  }
};

int count(const std::string &text, std::string_view what) {
  int number = 0;
  for (size_t i = text.find(what); i != text.npos; i = text.find(what, i + 1))
    ++number;
  return number;
}

/// Written and read back it is right still, for every target that takes it.
std::string roundTrip(const TestProgram &program, Target target = Target::None) {
  REQUIRE(verdictOf(program.foreign) == "ok");
  interchange::Diagnostic error;
  std::string text = write(program.foreign, target, &error);
  REQUIRE_MESSAGE(text != "", error.text);
  interchange::Foreign again = read(text);
  CHECK(verdictOf(again) == "ok");
  CHECK(again.disjoint == program.foreign.disjoint);
  CHECK(again.inPlace == program.foreign.inPlace);
  return text;
}

/// It is right. Of each chunk the sum goes once around a ring, then once more to be stored.
interchange::Foreign ring(int32_t ranks, int32_t chunks) {
  TestFile file;
  file.chunksPerLoop = file.in = file.out = chunks;
  file.protocol = "LL";
  file.attributes = "inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  file.gpus.resize(size_t(ranks));
  for (int32_t r = 0; r < ranks; ++r) {
    TestBlock block{(r + 1) % ranks, (r + ranks - 1) % ranks, 0, {}};
    for (int32_t c = 0; c < chunks; ++c) {
      block.steps.push_back(r == 0 ? fmt::format("s i{} -", c) : fmt::format("rrcs i{} o{}", c, c));
      block.steps.push_back(fmt::format("{} - o{}", r + 1 < ranks ? "rcs" : "r", c));
    }
    file.gpus[size_t(r)] = {block};
  }
  interchange::Foreign foreign = read(file.text());
  REQUIRE(verdictOf(foreign) == "ok");
  return foreign;
}

/// Two ranks that each send `messages` chunks before they take one.
TestProgram deep(int32_t messages) {
  TestProgram program(2, messages, messages);
  for (int32_t r = 0; r < 2; ++r) {
    int32_t to = program.channel(size_t(r), true, 1 - r, 0, messages + 1);
    int32_t from = program.channel(size_t(r), false, 1 - r, 0, messages + 1);
    for (int32_t c = 0; c < messages; ++c)
      program.add(size_t(r), transfer({at(0, c)}, {over(to)}));
    for (int32_t c = 0; c < messages; ++c)
      program.add(size_t(r), transfer({over(from)}, {at(1, c)}));
    for (int32_t c = 0; c < messages; ++c)
      program.promise(r, c, 1 - r, c);
  }
  return program;
}

} // namespace

TEST_CASE("msccl write: what it reads it writes again") {
  std::string text = write(ring(3, 4));
  CHECK(count(text, "<tb ") == 3);
  CHECK(count(text, "proto=\"LL\"") == 1);
  CHECK(count(text, "type=\"rrcs\"") == 8);
  interchange::Foreign again = read(text);
  CHECK(verdictOf(again) == "ok");
  // A second time nothing changes.
  CHECK(write(again) == text);
}

TEST_CASE("msccl write: a block with several peers becomes blocks that wait for each other") {
  TestProgram program(3, 2, 2);
  int32_t to1 = program.channel(0, true, 1), to2 = program.channel(0, true, 2);
  int32_t from1 = program.channel(1, false, 0), from2 = program.channel(2, false, 0);
  // Rank 0 sends a place to 1, writes it, sends it to 2: WAR and RAW between two blocks.
  program.add(0, transfer({at(0, 0)}, {at(2, 0)}));
  program.add(0, transfer({at(2, 0)}, {over(to1)}));
  program.add(0, transfer({at(0, 1)}, {at(2, 0)}));
  program.add(0, transfer({at(2, 0)}, {over(to2)}));
  program.add(1, transfer({over(from1)}, {at(1, 0)}));
  program.add(2, transfer({over(from2)}, {at(1, 0)}));
  program.promise(1, 0, 0, 0), program.promise(2, 0, 0, 1);
  std::string text = roundTrip(program);
  CHECK(count(text, "<tb ") == 4);
  CHECK(count(text, "depid=\"0\"") == 1);
}

TEST_CASE("msccl write: several sources and destinations") {
  // 9 peers in one transfer, and the sum of 9 messages and a place.
  TestProgram program(10, 1, 1);
  std::vector<Operand> to, from = {at(0, 0)};
  for (int32_t peer = 1; peer < 10; ++peer) {
    to.push_back(over(program.channel(0, true, peer)));
    int32_t in = program.channel(size_t(peer), false, 0),
            out = program.channel(size_t(peer), true, 0);
    program.add(size_t(peer), transfer({over(in)}, {at(1, 0)}));
    program.add(size_t(peer), transfer({at(0, 0)}, {over(out)}));
    program.promise(peer, 0, 0, 0);
    program.promise(0, 0, peer, 0);
  }
  for (int32_t peer = 1; peer < 10; ++peer)
    from.push_back(over(program.channel(0, false, peer)));
  program.promise(0, 0, 0, 0);
  program.add(0, transfer({at(0, 0)}, to));
  program.add(0, transfer(from, {at(1, 0)}));
  for (Target target : {Target::None, Target::Msccl}) {
    std::string text = roundTrip(program, target);
    CHECK(count(text, "type=\"s\"") == 18);
    CHECK(count(text, "type=\"rrc\"") == 9);
  }
}

TEST_CASE("msccl write: what is passed on without being stored needs scratch") {
  TestProgram program(3, 1, 1);
  int32_t out = program.channel(0, true, 1), in = program.channel(1, false, 0);
  int32_t next = program.channel(1, true, 2), last = program.channel(2, false, 1);
  program.add(0, transfer({at(0, 0)}, {over(out)}));
  program.add(1, transfer({over(in)}, {over(next)}));
  program.add(2, transfer({over(last)}, {at(1, 0)}));
  program.promise(2, 0, 0, 0);
  std::string text = roundTrip(program);
  CHECK(count(text, "type=\"rcs\" srcbuf=\"s\" srcoff=\"1\"") == 1);
}

TEST_CASE("msccl write: agents' signals become dependences") {
  TestProgram program(1, 1, 1);
  int32_t to = program.channel(0, true, 0, 0, 0), from = program.channel(0, false, 0, 0, 0);
  program.add(0, transfer({at(0, 0)}, {at(2, 0)}));
  program.add(0, sync(Instruction::Kind::Signal, to));
  program.add(0, sync(Instruction::Kind::Wait, from), 1);
  program.add(0, transfer({at(2, 0)}, {at(1, 0)}), 1);
  program.promise(0, 0, 0, 0);
  std::string text = roundTrip(program);
  CHECK(count(text, "depid=\"0\" deps=\"0\"") == 1);
}

/// Agent 1 of rank 0 reads after agent 0 has written, because rank 1 has sent in between.
static void addThereAndBack(TestProgram &program) {
  int32_t there = program.channel(0, true, 1), back = program.channel(0, false, 1, 1);
  int32_t in = program.channel(1, false, 0), out = program.channel(1, true, 0, 1);
  program.add(0, transfer({at(0, 0)}, {at(2, 0)}));
  program.add(0, transfer({at(0, 0)}, {over(there)}));
  program.add(1, transfer({over(in)}, {at(2, 0)}));
  program.add(1, transfer({at(0, 0)}, {over(out)}));
  program.add(0, transfer({over(back)}, {at(1, 0)}), 1);
  program.add(0, transfer({at(2, 0)}, {at(1, 0)}), 1);
}

TEST_CASE("msccl write: order that only messages keep is kept") {
  TestProgram program(2, 1, 1);
  addThereAndBack(program);
  program.promise(0, 0, 0, 0);
  roundTrip(program);
}

TEST_CASE("msccl write: signals that go to and fro without a step in between") {
  // Two agents of rank 0 tell each other what they know, a hundred times.
  TestProgram program(2, 2, 2);
  addThereAndBack(program);
  int32_t to1 = program.channel(0, true, 0, 0, 0), from0 = program.channel(0, false, 0, 0, 0);
  int32_t to0 = program.channel(0, true, 0, 1, 0), from1 = program.channel(0, false, 0, 1, 0);
  for (int i = 0; i < 100; ++i) {
    program.add(0, sync(Instruction::Kind::Signal, to1));
    program.add(0, sync(Instruction::Kind::Wait, from0), 1);
    program.add(0, sync(Instruction::Kind::Signal, to0), 1);
    program.add(0, sync(Instruction::Kind::Wait, from1));
  }
  program.add(0, transfer({at(1, 0)}, {at(1, 1)}));
  program.promise(0, 0, 0, 0), program.promise(0, 1, 0, 0);
  roundTrip(program);
}

TEST_CASE("msccl write: blocks cost what they wait for, however many there are") {
  const int32_t agents = 100000;
  TestProgram program(1, agents, agents);
  for (int32_t a = 0; a < agents; ++a)
    program.add(0, transfer({at(0, a)}, {at(1, a)}), size_t(a));
  CHECK(count(write(program.foreign), "<tb ") == agents);
}

TEST_CASE("msccl write: messages of an agent to itself rest in scratch") {
  // Two at a time; the last but one is added to and sent on in one transfer.
  TestProgram program(1, 4, 4);
  int32_t to = program.channel(0, true, 0), from = program.channel(0, false, 0);
  program.add(0, transfer({at(0, 0)}, {over(to)}));
  program.add(0, transfer({at(0, 1)}, {over(to)}));
  program.add(0, transfer({over(from)}, {at(1, 0)}));
  program.add(0, transfer({at(0, 2)}, {over(to)}));
  program.add(0, transfer({over(from)}, {at(1, 1)}));
  program.add(0, transfer({over(from), at(0, 3)}, {over(to)}));
  program.add(0, transfer({over(from)}, {at(1, 2)}));
  for (int64_t c = 0; c < 3; ++c)
    program.promise(0, c, 0, c);
  program.promise(0, 2, 0, 3);
  std::string text = roundTrip(program, Target::Msccl);
  CHECK(count(text, "s_chunks=\"3\"") == 1); // with one of the program's own
  CHECK(count(text, "type=\"re\"") == 1);

  // From agent to agent they are messages still.
  TestProgram two(1, 1, 1);
  to = two.channel(0, true, 0), from = two.channel(0, false, 0);
  two.add(0, transfer({at(0, 0)}, {over(to)}));
  two.add(0, transfer({over(from)}, {at(1, 0)}), 1);
  two.promise(0, 0, 0, 0);
  REQUIRE(verdictOf(two.foreign) == "ok");
  interchange::Diagnostic error;
  CHECK(write(two.foreign, Target::None, &error) == "");
  CHECK(error.loc == 0);
  CHECK(error.text == "rank 0 sends a message to itself; in MSCCL XML a gpu has no connection "
                      "with itself");
}

TEST_CASE("msccl write: 65 steps in a block") {
  interchange::Foreign foreign = ring(3, 33);
  std::string text = write(foreign);
  CHECK(count(text, "<tb ") == 3);
  CHECK(count(text, "s=\"65\"") == 3);
  for (Target target : {Target::Msccl, Target::Rccl, Target::Azure}) {
    text = write(foreign, target);
    REQUIRE(text != "");
    interchange::Foreign again = read(text);
    CHECK(verdictOf(again) == "ok");
    CHECK(count(text, "s=\"64\"") == (target == Target::Msccl ? 3 : 0));
    if (target != Target::Msccl)
      CHECK(warningsOf(again).find("at most 64") == std::string::npos);
  }
}

TEST_CASE("msccl write: 17 chained reductions, as one transfer and as many") {
  for (bool single : {false, true}) {
    TestProgram program(1, 18, 1);
    std::vector<Operand> sources;
    for (int32_t i = 0; i < 18; ++i) {
      sources.push_back(at(0, i));
      program.promise(0, 0, 0, i);
    }
    if (single) {
      program.add(0, transfer(sources, {at(1, 0)}));
    } else {
      program.add(0, transfer({at(0, 0)}, {at(1, 0)}));
      for (int32_t i = 1; i < 18; ++i)
        program.add(0, transfer({at(1, 0), at(0, i)}, {at(1, 0)}));
    }
    std::string text = roundTrip(program, Target::Msccl);
    CHECK(count(text, "type=\"cpy\"") == 1);
    CHECK(count(text, "type=\"re\"") == 17);
  }
}

TEST_CASE("msccl write: limits that cannot be kept are named") {
  // 33 channels between two ranks.
  TestProgram program(2, 33, 33);
  for (int32_t tag = 0; tag < 33; ++tag) {
    int32_t to = program.channel(0, true, 1, tag), from = program.channel(1, false, 0, tag);
    program.add(0, transfer({at(0, tag)}, {over(to)}));
    program.add(1, transfer({over(from)}, {at(1, tag)}));
    program.promise(1, tag, 0, tag);
  }
  CHECK(count(roundTrip(program), "nchannels=\"33\"") == 1);
  interchange::Diagnostic error;
  CHECK(write(program.foreign, Target::Msccl, &error) == "");
  CHECK(error.text == "not taken by MSCCL: 33 channels; at most 32");

  // 100 chunks in one message: two messages where `cnt` has a limit.
  TestProgram large(2, 100, 100);
  int32_t to = large.channel(0, true, 1), from = large.channel(1, false, 0);
  large.add(0, transfer({at(0, 0)}, {over(to)}, 100));
  large.add(1, transfer({over(from)}, {at(1, 0)}, 100));
  for (int32_t c = 0; c < 100; ++c)
    large.promise(1, c, 0, c);
  CHECK(count(roundTrip(large), "cnt=\"100\"") == 2);
  CHECK(count(roundTrip(large, Target::None), "type=\"s\"") == 1);
  std::string text = write(large.foreign, Target::Msccl);
  CHECK(count(text, "cnt=\"71\"") == 2);
  CHECK(count(text, "cnt=\"29\"") == 2);
}

TEST_CASE("msccl write: what has no counterpart is refused with its place") {
  interchange::Diagnostic error;
  TestProgram direct(2, 1, 1);
  Operand peer = at(0, 0);
  peer.kind = Operand::Kind::Peer, peer.peer = 0;
  direct.add(1, transfer({at(0, 0)}, {at(2, 0)}));
  direct.add(1, transfer({peer}, {at(1, 0)}));
  CHECK(write(direct.foreign, Target::None, &error) == "");
  CHECK(error.loc == 101);
  CHECK(error.text == "rank 1 accesses memory of rank 0; MSCCL XML only has messages (lower it "
                      "with channels that have slots)");

  TestProgram signals(2, 1, 1);
  signals.channel(0, true, 1, 0, 0);
  signals.add(0, sync(Instruction::Kind::Signal, 0));
  CHECK(write(signals.foreign, Target::None, &error) == "");
  CHECK(error.loc == 0);
  CHECK(error.text == "rank 0 signals to rank 1; MSCCL XML has no signals between gpus");

  TestProgram alone(2, 1, 1);
  alone.channel(0, true, 0);
  alone.add(0, transfer({at(0, 0)}, {over(0)}));
  CHECK(write(alone.foreign, Target::None, &error) == "");
  CHECK(error.text == "rank 0 sends a message to itself; in MSCCL XML a gpu has no connection "
                      "with itself");

  TestProgram custom(1, 1, 1);
  custom.add(0, transfer({at(0, 0)}, {at(1, 0)}));
  CHECK(write(custom.foreign, Target::Rccl, &error) == "");
  CHECK(error.text == "RCCL has no word for custom");

  // A wait for a signal that is not sent: no program that is right, but no crash either.
  TestProgram silent(1, 1, 1);
  int32_t from = silent.channel(0, false, 0, 0, 0);
  silent.add(0, transfer({at(0, 0)}, {at(1, 0)}));
  silent.add(0, sync(Instruction::Kind::Wait, from));
  CHECK(write(silent.foreign, Target::None, &error) == "");
  CHECK(error.loc == 1);
  CHECK(error.text == "rank 0 waits for a signal of its own that is never sent");

  TestProgram large(1, 1 << 25, 1 << 25);
  large.add(0, transfer({at(0, 0)}, {at(1, 0)}));
  large.add(0, transfer({at(0, 0)}, {at(1, 0)}, (1 << 20) + 128));
  CHECK(write(large.foreign, Target::None, &error) == "");
  CHECK(error.loc == 1);
  CHECK(error.text == "the transfers up to here move 1048705 chunks; at most 1048704 are written");
  large = TestProgram(1, 1, 1, (int64_t(1) << 30) + 1);
  CHECK(write(large.foreign, Target::None, &error) == "");
  CHECK(error.text == "buffers of more than 1073741824 chunks");
}

TEST_CASE("msccl write: more messages than Simple holds need LL, more than LL holds are refused") {
  CHECK(count(roundTrip(deep(2)), "proto=\"Simple\"") == 1);
  CHECK(count(roundTrip(deep(3)), "proto=\"LL\"") == 1);
  CHECK(count(roundTrip(deep(8)), "proto=\"LL\"") == 1);
  interchange::Diagnostic error;
  CHECK(write(deep(9).foreign, Target::None, &error) == "");
  CHECK(error.text == "the program needs 9 slots; a connection of protocol LL has 8");
}

TEST_CASE("msccl write: targets' words, forms and sizes") {
  TestFile file;
  file.coll = "reduce_scatter", file.in = file.chunksPerLoop = 2;
  file.gpus = {{{1, 1, 0, {"s i1 -", "rrc i0 o0"}}}, {{0, 0, 0, {"s i0 -", "rrc i1 o0"}}}};
  interchange::Foreign foreign = read(file.text());
  std::string first = write(foreign, Target::Msccl), rccl = write(foreign, Target::Rccl);
  CHECK(count(first, "coll=\"reduce_scatter\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" "
                     "maxBytes=\"4611686018427387904\">") == 1);
  CHECK(count(rccl, "coll=\"reducescatter\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" "
                    "maxBytes=\"0\">") == 1);
  // Builds of RCCL know only s, r, cpy and re.
  CHECK(count(rccl, "type=\"rrc\"") == 0);
  CHECK(verdictOf(read(rccl)) == "ok");
  CHECK(warningsOf(read(rccl)).find("RCCL") == std::string::npos);
  CHECK(count(write(foreign, Target::Azure), "type=\"rrc\"") == 2);

  foreign.contract.reduction = model::Reduction::Avg;
  foreign.name = "a<b&\"c\"";
  std::vector<interchange::Diagnostic> diagnostics;
  WriteOptions options;
  options.target = Target::Msccl;
  std::optional<std::string> text = writeXml(foreign, options, diagnostics);
  REQUIRE(text);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics[0].kind == interchange::Diagnostic::Kind::Warning);
  CHECK(diagnostics[0].text == "MSCCL runs its own algorithm instead of a file for avg; it uses "
                               "files for sum, prod, min and max");
  interchange::Foreign again = read(*text);
  CHECK(again.contract.reduction == model::Reduction::Avg);
  CHECK(again.name == "a_b__c_");
}

TEST_CASE("msccl write: what the format has no word for comes back") {
  TestFile file;
  file.gpus = {{{1, 1, 0, {"s i0 -", "r - o0"}}}, {{0, 0, 0, {"s i0 -", "r - o0"}}}};
  file.coll = "custom";
  file.attributes = "inplace=\"0\" ccl_coll=\"permute\" ccl_to=\"1 0\"";
  interchange::Foreign again = read(write(read(file.text())));
  CHECK(again.contract.collective == model::Collective::Permute);
  CHECK(again.contract.targets == std::vector<int64_t>{1, 0});
  CHECK(verdictOf(again) == "ok");
  file.coll = "broadcast";
  file.attributes = "inplace=\"0\"";
  file.gpus = {{{-1, 1, 0, {"r - o0"}}}, {{0, -1, 0, {"cpy i0 o0", "s i0 -"}}}};
  again = read(write(read(file.text()), Target::Azure));
  CHECK(again.contract.root == 1);
  CHECK(verdictOf(again) == "ok");
  // A gather is no collective of the first runtime: it is a custom one there.
  file.coll = "gather";
  file.out = file.chunksPerLoop = 2;
  file.gpus = {{{-1, 1, 0, {"cpy i0 o0", "r - o1"}}}, {{0, -1, 0, {"s i0 -"}}}};
  std::string text = write(read(file.text()), Target::Msccl);
  CHECK(count(text, "coll=\"custom\"") == 1);
  again = read(text);
  CHECK(again.contract.collective == model::Collective::Gather);
  CHECK(verdictOf(again) == "ok");
  CHECK(count(write(read(file.text()), Target::Rccl), "coll=\"gather\"") == 1);
}

TEST_CASE("msccl write: in place") {
  TestFile file;
  file.coll = "allgather", file.chunksPerLoop = file.out = 2, file.in = 0;
  file.attributes = "inplace=\"1\"";
  file.gpus = {{{1, 1, 0, {"s o0 -", "r - o1"}}}, {{0, 0, 0, {"s o1 -", "r - o0"}}}};
  std::string text = write(read(file.text()), Target::Azure);
  CHECK(count(text, "inplace=\"1\" outofplace=\"0\"") == 1);
  CHECK(count(text, "i_chunks=\"0\" o_chunks=\"2\"") == 2);
  CHECK(verdictOf(read(text)) == "ok");
  // Both forms: what shares memory in one of them keeps its order.
  file.attributes = "inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  file.coll = "allreduce", file.in = file.out = file.chunksPerLoop = 1;
  file.gpus = {{{1, 1, 0, {"s i0 -", "r - s0", "cpy i0 o0", "re s0 o0"}}},
               {{0, 0, 0, {"s i0 -", "r - s0", "cpy i0 o0", "re s0 o0"}}}};
  interchange::Foreign again = read(write(read(file.text()), Target::Rccl));
  CHECK(again.disjoint);
  CHECK(again.inPlace);
  CHECK(verdictOf(again) == "ok");
}
