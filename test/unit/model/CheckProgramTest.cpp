// L2: programs of all ranks, right and wrong.

#include "Algorithms.h"

#include <doctest/doctest.h>

using namespace ccl::model;

namespace {

Contract allReduce(int64_t ranks) {
  return makeContract(Collective::AllReduce, ranks, ranks, Reduction::Sum);
}

std::string first(const ProgramReport &report) {
  return report.ok() ? "" : report.faults.front().message;
}

/// Two ranks that exchange `in` of one chunk: `out` is the all-gather. Channel 0 goes
/// to the other rank, channel 1 comes from there.
Program exchange(int32_t slots = 1) {
  Program program;
  program.buffers = {{"in", Role::In, 1, 1000}, {"out", Role::Out, 2, 1001}};
  for (int32_t me = 0; me < 2; ++me) {
    RankProgram rank;
    rank.channels = {{true, 1 - me, 0, slots}, {false, 1 - me, 0, slots}};
    Agent block;
    block.code = {transfer({local(0, 0)}, {channel(0), local(1, me)}),
                  transfer({channel(1)}, {local(1, 1 - me)})};
    for (size_t i = 0; i < block.code.size(); ++i)
      block.code[i].loc = int32_t(me * 10 + int32_t(i));
    rank.agents = {block};
    program.ranks.push_back(rank);
  }
  return program;
}

Contract gather() { return makeContract(Collective::AllGather, 2, 1); }

std::vector<Instruction> &code(Program &program, size_t rank) {
  return program.ranks[rank].agents[0].code;
}

/// The only fault, which `verdict` calls so.
Fault only(const Program &program, std::string_view word, const ProgramCheckOptions &options = {}) {
  ProgramReport report = check(program, gather(), options);
  REQUIRE(report.faults.size() == 1);
  CHECK(verdict(report.faults, gather()) == word);
  return report.faults.front();
}

} // namespace

TEST_CASE("the ring is right; fused it needs two slots, else one") {
  for (int64_t n = 1; n <= 9; ++n) {
    CAPTURE(n);
    ProgramReport fused = check(ringProgram(n, 2, true), allReduce(n));
    CHECK(first(fused) == "");
    CHECK(fused.minSlots == (n == 1 ? 0 : 2));
    CHECK(fused.instructions == uint64_t(n == 1 ? 0 : n * (2 * n - 1)));
    ProgramReport plain = check(ringProgram(n, 4, false), allReduce(n));
    CHECK(first(plain) == "");
    CHECK(plain.minSlots == (n == 1 ? 0 : 1));
  }
}

TEST_CASE("a large ring program is proved") {
  CHECK(first(check(ringProgram(256, 2, true), allReduce(256))) == "");
}

TEST_CASE("too few slots are a deadlock that shows the cycle") {
  Program ring = ringProgram(3, 2, true);
  ProgramReport report = check(ring, allReduce(3), {.slots = 1});
  REQUIRE(report.faults.size() == 1);
  CHECK(report.minSlots == 2);
  const Fault &fault = report.faults.front();
  CHECK(fault.kind == FaultKind::Deadlock);
  CHECK(fault.message ==
        "deadlock: rank 0, block 0, instruction 1 waits for a free slot to rank 1, tag 0 (of 1), "
        "in a cycle of 3 agents that wait for each other");
  REQUIRE(fault.notes.size() == 4);
  CHECK(fault.notes[1].message ==
        "rank 1, block 0, instruction 1 waits for a free slot to rank 2, tag 0 (of 1)");
  CHECK(fault.notes[1].loc == 1001);
  CHECK(fault.notes[3].message == "with 2 slots a channel none would get stuck");
  CHECK(fault.rank == 0);
  CHECK(fault.instruction == 1);
  CHECK(verdict(report.faults, allReduce(3)) == "deadlock");
  CHECK(first(check(ring, allReduce(3), {.slots = 7})) == "");
}

TEST_CASE("no number of slots helps if both wait first") {
  Program program = exchange();
  for (size_t rank = 0; rank < 2; ++rank)
    std::swap(code(program, rank)[0], code(program, rank)[1]);
  ProgramReport report = check(program, gather());
  REQUIRE(report.faults.size() == 1);
  CHECK(report.minSlots == 0);
  CHECK(report.faults[0].notes.size() == 2);
  CHECK(first(report) == "deadlock: rank 0, block 0, instruction 0 waits for data from rank 1, "
                         "tag 0, in a cycle of 2 agents that wait for each other");
}

