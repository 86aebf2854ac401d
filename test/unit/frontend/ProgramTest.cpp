#include "test/unit/frontend/Ranks.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ccl;
using ccl::test::contains;
using ccl::test::messageOf;

static const char *ring =
    R"(ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 2) mod symbol(%n)]
          into %x[(%r + 1) mod symbol(%n), (%r - %s + 2) mod symbol(%n)]
    }
  }
}
)";

TEST_CASE("program: text is compiled for a number of ranks") {
  Result<Program> program = Program::compile(ring, {.ranks = 3, .type = DataType::f64});
  CHECK_OK(program);
  CHECK(program->name() == "ring");
  CHECK(program->collective() == Collective::allReduce);
  CHECK(program->ranks() == 3);
  CHECK(program->type() == DataType::f64);
  CHECK(program->op() == Op::sum);
  CHECK(program->hash().size() == 64);
  CHECK(program->remarks() == "");
  Result<std::string> algorithm = program->text(Program::Stage::algorithm);
  CHECK_OK(algorithm);
  CHECK(contains(*algorithm, "ranks(3) chunks(3)"));
  Result<std::string> lowered = program->text(Program::Stage::program);
  CHECK_OK(lowered);
  CHECK(contains(*lowered, "ccl.transfer"));

  Result<Program> named = Program::compile(ring, {.sizes = {{"n", 5}}});
  CHECK_OK(named);
  CHECK(named->ranks() == 5);
  CHECK(named->hash() != program->hash());
}

TEST_CASE("program: another reduction than the contract's") {
  Result<Program> program = Program::compile(ring, {.ranks = 2, .op = Op::max});
  CHECK_OK(program);
  CHECK(program->op() == Op::max);
  CHECK(program->hash() != Program::compile(ring, {.ranks = 2})->hash());
  test::onRanks(2, [&](Communicator &rank) {
    float in = float(3 - rank.rank()), out = 0;
    CHECK_OK(rank.launch(*program, &in, &out, 1));
    CHECK(out == 3);
  });
}

TEST_CASE("program: what is wrong is told with its place in the text") {
  std::string broken = ring;
  broken.replace(broken.find("%s = 1 to"), 9, "%s = 0 to");
  Result<Program> program = Program::compile(broken, {.ranks = 4}, "mine.mlir");
  REQUIRE(!program);
  CHECK(program.error().kind == Error::Kind::program);
  CHECK(contains(program.error().message, "mine.mlir:5:7: error: rank 1, x[2] would hold"));
  CHECK(contains(program.error().message, "ccl.reduce %x[%r")); // the line itself

  CHECK(contains(messageOf(Program::compile("ccl.pigeon", {}, "p.mlir").status()),
                 "p.mlir:1:1: error:"));
  CHECK(contains(messageOf(Program::compile("", {}).status()), "algorithm"));
  CHECK(contains(messageOf(Program::compile(std::string(5000, '('), {}, "deep").status()),
                 "deep:1:201: error: brackets are nested more than 200 deep"));
}

TEST_CASE("program: sizes that do not fit") {
  auto refusal = [](const ProgramOptions &options) {
    Result<Program> program = Program::compile(ring, options);
    REQUIRE(!program);
    CHECK(program.error().kind == Error::Kind::argument);
    return program.error().message;
  };
  CHECK(contains(refusal({}), "@ring has the size parameters %n"));
  CHECK(contains(refusal({.sizes = {{"m", 3}}}), "@ring has no size parameter %m"));
  CHECK(contains(refusal({.sizes = {{"n", 3}, {"n", 4}}}), "%n is bound twice"));
  CHECK(contains(refusal({.ranks = 4, .sizes = {{"n", 3}}}), "is written for 3 ranks, not for 4"));
  CHECK(contains(refusal({.ranks = -1}), "-1 ranks"));
  CHECK(contains(refusal({.ranks = 2, .slots = 2000}), "2000 slots"));
  CHECK(contains(refusal({.ranks = 2, .type = DataType(77)}), "no such type"));
}

TEST_CASE("program: files") {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("ccl-frontend-" + std::to_string(std::rand()) + ".mlir"))
                         .string();
  std::ofstream(path) << ring;
  Result<Program> program = Program::compileFile(path, {.ranks = 2});
  CHECK_OK(program);
  std::ofstream(path) << "nothing";
  CHECK(contains(messageOf(Program::compileFile(path).status()), path + ":1:1: error:"));
  std::filesystem::remove(path);
  Result<Program> missing = Program::compileFile(path);
  REQUIRE(!missing);
  CHECK(missing.error().kind == Error::Kind::argument);
  CHECK(contains(missing.error().message, "cannot read '" + path + "'"));
  CHECK(contains(messageOf(Program::compileFile("/dev/zero").status()), "more than"));
}

TEST_CASE("program: known algorithms") {
  std::vector<std::string> names = Program::generators(Collective::allReduce);
  REQUIRE(names.size() > 3);
  CHECK(names.front() == "ring");
  for (const std::string &name : names)
    CHECK_OK(Program::generate(Collective::allReduce, {.ranks = 4, .algorithm = name}));
  CHECK(Program::generators(Collective::custom).empty());

  Result<Program> program = Program::generate(Collective::broadcast, {.ranks = 4, .root = 2});
  CHECK_OK(program);
  CHECK(program->root() == 2);
  CHECK(!program->op());
  CHECK(contains(messageOf(Program::generate(Collective::allReduce, {}).status()),
                 "needs a number of ranks"));
  CHECK(contains(
      messageOf(
          Program::generate(Collective::allReduce, {.ranks = 2, .algorithm = "pigeon"}).status()),
      "nothing called 'pigeon' generates all_reduce; there are: ring"));
  CHECK(contains(
      messageOf(Program::generate(Collective::broadcast, {.ranks = 2, .root = 2}).status()),
      "needs a root in [0, 2), not 2"));
  CHECK(contains(
      messageOf(Program::generate(Collective::permute, {.ranks = 2, .targets = {0, 0}}).status()),
      "rank 0 has two"));
  CHECK(!Program::generate(Collective(50), {.ranks = 2}));
}

TEST_CASE("program: a combination of type and op that does not exist is refused") {
  Result<Program> program =
      Program::generate(Collective::allReduce, {.ranks = 2, .type = DataType::f32, .op = Op::bxor});
  REQUIRE(!program);
  CHECK(program.error().kind == Error::Kind::program);
}

TEST_CASE("program: threads compile at once") {
  std::vector<std::thread> threads;
  std::vector<std::string> hashes(6);
  for (size_t i = 0; i < hashes.size(); ++i)
    threads.emplace_back([&, i] {
      Result<Program> program = Program::compile(ring, {.ranks = int(2 + i % 3)});
      CHECK_OK(program);
      hashes[i] = program->hash();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < 3; ++i)
    CHECK(hashes[i] == hashes[i + 3]);
}
