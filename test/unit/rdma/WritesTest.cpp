//===- WritesTest.cpp - Lists of writes, in order ---------------------------------===//
#include "test/unit/rdma/Wires.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

using namespace ccl;
using namespace ccl::rdma;

TEST_CASE("rdma: a list of writes is there when its immediate is") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 1 << 19), target(*wires.nics[1], 1 << 19);
    Pair pair(wires);
    REQUIRE(pair.ends[1]->postReceives(16, 77) == 0);
    uint32_t round = 0;
    for (const size_t length : {1, 8, 64, 2, 64, 1}) {
      fill(source, ++round);
      std::memset(target.bytes.data(), 0, target.bytes.size());
      Requests requests;
      // Odd sizes at odd places, of every alignment.
      const uint32_t part = 8000 - round * 7;
      for (size_t i = 0; i + 1 < length; ++i)
        requests.write(source, i * 8001, target, i * 8001, part);
      requests.writeImmediate(source, 63 * 8001, target, 63 * 8001, part, 0x01020300 + round);
      REQUIRE(requests.post(*pair.ends[0]) == 0);
      const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
      REQUIRE(arrived.size() == 1);
      CHECK(arrived[0].status == IBV_WC_SUCCESS);
      CHECK(arrived[0].opcode == IBV_WC_RECV_RDMA_WITH_IMM);
      CHECK((arrived[0].wc_flags & IBV_WC_WITH_IMM) != 0);
      CHECK(arrived[0].imm_data == 0x01020300 + round);
      CHECK(arrived[0].byte_len == part);
      CHECK(arrived[0].wr_id == 77);
      CHECK(arrived[0].qp_num == pair.ends[1]->number());
      for (size_t i = 0; i < 64; ++i)
        if (i + 1 < length || i == 63)
          CHECK(std::memcmp(&target.bytes[i * 8001], &source.bytes[i * 8001], part) == 0);
      // The last alone is signalled.
      const std::vector<ibv_wc> sent = take(*wires.nics[0], 1);
      REQUIRE(sent.size() == 1);
      CHECK(sent[0].status == IBV_WC_SUCCESS);
      CHECK(sent[0].wr_id == length - 1);
      CHECK(sent[0].qp_num == pair.ends[0]->number());
      CHECK(take(*wires.nics[0], 1, std::chrono::milliseconds(1)).empty());
    }
  });
}

TEST_CASE("rdma: messages of all sizes") {
  onEachWire([](Wires &wires) {
    const size_t most = (1 << 20) + 1;
    Buffer source(*wires.nics[0], most + 64), target(*wires.nics[1], most + 64);
    Pair pair(wires);
    uint32_t seed = 0;
    for (const uint32_t bytes : {0, 1, 3, 8, 9, 4095, 4096, 4097, 65536, 1 << 20, int(most)}) {
      CAPTURE(bytes);
      for (const size_t shift : {0, 5}) {
        fill(source, ++seed);
        std::memset(target.bytes.data(), 0xee, target.bytes.size());
        REQUIRE(pair.ends[1]->postReceives(1, 0) == 0);
        Requests requests;
        requests.writeImmediate(source, shift, target, shift + 8, bytes, bytes);
        REQUIRE(requests.post(*pair.ends[0]) == 0);
        const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
        REQUIRE(arrived.size() == 1);
        CHECK(arrived[0].status == IBV_WC_SUCCESS);
        CHECK(arrived[0].byte_len == bytes);
        CHECK(std::memcmp(target.at(shift + 8) ? &target.bytes[shift + 8] : nullptr,
                          &source.bytes[shift], bytes) == 0);
        // Nothing before and behind is touched.
        CHECK(target.bytes[shift + 7] == 0xee);
        CHECK(target.bytes[shift + 8 + bytes] == 0xee);
        REQUIRE(take(*wires.nics[0], 1).size() == 1);
      }
    }
  });
}

TEST_CASE("rdma: inline data may change when it has been posted, and needs no key") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 4096), target(*wires.nics[1], 4096);
    Pair pair(wires);
    CHECK(pair.ends[0]->limits().inlineBytes >= 64);
    REQUIRE(pair.ends[1]->postReceives(64, 0) == 0);
    for (uint32_t i = 0; i < 32; ++i) {
      std::memset(source.bytes.data(), int(i), 64);
      Requests requests;
      ibv_send_wr &request = requests.writeImmediate(source, 0, target, i * 64, i + 1, i);
      request.send_flags = IBV_SEND_INLINE | IBV_SEND_FENCE;
      request.sg_list->lkey = 0;
      REQUIRE(requests.post(*pair.ends[0]) == 0);
    }
    std::memset(source.bytes.data(), 0xff, 64);
    REQUIRE(take(*wires.nics[1], 32).size() == 32);
    for (uint32_t i = 0; i < 32; ++i)
      CHECK(std::count(&target.bytes[i * 64], &target.bytes[i * 64] + 64, i) == (i ? i + 1 : 64));
    CHECK(take(*wires.nics[0], 32).size() == 32);
  });
}

