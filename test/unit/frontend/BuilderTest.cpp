#include "test/unit/frontend/Ranks.h"

#include <string>

using namespace ccl;
using ccl::test::contains;
using ccl::test::valueOf;

namespace {

/// A ring; `skipped` steps of its first half are left out.
Algorithm ring(int n, int skipped = 0, uint32_t *line = nullptr) {
  Algorithm a("ring", Contract::allReduce(Op::sum), n);
  Buffer x = a.inout(n);
  if (line)
    *line = __LINE__ + 4;
  for (int s = skipped; s < n - 1; ++s) {
    Step step = a.step();
    for (int r = 0; r < n; ++r)
      a.reduce(x(r, (r - s + n) % n), x((r + 1) % n, (r - s + n) % n));
  }
  for (int s = 0; s < n - 1; ++s)
    a.step([&] {
      for (int r = 0; r < n; ++r)
        a.copy(x(r, (r + 1 - s + n) % n), x((r + 1) % n, (r + 1 - s + n) % n));
    });
  return a;
}

/// The text of why it is refused.
std::string refusal(const Algorithm &algorithm, const ProgramOptions &options = {}) {
  Result<Program> program = Program::compile(algorithm, options);
  REQUIRE(!program);
  return program.error().message;
}

std::string here(uint32_t line) { return "BuilderTest.cpp:" + std::to_string(line) + ":"; }

} // namespace

TEST_CASE("builder: a right program compiles and runs in both forms") {
  Program program = valueOf(Program::compile(ring(3), {.ranks = 3, .type = DataType::i32}));
  CHECK(program.name() == "ring");
  CHECK(program.ranks() == 3);
  CHECK(program.provedInPlace());
  CHECK(program.provedOutOfPlace());
  test::onRanks(3, [&](Communicator &rank) {
    std::vector<int> in(1000, rank.rank() + 1), out(1000);
    CHECK_OK(rank.launch(program, in.data(), out.data(), 1000));
    CHECK(out == std::vector<int>(1000, 6));
    CHECK_OK(rank.launch(program, in.data(), in.data(), 1000));
    CHECK(in == out);
  });
}

TEST_CASE("builder: a wrong program is refused with the line that wrote it") {
  uint32_t line = 0;
  std::string message = refusal(ring(4, 1, &line));
  CHECK(contains(message, here(line)));
  CHECK(contains(message, "error: all_reduce sum is not met: rank 1, x[2] holds {0.2, 1.2, 3.2}"));
  CHECK(contains(message, "the contribution of rank 2 (chunk 2) is missing"));
}

TEST_CASE("builder: places that do not exist are errors of their line") {
  Algorithm a("far", Contract::broadcast(), 2);
  Buffer in = a.in(1), out = a.out(1);
  uint32_t line = __LINE__ + 1;
  a.copy(in(0, 0), out(7, 0));
  std::string message = refusal(a);
  CHECK(contains(message, here(line)));
  CHECK(contains(message, "rank 7 is outside [0, 2)"));

  for (auto [rank, chunk] : {std::pair<int64_t, int64_t>{-1, 0},
                             {INT64_MAX, 0},
                             {0, -1},
                             {0, INT64_MIN},
                             {0, INT64_MAX}}) {
    Algorithm b("far", Contract::broadcast(), 2);
    Buffer x = b.inout(1);
    b.copy(x(0, 0), x(rank, chunk));
    CHECK(contains(refusal(b), "is outside"));
  }
  for (int64_t count : {INT64_MIN, int64_t(-1), int64_t(0), int64_t(2), INT64_MAX}) {
    Algorithm b("far", Contract::broadcast(), 2);
    Buffer x = b.inout(1);
    b.copy(x(0, 0), x(1, 0), count);
    CHECK(contains(refusal(b), "moves " + std::to_string(count) + " chunks"));
  }
}

TEST_CASE("builder: buffers, contracts and names that cannot be") {
  auto empty = [](Contract contract, int ranks, int64_t chunks, std::string_view name = "a") {
    Algorithm a(name, std::move(contract), ranks);
    a.inout(chunks);
    return refusal(a);
  };
  CHECK(contains(empty(Contract::broadcast(5), 2, 1), "root 5 is outside [0, 2)"));
  CHECK(contains(empty(Contract::broadcast(-1), 2, 1), "root"));
  CHECK(contains(empty(Contract::permute({0, 0}), 2, 1), "permut"));
  CHECK(contains(empty(Contract::permute({0}), 2, 1), "permutes 1 ranks, has 2"));
  CHECK(contains(empty(Contract::broadcast(), 0, 1), "'a' has 0 ranks"));
  CHECK(contains(empty(Contract::broadcast(), -3, 1), "'a' has -3 ranks"));
  CHECK(contains(empty(Contract::broadcast(), 2, 0), "extent 0 is below 1"));
  CHECK(contains(empty(Contract::broadcast(), 2, -1), "extent -1 is below 1"));
  CHECK(contains(empty(Contract::broadcast(), 2, INT64_MAX), "chunks"));
  CHECK(contains(empty(Contract::broadcast(), 2, 1, ""), "needs a name"));

  Algorithm twice("twice", Contract::broadcast(), 2);
  twice.out(1);
  uint32_t line = __LINE__ + 1;
  twice.out(1);
  std::string message = refusal(twice);
  CHECK(contains(message, "is a second 'out' buffer"));
  CHECK(contains(message, here(line)));
}

