//===- FailuresTest.cpp - Queue pairs that end -------------------------------------===//
#include "test/unit/rdma/Wires.h"

#include <algorithm>
#include <cstring>

using namespace ccl;
using namespace ccl::rdma;
using std::chrono::milliseconds;

namespace {

/// Posts five writes, of which the third is spoilt: two are done, one ends with `status`, two are
/// flushed. Then nothing goes any more, and another queue pair still works.
void spoil(Wires &wires, ibv_wc_status status,
           const std::function<void(ibv_send_wr &, Buffer &target)> &change) {
  Buffer source(*wires.nics[0], 5000), target(*wires.nics[1], 5000);
  fill(source, 1);
  Pair pair(wires), other(wires);
  REQUIRE(pair.ends[1]->postReceives(2, 5) == 0);
  REQUIRE(other.ends[1]->postReceives(1, 6) == 0);
  Requests requests;
  for (size_t i = 0; i < 4; ++i)
    requests.write(source, i * 1000, target, i * 1000, 900);
  requests.writeImmediate(source, 4000, target, 4000, 900, 1);
  change(requests.list[2], target);
  REQUIRE(requests.post(*pair.ends[0]) == 0);
  const std::vector<ibv_wc> ended = take(*wires.nics[0], 3);
  REQUIRE(ended.size() == 3);
  CHECK(describeStatus(ended[0].status) == describeStatus(status));
  CHECK(ended[0].wr_id == 2);
  for (size_t i : {1, 2}) {
    CHECK(ended[i].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(ended[i].wr_id == 2 + i);
    CHECK(ended[i].qp_num == pair.ends[0]->number());
  }
  // The immediate has not come; if the peer's side has ended, its receives are flushed.
  for (const ibv_wc &completion : take(*wires.nics[1], 2, milliseconds(20))) {
    CHECK(completion.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(completion.wr_id == 5);
  }
  CHECK(std::memcmp(target.bytes.data(), source.bytes.data(), 900) == 0);
  CHECK(std::memcmp(&target.bytes[1000], &source.bytes[1000], 900) == 0);
  CHECK(std::count(target.bytes.begin() + 2000, target.bytes.end(), 0) == 3000);

  Requests more;
  more.write(source, 0, target, 0, 8);
  REQUIRE(more.post(*pair.ends[0]) == 0);
  const std::vector<ibv_wc> flushed = take(*wires.nics[0], 1);
  REQUIRE(flushed.size() == 1);
  CHECK(flushed[0].status == IBV_WC_WR_FLUSH_ERR);

  Requests fine;
  fine.writeImmediate(source, 0, target, 2000, 100, 0);
  REQUIRE(fine.post(*other.ends[0]) == 0);
  const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].status == IBV_WC_SUCCESS);
  CHECK(arrived[0].wr_id == 6);
  CHECK(take(*wires.nics[0], 1).size() == 1);
}

} // namespace

TEST_CASE("rdma: a key that the peer has not given") {
  onEachWire([](Wires &wires) {
    spoil(wires, IBV_WC_REM_ACCESS_ERR,
          [](ibv_send_wr &request, Buffer &) { request.wr.rdma.rkey ^= 0x5500; });
  });
}

TEST_CASE("rdma: bytes beyond the peer's memory") {
  onEachWire([](Wires &wires) {
    spoil(wires, IBV_WC_REM_ACCESS_ERR, [](ibv_send_wr &request, Buffer &target) {
      request.wr.rdma.remote_addr = target.at(target.bytes.size()) - 899;
    });
  });
}

TEST_CASE("rdma: a key of memory here that does not exist") {
  onEachWire([](Wires &wires) {
    auto change = [](ibv_send_wr &request) { request.sg_list->lkey ^= 0x5500; };
    if (wires.fabric)
      return spoil(wires, IBV_WC_LOC_PROT_ERR,
                   [&](ibv_send_wr &request, Buffer &) { change(request); });
    // A device may also end those in front that the peer has not acknowledged, and call all of
    // them flushed: rxe does.
    Buffer source(*wires.nics[0], 5000), target(*wires.nics[1], 5000);
    Pair pair(wires);
    Requests requests;
    for (size_t i = 0; i < 3; ++i)
      requests.write(source, i * 1000, target, i * 1000, 900);
    change(requests.list[0]);
    std::memset(source.bytes.data(), 1, source.bytes.size());
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> ended = take(*wires.nics[0], 3);
    REQUIRE(ended.size() == 3);
    CHECK((ended[0].status == IBV_WC_LOC_PROT_ERR || ended[0].status == IBV_WC_WR_FLUSH_ERR));
    CHECK(ended[1].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(ended[2].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(std::count(target.bytes.begin(), target.bytes.end(), 0) == 5000);
  });
}

TEST_CASE("rdma: memory of the peer that is not registered any more") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
    Pair pair(wires);
    Requests first, second;
    first.write(source, 0, target, 0, 100);
    second.write(source, 0, target, 0, 100);
    REQUIRE(first.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> done = take(*wires.nics[0], 1);
    REQUIRE(done.size() == 1);
    CHECK(done[0].status == IBV_WC_SUCCESS);
    target.region.reset();
    REQUIRE(second.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> refused = take(*wires.nics[0], 1);
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].status == IBV_WC_REM_ACCESS_ERR);
    CHECK(contains(describeStatus(refused[0].status), "remote access error"));
  });
}

