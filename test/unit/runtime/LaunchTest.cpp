//===- LaunchTest.cpp - Forms, cuts and stand-ins, without threads ----------===//
#include "runtime/Launch.h"
#include "runtime/Agreement.h"
#include "runtime/RankMemory.h"
#include "test/unit/runtime/Programs.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace ccl;
using model::Collective;
using model::Role;

namespace {

Plan planOf(Collective collective, int64_t ranks, int64_t chunks) {
  Plan plan;
  plan.program = "p";
  plan.hash = "h";
  plan.contract.collective = collective;
  plan.contract.ranks = ranks;
  plan.contract.chunks = chunks;
  plan.type = ElementType::I32;
  plan.buffers = {{"in", Role::In, plan.contract.inChunks()},
                  {"out", Role::Out, plan.contract.outChunks()}};
  plan.inPlaceProved = true;
  return plan;
}

void useSlots(Plan &plan) {
  KernelPlan kernel;
  kernel.ranks = {{0, plan.ranks()}};
  kernel.channels = {{true, 0, 2}};
  plan.kernels = {kernel};
}

llvm::Expected<Cut> cutOf(const Plan &plan, int64_t count, int64_t slotBytes) {
  return chooseCut(plan, llvm::cantFail(findFacts(plan, 0)), count, slotBytes, 0);
}

struct Case {
  RankFacts facts;
  LaunchShape shape;
};
llvm::Expected<Case> analyse(const Plan &plan, int64_t rank, const void *in, void *out,
                             int64_t count) {
  auto facts = findFacts(plan, rank);
  if (!facts)
    return facts.takeError();
  LaunchArgs args;
  args.in = in;
  args.out = out;
  args.count = count;
  auto shape = findShape(plan, *facts, rank, args, 1024);
  if (!shape)
    return shape.takeError();
  return Case{*facts, *shape};
}
std::string formOf(const Plan &plan, int64_t rank, const void *in, void *out, int64_t count) {
  auto result = analyse(plan, rank, in, out, count);
  return result ? std::string(name(result->shape.form))
                : "refused: " + llvm::toString(result.takeError());
}

} // namespace

TEST_CASE("in place is exactly the place that the contract names") {
  std::vector<int32_t> memory(1000);
  int32_t *m = memory.data() + 500;
  const int64_t n = 10;
  for (Collective c : {Collective::AllReduce, Collective::AllToAll}) {
    const Plan plan = planOf(c, 4, 2);
    CHECK(formOf(plan, 2, m, m, n) == "in place");
    CHECK(formOf(plan, 2, m, m + 400, n) == "out of place");
    CHECK(formOf(plan, 2, m, m + 1, n).starts_with("refused"));
    CHECK(formOf(plan, 2, m, m - 1, n).starts_with("refused"));
  }
  const Plan gather = planOf(Collective::AllGather, 4, 2);
  CHECK(formOf(gather, 2, m + 20, m, n) == "in place");
  CHECK(formOf(gather, 2, m, m, n).starts_with("refused"));
  CHECK(formOf(gather, 2, m + 40, m, n) == "out of place");
  CHECK(formOf(gather, 2, m - 10, m, n) == "out of place");
  const Plan scatter = planOf(Collective::ReduceScatter, 4, 2);
  CHECK(formOf(scatter, 3, m, m + 30, n) == "in place");
  CHECK(formOf(scatter, 3, m, m + 20, n).starts_with("refused"));
  CHECK(formOf(scatter, 3, m, m + 40, n) == "out of place");

  // Only the root has both buffers.
  Plan rooted = planOf(Collective::Gather, 4, 2);
  rooted.contract.root = 1;
  CHECK(formOf(rooted, 1, m + 10, m, n) == "in place");
  CHECK(formOf(rooted, 1, m, m, n).starts_with("refused"));
  CHECK(formOf(rooted, 0, m, m, n) == "either");
  CHECK(formOf(rooted, 0, m, nullptr, n) == "either");
  CHECK(formOf(rooted, 0, nullptr, nullptr, n).starts_with("refused"));
  rooted = planOf(Collective::Broadcast, 4, 2);
  CHECK(formOf(rooted, 0, m, m, n) == "in place");
  CHECK(formOf(rooted, 1, m, m, n) == "either");
  CHECK(formOf(rooted, 1, nullptr, m, n) == "either");
  CHECK(formOf(rooted, 1, m, nullptr, n).starts_with("refused"));
  // Nothing to look at without elements.
  CHECK(formOf(rooted, 0, nullptr, nullptr, 0) == "either");
}

