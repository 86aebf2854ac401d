// Programs become plans and come back.

#include "test/unit/interchange/Mscclpp.h"
#include "test/unit/interchange/RandomProgram.h"

#include <algorithm>
#include <limits>

using namespace ccl;
using namespace ccl::mscclpp::test;
using model::Instruction;
using model::Operand;
using namespace ccl::interchange::test;

namespace {

struct Written {
  std::string text;
  std::vector<Diagnostic> warnings;
  Foreign back;

  bool warns(std::string_view part) const { return str(warnings).find(part) != std::string::npos; }
};

/// Writes a program that has to be written, and reads what came out.
Written write(const Foreign &foreign) {
  Written written;
  std::optional<std::string> text = mscclpp::writePlan(foreign, written.warnings);
  INFO(str(written.warnings));
  REQUIRE(text);
  written.text = *text;
  written.back = read(*text);
  return written;
}

/// The verdict stays, and nothing of a plan that we write overtakes itself there.
Written roundTrip(const Foreign &foreign) {
  std::string before = verdict(foreign);
  Written written = write(foreign);
  INFO(faults(foreign));
  INFO(faults(written.back));
  INFO(written.text);
  CHECK_EQ(verdict(written.back), before);
  CHECK_FALSE(warns(written.back, "no nop"));
  CHECK_EQ(written.back.contract.collective, foreign.contract.collective);
  CHECK_EQ(written.back.contract.reduction, foreign.contract.reduction);
  CHECK_EQ(written.back.contract.root, foreign.contract.root);
  CHECK_EQ(written.back.contract.targets, foreign.contract.targets);
  CHECK_EQ(written.back.contract.rows.size(), foreign.contract.rows.size());
  CHECK_EQ(written.back.disjoint, foreign.disjoint);
  CHECK_EQ(written.back.inPlace, foreign.inPlace);
  return written;
}

/// An all-reduce on one buffer, in the ring's way, through channels with slots.
Foreign ring(int32_t n, int32_t slots) {
  Foreign foreign;
  foreign.name = "ring";
  foreign.contract.collective = model::Collective::AllReduce;
  foreign.contract.reduction = model::Reduction::Sum;
  foreign.contract.ranks = foreign.contract.chunks = n;
  foreign.disjoint = false;
  foreign.inPlace = true;
  foreign.program.buffers = {{"x", model::Role::InOut, n, -1}};
  for (int32_t me = 0; me < n; ++me) {
    model::RankProgram &rank = foreign.program.ranks.emplace_back();
    rank.channels = {{true, (me + 1) % n, 0, slots}, {false, (me + n - 1) % n, 0, slots}};
    std::vector<Instruction> &code = rank.agents.emplace_back().code;
    auto chunk = [&](int32_t back) { return local(0, (me - back + 2 * n) % n); };
    code.push_back(transfer({chunk(0)}, {slot(0)}));
    for (int32_t s = 1; s < n - 1; ++s)
      code.push_back(transfer({slot(1), chunk(s)}, {slot(0)}));
    code.push_back(transfer({slot(1), chunk(n - 1)}, {chunk(n - 1), slot(0)}));
    for (int32_t s = 0; s < n - 2; ++s)
      code.push_back(transfer({slot(1)}, {chunk(s), slot(0)}));
    code.push_back(transfer({slot(1)}, {chunk(n - 2)}));
  }
  return foreign;
}

} // namespace

TEST_CASE("slots of channels become places in scratch, with credits") {
  for (int32_t n : {2, 3, 5})
    for (int32_t slots : {2, 3, 100}) {
      Written written = roundTrip(ring(n, slots));
      CHECK_EQ(verdict(written.back), "ok");
    }
  // With one slot the fused ring gets stuck, there as here.
  CHECK_EQ(verdict(roundTrip(ring(3, 1)).back), "deadlock");
}

TEST_CASE("a launch does not touch peers before they have begun, nor leave them behind") {
  // Here launches begin with a barrier, so that a put needs no leave.
  Foreign put = read(two({"allgather", true, 1, 2},
                         {"{'name': 'put', 'src_buff': [{'type': 'o', 'index': @, 'size': 1}], "
                          "'dst_buff': [{'buffer_id': 1, 'index': @, 'size': 1}], "
                          "'channel_type': 'memory'}"}));
  REQUIRE(check(put).exitBarrier);
  Written written = roundTrip(put);
  CHECK_FALSE(check(written.back).exitBarrier);
  CHECK_EQ(countOf(written.back, Instruction::Kind::Wait), 4);
  CHECK_EQ(countOf(roundTrip(written.back).back, Instruction::Kind::Wait), 4);
  // A second block begins after the first has met the peer.
  Foreign twice = read(
      two({"allgather", true, 1, 2},
          {"{'name': 'nop'}", "{'name': 'put', 'src_buff': [{'type': 'o', 'index': @, 'size': 1}], "
                              "'dst_buff': [{'buffer_id': 1, 'index': @, 'size': 1}], "
                              "'channel_type': 'memory'}"}));
  Written guarded = roundTrip(twice);
  CHECK(guarded.text.find("sem_acquire") != std::string::npos);
  CHECK_EQ(roundTrip(guarded.back).back.program.ranks[0].channels.size(),
           guarded.back.program.ranks[0].channels.size());
}

