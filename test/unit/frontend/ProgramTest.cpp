#include "test/unit/Examples.h"
#include "test/unit/frontend/Ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>

using namespace ccl;
using ccl::test::contains;
using ccl::test::messageOf;
using ccl::test::refusal;
using ccl::test::valueOf;

static const std::string ring = test::example("ring_all_reduce.mlir");

TEST_CASE("program: text is compiled for a number of ranks") {
  Program program = valueOf(Program::compile(ring, {.ranks = 3, .type = DataType::f64}));
  CHECK(program.name() == "ring");
  CHECK(program.collective() == Collective::allReduce);
  CHECK(program.ranks() == 3);
  CHECK(program.type() == DataType::f64);
  CHECK(program.op() == Op::sum);
  CHECK(program.hash().size() == 64);
  CHECK(program.remarks() == "");
  std::string algorithm = valueOf(program.text(Program::Stage::algorithm));
  CHECK(contains(algorithm, "ranks(3) chunks(3)"));
  std::string lowered = valueOf(program.text(Program::Stage::program));
  CHECK(contains(lowered, "ccl.transfer"));

  Program named = valueOf(Program::compile(ring, {.sizes = {{"n", 5}}}));
  CHECK(named.ranks() == 5);
  CHECK(named.hash() != program.hash());
}

TEST_CASE("program: another reduction than the contract's") {
  Program program = valueOf(Program::compile(ring, {.ranks = 2, .op = Op::max}));
  CHECK(program.op() == Op::max);
  CHECK(program.hash() != Program::compile(ring, {.ranks = 2})->hash());
  test::onRanks(2, [&](Communicator &rank) {
    float in = float(3 - rank.rank()), out = 0;
    CHECK_OK(rank.launch(program, &in, &out, 1));
    CHECK(out == 3);
  });
}

TEST_CASE("program: what is wrong is told with its place in the text") {
  std::string broken = ring;
  broken.replace(broken.find("%s = 1 to"), 9, "%s = 0 to");
  const std::string message =
      refusal(Program::compile(broken, {.ranks = 4}, "mine.mlir"), Error::Kind::program);
  CHECK(contains(message, "mine.mlir:5:7: error: rank 1, x[2] would hold"));
  CHECK(contains(message, "ccl.reduce %x[%r")); // the line itself

  CHECK(contains(messageOf(Program::compile("ccl.pigeon", {}, "p.mlir")), "p.mlir:1:1: error:"));
  CHECK(contains(messageOf(Program::compile("", {})), "algorithm"));
  CHECK(contains(messageOf(Program::compile(std::string(5000, '('), {}, "deep").status()),
                 "deep:1:201: error: brackets are nested more than 200 deep"));
}

TEST_CASE("program: sizes that do not fit") {
  auto refused = [](const ProgramOptions &options) {
    return refusal(Program::compile(ring, options), Error::Kind::argument);
  };
  CHECK(contains(refused({}), "@ring has the size parameters %n"));
  CHECK(contains(refused({.sizes = {{"m", 3}}}), "@ring has no size parameter %m"));
  CHECK(contains(refused({.sizes = {{"n", 3}, {"n", 4}}}), "%n is bound twice"));
  CHECK(contains(refused({.ranks = 4, .sizes = {{"n", 3}}}), "is written for 3 ranks, not for 4"));
  CHECK(contains(refused({.ranks = -1}), "-1 ranks"));
  CHECK(contains(refused({.ranks = 2, .slots = 2000}), "2000 slots"));
  CHECK(contains(refused({.ranks = 2, .type = DataType(77)}), "no such type"));
}

TEST_CASE("program: files") {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("ccl-frontend-" + std::to_string(std::rand()) + ".mlir"))
                         .string();
  std::ofstream(path) << ring;
  CHECK_OK(Program::compileFile(path, {.ranks = 2}));
  std::ofstream(path) << "nothing";
  CHECK(contains(messageOf(Program::compileFile(path)), path + ":1:1: error:"));
  std::filesystem::remove(path);
  CHECK(contains(refusal(Program::compileFile(path), Error::Kind::argument),
                 "cannot read '" + path + "'"));
  CHECK(contains(messageOf(Program::compileFile("/dev/zero")), "more than"));
}

TEST_CASE("program: known algorithms") {
  std::vector<std::string> names = Program::generators(Collective::allReduce);
  REQUIRE(names.size() > 3);
  CHECK(names.front() == "ring");
  for (const std::string &name : names)
    CHECK_OK(Program::generate(Collective::allReduce, {.ranks = 4, .algorithm = name}));
  CHECK(Program::generators(Collective::custom).empty());

  Program program = valueOf(Program::generate(Collective::broadcast, {.ranks = 4, .root = 2}));
  CHECK(program.root() == 2);
  CHECK(!program.op());
  CHECK(
      contains(messageOf(Program::generate(Collective::allReduce, {})), "needs a number of ranks"));
  CHECK(contains(
      messageOf(Program::generate(Collective::allReduce, {.ranks = 2, .algorithm = "pigeon"})),
      "nothing called 'pigeon' generates all_reduce; there are: ring"));
  CHECK(contains(messageOf(Program::generate(Collective::broadcast, {.ranks = 2, .root = 2})),
                 "needs a root in [0, 2), not 2"));
  CHECK(contains(messageOf(Program::generate(Collective::permute, {.ranks = 2, .targets = {0, 0}})),
                 "rank 0 has two"));
  CHECK(!Program::generate(Collective(50), {.ranks = 2}));
}

