//===- CompileTest.cpp - From choreography to plan --------------------------===//
#include "codegen/Count.h"
#include "test/unit/Examples.h"
#include "test/unit/codegen/Folder.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace ccl::test {
namespace {

const std::string ring = example("ring_all_reduce.mlir");

struct Result {
  Result(const std::string &text, const CompileOptions &options) {
    module = source.parse(text);
    auto compiled = compile(module, options, stats);
    ok = mlir::succeeded(compiled);
    if (ok)
      plan = std::move(*compiled);
  }
  bool says(const std::string &part) const {
    return source.diagnostics.find(part) != std::string::npos;
  }
  Ir source;
  mlir::ModuleOp module;
  CompileStats stats;
  Plan plan;
  bool ok = false;
};

CompileOptions ranks(int64_t n, ElementType type = ElementType::I32) {
  CompileOptions options;
  options.lowering.sizes["n"] = n;
  options.type = type;
  return options;
}

/// How many results of an all-reduce of `count` elements are wrong.
int64_t countWrong(Plan plan, int64_t count, bool inPlace) {
  Compiled program(std::move(plan));
  const int64_t n = program.plan.ranks(), chunks = program.plan.contract.chunks;
  const int64_t stride = model::longestChunk(count, chunks);
  World world(program, stride * program.plan.maxCount + 1);
  std::vector<std::vector<int32_t>> in, out;
  std::vector<std::vector<std::vector<int32_t>>> scratch(static_cast<size_t>(n));
  std::vector<std::vector<void *>> buffers;
  for (int64_t rank = 0; rank < n; ++rank) {
    in.emplace_back();
    for (int64_t i = 0; i < count; ++i)
      in.back().push_back(int32_t(rank * 1000 + i));
    out.emplace_back(count, -1);
  }
  for (size_t rank = 0; rank < size_t(n); ++rank) {
    buffers.emplace_back();
    for (const BufferPlan &buffer : program.plan.buffers) {
      scratch[rank].emplace_back(size_t(buffer.chunks * stride));
      buffers[rank].push_back(buffer.role == model::Role::Scratch ? scratch[rank].back().data()
                              : buffer.role == model::Role::In || inPlace ? in[rank].data()
                                                                          : out[rank].data());
    }
  }
  int64_t wrong = 0;
  for (int32_t code : world.launch(count, 1, stride, buffers))
    wrong += code != 0;
  for (const auto &row : inPlace ? in : out)
    for (int64_t i = 0; i < count; ++i)
      wrong += row[size_t(i)] != n * (n - 1) / 2 * 1000 + n * i;
  return wrong;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("a ring is proved, lowered, compiled and right") {
  for (int64_t n : {2, 3, 4, 7}) {
    CAPTURE(n);
    Result result(ring, ranks(n));
    CAPTURE(result.source.diagnostics);
    REQUIRE(result.ok);
    CHECK(result.plan.program == "ring");
    CHECK(result.plan.ranks() == n);
    CHECK(result.plan.disjointProved);
    CHECK(result.plan.inPlaceProved);
    CHECK_FALSE(result.plan.divisible);
    CHECK(result.plan.minSlots >= 1);
    CHECK(result.plan.hash.size() == 64);
    CHECK(result.stats.moves == uint64_t(2 * n * (n - 1)));
    CHECK(result.stats.instructions > 0);
    CHECK(result.stats.unproved == "");
    CHECK(result.stats.algorithmOps > 0);
    CHECK(result.stats.programOps > 0);
    for (int64_t count : {1, 17, 1000})
      for (bool inPlace : {false, true})
        CHECK(countWrong(result.plan, count, inPlace) == 0);
  }
}

TEST_CASE("a wrong algorithm is refuted before anything is lowered") {
  std::string wrong = replaced(ring, "affine.for %s = 1 to %n", "affine.for %s = 2 to %n");
  Result result(wrong, ranks(4));
  CHECK_FALSE(result.ok);
  CHECK(result.says("error: "));
  CHECK(result.says("rank"));
  CHECK(result.stats.lowerMs == 0);

  CompileOptions vouched = ranks(4);
  vouched.prove = false;
  Result anyway(wrong, vouched);
  CHECK(anyway.ok);
  CHECK(anyway.plan.disjointProved);
  CHECK_FALSE(anyway.plan.inPlaceProved);
  CHECK(anyway.plan.divisible);
  CHECK(anyway.stats.unproved != "");
}

TEST_CASE("unbound sizes and unknown algorithms are errors") {
  CHECK_FALSE(Result(ring, CompileOptions()).ok);
  CompileOptions other = ranks(4);
  other.algorithm = "tree";
  CHECK(Result(ring, other).says("there is no algorithm @tree"));
}

TEST_CASE("another reduction than the contract's") {
  CompileOptions options = ranks(4);
  options.reduction = model::Reduction::Max;
  Result result(ring, options);
  REQUIRE(result.ok);
  CHECK(result.plan.contract.reduction == model::Reduction::Max);
  CHECK(result.plan.hash != Result(ring, ranks(4)).plan.hash);

  CHECK(result.plan.finish == "");

  options.reduction = model::Reduction::Avg;
  Result average(ring, options);
  REQUIRE(average.ok);
  CHECK(average.plan.finish == "finish_avg");

  options.type = ElementType::BF16;
  options.reduction = model::Reduction::Band;
  Result refused(ring, options);
  CHECK_FALSE(refused.ok);
  CHECK(refused.says("'band' of 'bfloat16'"));
}

TEST_CASE("an average from the cache is divided, too") {
  Folder folder;
  CompileOptions options = ranks(3);
  options.reduction = model::Reduction::Avg;
  options.cacheDir = (folder.path / "cache").string();
  Result first(ring, options), second(ring, options);
  CHECK_FALSE(first.stats.fromCache);
  CHECK(second.stats.fromCache);
  int32_t numbers[] = {7, -7};
  Linked(second.plan.object).get<FinishFunction>(second.plan.finish)(numbers, numbers, 2, 3);
  CHECK(numbers[0] == 2);
  CHECK(numbers[1] == -2);
}

/// A lowered algorithm of two agents a rank, which send and receive chunk F first.
static const std::string exchange = R"(
    ccl.algorithm @exchange implements #ccl.contract<permute, to = [1, 0]> lowered {
      %in = ccl.buffer in ranks(2) chunks(2)
      %out = ccl.buffer out ranks(2) chunks(2)
    }
    ccl.program @exchange.p(%me) of @exchange ranks(0 to 2) {
      %in = ccl.buffer in chunks(2)
      %out = ccl.buffer out chunks(2)
      %to = ccl.channel to 1 - %me slots 1
      %from = ccl.channel from 1 - %me slots 1
      ccl.block 0 {
        ccl.transfer from %from to %out[F]
        ccl.transfer from %from to %out[1 - F]
      }
      ccl.block 1 {
        ccl.transfer from %in[F] to %to
        ccl.transfer from %in[1 - F] to %to
      }
    })";

