// L1 programs that are wrong: each fault says what, where, and what should be.

#include "Algorithms.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ccl::model;

namespace {

Contract allReduce(int64_t ranks, int64_t chunks) {
  return makeContract(Collective::AllReduce, ranks, chunks, Reduction::Sum);
}

/// Two ranks, `in` and `out` of two chunks, all right up to here.
struct Pair : MovesBuilder {
  int32_t in, out, t;
  Pair() {
    moves.ranks = 2;
    in = buffer("in", Role::In, 2), out = buffer("out", Role::Out, 2);
    t = buffer("t", Role::Scratch, 4);
    step();
    for (int32_t r = 0; r < 2; ++r)
      copy({r, in, 0}, {r, out, 0}, 2);
    step();
    for (int32_t r = 0; r < 2; ++r)
      reduce({r, in, 0}, {1 - r, out, 0}, 2);
    step();
  }
  /// The only fault.
  Fault only(int64_t faults = 1) {
    AlgorithmReport report = check(moves, allReduce(2, 2));
    REQUIRE(int64_t(report.faults.size()) == faults);
    return report.faults.front();
  }
};

} // namespace

TEST_CASE("wrong: a contribution is missing") {
  Moves ring = ringAllReduce(4);
  // Chunk 3 goes from rank 3 to 0, 1 and 2; rank 1 starts anew.
  auto it = std::find_if(ring.moves.begin(), ring.moves.end(),
                         [](const Move &m) { return m.src == Place{0, 0, 3}; });
  REQUIRE(it->kind == MoveKind::Reduce);
  ring.moves.erase(it);
  AlgorithmReport report = check(ring, allReduce(4, 4));
  REQUIRE(report.faults.size() == 4); // all ranks, but the first is where it went wrong
  CHECK_FALSE(report.inPlace);
  CHECK(verdict(report.faults, allReduce(4, 4)) == "wrong");
  const Fault &fault = report.faults.front();
  CHECK(fault.kind == FaultKind::Wrong);
  CHECK(fault.want == "{0.3, 1.3, 2.3, 3.3}");
  CHECK(fault.have == "{1.3, 2.3}");
  CHECK(fault.chunk == 3);
  CHECK(fault.message == "all_reduce sum is not met: rank 2, x[3] holds {1.3, 2.3}, wants {0.3, "
                         "1.3, 2.3, 3.3}; the contributions {0.3, 3.3} are missing");
  REQUIRE_FALSE(fault.notes.empty());
  CHECK(fault.notes.front().message ==
        "rank 2, x[3] was last written by the reduce of rank 1, x[3] into rank 2, x[3]");
  CHECK(fault.loc == fault.notes.front().loc);
  CHECK(fault.instruction >= 0);
}

TEST_CASE("wrong: the message of one missing contribution") {
  MovesBuilder b;
  b.moves.ranks = 3;
  int32_t x = b.buffer("x", Role::InOut, 4);
  b.step();
  b.reduce({0, x, 0}, {2, x, 0}, 4);
  b.reduce({1, x, 0}, {2, x, 0}, 3);
  AlgorithmReport report =
      check(b.moves, makeContract(Collective::Reduce, 3, 4, Reduction::Sum, 2));
  REQUIRE(report.faults.size() == 1);
  const Fault &fault = report.faults.front();
  CHECK(fault.message == "reduce sum is not met: rank 2, x[3] holds {0.3, 2.3}, wants {0.3, 1.3, "
                         "2.3}; the contribution of rank 1 (chunk 3) is missing");
  CHECK(fault.rank == 2);
  CHECK(fault.buffer == x);
  CHECK(fault.loc == 0);
}

TEST_CASE("wrong: an output that was never written, and one with another's data") {
  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t in = b.buffer("in", Role::In, 1), out = b.buffer("out", Role::Out, 2);
  b.step();
  b.copy({0, in, 0}, {0, out, 0});
  b.copy({0, in, 0}, {1, out, 1});
  b.copy({0, in, 0}, {1, out, 0});
  AlgorithmReport report = check(b.moves, makeContract(Collective::AllGather, 2, 1));
  REQUIRE(report.faults.size() == 2);
  CHECK(report.faults[0].message == "all_gather is not met: rank 0, out[1] holds nothing, wants "
                                    "{1.0}; the contribution of rank 1 (chunk 0) is missing");
  CHECK(report.faults[0].loc == 1001);
  CHECK(report.faults[1].message ==
        "all_gather is not met: rank 1, out[1] holds {0.0}, wants {1.0}; the contribution of rank "
        "1 (chunk 0) is missing, the contribution of rank 0 (chunk 0) should not be there");
  CHECK(report.faults[1].loc == 1);
}