TEST_CASE("program: a combination of type and op that does not exist is refused") {
  refusal(
      Program::generate(Collective::allReduce, {.ranks = 2, .type = DataType::f32, .op = Op::bxor}),
      Error::Kind::program);
}

TEST_CASE("program: threads compile at once") {
  std::vector<std::thread> threads;
  std::vector<std::string> hashes(6);
  for (size_t i = 0; i < hashes.size(); ++i)
    threads.emplace_back([&, i] {
      Program program = valueOf(Program::compile(ring, {.ranks = int(2 + i % 3)}));
      hashes[i] = program.hash();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < 3; ++i)
    CHECK(hashes[i] == hashes[i + 3]);
}

//===----------------------------------------------------------------------===//
// Programs of other systems
//===----------------------------------------------------------------------===//

/// An MSCCL XML algorithm in which each of two ranks sends chunk `from` of its input to
/// chunk `to` of the other's output.
static std::string exchangeXml(std::string_view facts, int64_t chunks, int64_t from, int64_t to) {
  std::string text = fmt::format("<algo name=\"exchange\" proto=\"Simple\" nchannels=\"1\" "
                                 "ngpus=\"2\" nchunksperloop=\"{}\" {}>\n",
                                 chunks, facts);
  auto step = [&](int s, const char *type) {
    text += fmt::format("<step s=\"{}\" type=\"{}\" srcbuf=\"i\" srcoff=\"{}\" dstbuf=\"o\" "
                        "dstoff=\"{}\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n",
                        s, type, from, to);
  };
  for (int gpu : {0, 1}) {
    text += fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"0\">\n"
                        "<tb id=\"0\" send=\"{}\" recv=\"{}\" chan=\"0\">\n",
                        gpu, chunks, chunks, 1 - gpu, 1 - gpu);
    step(0, "s");
    step(1, "r");
    text += "</tb></gpu>\n";
  }
  return text + "</algo>\n";
}

TEST_CASE("program: an MSCCL XML algorithm is proved and run") {
  // Half of an all-to-all: what a rank keeps is missing.
  std::string half = exchangeXml("coll=\"alltoall\" inplace=\"0\"", 2, 0, 0);
  std::string message = refusal(Program::compile(half, {}, "half.xml"), Error::Kind::program);
  CHECK(contains(message, "half.xml:"));
  CHECK(contains(message, "error: "));

  Program program = valueOf(Program::compile(exchangeXml("coll=\"custom\" inplace=\"0\"", 1, 0, 0),
                                             {.type = DataType::i32}));
  CHECK(program.ranks() == 2);
  CHECK(program.collective() == Collective::custom);
  test::onRanks(2, [&](Communicator &rank) {
    std::vector<int32_t> in(77, 5 + rank.rank()), out(77);
    CHECK_OK(rank.launch(program, in.data(), out.data(), 77));
    CHECK(out == std::vector<int32_t>(77, 6 - rank.rank()));
  });

  CHECK(contains(messageOf(Program::compile("<algo", {}, "cut.xml")), "cut.xml:1:"));
  CHECK(contains(messageOf(Program::compile("{\"name\": 3", {}, "cut.json")), "cut.json:1:"));
}

TEST_CASE("program: offsets beyond 4 GiB") {
  // 32 bits hold no offset of this chunk, in elements or bytes.
  constexpr int64_t count = int64_t(1) << 20, chunk = 5120;
  Program program = valueOf(
      Program::compile(exchangeXml("coll=\"custom\" inplace=\"0\"", chunk + 1, chunk, chunk),
                       {.type = DataType::i8}));
  test::onRanks(2, [&](Communicator &rank) {
    // Pages take memory when they are touched, which is those of one chunk.
    auto map = [&] {
      void *memory = mmap(nullptr, size_t((chunk + 1) * count), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      REQUIRE(memory != MAP_FAILED);
      return static_cast<int8_t *>(memory);
    };
    int8_t *in = map(), *out = map();
    std::fill_n(in + chunk * count, count, int8_t(7 + rank.rank()));
    CHECK_OK(rank.launch(program, in, out, count));
    CHECK(std::all_of(out + chunk * count, out + (chunk + 1) * count,
                      [&](int8_t value) { return value == 8 - rank.rank(); }));
    munmap(in, size_t((chunk + 1) * count));
    munmap(out, size_t((chunk + 1) * count));
  });
}