static std::string exchangeFrom(int first) {
  std::string text = exchange;
  for (size_t at; (at = text.find("F")) != std::string::npos;)
    text.replace(at, 1, std::to_string(first));
  return text;
}

TEST_CASE("a lowered algorithm is proved as it is, and shares code with its like") {
  Folder folder;
  CompileOptions options;
  options.type = ElementType::I32;
  options.cacheDir = (folder.path / "cache").string();
  Result first(exchangeFrom(0), options);
  CAPTURE(first.source.diagnostics);
  REQUIRE(first.ok);
  CHECK(first.plan.disjointProved);
  CHECK_FALSE(first.plan.inPlaceProved); // both blocks would use one place
  CHECK(first.plan.minSlots == 1);
  CHECK(first.stats.moves == 0);
  CHECK(first.stats.instructions == 8);
  CHECK_FALSE(first.stats.fromCache);
  CHECK(first.plan.kernels[0].agents.size() == 2);

  Result second(exchangeFrom(1), options);
  REQUIRE(second.ok);
  CHECK(second.stats.fromCache);
  CHECK(second.plan.object == first.plan.object);
  CHECK(second.plan.hash != first.plan.hash);
  options.type = ElementType::F32;
  CHECK_FALSE(Result(exchangeFrom(1), options).stats.fromCache);

  // Chunk 0 is sent twice, chunk 1 never.
  Result wrong(replaced(exchangeFrom(0), "%in[1 - 0]", "%in[0]"), options);
  CHECK_FALSE(wrong.ok);
  CHECK(wrong.says("holds {1.0}, wants {1.1}"));
}

