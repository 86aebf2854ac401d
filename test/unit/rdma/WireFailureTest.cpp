//===- WireFailureTest.cpp - NICs, links and peers that fail under channels ---------===//
#include "WireNet.h"

#include <doctest/doctest.h>

#include <thread>

using namespace ccl;
using namespace ccl::rdma;
using namespace ccl::test;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Retries are over soon.
NetOptions impatient() {
  NetOptions options;
  options.fabric.retryTime = std::chrono::milliseconds(30);
  return options;
}

/// What comes within ten seconds, or "".
std::string failureOf(Wire &wire) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!wire.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  const std::optional<RuntimeError> failure = wire.failure();
  return failure ? failure->message : "";
}

int64_t culpritOf(Wire &wire) {
  const std::optional<RuntimeError> failure = wire.failure();
  return failure ? failure->culprit : -1;
}

const std::vector<Flow> forever = {{{0, 1, 7, 2}, 1'000'000, whole(2000)},
                                   {{1, 0, 8, 2}, 1'000'000, whole(2000)}};

/// What both ranks say if `event` happens while they exchange messages.
std::vector<std::string> runUntil(Net &net, const std::function<void()> &event) {
  REQUIRE(net.open(forever) == "");
  std::thread actor([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    event();
  });
  std::vector<std::string> said = net.run(forever);
  actor.join();
  return said;
}

} // namespace

TEST_CASE("channels: a link that goes down is named, with rank, NIC and channel") {
  for (uint64_t seed : {0, 1, 2})
    for (bool ranksHelp : {true, false}) {
      CAPTURE(seed);
      NetOptions options = impatient();
      options.fabric.seed = seed;
      options.ranksHelp = ranksHelp;
      Net net(options);
      const auto said = runUntil(net, [&] { net.setLink(1, 0, false); });
      net.setLink(1, 0, true);
      CHECK((said[0] != Net::stopped || said[1] != Net::stopped));
      for (int rank : {0, 1}) {
        const std::string &text = said[size_t(rank)];
        CAPTURE(text);
        if (text == Net::stopped)
          continue;
        CHECK(has(text, fmt::format("rank {} cannot write to rank {} through {}", rank, 1 - rank,
                                    Net::portText(rank, 0))));
        CHECK(has(text, "transport retry counter exceeded"));
        CHECK(has(text, " tag "));
        const std::optional<RuntimeError> failure = net.wires[size_t(rank)]->failure();
        REQUIRE(failure);
        CHECK(failure->culprit == 1 - rank);
        CHECK(failure->category == Failure::Machine);
      }
    }
}

TEST_CASE("channels: after a failure nothing moves any more") {
  Net net(impatient());
  const auto said = runUntil(net, [&] { net.setLink(1, 0, false); });
  const int rank = said[0] == Net::stopped ? 1 : 0;
  Wire &wire = *net.wires[size_t(rank)];
  CHECK_FALSE(wire.progress());
  CHECK_FALSE(wire.isDrained());
  const ChannelEnd *end = wire.end(forever[size_t(rank)].key, true);
  const uint64_t before = __atomic_load_n(end->arrive, __ATOMIC_ACQUIRE);
  net.setLink(1, 0, true);
  CHECK(net.run(forever, 1, {1 - rank})[size_t(rank)] == said[size_t(rank)]);
  CHECK(__atomic_load_n(end->arrive, __ATOMIC_ACQUIRE) == before);
}

TEST_CASE("every kind of completion is told in words, whenever it comes") {
  for (ibv_wc_status status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR,
                               IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR})
    for (int64_t after : {0, 1, 10, 100}) {
      CAPTURE(status);
      CAPTURE(after);
      NetOptions options = impatient();
      options.nics = {2};
      options.limits.leastStripe = 500;
      Net net(options);
      REQUIRE(net.open(forever) == "");
      net.fabric->failAfter(Net::nicName(0, 1), after, status);
      net.run(forever);
      // If the peer's queue pair is broken, too, it may be first to notice.
      const std::string said = failureOf(*net.wires[0]);
      CAPTURE(said);
      CHECK(has(said, "rank 0 cannot write to rank 1 through nic0.1"));
      CHECK(has(said, describeStatus(status)));
      CHECK(has(said, "channel tag 7"));
    }
}