TEST_CASE("a rank that waits for itself") {
  Program program;
  program.buffers = {{"x", Role::InOut, 1, -1}};
  RankProgram rank;
  rank.channels = {{true, 0, 0, 0}, {false, 0, 0, 0}};
  Agent block;
  block.code = {wait(1), signal(0)};
  rank.agents = {block};
  program.ranks = {rank};
  Contract contract = makeContract(Collective::AllReduce, 1, 1, Reduction::Sum);
  CHECK(first(check(program, contract)) ==
        "deadlock: rank 0, block 0, instruction 0 waits for a signal from rank 0, tag 0, which it "
        "would have to serve itself");
  std::swap(program.ranks[0].agents[0].code[0], program.ranks[0].agents[0].code[1]);
  ProgramReport report = check(program, contract);
  CHECK(first(report) == "");
  CHECK(report.minSlots == 0); // no data channel
}

TEST_CASE("minSlots counts how far a sender runs ahead") {
  // Rank 0 sends three chunks before a signal that rank 1 waits for first.
  Program program;
  program.buffers = {{"x", Role::InOut, 3, -1}};
  program.ranks.resize(2);
  program.ranks[0].channels = {{true, 1, 0, 8}, {true, 1, 1, 0}};
  program.ranks[1].channels = {{false, 0, 0, 8}, {false, 0, 1, 0}};
  Agent sender, receiver;
  receiver.code.push_back(wait(1));
  for (int64_t c = 0; c < 3; ++c) {
    sender.code.push_back(transfer({local(0, c)}, {channel(0)}));
    receiver.code.push_back(transfer({channel(0)}, {local(0, c)}));
  }
  sender.code.push_back(signal(1));
  program.ranks[0].agents = {sender};
  program.ranks[1].agents = {receiver};
  Contract broadcast = makeContract(Collective::Broadcast, 2, 3);
  ProgramReport report = check(program, broadcast);
  CHECK(first(report) == "");
  CHECK(report.minSlots == 3);
}

