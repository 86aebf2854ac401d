//===- WireTest.cpp - Channels between hosts over the emulated fabric ---------------===//
#include "WireNet.h"

#include <doctest/doctest.h>

#include <thread>

using namespace ccl;
using namespace ccl::rdma;
using namespace ccl::test;

namespace {

/// Each way between two ranks.
std::vector<Flow> bothWays(int slots, int messages,
                           const std::function<std::vector<Piece>(uint64_t)> &pieces) {
  return {{{0, 1, 0, slots}, messages, pieces}, {{1, 0, 0, slots}, messages, pieces}};
}

int64_t bytesOf(const Flow &flow, int times = 1) {
  int64_t bytes = 0;
  for (int m = 0; m < times * flow.messages; ++m)
    for (const Piece &piece : flow.pieces(uint64_t(m)))
      bytes += piece.bytes;
  return bytes;
}

/// Data and signals among all ranks, several channels a pair, of many kinds.
std::vector<Flow> everything(int ranks, uint64_t seed, int64_t mostBytes) {
  std::vector<Flow> flows;
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b)
      for (int tag = 0; a != b && tag < 5; ++tag) {
        const int slots[] = {1, 2, 8, 0, 3};
        flows.push_back({{a, b, tag, slots[tag]},
                         3 + int(seed % 7) + tag,
                         drawn(seed * 31 + uint64_t(a * 8 + b) * 5 + uint64_t(tag), mostBytes)});
      }
  return flows;
}

} // namespace

TEST_CASE("channels: messages of all sizes arrive, through few slots and many") {
  for (int slots : {1, 2, 8})
    for (int64_t bytes : {int64_t(0), int64_t(1), int64_t(7), int64_t(64), int64_t(65),
                          int64_t(4096), int64_t(65536), int64_t(1'000'003)}) {
      CAPTURE(slots);
      CAPTURE(bytes);
      NetOptions options;
      options.slotBytes = std::max<int64_t>(bytes, 8);
      Net net(options);
      const auto flows = bothWays(slots, bytes > 100'000 ? 10 : 40, whole(bytes));
      CHECK(net.runAll(flows) == "");
      for (int rank : {0, 1})
        CHECK(net.wires[size_t(rank)]->sentBytes() == bytesOf(flows[size_t(rank)]));
    }
}

TEST_CASE("channels: messages of several MiB") {
  NetOptions options;
  options.slotBytes = 8 << 20;
  // Where packets get lost a device has so many retries for each work request.
  options.limits.mostBytes = 1 << 18;
  Net net(options);
  CHECK(net.runAll({{{0, 1, 3, 2}, 7, drawn(1, 8 << 20)}, {{1, 0, 4, 1}, 5, whole(8 << 20)}}) ==
        "");
}

TEST_CASE("messages of gigabytes, of which few pages are touched") {
  // Sanitizers keep books of every byte that is read.
  if (std::string_view(CCL_SANITIZE) != "")
    return;
  constexpr int64_t giga = int64_t(1) << 30;
  for (int64_t bytes : {2 * giga - 1, 2 * giga, 5 * giga}) {
    CAPTURE(bytes);
    NetOptions options;
    options.slotBytes = bytes;
    options.nics = {bytes == 5 * giga ? 2 : 1};
    Net net(options);
    const Flow flow = {{0, 1, 0, 1}, 1, whole(bytes)};
    REQUIRE(net.open({flow}) == "");
    ChannelEnd *to = net.wires[0]->end(flow.key, true), *from = net.wires[1]->end(flow.key, false);
    const std::vector<int64_t> places = {0, giga - 1, giga, bytes / 2, bytes - 1};
    for (int64_t place : places)
      to->slots[place] = char(1 + place % 100);
    net.wires[0]->begin(
        to, to, [&](size_t, uint64_t m, std::vector<Piece> &list) { list = flow.pieces(m); });
    __atomic_store_n(to->depart, to->next = 1, __ATOMIC_RELEASE);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!net.wires[0]->isDrained() && !net.wires[0]->failure() &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    while (__atomic_load_n(from->arrive, __ATOMIC_ACQUIRE) != 1 &&
           std::chrono::steady_clock::now() < end)
      net.wires[1]->progress();
    REQUIRE(__atomic_load_n(from->arrive, __ATOMIC_ACQUIRE) == 1);
    for (int64_t place : places)
      CHECK(from->slots[place] == char(1 + place % 100));
    CHECK(from->slots[giga + 1] == 0);
    CHECK(net.wires[0]->sentBytes() == bytes);
    net.wires[0]->end();
  }
}

TEST_CASE("channels: pieces: only what they name is written") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Net net({});
    CHECK(net.runAll(bothWays(int(1 + seed % 3), 30, drawn(seed, 4096))) == "");
  }
}