TEST_CASE("double count") {
  Pair p;
  p.reduce({1, p.in, 1}, {0, p.out, 1});
  Fault fault = p.only();
  CHECK(fault.kind == FaultKind::DoubleCount);
  CHECK(fault.message == "rank 0, out[1] would hold {0.1, 1.1 x2}, wants {0.1, 1.1}; the "
                         "contribution of rank 1 (chunk 1) is counted twice");
  CHECK(fault.have == "{0.1, 1.1 x2}");
  CHECK(fault.want == "{0.1, 1.1}");
  CHECK(fault.loc == 4);
  REQUIRE(fault.notes.size() == 2);
  CHECK(fault.notes[0].loc == 3);
  CHECK(fault.notes[1].message ==
        "which used the result of the copy of rank 0, in[0] into rank 0, out[0] x 2");
  CHECK(verdict({fault}, allReduce(2, 2)) == "wrong");
}

TEST_CASE("double count: a reduce onto itself") {
  Pair p;
  p.reduce({1, p.out, 0}, {1, p.out, 0});
  CHECK(p.only().message ==
        "rank 1, out[0] would hold {0.0 x2, 1.0 x2}, wants {0.0, 1.0}; the contributions {0.0, "
        "1.0} are counted twice");
}

TEST_CASE("uninitialized: reported once, silent in what follows") {
  Pair p;
  p.copy({0, p.t, 2}, {0, p.out, 0});
  p.step();
  p.copy({0, p.out, 0}, {1, p.out, 0});
  Fault fault = p.only();
  CHECK(fault.kind == FaultKind::Uninitialized);
  CHECK(fault.message == "rank 0, t[2] is read, but holds nothing: it was never written");
  CHECK(fault.have == "nothing");
  CHECK(verdict({fault}, allReduce(2, 2)) == "uninitialized");

  MovesBuilder b;
  b.moves.ranks = 2;
  int32_t x = b.buffer("x", Role::InOut, 1);
  b.step();
  b.copy({0, x, 0}, {1, x, 0});
  AlgorithmReport report =
      check(b.moves, makeContract(Collective::Broadcast, 2, 1, Reduction::None, 1));
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults[0].message == "rank 0, x[0] is read, but holds nothing: it was never "
                                    "written; in broadcast only rank 1 has input");
}

TEST_CASE("uninitialized: a reduce needs its destination") {
  Pair p;
  p.reduce({0, p.in, 1}, {0, p.t, 1});
  CHECK(p.only().message == "rank 0, t[1] is read, but holds nothing: it was never written");
}

TEST_CASE("conflicts of one step") {
  Pair p;
  auto message = [&] {
    Fault fault = p.only();
    CHECK(fault.kind == FaultKind::Conflict);
    REQUIRE(fault.notes.size() == 1);
    CHECK(fault.notes[0].loc == 4);
    CHECK(fault.loc == 5);
    CHECK(verdict({fault}, allReduce(2, 2)) == "race");
    return fault.message;
  };
  SUBCASE("write, then read") {
    p.copy({1, p.out, 0}, {0, p.out, 0});
    p.copy({0, p.out, 0}, {1, p.t, 0});
    CHECK(message() == "rank 0, out[0] is read here and written by the copy of rank 1, out[0] into "
                       "rank 0, out[0] of the same parallel step");
  }
  SUBCASE("read, then write") {
    p.copy({0, p.out, 0}, {1, p.t, 0});
    p.copy({1, p.out, 0}, {0, p.out, 0});
    CHECK(message() == "rank 0, out[0] is written here and read by the copy of rank 0, out[0] into "
                       "rank 1, t[0] of the same parallel step");
  }
  SUBCASE("two writes") {
    p.copy({0, p.out, 0}, {0, p.t, 0});
    p.copy({1, p.out, 0}, {0, p.t, 0});
    CHECK(message() == "rank 0, t[0] is written here and written by the copy of rank 0, out[0] "
                       "into rank 0, t[0] of the same parallel step");
  }
  SUBCASE("two writes of an output: what it holds is no second fault") {
    p.copy({0, p.in, 0}, {0, p.out, 0});
    p.copy({1, p.in, 0}, {0, p.out, 0});
    message();
  }
  SUBCASE("a reduce against a read") {
    p.moves.moves.resize(2);
    p.reduce({0, p.in, 0}, {1, p.out, 0}, 2);
    p.reduce({1, p.in, 0}, {0, p.out, 0}, 1);
    p.reduce({1, p.in, 1}, {0, p.out, 1}, 1);
    p.copy({0, p.out, 1}, {0, p.t, 0});
    CHECK(message() == "rank 0, out[1] is read here and reduced into by the reduce of rank 1, "
                       "in[1] into rank 0, out[1] of the same parallel step");
  }
  SUBCASE("a reduce against a write") {
    p.copy({0, p.out, 0}, {0, p.t, 0});
    p.reduce({1, p.in, 0}, {0, p.t, 0});
    AlgorithmReport report = check(p.moves, allReduce(2, 2));
    REQUIRE(report.faults.size() == 2);
    CHECK(report.faults[0].kind == FaultKind::Conflict);
    CHECK(report.faults[1].kind == FaultKind::DoubleCount);
  }
  SUBCASE("a copy onto itself against a read") {
    p.copy({0, p.out, 0}, {0, p.t, 0});
    p.copy({0, p.out, 0}, {0, p.out, 0});
    message();
  }
}

