//===- KernelTest.cpp - Rank programs as machine code ----------------------===//
#include "test/unit/codegen/Support.h"

#include "llvm/Object/ObjectFile.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <numeric>

namespace ccl::test {
namespace {

const HostOptions sumOfInts{ElementType::I32, model::Reduction::Sum};

/// The ring of docs and design for out-of-place buffers.
std::string ringText(int64_t n) {
  return moduleText("all_reduce, sum", n, n,
                    fmt::format(R"(
    ccl.program @ring.p(%me) of @a ranks(0 to {n}) {{
      %in = ccl.buffer in chunks({n})
      %out = ccl.buffer out chunks({n})
      %next = ccl.channel to (%me + 1) mod {n} slots 2 protocol simple
      %prev = ccl.channel from (%me - 1) mod {n} slots 2 protocol simple
      ccl.block 0 {{
        ccl.transfer from %in[%me] to %next
        affine.for %s = 1 to {last} {{
          ccl.transfer reduce from %prev, %in[(%me - %s) mod {n}] to %next
        }}
        ccl.transfer reduce from %prev, %in[(%me + 1) mod {n}] to %out[(%me + 1) mod {n}], %next
        affine.for %s = 1 to {last} {{
          ccl.transfer from %prev to %out[(%me + 1 - %s) mod {n}], %next
        }}
        ccl.transfer from %prev to %out[(%me + 2) mod {n}]
      }}
    }})",
                                fmt::arg("n", n), fmt::arg("last", n - 1)));
}

/// A row of integers between guards, different for every rank.
struct Row {
  explicit Row(int64_t elements, int32_t first = 0) : memory(size_t(elements) + 2, -7) {
    std::iota(memory.begin() + 1, memory.end() - 1, first);
  }
  void *data() { return memory.data() + 1; }
  int32_t &operator[](int64_t i) { return memory[size_t(i) + 1]; }
  bool intact() const { return memory.front() == -7 && memory.back() == -7; }
  std::vector<int32_t> memory;
};

int64_t longestSlice(int64_t count, int64_t chunks, int64_t microBatches) {
  return (model::longestChunk(count, chunks) + microBatches - 1) / microBatches;
}

/// The error of compiling a program for @a (all_reduce of 2 ranks, 2 chunks).
std::string errorOf(const std::string &program, const HostOptions &options = sumOfInts,
                    const std::string &contract = "all_reduce, sum") {
  try {
    Compiled compiled(moduleText(contract, 2, 2, program), options);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("ring all-reduce: any count, micro-batches, in place, launch after launch") {
  const int64_t n = 4;
  Compiled program(ringText(n), sumOfInts);
  World world(program, 2048);
  for (int64_t count : {0, 1, 2, 17, 4097})
    for (int64_t microBatches : {1, 3})
      for (bool inPlace : {false, true}) {
        CAPTURE(count);
        CAPTURE(microBatches);
        CAPTURE(inPlace);
        std::vector<Row> in, out;
        std::vector<std::vector<void *>> buffers;
        for (int64_t rank = 0; rank < n; ++rank) {
          in.emplace_back(count, int32_t(1000 * rank));
          out.emplace_back(count, -1);
        }
        for (int64_t rank = 0; rank < n; ++rank) {
          auto r = size_t(rank);
          buffers.push_back({in[r].data(), inPlace ? in[r].data() : out[r].data()});
        }
        std::vector<int32_t> codes =
            world.launch(count, microBatches, longestSlice(count, n, microBatches), buffers);
        CHECK(codes == std::vector<int32_t>(size_t(n), 0));
        int64_t wrong = 0;
        for (int64_t rank = 0; rank < n; ++rank) {
          Row &result = inPlace ? in[size_t(rank)] : out[size_t(rank)];
          for (int64_t i = 0; i < count; ++i)
            wrong += result[i] != 6000 + 4 * i;
          CHECK(in[size_t(rank)].intact());
          CHECK(out[size_t(rank)].intact());
          CHECK(world.argsOf(rank).instruction == 4);
          CHECK(world.argsOf(rank).microBatch == microBatches - 1);
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("ring of other sizes and types") {
  for (int64_t n : {2, 3, 7}) {
    Compiled program(ringText(n), {ElementType::F64, model::Reduction::Max});
    World world(program, 64);
    const int64_t count = 50;
    std::vector<std::vector<double>> in, out;
    std::vector<std::vector<void *>> buffers;
    for (int64_t rank = 0; rank < n; ++rank) {
      in.emplace_back();
      for (int64_t i = 0; i < count; ++i)
        in.back().push_back(double((rank * 31 + i * 17) % 101));
      out.emplace_back(count, -1.0);
    }
    for (size_t rank = 0; rank < size_t(n); ++rank)
      buffers.push_back({in[rank].data(), out[rank].data()});
    CHECK(world.launch(count, 1, longestSlice(count, n, 1), buffers) ==
          std::vector<int32_t>(size_t(n), 0));
    for (int64_t i = 0; i < count; ++i) {
      double most = 0;
      for (const auto &row : in)
        most = std::max(most, row[size_t(i)]);
      for (const auto &row : out)
        CHECK(row[size_t(i)] == most);
    }
  }
}

TEST_CASE("several chunks through one slot, scratch, and chunk grids") {
  // Rank 0 sends a row of a 2 x 3 grid; rank 1 keeps it, adds it up and sends it back.
  Compiled program(moduleText("custom, sum, in = 6, out = 6", 2, 6, R"(
    ccl.program @p0 of @a ranks(0) {
      %in = ccl.buffer in chunks(2, 3)
      %out = ccl.buffer out chunks(2, 3)
      %t = ccl.buffer scratch chunks(3)
      %to = ccl.channel to 1 slots 1
      %from = ccl.channel from 1 slots 1
      ccl.block 0 {
        ccl.transfer from %in[1, 0] to %to x 3
        ccl.transfer from %from to %out[0, 1] x 2
      }
    }
    ccl.program @p1 of @a ranks(1) {
      %in = ccl.buffer in chunks(2, 3)
      %out = ccl.buffer out chunks(2, 3)
      %t = ccl.buffer scratch chunks(3)
      %to = ccl.channel to 0 slots 1
      %from = ccl.channel from 0 slots 1
      ccl.block 0 {
        ccl.transfer from %from to %t[0] x 3
        ccl.transfer reduce from %t[1], %in[0, 2] to %t[1]
        ccl.transfer from %t[1] to %to x 2
        ccl.transfer from %t[0] to %out[1, 2]
      }
    })"),
                   sumOfInts);
  CHECK(program.plan.maxCount == 3);
  CHECK(program.plan.kernels.size() == 2);
  CHECK(program.plan.buffers.size() == 3);
  const int64_t chunks = program.plan.contract.chunks;
  World world(program, 1000);
  // Lengths of chunks differ here, so only such counts: this test moves between classes.
  for (int64_t length : {1, 5, 64})
    for (int64_t m : {1, 2}) {
      const int64_t count = length * chunks, row = 6 * length, stride = (length + m - 1) / m;
      std::vector<Row> in, out, scratch;
      for (int r = 0; r < 2; ++r) {
        in.emplace_back(row, 10000 * r);
        out.emplace_back(row);
        scratch.emplace_back(3 * stride);
        for (int64_t i = 0; i < row; ++i)
          out.back()[i] = -1;
      }
      std::vector<std::vector<void *>> buffers;
      for (size_t r = 0; r < 2; ++r)
        buffers.push_back({in[r].data(), out[r].data(), scratch[r].data()});
      CHECK(world.launch(count, m, stride, buffers) == std::vector<int32_t>{0, 0});
      for (int64_t i = 0; i < length; ++i) {
        CHECK(out[0][1 * length + i] == in[0][4 * length + i] + in[1][2 * length + i]);
        CHECK(out[0][2 * length + i] == in[0][5 * length + i]);
        CHECK(out[1][5 * length + i] == in[0][3 * length + i]);
        CHECK(out[0][i] == -1);
      }
      for (const auto *rows : {&in, &out, &scratch})
        for (const Row &r : *rows)
          CHECK(r.intact());
    }
}

TEST_CASE("peers' buffers, signals and waits") {
  // Everybody tells everybody that its input is there, reads all, and waits for readers.
  const int64_t n = 3;
  Compiled program(moduleText("all_reduce, sum", n, 1, R"(
    ccl.program @p(%me) of @a ranks(0 to 3) {
      %in = ccl.buffer in chunks(1)
      %out = ccl.buffer out chunks(1)
      %a = ccl.peer %in at (%me + 1) mod 3
      %b = ccl.peer %in at (%me + 2) mod 3
      ccl.block 0 {
        affine.for %d = 1 to 3 {
          %ready = ccl.channel to (%me + %d) mod 3
          ccl.signal %ready
        }
        affine.for %d = 1 to 3 {
          %ready = ccl.channel from (%me + %d) mod 3
          ccl.wait %ready
        }
        ccl.transfer reduce from %in[0], %a[0], %b[0] to %out[0]
        affine.for %d = 1 to 3 {
          %done = ccl.channel to (%me + %d) mod 3 tag 1
          ccl.signal %done
        }
        affine.for %d = 1 to 3 {
          %done = ccl.channel from (%me + %d) mod 3 tag 1
          ccl.wait %done
        }
      }
    })"),
                   sumOfInts);
  CHECK(program.plan.direct);
  CHECK(program.plan.kernels[0].channels.size() == 4);
  World world(program, 0);
  for (int64_t count : {1, 17, 1000})
    for (int64_t m : {1, 3}) {
      std::vector<Row> in, out;
      for (int r = 0; r < n; ++r) {
        in.emplace_back(count, 100 * r);
        out.emplace_back(count);
      }
      std::vector<std::vector<void *>> buffers;
      for (size_t r = 0; r < size_t(n); ++r)
        buffers.push_back({in[r].data(), out[r].data()});
      CHECK(world.launch(count, m, longestSlice(count, 1, m), buffers) ==
            std::vector<int32_t>(size_t(n), 0));
      for (Row &row : out) {
        for (int64_t i = 0; i < count; ++i)
          CHECK(row[i] == 300 + 3 * i);
        CHECK(row.intact());
      }
      for (int64_t r = 0; r < n; ++r)
        CHECK(world.argsOf(r).instruction == 4);
    }
}

TEST_CASE("bounds of loops: empty, steps, maps with several results, inner bounds") {
  // out[k] = in[visited k]: each visit adds in[0] to out[k].
  Compiled program(moduleText("custom, sum, in = 8, out = 8", 1, 8, R"(
    ccl.program @p(%me) of @a ranks(0) {
      %in = ccl.buffer in chunks(8)
      %out = ccl.buffer out chunks(8)
      ccl.block 0 {
        affine.for %i = 5 to 5 {
          ccl.transfer reduce from %in[0], %out[0] to %out[0]
        }
        affine.for %i = 1 to 8 step 3 {
          ccl.transfer reduce from %in[0], %out[%i] to %out[%i]
        }
        affine.for %i = max affine_map<(d0) -> (d0 + 2, 1)>(%me) to min affine_map<() -> (9, 4)>() {
          affine.for %j = affine_map<(d0) -> (d0)>(%i) to affine_map<(d0) -> (d0 + 1)>(%i) {
            ccl.transfer reduce from %in[0], %out[%j * 2] to %out[%j * 2]
          }
        }
      }
    })"),
                   sumOfInts);
  World world(program, 0);
  Row in(8, 1), out(8);
  for (int64_t i = 0; i < 8; ++i)
    out[i] = 0;
  const int64_t count = program.plan.contract.chunks;
  CHECK(world.launch(count, 1, 1, {{in.data(), out.data()}}) == std::vector<int32_t>{0});
  CHECK(out.memory == std::vector<int32_t>{-7, 0, 1, 0, 0, 2, 0, 1, 1, -7});
}

TEST_CASE("a wait that fails ends the kernel with its code, nothing is published") {
  Compiled program(ringText(4), sumOfInts);
  World world(program, 64);
  int32_t in[8] = {}, out[8] = {};
  void *buffers[] = {in, out};
  std::vector<ChannelEnd *> table;
  for (int64_t family = 0; family < 2; ++family)
    for (int64_t peer = 0; peer < 4; ++peer)
      table.push_back(world.end(1, family, peer));
  static uint64_t seen;
  // Rank 1 alone: what it waits for never comes.
  KernelArgs args;
  args.me = 1;
  args.ranks = 4;
  args.count = 8;
  args.stride = 2;
  args.buffers = buffers;
  args.channels = table.data();
  args.wait = [](KernelArgs *a, ChannelEnd *end, uint64_t value) -> int32_t {
    CHECK(end->to == 0);
    CHECK(end->peer == 0);
    CHECK(a->instruction == 1);
    seen = value;
    return 42;
  };
  ChannelEnd *next = table[2], *prev = table[4];
  REQUIRE(next);
  REQUIRE(prev);
  CHECK(program.kernel(1)(&args) == 42);
  CHECK(seen == 1);
  CHECK(next->next == 1); // the first send
  CHECK(*next->depart == 1);
  CHECK(prev->next == 0);
  CHECK(*prev->depart == 0);

  // A full channel: the `to` end waits until enough slots are freed.
  next->next = 2;
  args.wait = [](KernelArgs *, ChannelEnd *end, uint64_t value) -> int32_t {
    CHECK(end->to == 1);
    seen = value;
    return -3;
  };
  CHECK(program.kernel(1)(&args) == -3);
  CHECK(seen == 1);
}

TEST_CASE("families and peers of a program") {
  Compiled program(ringText(4), sumOfInts);
  const KernelPlan &kernel = program.plan.kernels.at(0);
  CHECK(kernel.ranks == std::vector<std::pair<int64_t, int64_t>>{{0, 4}});
  REQUIRE(kernel.channels.size() == 2);
  CHECK(kernel.channels[0].to);
  CHECK_FALSE(kernel.channels[1].to);
  CHECK(kernel.channels[0].slots == 2);
  CHECK(kernel.peers[0] == std::vector<std::vector<int32_t>>{{1}, {2}, {3}, {0}});
  CHECK(kernel.peers[1] == std::vector<std::vector<int32_t>>{{3}, {0}, {1}, {2}});
  CHECK(program.plan.buffers[0].role == model::Role::In);
  CHECK(program.plan.buffers[1].chunks == 4);
}

TEST_CASE("peers: loops that matter, rank sets with gaps, ends without a use") {
  Ir source;
  source.parse(moduleText("all_reduce, sum", 4096, 1, R"(
    ccl.program @p(%me) of @a ranks(0 to 3, 10, 4095) {
      %unused = ccl.channel to 5000
      ccl.block 0 {
        affine.for %i = 0 to 1000000000000 {
          affine.for %j = 1 to 4 {
            %c = ccl.channel to (%me + %j * 2) mod 4096
            ccl.signal %c
          }
          %d = ccl.channel from (%me + 1) mod 4096 tag 3
          ccl.wait %d
        }
        affine.for %i = affine_map<(d0) -> (d0)>(%me) to 2 {
          %c = ccl.channel to 9
          ccl.signal %c
        }
      }
    })"));
  auto contract = getModelContract(source.algorithm());
  REQUIRE(mlir::succeeded(contract));
  Plan plan;
  REQUIRE(mlir::succeeded(planHost(source.algorithm(), *contract, sumOfInts, plan)));
  const KernelPlan &kernel = plan.kernels.at(0);
  REQUIRE(kernel.channels.size() == 2);
  CHECK(kernel.peers[0] == std::vector<std::vector<int32_t>>{
                               {2, 4, 6, 9}, {3, 5, 7, 9}, {4, 6, 8}, {12, 14, 16}, {1, 3, 5}});
  CHECK(kernel.peers[1] == std::vector<std::vector<int32_t>>{{1}, {2}, {3}, {11}, {0}});
  CHECK(kernel.channels[1].tag == 3);
}

TEST_CASE("one rank's program only") {
  std::string text = moduleText("broadcast", 2, 1, R"(
    ccl.program @root of @a ranks(0) {
      %in = ccl.buffer in chunks(1)
      %out = ccl.buffer out chunks(1)
      %c = ccl.channel to 1 slots 1
      ccl.block 0 { ccl.transfer from %in[0] to %c, %out[0] }
    }
    ccl.program @leaf of @a ranks(1) {
      %in = ccl.buffer in chunks(1)
      %out = ccl.buffer out chunks(1)
      %c = ccl.channel from 0 slots 1
      ccl.block 0 { ccl.transfer from %c to %out[0] }
    })");
  Compiled both(text, {ElementType::BF16});
  CHECK(both.plan.kernels.size() == 2);
  Compiled leaf(text, {ElementType::BF16, model::Reduction::None, "", 1});
  REQUIRE(leaf.plan.kernels.size() == 1);
  CHECK(leaf.plan.kernels[0].ranks.front().first == 1);
  CHECK(contains(leaf.ir, "leaf"));
  CHECK_FALSE(contains(leaf.ir, "root"));

  World world(both, 100);
  std::vector<uint16_t> in(100, 3), out0(100), out1(100);
  CHECK(world.launch(100, 1, 100, {{in.data(), out0.data()}, {nullptr, out1.data()}}) ==
        std::vector<int32_t>{0, 0});
  CHECK(out0 == in);
  CHECK(out1 == in);
}

TEST_CASE("several agents, or very many instructions, become tables") {
  const std::string head =
      "ccl.program @p(%me) of @a ranks(0 to 2) {\n"
      "%in = ccl.buffer in chunks(2)\n%out = ccl.buffer out chunks(2)\n"
      "%c = ccl.channel to 1 - %me tag 3\n%d = ccl.channel from 1 - %me tag 3\n"
      "%p = ccl.peer %in at %me + ";
  const std::string two = "0\nccl.block 4 { ccl.signal %c }\nccl.proxy 1 {\nccl.wait %d\n"
                          "affine.for %i = 0 to 2 { ccl.transfer from %p[%i] to %out[%i] }\n}\n}";
  auto compile = [](const std::string &program) {
    return Compiled(moduleText("all_reduce, sum", 2, 2, program), sumOfInts).plan;
  };
  const Plan plan = compile(head + two);
  const KernelPlan &kernel = plan.kernels.front();
  CHECK(kernel.symbol.empty());
  REQUIRE(kernel.agents.size() == 2);
  REQUIRE(kernel.channels.size() == 2);
  CHECK(kernel.channels[0].tag == 3);
  CHECK(kernel.peers[0] == std::vector<std::vector<int32_t>>{{1}, {0}});
  const RankAgents &one = kernel.agents[1];
  REQUIRE(one.agents.size() == 2);
  CHECK(one.agents[1].number() == 3);
  CHECK(one.agents[1].begin == 1);
  CHECK(one.agents[1].end == 4);
  REQUIRE(one.instructions.size() == 4);
  CHECK(one.instructions[0].pattern == AgentInstruction::signal);
  CHECK(one.instructions[1].pattern == AgentInstruction::wait);
  CHECK(one.operands[one.instructions[1].operands].chunk == 2); // from rank 0: family 1 of 2 ranks
  const AgentOperand &source = one.operands[one.instructions[3].operands];
  CHECK(source.peer == 1);
  CHECK(source.chunk == 1);
  REQUIRE(plan.transfers.size() == 1);
  CHECK(plan.transfers[0].symbol == "transfer_1_1");

  CHECK(
      contains(errorOf(head + "1" + two.substr(1)), "reaches rank 2, but there are ranks 0 to 1"));
  std::string far = head + two;
  far.replace(far.find("0 to 2 { ccl.t"), 6, "0 to 3");
  CHECK(contains(errorOf(far), "touches chunk 2 of in, which has chunks 0 to 1"));
  std::string alone = head + two;
  alone.replace(alone.find("to 1 - %me"), 10, "to 2 + %me");
  CHECK(contains(errorOf(alone), "a channel reaches rank 2, but there are ranks 0 to 1"));

  std::string loop = "0\nccl.block 0 { affine.for %i = 0 to 2 {\n";
  for (int i = 0; i < 300; ++i)
    loop += "ccl.transfer from %in[%i] to %out[%i]\n";
  CHECK(compile(head + loop + "} } }").kernels[0].agents.size() == 2);
  // One instruction that is executed often enough is better compiled.
  CHECK(compile(head + "0\nccl.block 0 { affine.for %i = 0 to 1000000 {\n"
                       "ccl.transfer from %in[0] to %out[0] } } }")
            .kernels[0]
            .agents.empty());
}

TEST_CASE("what has no code is refused where it stands") {
  std::string buffers = "%in = ccl.buffer in chunks(2)\n%out = ccl.buffer out chunks(2)\n";
  auto program = [&](const std::string &body) {
    return "ccl.program @p(%me) of @a ranks(0 to 2) {\n" + buffers + body + "}";
  };
  CHECK(contains(errorOf("ccl.program @p of @a ranks(0) { %x = ccl.buffer inout chunks(2) }"),
                 "lowering splits"));
  CHECK(contains(errorOf(program("%c = ccl.channel to %me + 1\nccl.block 0 { ccl.signal %c }\n")),
                 "reaches rank 2 from rank 1"));

  std::string sources = "%in[0]";
  for (int i = 0; i < 512; ++i)
    sources += ", %in[1]";
  CHECK(contains(
      errorOf(program("ccl.block 0 { ccl.transfer reduce from " + sources + " to %out[0] }\n")),
      "has 514 operands; there is code for up to 512"));

  for (const char *more : {"", "ccl.block 1 {}\n"}) { // as code, and as tables
    auto transfer = [&](const std::string &from) {
      return program("ccl.block 0 { ccl.transfer " + from + " to %out[0] }\n" + more);
    };
    const std::string two = transfer("reduce from %in[0], %out[0]");
    CHECK(errorOf(two) == "");
    CHECK(contains(errorOf(two, {ElementType::F16, model::Reduction::Bxor}),
                   "'bxor' of 'half' elements"));
    CHECK(errorOf(two, {ElementType::F32, model::Reduction::Avg}) == "");
    CHECK(contains(errorOf(two, {ElementType::F32, model::Reduction::Avg}, "custom, avg"),
                   "rows of a custom contract do not say what to divide by"));
    CHECK(contains(errorOf(two, {ElementType::F32, model::Reduction::None}), "no reduction"));
    CHECK(errorOf(transfer("from %in[0]"), {ElementType::F32, model::Reduction::None}) == "");
  }
  CHECK(contains(errorOf(program("") + "ccl.program @q of @a ranks(0) {\n"
                                       "%out = ccl.buffer out chunks(2) }"),
                 "differs from the buffer in this position"));
}

TEST_CASE("code that calls nothing in the process but memcpy") {
  if (std::string(CCL_SANITIZE) != "")
    return;
  for (ElementType type :
       {ElementType::I8, ElementType::U32, ElementType::I64, ElementType::F16, ElementType::BF16,
        ElementType::F32, ElementType::F64, ElementType::F8E4M3, ElementType::F8E5M2})
    for (model::Reduction reduction :
         {model::Reduction::Avg, model::Reduction::Prod, model::Reduction::Min}) {
      CAPTURE(std::string(name(type)));
      Compiled program(ringText(4), {type, reduction});
      auto object = llvm::object::ObjectFile::createObjectFile(
          llvm::MemoryBufferRef(program.plan.object, "code"));
      REQUIRE(bool(object));
      std::vector<std::string> called, defined;
      for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
        uint32_t flags = llvm::cantFail(symbol.getFlags());
        std::string name = llvm::cantFail(symbol.getName()).str();
        if (flags & llvm::object::SymbolRef::SF_Undefined)
          called.push_back(name);
        else if (flags & llvm::object::SymbolRef::SF_Global)
          defined.push_back(name);
      }
      std::erase(called, "");
      std::erase(called, "memcpy");
      CHECK(called == std::vector<std::string>());
      const bool averages = reduction == model::Reduction::Avg;
      CHECK(program.plan.finish == (averages ? "finish_avg" : ""));
      CHECK(defined.size() == (averages ? 2 : 1));
    }
}

} // namespace ccl::test