TEST_CASE("channels: stripes over the NICs that both sides have") {
  for (const std::vector<int> &nics : {std::vector<int>{1}, {2}, {3}, {2, 3}, {3, 1}})
    for (int64_t least : {int64_t(1), int64_t(1000)})
      for (uint64_t seed : {0, 1, 2}) {
        CAPTURE(nics);
        CAPTURE(least);
        CAPTURE(seed);
        NetOptions options;
        options.nics = nics;
        options.limits.leastStripe = least;
        options.limits.mostBytes = 1 << 10;
        options.fabric.seed = seed;
        Net net(options);
        const auto flows = bothWays(3, 30, drawn(seed, 4096));
        CHECK(net.runAll(flows) == "");
        int64_t sent = 0;
        for (int nic = 0; nic < net.nicsOf(0); ++nic)
          sent += net.fabric ? net.fabric->sentBytes(Net::nicName(0, nic)) : bytesOf(flows[0]);
        CHECK(sent >= bytesOf(flows[0]));
      }
}

TEST_CASE("a message is cut evenly; a short one goes over the rank's own NIC") {
  NetOptions options;
  options.nics = {4};
  options.slotBytes = 1 << 20;
  Net net(options);
  auto sentBy = [&](int rank) {
    std::vector<int64_t> bytes;
    for (int nic = 0; nic < 4; ++nic)
      bytes.push_back(net.fabric->sentBytes(Net::nicName(rank, nic)));
    return bytes;
  };
  const std::vector<Flow> flows = {{{1, 0, 0, 1}, 3, whole(1 << 20)}};
  CHECK(net.runAll(flows) == "");
  const std::vector<int64_t> cut = sentBy(1);
  for (int64_t bytes : cut)
    CHECK(bytes == 3 << 18);
  const std::vector<Flow> small = {{{1, 0, 1, 1}, 5, whole(1000)}};
  CHECK(net.runAll(small) == "");
  const std::vector<int64_t> after = sentBy(1);
  CHECK(after[1] - cut[1] == 5000);
  for (size_t nic : {0, 2, 3})
    CHECK(after[nic] == cut[nic]);
}

TEST_CASE("channels: whatever the order in which packets come: seeds and delays") {
  for (uint64_t seed = 0; seed <= 50; ++seed) {
    CAPTURE(seed);
    NetOptions options;
    options.ranks = 2 + int(seed % 3);
    options.nics = {1 + int(seed % 2)};
    options.limits.leastStripe = 512;
    options.limits.mostBytes = 700;
    options.limits.inlineBytes = int64_t(seed % 4) * 50;
    options.fabric.seed = seed;
    options.fabric.delay = std::chrono::microseconds(seed % 5 == 4 ? 300 : 0);
    options.ranksHelp = seed % 3 != 0;
    Net net(options);
    CHECK(net.runAll(everything(options.ranks, seed, 4096), 2) == "");
  }
}

TEST_CASE("channels: what is freed is told, whatever the order in which that comes") {
  for (uint64_t seed = 0; seed <= 20; ++seed) {
    CAPTURE(seed);
    NetOptions options;
    options.fabric.seed = seed;
    options.fabric.delay = std::chrono::microseconds(500);
    Net net(options);
    const Flow flow = {{0, 1, 0, 16}, 16, whole(8)};
    REQUIRE(net.open({flow}) == "");
    Wire &sender = *net.wires[0], &receiver = *net.wires[1];
    ChannelEnd *to = sender.end(flow.key, true), *from = receiver.end(flow.key, false);
    auto waitFor = [](const ChannelEnd *end, uint64_t value) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (__atomic_load_n(end->arrive, __ATOMIC_ACQUIRE) != value &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      return __atomic_load_n(end->arrive, __ATOMIC_ACQUIRE);
    };
    sender.begin(to, to,
                 [&](size_t, uint64_t m, std::vector<Piece> &list) { list = flow.pieces(m); });
    __atomic_store_n(to->depart, to->next = 16, __ATOMIC_RELEASE);
    REQUIRE(waitFor(from, 16) == 16);
    receiver.begin(from, {}, nullptr);
    for (uint64_t freed = 1; freed <= 16; ++freed) {
      __atomic_store_n(from->depart, from->next = freed, __ATOMIC_RELEASE);
      receiver.progress();
    }
    REQUIRE(waitFor(to, 16) == 16);
    sender.end();
    receiver.end();
  }
}