TEST_CASE("one rank only") {
  CompileOptions options = ranks(64);
  options.lowering.rank = 5;
  Result result(ring, options);
  REQUIRE(result.ok);
  REQUIRE(result.plan.kernels.size() == 1);
  CHECK(result.plan.kernels[0].ranks.size() == 1);
  CHECK(result.stats.instructions == 0); // says nothing about the others
}

TEST_CASE("counting does not expand") {
  Result small(ring, ranks(5));
  REQUIRE(small.ok);
  CHECK(countMoves(small.source.algorithm(), 1000) == 40);
  CHECK(countMoves(small.source.algorithm(), 40) == 40);
  CHECK(countMoves(small.source.algorithm(), 7) == 7);
  CHECK(countInstructions(small.source.algorithm(), 1000) == small.stats.instructions);
}

TEST_CASE("stages are dumped, and replaced by edited ones") {
  Folder folder;
  CompileOptions options = ranks(4);
  options.dumpDir = (folder.path / "dump").string();
  options.cacheDir = (folder.path / "cache").string();
  Result first(ring, options);
  REQUIRE(first.ok);
  fs::path dumped = folder.path / "dump" / "ring";
  std::string algorithm = contentOf(dumped / "algorithm.mlir");
  std::string program = contentOf(dumped / "program.mlir");
  CHECK(algorithm.find("ccl.algorithm @ring") != std::string::npos);
  CHECK(algorithm.find("ccl.program") == std::string::npos);
  CHECK(program.find("ccl.program") != std::string::npos);
  CHECK(contentOf(dumped / "kernel.ll").find("define i32 @kernel0_") != std::string::npos);

  // Cached code does not keep the stages from being written.
  fs::remove_all(dumped);
  REQUIRE(Result(ring, options).ok);
  CHECK(fs::exists(dumped / "kernel.ll"));

  // As they are, the dumps change nothing.
  options = ranks(4);
  options.overrideDir = (folder.path / "dump").string();
  Result same(ring, options);
  CAPTURE(same.source.diagnostics);
  REQUIRE(same.ok);
  CHECK(same.plan.hash == first.plan.hash);
  CHECK(countWrong(same.plan, 100, false) == 0);

  // A wrong one is proved again.
  options.overrideDir = (folder.path / "other").string();
  fs::path other = folder.path / "other";
  write(other / "ring" / "algorithm.mlir", replaced(algorithm, "= 1 to 4", "= 2 to 4"));
  CHECK_FALSE(Result(ring, options).ok);
  fs::remove_all(other);
  size_t last = program.rfind("ccl.transfer");
  write(other / "program.mlir", program.substr(0, last) + program.substr(program.find('\n', last)));
  Result broken(ring, options);
  CHECK_FALSE(broken.ok);
  CHECK(broken.says("error: "));
  write(other / "program.mlir", "ccl.program");
  CHECK_FALSE(Result(ring, options).ok);

  // What replaces nothing is no surprise.
  fs::remove_all(other);
  Result absent(ring, options);
  CHECK(absent.ok);
  CHECK(absent.says("warning: nothing is replaced: CCL_OVERRIDE_DIR="));
  write(other / "ring" / "program.mlir", program);
  CHECK_FALSE(Result(ring, options).says("warning"));
  write(other / "ring" / "kernel.ll", "no code");
  Result code(ring, options);
  CHECK(code.ok);
  CHECK(
      code.says("kernel.ll is not read: what replaces a stage is algorithm.mlir or program.mlir"));
}

TEST_CASE("a dump folder that cannot be written is warned of") {
  Folder folder;
  write(folder.path / "file", "");
  CompileOptions options = ranks(2);
  options.dumpDir = (folder.path / "file").string();
  Result result(ring, options);
  CHECK(result.ok);
  CHECK(result.says("warning: cannot dump to"));
}

} // namespace ccl::test