TEST_CASE("exchange: right, and wrong in each way") {
  Program program = exchange();
  REQUIRE(first(check(program, gather())) == "");
  CHECK(check(program, gather()).minSlots == 1);
  CHECK(first(check(program, gather(), {.inPlace = true})) == "");

  SUBCASE("no partner") {
    program.ranks[1].channels[1].tag = 5;
    Fault fault = only(program, "deadlock", {.maxFaults = 1});
    CHECK(fault.kind == FaultKind::Unpaired);
    CHECK(fault.message == "the channel to rank 1 of rank 0, tag 0, has no partner: rank 1 has no "
                           "channel from rank 0 with this tag");
    CHECK(fault.loc == 0);
    CHECK(check(program, gather()).faults.size() == 2); // nor has tag 5
  }
  SUBCASE("slots differ") {
    program.ranks[1].channels[1].slots = 3;
    CHECK(only(program, "deadlock").message == "the channel to rank 1 of rank 0, tag 0, has 1 "
                                               "slots, but its partner on rank 1 has 3");
  }
  SUBCASE("declared twice, differently") {
    program.ranks[0].channels.push_back({true, 1, 0, 2});
    CHECK(only(program, "deadlock").message ==
          "rank 0: two channels to rank 1, tag 0, with 1 and 2 slots");
  }
  SUBCASE("declared twice, alike") {
    program.ranks[0].channels.push_back({true, 1, 0, 1});
    code(program, 0)[0].to[0].channel = 2;
    CHECK(first(check(program, gather())) == "");
  }
  SUBCASE("never received") {
    code(program, 0).push_back(transfer({local(0, 0)}, {channel(0)}));
    code(program, 0).push_back(transfer({local(0, 0)}, {channel(0)}));
    Fault fault = only(program, "deadlock");
    CHECK(fault.kind == FaultKind::Unpaired);
    CHECK(fault.message == "2 of 3 transfers from rank 0 to rank 1, tag 0, are never received");
    CHECK(fault.instruction == 2);
    REQUIRE(fault.notes.size() == 1);
    CHECK(fault.notes[0].message == "rank 1, block 0, instruction 1 is the last at the other end");
    CHECK(fault.notes[0].loc == 11);
  }
  SUBCASE("never sent") {
    code(program, 1).push_back(transfer({channel(1)}, {local(1, 0)}));
    CHECK(only(program, "deadlock").message ==
          "1 of 2 transfers from rank 0 to rank 1, tag 0, are waited for, but never sent");
  }
  SUBCASE("signals unbalanced") {
    for (size_t rank = 0; rank < 2; ++rank)
      program.ranks[rank].channels.push_back({rank == 0, int32_t(1 - rank), 1, 0});
    code(program, 0).push_back(signal(2));
    CHECK(only(program, "deadlock").message ==
          "1 of 1 signals from rank 0 to rank 1, tag 1, are never waited for");
  }
  SUBCASE("two agents on one end") {
    Agent other = program.ranks[0].agents[0];
    other.proxy = true, other.id = 7;
    other.code.resize(1);
    program.ranks[0].agents.push_back(other);
    Fault fault = only(program, "race");
    CHECK(fault.message == "rank 0, proxy 7, instruction 0: the channel to rank 1, tag 0, is used "
                           "by another agent, too (rank 0, block 0, instruction 0)");
    CHECK(fault.agent == 1);
  }
  SUBCASE("counts of the two halves differ") {
    program.buffers.push_back({"t", Role::Scratch, 2, -1});
    code(program, 0)[0] = transfer({local(0, 0)}, {local(1, 0)});
    code(program, 0)
        .insert(code(program, 0).begin() + 1, transfer({local(0, 0)}, {local(2, 0), local(2, 1)}));
    // Two destinations of one chunk are not one of two chunks.
    program.buffers[2].chunks = 1;
    CHECK(only(program, "deadlock").message == "1 of 1 transfers from rank 0 to rank 1, tag 0, are "
                                               "waited for, but never sent");
    program.buffers[2].chunks = 2;
    code(program, 0).push_back(transfer({local(2, 0)}, {channel(0)}, false, 2));
    Fault fault = only(program, "wrong");
    CHECK(fault.kind == FaultKind::Mismatch);
    CHECK(fault.message == "rank 1 takes 1 chunk from rank 0, tag 0, but the slot holds 2 chunks");
    CHECK(fault.notes.front().message == "sent by rank 0, block 0, instruction 3");
  }
  SUBCASE("uninitialized") {
    program.buffers.push_back({"t", Role::Scratch, 2, -1});
    code(program, 0)[0].from[0] = local(2, 1);
    Fault fault = only(program, "uninitialized");
    CHECK(fault.message == "rank 0, t[1] is read, but holds nothing: it was never written");
    CHECK(fault.loc == 0);
    CHECK(fault.agent == 0);
    CHECK(fault.instruction == 0);
  }
  SUBCASE("double count") {
    code(program, 1)[1] = transfer({channel(1), channel(1)}, {local(1, 0)}, true);
    code(program, 0).push_back(transfer({local(0, 0)}, {channel(0)}));
    Fault fault = only(program, "deadlock");
    CHECK(fault.message.find("waits for a free slot") != std::string::npos);
    ProgramReport report = check(program, gather(), {.slots = 2});
    REQUIRE(report.faults.size() == 1);
    CHECK(report.minSlots == 2);
    CHECK(report.faults[0].kind == FaultKind::DoubleCount);
    CHECK(report.faults[0].message == "rank 1, out[0] would hold {0.0 x2}, wants {0.0}; the "
                                      "contribution of rank 0 (chunk 0) is counted twice");
  }
  SUBCASE("wrong") {
    code(program, 0)[1].to[0].chunk = 0;
    ProgramReport report = check(program, gather());
    REQUIRE(report.faults.size() == 2);
    CHECK(report.faults[0].message == "all_gather is not met: rank 0, out[1] holds nothing, wants "
                                      "{1.0}; the contribution of rank 1 (chunk 0) is missing");
    CHECK(report.faults[1].have == "{1.0}");
    CHECK(report.faults[1].loc == 1);
    CHECK(report.faults[1].instruction == 1);
    REQUIRE(report.faults[1].notes.size() == 2);
    CHECK(report.faults[1].notes[0].message ==
          "rank 0, out[0] was last written by rank 0, block 0, instruction 1");
    CHECK(report.faults[1].notes[1].message ==
          "which used the result of rank 1, block 0, instruction 0");
  }
  SUBCASE("read only") {
    code(program, 0)[1].to[0] = local(0, 0);
    ProgramReport report = check(program, gather());
    REQUIRE(report.faults.size() == 2);
    CHECK(report.faults[0].kind == FaultKind::ReadOnly);
  }
  SUBCASE("out of range") {
    code(program, 0)[1].to[0].chunk = 2;
    Fault fault = only(program, "malformed");
    CHECK(fault.message == "rank 0, out: chunk 2 is outside [0, 2)");
    CHECK(fault.loc == 1);
  }
  SUBCASE("overlap") {
    program.buffers.push_back({"t", Role::Scratch, 3, -1});
    code(program, 0).push_back(transfer({local(1, 0)}, {local(2, 0)}, false, 2));
    code(program, 0).push_back(transfer({local(2, 0)}, {local(2, 1)}, false, 2));
    CHECK(only(program, "race").message ==
          "rank 0, t[1]: source and destination of 2 chunks overlap");
  }
}

