//===- EventsTest.cpp - Sleeping until a completion comes --------------------------===//
#include "test/unit/rdma/Wires.h"

#include <atomic>
#include <cstring>
#include <poll.h>
#include <thread>

using namespace ccl;
using namespace ccl::rdma;

static bool isReadable(const Nic &nic, int milliseconds) {
  pollfd descriptor{nic.descriptor(), POLLIN, 0};
  return poll(&descriptor, 1, milliseconds) == 1;
}

TEST_CASE("rdma: a completion wakes who has armed, once") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 64), target(*wires.nics[1], 64);
    Pair pair(wires);
    Nic &sender = *wires.nics[0], &receiver = *wires.nics[1];
    REQUIRE(pair.ends[1]->postReceives(8, 0) == 0);
    auto send = [&] {
      Requests requests;
      requests.writeImmediate(source, 0, target, 0, 9, 1);
      REQUIRE(requests.post(*pair.ends[0]) == 0);
      REQUIRE(take(sender, 1).size() == 1);
    };
    CHECK(receiver.arm());
    CHECK(take(receiver, 1, std::chrono::milliseconds(0)).empty());
    CHECK_FALSE(isReadable(receiver, 20));
    send();
    CHECK(isReadable(receiver, 10000));
    CHECK(take(receiver, 1).size() == 1);
    CHECK_FALSE(isReadable(receiver, 0)); // poll() has taken the event
    send();
    CHECK(take(receiver, 1).size() == 1);
    CHECK_FALSE(isReadable(receiver, 20)); // not armed
    send();
    CHECK(receiver.arm());
    // What came before arm() is found by polling once more.
    CHECK(take(receiver, 1).size() == 1);
  });
}

/// The next completion, asleep until it comes.
static ibv_wc awaitOne(Nic &nic) {
  for (;;) {
    ibv_wc completion{};
    if (nic.poll(&completion, 1) == 1)
      return completion;
    if (!nic.arm())
      return {};
    if (nic.poll(&completion, 1) == 1)
      return completion;
    if (!isReadable(nic, 10000)) {
      completion.status = IBV_WC_GENERAL_ERR;
      return completion;
    }
  }
}

TEST_CASE("rdma: two threads that sleep hand each other 200 messages") {
  onEachWire([](Wires &wires) {
    constexpr uint32_t rounds = 200;
    Buffer zero(*wires.nics[0], 5000), one(*wires.nics[1], 5000);
    Pair pair(wires);
    for (auto &end : pair.ends)
      REQUIRE(end->postReceives(rounds, 1) == 0);
    // Each adds one to what it gets and sends it back.
    auto run = [&](int side, Buffer &mine, Buffer &other, std::string &error) {
      for (uint32_t i = 0; i < rounds && error.empty(); ++i) {
        const uint32_t expected = 2 * i + uint32_t(side);
        if (side == 1 || i > 0) {
          ibv_wc completion = awaitOne(*wires.nics[side]);
          while (completion.status == IBV_WC_SUCCESS && completion.opcode == IBV_WC_RDMA_WRITE)
            completion = awaitOne(*wires.nics[side]);
          uint32_t value = 0;
          std::memcpy(&value, &mine.bytes[4501], sizeof value);
          if (completion.status != IBV_WC_SUCCESS || completion.imm_data != expected ||
              value != expected)
            error = fmt::format("side {}, round {}: {}, immediate {}, value {}", side, i,
                                describeStatus(completion.status), completion.imm_data, value);
          if (!error.empty())
            return;
        }
        const uint32_t next = expected + 1;
        std::memcpy(&mine.bytes[301], &next, sizeof next);
        Requests requests;
        requests.writeImmediate(mine, 301, other, 4501, sizeof next, next);
        if (requests.post(*pair.ends[side]) != 0)
          error = "not posted";
      }
    };
    std::string errors[2];
    std::thread thread([&] { run(1, one, zero, errors[1]); });
    run(0, zero, one, errors[0]);
    thread.join();
    CHECK(errors[0] == "");
    CHECK(errors[1] == "");
  });
}

TEST_CASE("rdma: who polls a word of 8 bytes sees every value whole, and none go back") {
  onEachWire([](Wires &wires) {
    constexpr uint64_t rounds = 2000;
    Buffer source(*wires.nics[0], 64), target(*wires.nics[1], 64);
    Pair pair(wires);
    const size_t aligned = size_t(-target.at(0) & 7);
    auto *word = reinterpret_cast<uint64_t *>(target.bytes.data() + aligned);
    std::atomic<bool> isWrong = false, isOver = false;
    std::thread reader([&] {
      uint32_t last = 0;
      while (!isOver) {
        const uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (uint32_t(value) != uint32_t(value >> 32) || uint32_t(value) < last)
          isWrong = true;
        last = uint32_t(value);
        sched_yield();
      }
    });
    // One at a time: the order of writes without an immediate is open.
    for (uint64_t i = 1; i <= rounds; ++i) {
      const uint64_t value = i | i << 32;
      std::memcpy(source.bytes.data(), &value, sizeof value);
      Requests requests;
      requests.write(source, 0, target, aligned, sizeof value).send_flags = IBV_SEND_INLINE;
      if (requests.post(*pair.ends[0]) != 0 || take(*wires.nics[0], 1).size() != 1) {
        isWrong = true;
        break;
      }
    }
    isOver = true;
    reader.join();
    CHECK_FALSE(isWrong);
    CHECK(__atomic_load_n(word, __ATOMIC_ACQUIRE) == (rounds | rounds << 32));
  });
}