TEST_CASE("slices fit slots, whatever the count") {
  for (int64_t chunks : {1, 3, 8})
    for (int64_t maxCount : {1, 3, 7})
      for (int64_t slotBytes : {64, 128, 1024, 131072})
        for (int64_t count : {1, 2, 17, 4097, 10556587}) {
          Plan plan = planOf(Collective::AllReduce, 4, chunks);
          useSlots(plan);
          plan.maxCount = maxCount;
          const Cut cut = llvm::cantFail(cutOf(plan, count, slotBytes));
          const int64_t longest = model::longestChunk(count, chunks);
          CAPTURE(count);
          CAPTURE(cut.microBatches);
          CAPTURE(cut.stride);
          CHECK(maxCount * cut.stride * 4 <= slotBytes);
          CHECK(cut.stride * cut.microBatches >= longest);
          CHECK((longest - 1) / cut.microBatches + 1 <= cut.stride);
          // One less would not do, with chunks on cache lines where there is room.
          if (cut.microBatches > 1 && maxCount * 64 <= slotBytes)
            CHECK(maxCount * roundUp((longest - 1) / (cut.microBatches - 1) + 1, int64_t(16)) * 4 >
                  slotBytes);
        }
}

TEST_CASE("cuts without slots and with stages") {
  Plan plan = planOf(Collective::AllReduce, 4, 4);
  Cut cut = llvm::cantFail(cutOf(plan, 1 << 26, 64));
  CHECK(cut.microBatches == 1);
  CHECK(cut.stride == 1 << 24);
  plan.pipelineStages = 3;
  CHECK(llvm::cantFail(cutOf(plan, 1 << 26, 64)).microBatches == 6);
  CHECK(llvm::cantFail(cutOf(plan, 4 * 2048, 64)).microBatches == 2);
  CHECK(llvm::cantFail(cutOf(plan, 4 * 100, 64)).microBatches == 1);
  CHECK(llvm::cantFail(cutOf(plan, 0, 64)).microBatches == 1);
  plan.microBatches = 9; // what the algorithm wants comes before
  CHECK(llvm::cantFail(cutOf(plan, 1 << 26, 64)).microBatches == 9);
  CHECK(llvm::cantFail(cutOf(plan, 4 * 32768, 64)).microBatches == 2); // of 64 KiB
  CHECK(llvm::cantFail(cutOf(plan, 4 * 2048, 64)).microBatches == 1);
  useSlots(plan);
  plan.maxCount = 1000;
  CHECK(llvm::toString(cutOf(plan, 1, 1024).takeError()).find("at least 4000 bytes") !=
        std::string::npos);
}

namespace {

const std::shared_ptr<World> world = createThreadWorld();
WorldMemory heap(*world);

/// What a kernel would see, and what the caller sees after it. The "kernel" writes
/// 1000 + i to all of its `out`.
struct Placed {
  int32_t *in, *out;
};
Placed place(RankMemory &memory, const Plan &plan, const Case &c, const LaunchArgs &args) {
  std::vector<void *> pointers;
  const std::string error = llvm::toString(memory.place(plan, c.facts, c.shape, args, 0, pointers));
  CHECK(error == "");
  return {static_cast<int32_t *>(pointers[0]), static_cast<int32_t *>(pointers[1])};
}

} // namespace

TEST_CASE("padding copies shard by shard") {
  Plan plan = planOf(Collective::AllToAll, 3, 4);
  plan.divisible = true;
  std::vector<int32_t> in(15), out(15, -1);
  for (int i = 0; i < 15; ++i)
    in[size_t(i)] = i;
  LaunchArgs args;
  args.in = in.data();
  args.out = out.data();
  args.count = 5;
  for (bool inPlace : {false, true}) {
    args.out = inPlace ? in.data() : out.data();
    const Case c = llvm::cantFail(analyse(plan, 1, args.in, args.out, 5));
    CHECK(c.shape.runCount == 8);
    RankMemory memory(heap);
    const Placed placed = place(memory, plan, c, args);
    for (int64_t i = 0; i < 24; ++i)
      CHECK(placed.in[i] == (i % 8 < 5 ? i / 8 * 5 + i % 8 : 0));
    for (int32_t i = 0; i < 24; ++i)
      placed.out[i] = 1000 + i;
    llvm::cantFail(memory.finish(plan, c.facts, c.shape, args, nullptr));
    const auto *result = static_cast<const int32_t *>(args.out);
    for (int32_t i = 0; i < 15; ++i)
      CHECK(result[i] == 1000 + i / 5 * 8 + i % 5);
  }
}

