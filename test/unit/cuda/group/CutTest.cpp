//===- CutTest.cpp - Cuts, slots and blocks of counters, without a GPU ----------------===//
#include "runtime/cuda/GpuChannels.h"
#include "runtime/cuda/GpuCut.h"
#include "runtime/cuda/SyncBlock.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <set>

using namespace ccl;
using namespace ccl::cuda;

TEST_CASE("slices fit their slots, start where lines do, and make whole rounds of instances") {
  Plan plan;
  plan.program = "p";
  plan.contract.collective = model::Collective::AllReduce;
  plan.contract.ranks = 4;
  plan.contract.chunks = 4;
  KernelPlan kernel;
  kernel.ranks = {{0, 4}};
  RankFacts facts;
  facts.usesSlots = true;
  for (const int32_t protocol : {0, 1, 2})
    for (const int64_t maxCount : {1, 3, 8})
      for (const ElementType type : {ElementType::I8, ElementType::F16, ElementType::F64})
        for (const int64_t count : {1, 1000, 12345678})
          for (const int64_t instances : {0, 1, 16}) {
            kernel.channels = {{true, 0, 2, protocol}};
            plan.kernels = {kernel};
            plan.maxCount = maxCount;
            plan.type = type;
            GpuCutRules rules{128 << 10, 5, instances, 24};
            const GpuCut cut = llvm::cantFail(chooseGpuCut(plan, facts, count, rules));
            const int64_t m = cut.cut.microBatches, bytes = cut.cut.stride * sizeOf(type);
            CHECK(m >= 5);
            CHECK(m == int64_t(1) << cut.batchShift);
            CHECK(m % cut.instances == 0);
            CHECK(cut.instances <= (instances ? instances : 16)); // a power of two within 24
            CHECK(cut.cut.stride * m >= model::longestChunk(count, 4));
            CHECK(maxCount * bytes <= rules.slotBytes);
            if (maxCount > 1)
              CHECK(bytes % (protocol == 2 ? 240 : 16) == 0);
            // As `locate` of ccl.cuh places them; each ends before the next one, and the last one
            // with its slot.
            const int64_t unit = protocol == 0   ? 1
                                 : protocol == 1 ? 8
                                                 : 120,
                          wire = protocol == 0   ? 1
                                 : protocol == 1 ? 16
                                                 : 128;
            auto start = [&](int64_t j) { return (j * bytes + unit - 1) / unit * wire; };
            for (int64_t j = 0; j < maxCount; ++j) {
              const int64_t end = start(j) + start(1);
              CHECK(end <=
                    (j + 1 < maxCount ? start(j + 1) : slotPitch(protocol, rules.slotBytes)));
            }
          }
  plan.maxCount = 1000;
  plan.kernels[0].channels[0].protocol = 2;
  CHECK(llvm::toString(chooseGpuCut(plan, facts, 1, {1024, 0, 0, 1}).takeError())
            .find("slots of at least 240000 bytes, not 1024") != std::string::npos);
}

TEST_CASE("small launches take one instance, large ones more") {
  Plan plan;
  plan.contract.ranks = 2;
  RankFacts facts;
  auto instances = [&](int64_t bytes, int64_t resident) {
    return llvm::cantFail(chooseGpuCut(plan, facts, bytes / 4, {128 << 10, 0, 0, resident}))
        .instances;
  };
  CHECK(instances(4096, 64) == 1);
  CHECK(instances(31 << 10, 64) == 1);
  CHECK(instances(32 << 10, 64) == 2);
  CHECK(instances(1 << 20, 64) == 32);
  CHECK(instances(1 << 20, 9) == 8);
  CHECK(instances(int64_t(1) << 32, 64) == 32);
}

TEST_CASE("every word of a block of counters is its writer's alone") {
  const int64_t ranks = 3, instances = 4;
  const SyncBlock layout(ranks, instances);
  std::vector<std::vector<char>> memory;
  std::vector<CUdeviceptr> blocks;
  for (int64_t r = 0; r < ranks; ++r) {
    memory.emplace_back(size_t(layout.bytes()));
    blocks.push_back(CUdeviceptr(reinterpret_cast<uintptr_t>(memory.back().data())));
  }
  std::vector<RankSync *> syncs;
  for (int64_t r = 0; r < ranks; ++r) {
    const std::vector<char> contents = layout.contents(r, blocks);
    REQUIRE(contents.size() == memory[size_t(r)].size());
    std::memcpy(memory[size_t(r)].data(), contents.data(), contents.size());
    syncs.push_back(reinterpret_cast<RankSync *>(memory[size_t(r)].data()));
  }
  std::set<const void *> words;
  for (int64_t r = 0; r < ranks; ++r) {
    const RankSync &sync = *syncs[size_t(r)];
    for (int64_t p = 0; p < ranks; ++p) {
      const RankSync &peer = *syncs[size_t(p)];
      // What r writes at p is where p looks for r.
      CHECK(sync.peersEntered[p] == peer.entered + 16 * r);
      CHECK(sync.peersExited[p] == peer.exited + 16 * r);
      CHECK(words.insert(sync.peersEntered[p]).second);
      CHECK(words.insert(sync.peersExited[p]).second);
      for (int64_t i = 0; i < instances; ++i) {
        CHECK(sync.peersTurns[i * ranks + p] == peer.turns + 16 * (i * ranks + r));
        CHECK(words.insert(sync.peersTurns[i * ranks + p]).second);
      }
    }
    for (int64_t i = 0; i < instances; ++i) {
      CHECK(words.insert(sync.joined + 32 * i).second);
      CHECK(words.insert(sync.generation + 16 * i).second);
      CHECK(words.insert(sync.turn + 16 * i).second);
    }
    // The last words lie before the tables, and all within the block.
    const char *last = reinterpret_cast<const char *>(sync.turn + 16 * instances);
    CHECK(last <= reinterpret_cast<const char *>(sync.peersEntered));
    CHECK(reinterpret_cast<const char *>(sync.peersTurns + instances * ranks) ==
          memory[size_t(r)].data() + layout.bytes());
  }
}
