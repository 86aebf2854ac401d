//===- LaunchTest.cpp - Launches of all ranks of one process -----------------------===//
#include "test/unit/cuda/group/Ranks.h"

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

const std::vector<std::vector<int>> placements = {{0}, {2, 0, 1}};

} // namespace

TEST_CASE("rings and direct exchanges of 1 to 8 ranks on one GPU and on three") {
  for (const std::vector<int> &devices : placements)
    for (int64_t n = 1; n <= 8; ++n) {
      CAPTURE(devices.size());
      CAPTURE(n);
      Ranks ranks(n, devices);
      const Program sum = load(ringAllReduce({n})), gather = load(ringAllGather({n})),
                    direct = load(directAllGather({n}));
      int32_t seed = 0;
      for (const int64_t count : {1, 7, 1003})
        for (const auto &[instances, microBatches] :
             {std::pair<int64_t, int64_t>{1, 0}, {1, 4}, {4, 0}, {2, 7}}) {
          CAPTURE(count);
          CAPTURE(instances);
          const CudaLaunchOptions options = optionsOf(count, instances, microBatches);
          ranks.allocate(size_t(count), size_t(count));
          ranks.fill(++seed);
          REQUIRE(ranks.run(sum, options) == "");
          CHECK(ranks.wrongSums(seed, count) == 0);
          ranks.allocate(size_t(count), size_t(count * n));
          ranks.fill(++seed);
          REQUIRE(ranks.run(gather, options) == "");
          CHECK(ranks.wrongGathers(seed, count) == 0);
          ranks.fill(++seed);
          REQUIRE(ranks.run(direct, options) == "");
          CHECK(ranks.wrongGathers(seed, count) == 0);
        }
    }
}

TEST_CASE("data with flags, all-to-all, tables") {
  for (const char *wire : {"ll", "ll128"})
    for (const std::vector<int> &devices : placements) {
      CAPTURE(wire);
      const int64_t n = 5, count = 2777;
      Ranks ranks(n, devices, {.slotBytes = 1024});
      Variant variant{n, wire};
      ranks.allocate(count, count);
      ranks.fill(1);
      REQUIRE(ranks.run(load(ringAllReduce(variant)), optionsOf(count, 2)) == "");
      CHECK(ranks.wrongSums(1, count) == 0);
      ranks.allocate(count, count * n);
      ranks.fill(2);
      REQUIRE(ranks.run(load(tableAllGather(variant)), optionsOf(count, 2)) == "");
      CHECK(ranks.wrongGathers(2, count) == 0);
      ranks.allocate(count * n, count * n);
      ranks.fill(3);
      REQUIRE(ranks.run(load(pairwiseAllToAll(variant)), optionsOf(count)) == "");
      int64_t wrong = 0;
      for (int64_t r = 0; r < n; ++r)
        for (int64_t s = 0; s < n; ++s)
          for (int64_t i = 0; i < count; ++i)
            wrong +=
                ranks.out[size_t(r)][size_t(s * count + i)] != Ranks::value(3, s, r * count + i);
      CHECK(wrong == 0);
    }
}

TEST_CASE("programs that use the same channels take turns") {
  const int64_t n = 4, count = 517;
  Ranks ranks(n, {0, 1, 2});
  const Program sum = load(ringAllReduce({n})), gather = load(ringAllGather({n}));
  ranks.allocate(count, count * n);
  for (int32_t k = 0; k < 100; ++k) {
    CAPTURE(k);
    ranks.fill(k);
    const CudaLaunchOptions options = optionsOf(count, 1 << k % 3, k % 5);
    REQUIRE(ranks.run(k % 2 ? sum : gather, options) == "");
    CHECK((k % 2 ? ranks.wrongSums(k, count) : ranks.wrongGathers(k, count)) == 0);
  }
}