TEST_CASE("direct access to a peer's buffer, ordered by signals") {
  Program program;
  program.buffers = {{"in", Role::In, 1, -1}, {"out", Role::Out, 2, -1}};
  for (int32_t me = 0; me < 2; ++me) {
    RankProgram rank;
    rank.channels = {{true, 1 - me, 0, 0}, {false, 1 - me, 0, 0}};
    Agent block;
    block.code = {transfer({local(0, 0)}, {local(1, me), peer(1 - me, 1, me)}), signal(0), wait(1)};
    rank.agents = {block};
    program.ranks.push_back(rank);
  }
  ProgramReport report = check(program, gather());
  CHECK(first(report) == "");
  CHECK(report.minSlots == 0);
  code(program, 0)[0].to[1].peer = 2;
  CHECK(only(program, "malformed").message ==
        "rank 0, block 0, instruction 0: peer 2 is outside [0, 2)");
}

TEST_CASE("in place: the input may be overwritten, and may be lost") {
  // All-reduce of two ranks: each copies its input out, then adds the other's.
  Program program;
  program.buffers = {{"in", Role::In, 1, -1}, {"out", Role::Out, 1, -1}};
  for (int32_t me = 0; me < 2; ++me) {
    RankProgram rank;
    rank.channels = {{true, 1 - me, 0, 1}, {false, 1 - me, 0, 1}};
    Agent block;
    block.code = {transfer({local(0, 0)}, {channel(0)}),
                  transfer({channel(1), local(0, 0)}, {local(1, 0)}, true)};
    rank.agents = {block};
    program.ranks.push_back(rank);
  }
  Contract contract = makeContract(Collective::AllReduce, 2, 1, Reduction::Sum);
  CHECK(first(check(program, contract)) == "");
  CHECK(first(check(program, contract, {.inPlace = true})) == "");
  std::swap(code(program, 0)[0], code(program, 0)[1]);
  CHECK(first(check(program, contract)) == "");
  CHECK(check(program, contract, {.inPlace = true}).faults.front().kind == FaultKind::DoubleCount);
}

TEST_CASE("malformed instructions and channels") {
  Program program = exchange();
  std::string error;
  Instruction &send = code(program, 0)[0];
  std::string at = "rank 0, block 0, instruction 0: ";
  SUBCASE("no source") {
    send.from.clear(), error = at + "a transfer needs a source and a destination";
  }
  SUBCASE("sources without reduce") {
    send.from.push_back(local(0, 0));
    error = at + "a transfer that does not reduce has one source";
  }
  SUBCASE("no chunks") { send.count = 0, error = at + "a transfer moves at least one chunk"; }
  SUBCASE("too many chunks") {
    send.count = INT32_MAX;
    error = at + "a transfer of 2147483647 chunks is larger than any buffer";
  }
  SUBCASE("channel number") {
    send.to[0].channel = 2;
    error = at + "channel 2 is outside [0, 2)";
  }
  SUBCASE("direction") { send.to[0].channel = 1, error = at + "sends on a channel `from` rank 1"; }
  SUBCASE("a signal on a data channel") {
    send = signal(0);
    error = at + "signals on the channel to rank 1, tag 0, which carries data";
  }
  SUBCASE("data on a signal channel") {
    program.ranks[0].channels[0].slots = 0;
    error = at + "transfers on the channel to rank 1, tag 0, which carries signals";
  }
  SUBCASE("peer of a channel") {
    program.ranks[0].channels[0].peer = -1;
    error = "rank 0: a channel to peer -1, which is outside [0, 2)";
  }
  SUBCASE("negative slots") {
    program.ranks[0].channels[0].slots = -1;
    error = "rank 0: a channel with -1 slots";
  }
  SUBCASE("buffer") {
    send.from[0].buffer = 9;
    error = "buffer 9 is outside [0, 2)";
  }
  SUBCASE("ranks") {
    program.ranks.pop_back();
    error = "the contract is about 2 ranks, the program has 1";
  }
  CHECK(only(program, "malformed").message == error);
}