TEST_CASE("a program that rests partial results in `out` gets a wide one") {
  Plan plan = planOf(Collective::ReduceScatter, 3, 2);
  plan.buffers[1].chunks = 6;
  std::vector<int32_t> in(12, 7), out(4, -1);
  LaunchArgs args;
  args.in = in.data();
  args.count = 4;
  RankMemory memory(heap);
  // Out of place: a stand-in; the result comes from this rank's shard of it.
  args.out = out.data();
  Case c = llvm::cantFail(analyse(plan, 2, args.in, args.out, 4));
  Placed placed = place(memory, plan, c, args);
  CHECK(placed.in == in.data());
  for (int32_t i = 0; i < 12; ++i)
    placed.out[i] = 1000 + i;
  llvm::cantFail(memory.finish(plan, c.facts, c.shape, args, nullptr));
  CHECK(out == std::vector<int32_t>{1008, 1009, 1010, 1011});
  CHECK(in == std::vector<int32_t>(12, 7));
  // In place: the caller's buffer is that wide.
  args.out = in.data() + 8;
  c = llvm::cantFail(analyse(plan, 2, args.in, args.out, 4));
  placed = place(memory, plan, c, args);
  CHECK(placed.in == in.data());
  CHECK(placed.out == in.data());
  plan.buffers[1].chunks = 5;
  CHECK(llvm::toString(findFacts(plan, 0).takeError()).find("malformed plan") != std::string::npos);
}

TEST_CASE("only what is needed is copied") {
  std::vector<int32_t> in(40, 5), out(40, -1);
  LaunchArgs args;
  args.in = in.data();
  args.out = out.data();
  args.count = 10;
  // All-gather, only in place proved: `out` has room for the input.
  Plan plan = planOf(Collective::AllGather, 4, 1);
  plan.disjointProved = false;
  RankMemory memory(heap);
  Case c = llvm::cantFail(analyse(plan, 2, args.in, args.out, 10));
  Placed placed = place(memory, plan, c, args);
  CHECK(placed.out == out.data());
  CHECK(placed.in == out.data() + 20);
  CHECK(out[20] == 5);
  CHECK(out[19] == -1);
  // Reduce-scatter, only in place proved: it has none.
  plan = planOf(Collective::ReduceScatter, 4, 1);
  plan.disjointProved = false;
  c = llvm::cantFail(analyse(plan, 2, args.in, args.out, 10));
  placed = place(memory, plan, c, args);
  CHECK(placed.in != in.data());
  CHECK(placed.out == placed.in + 20);
  CHECK(placed.in[39] == 5);
  // All-reduce in place, only out of place proved.
  plan = planOf(Collective::AllReduce, 4, 1);
  plan.inPlaceProved = false;
  args.out = in.data();
  c = llvm::cantFail(analyse(plan, 2, args.in, args.out, 10));
  CHECK_FALSE(c.shape.runInPlace);
  placed = place(memory, plan, c, args);
  CHECK(placed.out == in.data());
  CHECK(placed.in != in.data());
  CHECK(placed.in[9] == 5);
}

TEST_CASE("scratch is cut by the stride and starts on cache lines") {
  Plan plan = planOf(Collective::AllReduce, 4, 4);
  plan.buffers.push_back({"t", Role::Scratch, 3});
  plan.buffers.push_back({"u", Role::Scratch, 1});
  std::vector<int32_t> memory(40);
  LaunchArgs args;
  args.in = args.out = memory.data();
  args.count = 39;
  const Case c = llvm::cantFail(analyse(plan, 0, args.in, args.out, 39));
  RankMemory rankMemory(heap);
  std::vector<void *> pointers;
  llvm::cantFail(rankMemory.place(plan, c.facts, c.shape, args, 0, pointers));
  CHECK(c.shape.cut.stride == 16);
  CHECK(reinterpret_cast<uintptr_t>(pointers[2]) % 64 == 0);
  CHECK(static_cast<char *>(pointers[3]) - static_cast<char *>(pointers[2]) == 3 * 16 * 4);
}

TEST_CASE("every instance has scratch of its own") {
  Plan plan = planOf(Collective::AllReduce, 4, 4);
  plan.buffers.push_back({"t", Role::Scratch, 3});
  plan.buffers.push_back({"u", Role::Scratch, 1});
  std::vector<int32_t> memory(40);
  LaunchArgs args;
  args.in = args.out = memory.data();
  args.count = 39;
  Case c = llvm::cantFail(analyse(plan, 0, args.in, args.out, 39));
  c.shape.instances = 3;
  RankMemory rankMemory(heap);
  std::vector<void *> pointers;
  llvm::cantFail(rankMemory.place(plan, c.facts, c.shape, args, 0, pointers));
  CHECK(rankMemory.scratchPitch() == 4 * 16 * 4);
  std::memset(pointers[2], 1, size_t(3 * rankMemory.scratchPitch()));
  std::vector<Block> blocks;
  rankMemory.takeBlocks(blocks);
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].data == pointers[2]);
  CHECK(int64_t(blocks[0].bytes) >= 3 * rankMemory.scratchPitch());
  heap.release(blocks[0]);
}