TEST_CASE("launches follow each other without a wait, whatever their streams") {
  const int64_t n = 3, count = 300;
  Ranks ranks(n, {1});
  const Program sum = load(ringAllReduce({n}));
  PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), 1));
  const ContextScope scope = llvm::cantFail(context.enter());
  const Stream one = llvm::cantFail(makeStream(shim())), two = llvm::cantFail(makeStream(shim()));
  ranks.allocate(count, count);
  ranks.fill(1);
  // Sums of sums, n times as large each time: a launch that came too early would show.
  for (int32_t k = 0; k < 6; ++k) {
    const CUstream streams[] = {k % 2 ? one.get() : two.get()};
    CudaLaunchOptions options = optionsOf(count, 2);
    options.streams = streams;
    std::vector<CudaLaunchArgs> args;
    for (size_t r = 0; r < size_t(n); ++r)
      args.push_back(k == 0 ? CudaLaunchArgs{ranks.in[r].data(), ranks.out[r].data()}
                            : CudaLaunchArgs{ranks.out[r].data(), ranks.out[r].data()});
    REQUIRE(text(ranks.group->launch(sum, args, options)) == "");
  }
  REQUIRE(text(ranks.group->synchronize()) == "");
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t expected = 0;
    for (int64_t r = 0; r < n; ++r)
      expected += uint32_t(Ranks::value(1, r, i));
    for (const Buffer &out : ranks.out)
      wrong += uint32_t(out[size_t(i)]) != expected * 243; // 3^5
  }
  CHECK(wrong == 0);
}

TEST_CASE("padding, averages, in place") {
  const int64_t n = 4, count = 1001; // no multiple of the chunks
  Ranks ranks(n, {0, 1});
  Variant variant{n};
  variant.divisible = true;
  ranks.allocate(count, count);
  ranks.fill(5);
  REQUIRE(ranks.run(load(ringAllReduce(variant)), optionsOf(count, 2)) == "");
  CHECK(ranks.wrongSums(5, count) == 0);
  for (const bool divisible : {false, true}) {
    variant.divisible = divisible;
    const Program average = load(ringAllReduce(variant, model::Reduction::Avg));
    for (Buffer &in : ranks.in)
      for (int64_t i = 0; i < count; ++i)
        in[size_t(i)] = int32_t(i);
    REQUIRE(ranks.run(average, optionsOf(count, 2)) == "");
    int64_t wrong = 0;
    for (const Buffer &out : ranks.out)
      for (int64_t i = 0; i < count; ++i)
        wrong += out[size_t(i)] != i;
    CHECK(wrong == 0);
  }
  // In place: the input of rank r is shard r of its output.
  ranks.allocate(0, count * n);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < count; ++i)
      ranks.out[size_t(r)][size_t(r * count + i)] = Ranks::value(6, r, i);
  std::vector<CudaLaunchArgs> args;
  for (int64_t r = 0; r < n; ++r)
    args.push_back({ranks.out[size_t(r)].data() + r * count, ranks.out[size_t(r)].data()});
  for (const Program &program : {load(ringAllGather({n})), load(directAllGather({n}))}) {
    REQUIRE(text(ranks.group->launch(program, args, optionsOf(count, 2))) == "");
    REQUIRE(text(ranks.group->synchronize()) == "");
    CHECK(ranks.wrongGathers(6, count) == 0);
  }
  // Ranks must agree on that.
  Buffer other(shim(), 0, count);
  args[2].in = other.data();
  CHECK(text(ranks.group->launch(load(ringAllGather({n})), args, optionsOf(count))) ==
        "ranks 0 and 2 disagree on the form: in place and out of place");
  CHECK(!ranks.group->failure());
}