TEST_CASE("channels: a peer that is gone is an error for who writes to it; for one that left it is "
          "none") {
  NetOptions options = impatient();
  Net net(options);
  const std::vector<Flow> there = {{{0, 1, 0, 2}, 10, whole(500)}};
  REQUIRE(net.runAll(there) == "");
  net.wires[1]->leave(0);
  net.wires[0].reset();
  // Late flow control is no failure.
  std::this_thread::sleep_for(2 * options.fabric.retryTime);
  CHECK_FALSE(net.wires[1]->failure());

  Net second(options);
  REQUIRE(second.open(there) == "");
  second.wires[1].reset();
  const std::string said = second.run(there, 1, {1})[0];
  CHECK(has(said, "rank 0 cannot write to rank 1 through " + Net::portText(0, 0)));

  Net third(options);
  REQUIRE(third.open(there) == "");
  third.wires[0]->leave(1);
  third.wires[1].reset();
  CHECK(has(third.run(there, 1, {1})[0], "that rank has left"));
}

TEST_CASE("channels: a peer that consumes after the other has left comes to its end") {
  NetOptions options = impatient();
  Net net(options);
  const std::vector<Flow> flows = {{{0, 1, 0, 8}, 8, whole(500)}, {{0, 1, 1, 0}, 2, {}}};
  REQUIRE(net.open(flows) == "");
  CHECK(net.run(flows, 1, {1})[0] == "");
  net.wires[1]->leave(0);
  net.wires[0].reset();
  CHECK(net.run(flows, 1, {0})[1] == "");
}

TEST_CASE("channels: wires are destroyed whatever is under way") {
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    NetOptions options = impatient();
    options.fabric.seed = uint64_t(i);
    options.fabric.delay = std::chrono::microseconds(i % 2 ? 500 : 0);
    options.nics = {1 + i % 2};
    options.limits.leastStripe = 500;
    Net net(options);
    REQUIRE(net.open(forever) == "");
    // Slots are full, nobody consumes.
    for (int rank : {0, 1}) {
      ChannelEnd *to = net.wires[size_t(rank)]->end(forever[size_t(rank)].key, true);
      net.wires[size_t(rank)]->begin(
          std::vector<ChannelEnd *>{to}, std::vector<ChannelEnd *>{to},
          [](size_t, uint64_t, std::vector<Piece> &pieces) { pieces.push_back({0, 2000}); });
      __atomic_store_n(to->depart, to->next = 2, __ATOMIC_RELEASE);
      net.wires[size_t(rank)]->progress();
    }
    if (i % 3)
      net.wires[size_t(i % 2)].reset();
  }
}

TEST_CASE("channels: a program that the plan does not describe is an error") {
  for (bool described : {true, false}) {
    CAPTURE(described);
    Net net({});
    const std::vector<Flow> flows = {{{0, 1, 0, 2}, 1, {}}};
    REQUIRE(net.open(flows) == "");
    ChannelEnd *end = net.wires[0]->end(flows[0].key, true);
    std::vector<ChannelEnd *> sending;
    if (described)
      sending.push_back(end);
    net.wires[0]->begin(
        std::vector<ChannelEnd *>{end}, sending,
        [](size_t, uint64_t, std::vector<Piece> &pieces) { pieces.push_back({4000, 97}); });
    __atomic_store_n(end->depart, end->next = 1, __ATOMIC_RELEASE);
    CHECK(has(failureOf(*net.wires[0]),
              described ? "97 bytes at byte 4000 of a slot of 4096" : "does not say what rank 0"));
    CHECK(culpritOf(*net.wires[0]) == 0);
    net.wires[0]->end();
  }
}

TEST_CASE("a device that is lost is named, in a launch and outside of one") {
  Net net(impatient());
  const auto said = runUntil(net, [&] { net.fabric->removeDevice(Net::nicName(1, 0)); });
  CHECK(has(failureOf(*net.wires[1]), "rank 1 has lost nic1.0 (port 1, GID 0): nic1.0 is gone"));
  CHECK(culpritOf(*net.wires[1]) == 1);
  Net idle(impatient());
  REQUIRE(idle.open(forever) == "");
  idle.fabric->removeDevice(Net::nicName(0, 0));
  CHECK(has(failureOf(*idle.wires[0]), "rank 0 has lost nic0.0"));
  CHECK_FALSE(idle.wires[1]->failure());
}