TEST_CASE("channels: tiny queues: what has no room waits") {
  for (int depth : {1, 2, 4})
    for (uint64_t seed : {0, 5}) {
      CAPTURE(depth);
      CAPTURE(seed);
      NetOptions options;
      options.queues.sends = depth;
      options.queues.receives = depth;
      options.limits.mostBytes = 100;
      options.nics = {2};
      options.limits.leastStripe = 300;
      options.fabric.seed = seed;
      Net net(options);
      CHECK(net.runAll(everything(2, 3, 4096), 2) == "");
    }
}

TEST_CASE("channels: inline up to a bound") {
  for (int64_t bound : {0, 1, 8, 64, 220}) {
    CAPTURE(bound);
    NetOptions options;
    options.limits.inlineBytes = bound;
    options.queues.inlineBytes = int(bound);
    Net net(options);
    CHECK(net.runAll(bothWays(2, 60, drawn(uint64_t(bound), 256))) == "");
  }
}

TEST_CASE("channels: signals: more than one immediate tells, and than there are receives") {
  NetOptions options;
  options.queues.receives = 8;
  Net net(options);
  const std::vector<Flow> flows = {
      {{0, 1, 0, 0}, 3000, {}}, {{1, 0, 0, 0}, 1, {}}, {{1, 0, 1, 0}, 700, {}}};
  CHECK(net.runAll(flows, 3) == "");
  CHECK(net.wires[0]->sentBytes() == 0);
  if (net.fabric)
    CHECK(net.fabric->sentBytes(Net::nicName(0, 0)) == 0);
}

TEST_CASE("channels: 100 launches one after the other, with programs that take turns on channels") {
  NetOptions options;
  options.ranks = 3;
  Net net(options);
  const std::vector<Flow> all = everything(3, 1, 1000);
  std::vector<Flow> some;
  for (size_t i = 0; i < all.size(); i += 2)
    some.push_back(all[i]);
  REQUIRE(net.open(some) == "");
  REQUIRE(net.open(all) == "");
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    for (const std::vector<Flow> *flows : {&all, &std::as_const(some)})
      for (const std::string &said : net.run(*flows, 5))
        REQUIRE(said == "");
  }
}

TEST_CASE("channels: all pairs of four ranks, many channels each") {
  NetOptions options;
  options.ranks = 4;
  options.nics = {2, 1, 3, 2};
  options.limits.leastStripe = 2000;
  std::vector<Flow> flows;
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      for (int tag = 0; a != b && tag < 20; ++tag)
        flows.push_back({{a, b, tag, tag % 4}, 5, drawn(uint64_t(tag), 4096)});
  CHECK(Net(options).runAll(flows, 2) == "");
}