TEST_CASE("uneven shards, as they are and padded") {
  const int64_t n = 3;
  const std::vector<int64_t> counts = {700, 0, 33};
  for (const std::vector<int> &devices : placements)
    for (const bool safe : {true, false}) {
      CAPTURE(safe);
      Ranks ranks(n, devices);
      Variant variant{n};
      variant.unevenSafe = safe;
      UnevenCounts uneven{counts, {}};
      CudaLaunchOptions options = optionsOf(0, 2);
      options.uneven = uneven;
      ranks.allocate(700, 733);
      ranks.fill(9);
      for (const Program &program :
           {load(ringAllGather(variant)), load(directAllGather(variant))}) {
        REQUIRE(ranks.run(program, options) == "");
        int64_t wrong = 0;
        for (const Buffer &out : ranks.out)
          for (int64_t i = 0; i < 733; ++i)
            wrong += out[size_t(i)] != Ranks::value(9, i < 700 ? 0 : 2, i < 700 ? i : i - 700);
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE("two communicators on one GPU") {
  const int64_t n = 4, count = 333;
  Ranks first(n, {0}), second(n, {0, 1});
  const Program program = load(ringAllReduce({n}));
  first.allocate(count, count);
  second.allocate(count, count);
  first.fill(1);
  second.fill(2);
  for (int k = 0; k < 5; ++k) {
    REQUIRE(text(first.launch(program, optionsOf(count, 2))) == "");
    REQUIRE(text(second.launch(program, optionsOf(count, 2))) == "");
  }
  REQUIRE(text(first.group->synchronize()) == "");
  REQUIRE(text(second.group->synchronize()) == "");
  CHECK(first.wrongSums(1, count) == 0);
  CHECK(second.wrongSums(2, count) == 0);
}

TEST_CASE("ranks without a program take part in barriers and epochs") {
  const int64_t n = 3, count = 64;
  for (const std::vector<int> &devices : placements) {
    Ranks ranks(n, devices);
    // Only ranks 0 and 1 are named.
    Plan plan = directAllGather({n});
    plan.kernels[0].ranks = {{0, 2}};
    const Program some = load(plan), all = load(directAllGather({n}));
    ranks.allocate(count, count * n);
    ranks.fill(4);
    REQUIRE(ranks.run(some, optionsOf(count, 2, 8)) == "");
    CHECK(ranks.out[1][2 * count] == Ranks::value(4, 2, 0));
    CHECK(ranks.out[2][0] == -1);
    REQUIRE(ranks.run(all, optionsOf(count, 4, 8)) == "");
    CHECK(ranks.wrongGathers(4, count) == 0);
  }
}

TEST_CASE("all memory goes back") {
  const size_t before = freeBytes();
  {
    Ranks ranks(4, {0, 1, 2});
    for (const int64_t count : {100, 1000, 100000}) { // stand-ins and scratch grow
      Variant variant{4};
      variant.divisible = true;
      ranks.allocate(size_t(count), size_t(count) * 4);
      REQUIRE(ranks.run(load(ringAllReduce(variant)), optionsOf(count + 1 - 1)) == "");
      REQUIRE(ranks.run(load(ringAllGather({4})), optionsOf(count, 2)) == "");
    }
    CHECK(freeBytes() < before);
  }
  CHECK(freeBytes() == before);
}

TEST_CASE("uploads of old launches are given up") {
  const int64_t n = 2;
  Ranks ranks(n, {0});
  const Program program = load(directAllGather({n}));
  ranks.allocate(1 << 16, 1 << 17);
  ranks.fill(0);
  // Each with buffers of its own.
  size_t least = freeBytes();
  for (int64_t k = 0; k < 12000; ++k) {
    std::vector<CudaLaunchArgs> args;
    for (size_t r = 0; r < size_t(n); ++r)
      args.push_back({ranks.in[r].data() + k, ranks.out[r].data() + 2 * k});
    REQUIRE(text(ranks.group->launch(program, args, optionsOf(1, 1))) == "");
    if (k == 11000)
      least = freeBytes();
  }
  REQUIRE(text(ranks.group->synchronize()) == "");
  CHECK(freeBytes() >= least);
  CHECK(ranks.out[0][2 * 11999 + 1] == Ranks::value(0, 1, 11999));
}