TEST_CASE("conflict: a move of several chunks over itself") {
  Pair p;
  p.copy({0, p.out, 0}, {0, p.t, 0}, 2);
  p.step();
  p.copy({0, p.t, 0}, {0, p.t, 1}, 2);
  CHECK(p.only().message == "rank 0, t[1]: source and destination of 2 chunks overlap");
}

TEST_CASE("out of range names the valid interval") {
  Pair p;
  Fault fault;
  SUBCASE("chunk") {
    p.copy({0, p.t, 7}, {0, p.out, 0});
    fault = p.only();
    CHECK(fault.message == "rank 0, t: chunk 7 is outside [0, 4)");
    CHECK(fault.have == "chunk 7");
    CHECK(fault.want == "[0, 4)");
  }
  SUBCASE("negative chunk") {
    p.copy({0, p.in, 0}, {0, p.out, -1});
    CHECK((fault = p.only()).message == "rank 0, out: chunk -1 is outside [0, 2)");
  }
  SUBCASE("rank") {
    p.copy({2, p.in, 0}, {0, p.out, 0});
    CHECK((fault = p.only()).message == "in: rank 2 is outside [0, 2)");
  }
  SUBCASE("count") {
    p.copy({0, p.in, 1}, {0, p.out, 0}, 2);
    CHECK((fault = p.only()).message ==
          "rank 0, in: chunk 2 is outside [0, 2) (2 chunks from chunk 1 on)");
  }
  SUBCASE("no chunks") {
    p.copy({0, p.in, 1}, {0, p.out, 0}, 0);
    CHECK((fault = p.only()).message == "rank 0, out: 0 chunks are moved, but at least 1 must be");
  }
  SUBCASE("huge numbers") {
    p.copy({0, p.in, INT64_MAX}, {0, p.out, 0}, INT32_MAX);
    CHECK((fault = p.only()).chunk == 0);
  }
  SUBCASE("buffer") {
    p.copy({0, 3, 0}, {0, p.out, 0});
    CHECK((fault = p.only()).message == "buffer 3 is outside [0, 3)");
  }
  CHECK(fault.kind == FaultKind::OutOfRange);
  CHECK(fault.loc == 4);
  CHECK(verdict({fault}, allReduce(2, 2)) == "malformed");
}

TEST_CASE("mismatch: chunks of different lengths are combined") {
  Pair p;
  p.copy({0, p.in, 0}, {0, p.t, 0});
  p.step();
  p.reduce({1, p.in, 1}, {0, p.t, 0});
  Fault fault = p.only();
  CHECK(fault.kind == FaultKind::Mismatch);
  CHECK(fault.message == "rank 0, t[0]: {0.0} is combined with {1.1}, but these are chunks 0 and 1 "
                         "of 2 in their shards, whose lengths differ");
  CHECK(verdict({fault}, allReduce(2, 2)) == "wrong");
}

TEST_CASE("read only: `in` is not written") {
  Pair p;
  p.copy({0, p.out, 0}, {1, p.in, 0});
  Fault fault = p.only();
  CHECK(fault.kind == FaultKind::ReadOnly);
  CHECK(fault.message == "rank 1, in[0] is written, but `in` is only read");
  CHECK(verdict({fault}, allReduce(2, 2)) == "wrong");
}

TEST_CASE("the number of faults is limited, the first remain") {
  MovesBuilder b;
  b.moves.ranks = 4;
  b.buffer("in", Role::In, 4), b.buffer("out", Role::Out, 4);
  CHECK(check(b.moves, allReduce(4, 4)).faults.size() == 8);
  AlgorithmReport two = check(b.moves, allReduce(4, 4), {.maxFaults = 2});
  REQUIRE(two.faults.size() == 2);
  CHECK(two.faults[1].chunk == 1);
  CHECK(check(b.moves, allReduce(4, 4), {.maxFaults = 0}).faults.size() == 1);
}