TEST_CASE("channels: what comes outside of a launch is seen all the same") {
  Net net({});
  const std::vector<Flow> flows = {{{0, 1, 0, 0}, 5, {}}, {{0, 1, 1, 4}, 4, whole(100)}};
  REQUIRE(net.open(flows) == "");
  // Rank 1 is in no launch, and nobody asks it to make progress.
  CHECK(net.run(flows, 1, {1})[0] == "");
  const ChannelEnd *signals = net.wires[1]->end(flows[0].key, false);
  const ChannelEnd *data = net.wires[1]->end(flows[1].key, false);
  auto come = [](const ChannelEnd *end) { return __atomic_load_n(end->arrive, __ATOMIC_ACQUIRE); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while ((come(signals) != 5 || come(data) != 4) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  CHECK(come(signals) == 5);
  CHECK(come(data) == 4);
  CHECK(net.run(flows, 1, {0})[1] == "");
  CHECK(net.run(flows, 2)[0] == "");
}

TEST_CASE("bytes on the fabric are those of messages, and of flow control") {
  Net net({});
  const std::vector<Flow> flows = {{{0, 1, 0, 2}, 50, whole(1000)}};
  REQUIRE(net.runAll(flows) == "");
  CHECK(net.fabric->sentBytes(Net::nicName(0, 0)) == 50'000);
  // At most one word a message tells what is free.
  const int64_t back = net.fabric->sentBytes(Net::nicName(1, 0));
  CHECK(back % 8 == 0);
  CHECK(back > 0);
  CHECK(back <= 50 * 8);
}

//===----------------------------------------------------------------------===//
// Setup
//===----------------------------------------------------------------------===//

TEST_CASE("channels: offers that are cut short or garbled are refused") {
  Net net({});
  const std::vector<ChannelKey> keys = {{0, 1, 0, 2}, {1, 0, 1, 0}, {0, 1, 5, 1}};
  const std::string good = llvm::cantFail(net.wires[0]->offer(1, keys));
  const std::string back = llvm::cantFail(net.wires[1]->offer(0, keys));
  auto refusal = [&](const std::string &bytes) {
    llvm::Error e = net.wires[1]->accept(0, keys, bytes);
    return e ? llvm::toString(std::move(e)) : std::string();
  };
  for (size_t size = 0; size < good.size(); ++size)
    CHECK(refusal(good.substr(0, size)) != "");
  CHECK(refusal(good + "x") != "");
  CHECK(refusal(back).find("it is of rank 1 for rank 0") != std::string::npos);
  // The head: each bit of it counts, but for the address and what is reserved.
  for (size_t bit = 0; bit < 32 * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = char(bytes[bit / 8] ^ 1 << bit % 8);
    CAPTURE(bit);
    CHECK(refusal(bytes) != "");
  }
  CHECK(refusal(good) == "");
  CHECK(refusal(good).find("for a second time") != std::string::npos);
}

TEST_CASE("channels: ranks that do not agree on channels are told so") {
  Net net({});
  const std::vector<ChannelKey> keys = {{0, 1, 0, 2}, {1, 0, 1, 0}}, fewer = {{0, 1, 0, 2}},
                                others = {{0, 1, 0, 2}, {1, 0, 2, 0}};
  auto refusal = [&](const std::vector<ChannelKey> &there) {
    const std::string offered = llvm::cantFail(net.wires[0]->offer(1, there));
    llvm::cantFail(net.wires[1]->offer(0, keys).takeError());
    llvm::Error e = net.wires[1]->accept(0, keys, offered);
    return e ? llvm::toString(std::move(e)) : std::string();
  };
  CHECK(refusal(fewer) == "rank 1 cannot use what rank 0 offers: 1 new channels, here there are 2");
  Net second({});
  std::swap(net.wires, second.wires);
  CHECK(refusal(others).find("channel 1 -> 0 (tag 2, 0 slots) where here is "
                             "channel 1 -> 0 (tag 1, 0 slots)") != std::string::npos);
  for (const std::vector<ChannelKey> &wrong :
       {std::vector<ChannelKey>{{0, 2, 0, 1}}, {{0, 0, 0, 1}}, {{0, 1, 0, -1}}}) {
    llvm::Expected<std::string> offer = net.wires[0]->offer(1, wrong);
    CHECK_FALSE(bool(offer));
    llvm::consumeError(offer.takeError());
  }
}

TEST_CASE("no NIC, slots beyond memory: errors") {
  llvm::Expected<std::unique_ptr<Wire>> none = Wire::create({}, {});
  REQUIRE_FALSE(bool(none));
  CHECK(llvm::toString(none.takeError()).find("has no NIC") != std::string::npos);
  NetOptions options;
  options.slotBytes = int64_t(1) << 50;
  Net net(options);
  for (int slots : {1, 1 << 14}) {
    llvm::Expected<std::string> offer =
        net.wires[0]->offer(1, std::vector<ChannelKey>{{0, 1, 0, slots}});
    REQUIRE_FALSE(bool(offer));
    CHECK(llvm::toString(offer.takeError()).find("slots") != std::string::npos);
  }
  CHECK(net.wires[0]->end({0, 1, 0, 1}, true) == nullptr);
  // Nothing is left of it.
  CHECK(net.runAll({{{0, 1, 0, 0}, 5, {}}}) == "");
}