TEST_CASE("proxies are port channels again") {
  Foreign foreign = read(
      two({"allgather", true, 1, 2},
          {"{'name': 'signal', 'channel_ids': [1], 'channel_type': 'memory'}, {'name': 'wait', "
           "'channel_ids': [1], 'channel_type': 'memory'}, {'name': 'pwsf', 'src_buff': [{'type': "
           "'o', 'index': @, 'size': 1}], 'dst_buff': [{'buffer_id': 1, 'index': @, 'size': 1}], "
           "'channel_ids': [0], 'channel_type': 'port'}, {'name': 'wait', 'channel_ids': [0], "
           "'channel_type': 'port'}"}));
  Written written = roundTrip(foreign);
  CHECK(written.text.find("\"pws\"") != std::string::npos);
  CHECK(written.text.find("\"flush\"") != std::string::npos);
  REQUIRE_EQ(written.back.program.ranks[0].agents.size(), 2);
  CHECK(written.back.program.ranks[0].agents[1].proxy);
  CHECK(written.warns("nothing at a flush"));
  // A proxy that does more than a port channel is a thread block.
  Foreign other = ring(3, 2);
  for (model::RankProgram &rank : other.program.ranks)
    rank.agents[0].proxy = true;
  CHECK_FALSE(roundTrip(other).back.program.ranks[0].agents[0].proxy);
}

TEST_CASE("facts that the format has no field for") {
  Foreign min = ring(3, 2);
  min.contract.reduction = model::Reduction::Min;
  CHECK(roundTrip(min).warns("always adds"));

  Foreign both = read(two({"allreduce", false, 1, 1},
                          {"{'name': 'rre', 'src_buff': [{'type': 'i', 'index': 0, 'size': 1}, "
                           "{'buffer_id': 0, 'index': 0, 'size': 1}], 'dst_buff': [{'type': "
                           "'o', 'index': 0, 'size': 1}], 'channel_type': 'memory'}"}));
  both.inPlace = true;
  roundTrip(both);

  Foreign permute = emptyProgram("turn", model::Collective::Permute, 3, 1, 1);
  permute.contract.targets = {2, 0, 1};
  for (int32_t me = 0; me < 3; ++me)
    permute.program.ranks[size_t(me)].agents.emplace_back().code = {
        transfer({local(0, 0)}, {peer((me + 2) % 3, 1, 0)})};
  CHECK_EQ(verdict(roundTrip(permute).back), "ok");

  Foreign broadcast = permute;
  broadcast.contract.collective = model::Collective::Broadcast;
  broadcast.contract.targets.clear();
  broadcast.contract.root = 2;
  for (int32_t me = 0; me < 3; ++me)
    broadcast.program.ranks[size_t(me)].agents[0].code = {
        transfer({me == 2 ? local(0, 0) : peer(2, 0, 0)}, {local(1, 0)})};
  CHECK_EQ(verdict(roundTrip(broadcast).back), "ok");

  Foreign barrier;
  barrier.name = "barrier";
  barrier.contract.collective = model::Collective::Barrier;
  barrier.contract.ranks = 2;
  barrier.program.buffers = {{"x", model::Role::Scratch, 1, -1}};
  barrier.program.ranks.resize(2);
  CHECK_EQ(verdict(roundTrip(barrier).back), "ok");
}

TEST_CASE("operands that no op takes are taken apart") {
  // Four sources, two local and two of peers, to two local places and one of a peer; and
  // sums of peers only that stay with a peer.
  Foreign foreign = emptyProgram("wide", model::Collective::Custom, 3, 2, 4, model::Reduction::Sum);
  foreign.program.ranks[0].agents.emplace_back().code = {
      transfer({local(0, 0), peer(1, 0, 0), local(0, 1), peer(2, 0, 1)},
               {local(1, 0), local(1, 1), peer(2, 1, 0)}),
      transfer({peer(1, 0, 1), peer(2, 0, 0)}, {peer(1, 1, 2)}),
      transfer({peer(1, 0, 0)}, {peer(2, 1, 3), local(1, 3)}),
      transfer({peer(2, 0, 0)}, {peer(1, 1, 3), peer(2, 1, 1)}),
  };
  auto &rows = foreign.contract.rows;
  for (auto [rank, chunk] : {std::pair{0, 0}, {0, 1}, {2, 0}})
    for (auto [from, at] : {std::pair{0, 0}, {1, 0}, {0, 1}, {2, 1}})
      rows.push_back({rank, chunk, from, at});
  rows.insert(rows.end(),
              {{1, 2, 1, 1}, {1, 2, 2, 0}, {2, 3, 1, 0}, {0, 3, 1, 0}, {1, 3, 2, 0}, {2, 1, 2, 0}});
  REQUIRE_EQ(verdict(foreign), "ok");
  CHECK_EQ(verdict(roundTrip(foreign).back), "ok");
}