TEST_CASE("most upstream first: what comes of it is reported later") {
  Moves gather = ringAllGather(5, true);
  gather.moves.erase(gather.moves.begin() + 5); // rank 0's chunk never leaves
  AlgorithmReport report = check(gather, makeContract(Collective::AllGather, 5, 1));
  REQUIRE_FALSE(report.ok());
  CHECK(report.faults.front().message ==
        "rank 1, out[0] is read, but holds nothing: it was never written");
  CHECK(report.faults.size() == 1); // the place itself is poisoned, like all that follow
}

TEST_CASE("buffers that do not fit the contract are refused before anything runs") {
  MovesBuilder b;
  b.moves.ranks = 2;
  Contract contract = allReduce(2, 2);
  std::string error;
  SUBCASE("ranks") {
    b.buffer("x", Role::InOut, 2);
    contract.ranks = 3;
    error = "the contract is about 3 ranks, the program has 2";
  }
  SUBCASE("chunks") {
    b.buffer("x", Role::InOut, 3);
    error = "x: 3 chunks, but `inout` of all_reduce sum has 2 (2 ranks, 2 chunks a shard)";
  }
  SUBCASE("no output") {
    b.buffer("x", Role::In, 2);
    error = "all_reduce sum needs an `out` or `inout` buffer";
  }
  SUBCASE("no input") {
    b.buffer("x", Role::Out, 2);
    error = "all_reduce sum needs an `in` or `inout` buffer";
  }
  SUBCASE("twice") {
    b.buffer("x", Role::InOut, 2), b.buffer("y", Role::InOut, 2);
    error = "x: there is more than one `inout` buffer";
  }
  SUBCASE("inout and out") {
    b.buffer("x", Role::InOut, 2), b.buffer("y", Role::Out, 2);
    error = "y: `inout` excludes `out`";
  }
  SUBCASE("empty buffer") {
    b.buffer("x", Role::InOut, 2), b.buffer("t", Role::Scratch, 0);
    error = "t: 0 chunks, but a buffer has at least 1";
  }
  SUBCASE("too large") {
    b.buffer("x", Role::InOut, 2), b.buffer("t", Role::Scratch, INT64_MAX);
    error = "t: the buffers have more than 268435456 places";
  }
  SUBCASE("root") {
    b.buffer("x", Role::InOut, 2);
    contract.collective = Collective::Reduce, contract.root = 2;
    error = "root 2 is outside [0, 2)";
  }
  SUBCASE("targets") {
    b.buffer("x", Role::InOut, 2);
    contract.collective = Collective::Permute;
    error = "permute has 0 targets for 2 ranks";
  }
  SUBCASE("no ranks") {
    contract.ranks = b.moves.ranks = 0;
    error = "0 ranks are outside [1, 2147483647]";
  }
  SUBCASE("no chunks") {
    contract.chunks = 0;
    error = "0 chunks a shard are outside [1, 268435456]";
  }
  SUBCASE("custom rows") {
    b.buffer("in", Role::In, 2), b.buffer("out", Role::Out, 2);
    contract = makeContract(Collective::Custom, 2, 1);
    SUBCASE("rank") {
      contract.rows = {{0, 0, 0, 0}, {0, 0, 2, 0}};
      error = "row 1 of the contract: rank 2 is outside [0, 2)";
    }
    SUBCASE("out") {
      contract.rows = {{0, 2, 0, 0}};
      error = "row 0 of the contract: out chunk 2 is outside [0, 2)";
    }
    SUBCASE("in") {
      contract.rows = {{0, 0, 0, -1}};
      error = "row 0 of the contract: in chunk -1 is outside [0, 2)";
    }
  }
  AlgorithmReport report = check(b.moves, contract);
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults[0].kind == FaultKind::OutOfRange);
  CHECK(report.faults[0].message == error);
  CHECK_FALSE(report.inPlace);
}

TEST_CASE("faults and verdicts have names") {
  CHECK(name(FaultKind::DoubleCount) == "double_count");
  CHECK(name(FaultKind::OutOfRange) == "out_of_range");
  Contract contract = allReduce(2, 2);
  CHECK(verdict({}, contract) == "ok");
  auto of = [&](FaultKind kind) {
    Fault fault;
    fault.kind = kind;
    return verdict({fault}, contract);
  };
  CHECK(of(FaultKind::Deadlock) == "deadlock");
  CHECK(of(FaultKind::Unpaired) == "deadlock");
  CHECK(of(FaultKind::Mismatch) == "wrong");
}