TEST_CASE("rdma: a work request of several pieces") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 20000), other(*wires.nics[0], 20000);
    Buffer target(*wires.nics[1], 60000);
    fill(source, 1);
    fill(other, 2);
    Pair pair(wires);
    REQUIRE(pair.ends[1]->postReceives(1, 0) == 0);
    Requests requests;
    ibv_send_wr &request = requests.writeImmediate(source, 0, target, 3, 1, 0);
    ibv_sge pieces[4] = {{source.at(11), 5000, source.region->localKey},
                         {other.at(0), 0, other.region->localKey},
                         {other.at(7), 20000 - 7, other.region->localKey},
                         {source.at(6000), 1, source.region->localKey}};
    request.sg_list = pieces;
    request.num_sge = 4;
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
    REQUIRE(arrived.size() == 1);
    CHECK(arrived[0].byte_len == 5000 + 19993 + 1);
    CHECK(std::memcmp(&target.bytes[3], &source.bytes[11], 5000) == 0);
    CHECK(std::memcmp(&target.bytes[5003], &other.bytes[7], 19993) == 0);
    CHECK(target.bytes[5003 + 19993] == source.bytes[6000]);
    CHECK(take(*wires.nics[0], 1).size() == 1);
  });
}

TEST_CASE("rdma: queue pairs are in order, each for itself") {
  onEachWire([](Wires &wires) {
    constexpr uint32_t queues = 5, messages = 24, bytes = 5001;
    Buffer source(*wires.nics[0], queues * messages * bytes);
    Buffer target(*wires.nics[1], queues * messages * bytes);
    fill(source, 9);
    std::vector<Pair> pairs;
    std::map<uint32_t, uint32_t> indices;
    for (uint32_t q = 0; q < queues; ++q) {
      pairs.emplace_back(wires);
      indices[pairs.back().ends[1]->number()] = q;
      REQUIRE(pairs.back().ends[1]->postReceives(messages, q) == 0);
    }
    for (uint32_t m = 0; m < messages; ++m)
      for (uint32_t q = 0; q < queues; ++q) {
        Requests requests;
        const size_t place = (q * messages + m) * bytes;
        requests.write(source, place, target, place, bytes - 17);
        requests.writeImmediate(source, place + bytes - 17, target, place + bytes - 17, 17, m);
        REQUIRE(requests.post(*pairs[q].ends[0]) == 0);
      }
    uint32_t next[queues] = {};
    for (uint32_t i = 0; i < queues * messages; ++i) {
      const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
      REQUIRE(arrived.size() == 1);
      REQUIRE(indices.count(arrived[0].qp_num) == 1);
      const uint32_t q = indices[arrived[0].qp_num];
      CHECK(arrived[0].wr_id == q);
      CHECK(arrived[0].imm_data == next[q]);
      const size_t place = (q * messages + next[q]++) * bytes;
      CHECK(std::memcmp(&target.bytes[place], &source.bytes[place], bytes) == 0);
    }
    CHECK(take(*wires.nics[0], queues * messages).size() == queues * messages);
  });
}

TEST_CASE("rdma: a send queue is full until a completion behind is polled") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 64), target(*wires.nics[1], 64);
    QueueLimits limits;
    limits.sends = 16;
    Pair pair(wires, limits);
    const int room = pair.ends[0]->limits().sends;
    REQUIRE(room >= 16);
    for (int round = 0; round < 3; ++round) {
      Requests requests;
      for (int i = 0; i < room + 3; ++i)
        requests.write(source, 0, target, 0, 8);
      requests.list[size_t(room) / 2].send_flags = IBV_SEND_SIGNALED;
      requests.list[size_t(room) - 1].send_flags = IBV_SEND_SIGNALED;
      ibv_send_wr *bad = nullptr;
      CHECK(requests.postAsIs(*pair.ends[0], &bad) == ENOMEM);
      REQUIRE(bad == &requests.list[size_t(room)]);
      const std::vector<ibv_wc> sent = take(*wires.nics[0], 2);
      REQUIRE(sent.size() == 2);
      CHECK(sent[0].wr_id == uint64_t(room / 2));
      CHECK(sent[1].wr_id == uint64_t(room - 1));
    }
  });
}