TEST_CASE("builder: a buffer of another algorithm, steps that do not match, moved objects") {
  Algorithm a("a", Contract::broadcast(), 2), b("b", Contract::broadcast(), 2);
  Buffer x = a.inout(1), y = b.inout(1);
  uint32_t line = __LINE__ + 1;
  a.copy(x(0, 0), y(1, 0));
  std::string message = refusal(a);
  CHECK(contains(message, here(line)));
  CHECK(contains(message, "the destination is in a buffer of another algorithm than 'a'"));

  b.beginStep();
  CHECK(contains(refusal(b), "a step that was not ended"));
  b.endStep();
  b.endStep();
  CHECK(contains(refusal(b), "ends a step that was not begun"));

  Algorithm c = std::move(a);
  CHECK(contains(refusal(a), "moved"));
  a.copy(x(0, 0), x(1, 0)); // nothing happens
  CHECK(a.moves() == 0);
  CHECK(a.name().empty());
}

TEST_CASE("builder: moves of one step must not conflict, those of two may") {
  auto exchange = [](bool oneStep) {
    Algorithm a("exchange", Contract::allReduce(), 2);
    Buffer x = a.inout(1);
    if (oneStep)
      a.beginStep();
    a.reduce(x(0, 0), x(1, 0));
    a.copy(x(1, 0), x(0, 0));
    if (oneStep)
      a.endStep();
    return a;
  };
  CHECK_OK(Program::compile(exchange(false)));
  CHECK(contains(refusal(exchange(true)), "step"));
}

TEST_CASE("builder: a step in a step is a part of it") {
  Algorithm a("nested", Contract::allGather(), 2);
  Buffer in = a.in(1), out = a.out(2);
  {
    Step outer = a.step();
    for (int r = 0; r < 2; ++r)
      a.step([&] {
        a.copy(in(r, 0), out(0, r));
        a.copy(in(r, 0), out(1, r));
      });
  }
  CHECK(a.moves() == 4);
  std::string text = valueOf(a.text());
  // One parallel loop with all four moves.
  size_t first = text.find("affine.parallel");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("affine.parallel", first + 1) == std::string::npos);
  CHECK_OK(Program::compile(a));
}

TEST_CASE("builder: places of other languages") {
  Algorithm a("a", Contract::allReduce(), 2, {"user.py", 3});
  Buffer x = a.inout(1, "data", {"user.py", 4, 7});
  a.reduce(x(0, 0), x(1, 0), 1, {"user.py", 5, 3});
  std::string message = refusal(a);
  CHECK(contains(message, "user.py:"));
  CHECK(contains(message, "rank 0, data[0]"));
}

TEST_CASE("builder: copies are independent") {
  Algorithm a("a", Contract::broadcast(), 2);
  Buffer x = a.inout(1);
  Algorithm b = a;
  b.copy(x(0, 0), x(1, 0)); // a's buffer is one of the copy, too
  CHECK(a.moves() == 0);
  CHECK(b.moves() == 1);
  CHECK_OK(Program::compile(b));
  a = b;
  CHECK(a.moves() == 1);
}

TEST_CASE("builder: options that are not for builders, another number of ranks") {
  CHECK(contains(refusal(ring(3), {.ranks = 4}), "is written for 3 ranks, not for 4"));
  CHECK(contains(refusal(ring(3), {.sizes = {{"n", 3}}}), "fixed size"));
  CHECK(contains(refusal(ring(3), {.slots = 0}), "slots"));
}

TEST_CASE("builder: a large program is a table whose rows know their lines") {
  // 2 * 127 * 128 moves: more than are written as ops.
  Algorithm right = ring(128);
  CHECK(right.moves() > 20000);
  std::string text = valueOf(right.text());
  CHECK(contains(text, "ccl.schedule"));

  Algorithm wrong = right;
  uint32_t line = __LINE__ + 2;
  Buffer t = wrong.scratch(1);
  wrong.copy(t(3, 0), t(4, 0));
  std::string message = refusal(wrong);
  CHECK(contains(message, here(line)));
  CHECK(contains(message, "rank 3, t[0]"));

  Algorithm far = right;
  line = __LINE__ + 1;
  far.copy(far.scratch(1)(128, 0), t(0, 0));
  message = refusal(far);
  CHECK(contains(message, here(line)));
  far = right;
  line = __LINE__ + 1;
  far.copy(t(0, 0), t(0, 0), -5); // t is of a copy: not ours
  CHECK(contains(refusal(far), here(line)));
}