TEST_CASE("limits of MSCCL++'s executor are named") {
  // One rank adds up what nine peers have.
  Foreign foreign =
      emptyProgram("star", model::Collective::Reduce, 12, 1, 1, model::Reduction::Sum);
  std::vector<Operand> all = {local(0, 0)};
  for (int32_t from = 1; from < 12; ++from)
    all.push_back(peer(from, 0, 0));
  Instruction sum = transfer(all, {local(1, 0)});
  sum.loc = 7;
  foreign.program.ranks[0].agents.emplace_back().code = {sum};
  Written written = roundTrip(foreign);
  CHECK_EQ(verdict(written.back), "ok");
  REQUIRE(written.warns("rre has 12 sources; MSCCL++ has room for 10"));
  auto named = std::find_if(written.warnings.begin(), written.warnings.end(),
                            [](const Diagnostic &d) { return d.text.substr(0, 3) == "rre"; });
  REQUIRE(named != written.warnings.end());
  CHECK_EQ(named->loc, 7);
  CHECK(written.warns("counts bytes in 32 bits"));
  // More ops in a thread block, and more channels, than there is room for.
  Written long_ = roundTrip(ring(20, 2));
  CHECK(long_.warns("MSCCL++ has room for 64"));
}

TEST_CASE("what does not fit together is refused where it is") {
  Foreign foreign = ring(3, 2);
  foreign.program.ranks[1].agents[0].code.back().count = 2;
  foreign.program.ranks[1].agents[0].code.back().loc = 5;
  std::vector<Diagnostic> diagnostics;
  foreign.program.ranks[1].agents[0].code.back().to = {local(0, 0)};
  CHECK_FALSE(mscclpp::writePlan(foreign, diagnostics));
  REQUIRE_EQ(diagnostics.size(), 1);
  CHECK_EQ(diagnostics[0].kind, Diagnostic::Kind::Unsupported);
  CHECK_EQ(diagnostics[0].loc, 5);
  CHECK_EQ(diagnostics[0].text, "rank 1 takes 2 chunks from rank 0, which sends 1");

  foreign = ring(3, 2);
  foreign.program.ranks[2].agents[0].code.pop_back();
  diagnostics.clear();
  CHECK_FALSE(mscclpp::writePlan(foreign, diagnostics));
  CHECK(str(diagnostics).find("which receives 3 times") != std::string::npos);

  // What nobody sends has the place of who takes it.
  foreign = ring(2, 2);
  foreign.program.ranks[0].agents[0].code.clear();
  foreign.program.ranks[1].agents[0].code.erase(foreign.program.ranks[1].agents[0].code.begin());
  foreign.program.ranks[1].agents[0].code[0].loc = 6;
  diagnostics.clear();
  CHECK_FALSE(mscclpp::writePlan(foreign, diagnostics));
  REQUIRE_FALSE(diagnostics.empty());
  CHECK_EQ(diagnostics[0].loc, 6);
  CHECK_EQ(diagnostics[0].text, "rank 0 sends 0 times to rank 1, which receives 2 times");

  for (int64_t chunk : {int64_t(3), std::numeric_limits<int64_t>::max(), int64_t(-1)}) {
    foreign = ring(3, 2);
    foreign.program.ranks[0].agents[0].code[0].from[0].chunk = chunk;
    foreign.program.ranks[0].agents[0].code[0].loc = 4;
    diagnostics.clear();
    CHECK_FALSE(mscclpp::writePlan(foreign, diagnostics));
    REQUIRE_EQ(diagnostics.size(), 1);
    CHECK_EQ(diagnostics[0].loc, 4);
  }
}

TEST_CASE("a long run of copies is looked back at only so far") {
  constexpr int32_t chunks = 2000;
  Foreign foreign = emptyProgram("long", model::Collective::Custom, 1, chunks, chunks);
  std::vector<Instruction> &code = foreign.program.ranks[0].agents.emplace_back().code;
  for (int32_t chunk = 0; chunk < chunks; ++chunk)
    code.push_back(transfer({local(0, chunk)}, {local(1, chunk)}));
  Written written = write(foreign);
  size_t nops = 0;
  for (size_t at = 0; (at = written.text.find("\"nop\"", at)) != std::string::npos; ++at)
    ++nops;
  CHECK_EQ(nops, 2 * (chunks - 1) / 256);
}

TEST_CASE("random programs keep their proof") {
  int checked = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed ", seed);
    Foreign foreign = RandomProgram(seed).make();
    INFO(faults(foreign));
    std::string before = verdict(foreign);
    REQUIRE((before == "ok" || before == "unchecked"));
    checked += before == "ok";
    roundTrip(foreign);
  }
  CHECK_GT(checked, 100);
}
