//===- WireSizedTest.cpp - Wires whose messages say their size ----------------------===//
//
// What kernels of GPUs do with a wire is done by threads here: nobody tells it of launches.
//===----------------------------------------------------------------------===//
#include "WireNet.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace ccl;
using namespace ccl::rdma;
using namespace ccl::test;

namespace {

/// Up to `mostBytes` from the start of the slot, often none.
std::function<std::vector<Piece>(uint64_t)> prefixes(uint64_t seed, int64_t mostBytes) {
  return [=](uint64_t m) {
    int64_t bytes = 0;
    for (const Piece &piece : drawn(seed, mostBytes)(m))
      bytes += piece.bytes;
    return std::vector<Piece>{{0, bytes}};
  };
}

std::vector<Flow> everything(uint64_t seed, int ranks, int64_t mostBytes) {
  std::vector<Flow> flows;
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b)
      for (int i = 0; a != b && i < 6; ++i) {
        const int slots[] = {1, 2, 8, 0, 3, 2};
        // The last two have equal names, but for the instance.
        flows.push_back({{a, b, std::min(i, 4), i == 5 ? 3 : slots[i], i / 5},
                         4 + int(seed % 5) + i,
                         prefixes(seed * 31 + uint64_t(a * 8 + b) * 6 + uint64_t(i), mostBytes)});
      }
  return flows;
}

/// Memory that is watched, on no boundary of a page.
struct Watched {
  std::atomic<int> taken{0}, given{0};
  auto allocator() {
    return [this](size_t bytes) -> llvm::Expected<std::shared_ptr<void>> {
      char *memory = static_cast<char *>(std::aligned_alloc(4096, (bytes + 8192) & ~size_t(4095)));
      std::memset(memory, 0, bytes + 64);
      ++taken;
      return std::shared_ptr<void>(memory + 64, [this, memory](void *) {
        ++given;
        std::free(memory);
      });
    };
  }
};

bool waitFor(const std::function<bool()> &what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!what() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  return what();
}

} // namespace

TEST_CASE("messages that say their size, among several ranks, NICs and instances") {
  for (uint64_t seed = 0; seed < 6; ++seed)
    for (bool help : {true, false}) {
      CAPTURE(seed);
      CAPTURE(help);
      NetOptions options;
      options.ranks = 2 + int(seed % 2);
      options.nics = {1 + int(seed % 3)};
      options.limits.leastStripe = 512;
      options.fabric.seed = seed;
      options.sized = true;
      options.ranksHelp = help;
      Net net(options);
      CHECK(net.runAll(everything(seed, options.ranks, options.slotBytes), 3) == "");
    }
}

TEST_CASE("slots and counters lie in the memory that is given") {
  Watched memory;
  {
    NetOptions options;
    options.sized = true;
    options.memory = memory.allocator();
    Net net(options);
    CHECK(net.runAll(everything(1, 2, 4096)) == "");
    CHECK(memory.taken == 2);
    CHECK(memory.given == 0);
  }
  CHECK(memory.given == 2);
}

TEST_CASE("memory that cannot be had is an error of the offer") {
  NetOptions options;
  options.memory = [](size_t) -> llvm::Expected<std::shared_ptr<void>> {
    return makeFailure(Failure::Machine, "no pinned memory today");
  };
  Net net(options);
  CHECK(net.open({{{0, 1, 0, 2}, 1, whole(8)}}) == "no pinned memory today");
}

TEST_CASE("a wire is awake over any number of launches that it is not told of") {
  NetOptions options;
  options.sized = true;
  Net net(options);
  const Flow flow{{0, 1, 0, 2}, 1, whole(8)};
  REQUIRE(net.open({flow}) == "");
  ChannelEnd *to = net.wires[0]->end(flow.key, true), *from = net.wires[1]->end(flow.key, false);
  net.wires[0]->begin(to, {}, nullptr);
  net.wires[1]->begin(from, {}, nullptr);
  for (uint64_t m = 0; m < 50; ++m) {
    if (m % 20 == 10) // nothing is lost by a pause, nor by what begins a second time
      for (int rank : {0, 1}) {
        net.wires[size_t(rank)]->end();
        net.wires[size_t(rank)]->begin(rank == 0 ? to : from, {}, nullptr);
      }
    REQUIRE(waitFor(
        [&] { return int64_t(__atomic_load_n(to->arrive, __ATOMIC_ACQUIRE) + 2 - m) > 0; }));
    char *out = to->slots + int64_t(m % 2) * to->slotBytes;
    std::memcpy(out, &m, sizeof m);
    __atomic_store_n(to->depart + 1 + m % 2, sizeof m, __ATOMIC_RELAXED);
    __atomic_store_n(to->depart, m + 1, __ATOMIC_RELEASE);
    REQUIRE(waitFor([&] { return __atomic_load_n(from->arrive, __ATOMIC_ACQUIRE) > m; }));
    uint64_t came = 0;
    std::memcpy(&came, from->slots + int64_t(m % 2) * from->slotBytes, sizeof came);
    CHECK(came == m);
    __atomic_store_n(from->depart, m + 1, __ATOMIC_RELEASE);
  }
  CHECK(net.wires[0]->sentBytes() == 50 * 8);
  CHECK(waitFor([&] { return net.wires[0]->isDrained(); }));
}

TEST_CASE("a size that is none is told, and nothing is sent") {
  for (uint64_t bytes : {uint64_t(4097), ~uint64_t(0)}) {
    NetOptions options;
    options.sized = true;
    Net net(options);
    const Flow flow{{0, 1, 7, 2}, 1, whole(8)};
    REQUIRE(net.open({flow}) == "");
    ChannelEnd *to = net.wires[0]->end(flow.key, true);
    net.wires[0]->begin(to, {}, nullptr);
    __atomic_store_n(to->depart + 1, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(to->depart, uint64_t(1), __ATOMIC_RELEASE);
    REQUIRE(waitFor([&] { return net.wires[0]->failure().has_value(); }));
    const std::string text = net.wires[0]->failure()->message;
    CAPTURE(text);
    CHECK(text.find("message 0 of rank 0 to rank 1 (tag 7) has") != std::string::npos);
    CHECK(text.find("of a slot of 4096") != std::string::npos);
    CHECK(net.wires[0]->sentBytes() == 0);
  }
}