TEST_CASE("rdma: breaking off flushes receives and what is posted later; the peer gets no answer") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
    Pair pair(wires);
    REQUIRE(pair.ends[0]->postReceives(3, 42) == 0);
    pair.ends[0]->breakOff();
    pair.ends[0]->breakOff();
    std::vector<ibv_wc> flushed = take(*wires.nics[0], 3);
    REQUIRE(flushed.size() == 3);
    for (const ibv_wc &completion : flushed) {
      CHECK(completion.status == IBV_WC_WR_FLUSH_ERR);
      CHECK(completion.wr_id == 42);
      CHECK(completion.qp_num == pair.ends[0]->number());
    }
    Requests late;
    for (int i = 0; i < 3; ++i)
      late.write(source, 0, target, 0, 100);
    REQUIRE(late.post(*pair.ends[0]) == 0);
    flushed = take(*wires.nics[0], 3);
    REQUIRE(flushed.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(flushed[i].status == IBV_WC_WR_FLUSH_ERR);
      CHECK(flushed[i].wr_id == i); // also those without a signal
    }
    Requests back;
    back.write(target, 0, source, 0, 100);
    back.write(target, 0, source, 0, 100);
    REQUIRE(back.post(*pair.ends[1]) == 0);
    const std::vector<ibv_wc> ended = take(*wires.nics[1], 2);
    REQUIRE(ended.size() == 2);
    CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
    CHECK(contains(describeStatus(ended[0].status), "the peer does not answer"));
    CHECK(ended[1].status == IBV_WC_WR_FLUSH_ERR);
  });
}

TEST_CASE("rdma: a peer whose queue pair is gone does not answer") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
    Pair pair(wires);
    pair.ends[1].reset();
    Requests requests;
    requests.write(source, 0, target, 0, 100);
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> ended = take(*wires.nics[0], 1);
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
    // Memory and numbers are free for others.
    Pair again(wires);
    REQUIRE(again.ends[1]->postReceives(1, 0) == 0);
    Requests fine;
    fine.writeImmediate(source, 0, target, 0, 100, 3);
    REQUIRE(fine.post(*again.ends[0]) == 0);
    CHECK(take(*wires.nics[1], 1).size() == 1);
  });
}

TEST_CASE("rdma: an immediate waits for a receive") {
  onEachWire([](Wires &wires) {
    Buffer source(*wires.nics[0], 10000), target(*wires.nics[1], 10000);
    fill(source, 4);
    Pair pair(wires);
    Requests requests;
    requests.writeImmediate(source, 0, target, 0, 5000, 1);
    requests.writeImmediate(source, 5000, target, 5000, 5000, 2);
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    CHECK(take(*wires.nics[0], 1, milliseconds(50)).empty());
    CHECK(take(*wires.nics[1], 1, milliseconds(1)).empty());
    for (uint32_t i : {1, 2}) {
      REQUIRE(pair.ends[1]->postReceives(1, i) == 0);
      const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
      REQUIRE(arrived.size() == 1);
      CHECK(arrived[0].status == IBV_WC_SUCCESS);
      CHECK(arrived[0].imm_data == i);
      CHECK(arrived[0].wr_id == i);
      CHECK(std::memcmp(target.bytes.data(), source.bytes.data(), i * 5000) == 0);
    }
    CHECK(take(*wires.nics[0], 1).size() == 1);
  });
}

TEST_CASE("rdma: receives beyond what a queue pair has room for are refused") {
  onEachWire([](Wires &wires) {
    Pair pair(wires);
    const int room = pair.ends[1]->limits().receives;
    CHECK(pair.ends[1]->postReceives(room, 0) == 0);
    CHECK(pair.ends[1]->postReceives(1, 0) != 0);
    CHECK(pair.ends[1]->postReceives(-1, 0) != 0);
  });
}
