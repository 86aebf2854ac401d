//===- EmulationTest.cpp - What the emulation draws, delays and breaks ---------------===//
#include "test/unit/rdma/Wires.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace ccl;
using namespace ccl::rdma;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool isSanitized = true;
#elif defined(__has_feature)
constexpr bool isSanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
constexpr bool isSanitized = false;
#endif

namespace {

/// Memory that takes no room until it is written.
struct Sparse {
  Sparse(Nic &nic, size_t bytes) : bytes(bytes) {
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    data = static_cast<uint8_t *>(mapped);
    region = llvm::cantFail(nic.registerMemory(data, bytes));
  }
  ~Sparse() {
    region.reset();
    munmap(data, bytes);
  }
  uint8_t *data = nullptr;
  size_t bytes;
  std::unique_ptr<Region> region;
};

int64_t residentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// A write of all of `source`, by pieces of at most `most` bytes; the last has an immediate.
void sendSparse(Wires &wires, const Sparse &source, const Sparse &target, size_t bytes,
                size_t most) {
  Pair pair(wires);
  REQUIRE(pair.ends[1]->postReceives(1, 0) == 0);
  std::deque<ibv_send_wr> list;
  std::deque<ibv_sge> pieces;
  for (size_t done = 0; done < bytes; done += most) {
    const size_t part = std::min(most, bytes - done);
    pieces.push_back(
        {reinterpret_cast<uint64_t>(source.data + done), uint32_t(part), source.region->localKey});
    ibv_send_wr request{};
    request.sg_list = &pieces.back();
    request.num_sge = 1;
    request.opcode = done + part < bytes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = done + part < bytes ? 0u : unsigned(IBV_SEND_SIGNALED);
    request.wr.rdma = {reinterpret_cast<uint64_t>(target.data + done), target.region->remoteKey};
    list.push_back(request);
    if (list.size() > 1)
      list[list.size() - 2].next = &list.back();
  }
  ibv_send_wr *bad = nullptr;
  REQUIRE(pair.ends[0]->post(&list.front(), &bad) == 0);
  const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1, milliseconds(60000));
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].status == IBV_WC_SUCCESS);
  CHECK(arrived[0].byte_len == uint32_t(bytes - (bytes - 1) / most * most));
  REQUIRE(take(*wires.nics[0], 1).size() == 1);
}

} // namespace

TEST_CASE("rdma emulation: messages of 2 GiB - 1, 2 GiB and 5 GiB of sparse memory" *
          doctest::skip(isSanitized)) {
  constexpr size_t GiB = size_t(1) << 30;
  Wires wires = makeWires({});
  Sparse source(*wires.nics[0], 5 * GiB), target(*wires.nics[1], 5 * GiB);
  const int64_t before = residentBytes();
  uint8_t mark = 0;
  for (const auto &[bytes, most] :
       {std::pair{2 * GiB - 1, 2 * GiB}, {2 * GiB, 2 * GiB}, {5 * GiB, GiB}, {5 * GiB, 2 * GiB}}) {
    CAPTURE(bytes);
    ++mark;
    const size_t places[] = {0, 4095, GiB - 1, GiB, 2 * GiB - 2, bytes - 1};
    for (size_t place : places)
      source.data[place] = uint8_t(mark + place % 13);
    sendSparse(wires, source, target, bytes, most);
    for (size_t place : places)
      CHECK(target.data[place] == uint8_t(mark + place % 13));
  }
  CHECK(residentBytes() - before < int64_t(64) << 20);
  CHECK(wires.fabric->sentBytes("nic0") == int64_t(4 * GiB - 1 + 10 * GiB));
}

TEST_CASE("rdma emulation: a message longer than the device takes is refused") {
  Fabric::Options options;
  options.mostBytes = 1000;
  Wires wires = makeWires(options);
  CHECK(wires.nics[0]->facts().mostBytes == 1000);
  Buffer source(*wires.nics[0], 2000), target(*wires.nics[1], 2000);
  Pair pair(wires);
  Requests requests;
  requests.write(source, 0, target, 0, 1000);
  requests.write(source, 0, target, 0, 1001);
  ibv_send_wr *bad = nullptr;
  CHECK(requests.postAsIs(*pair.ends[0], &bad) == EINVAL);
  CHECK(bad == &requests.list[1]);
  Requests read;
  read.write(source, 0, target, 0, 8).opcode = IBV_WR_RDMA_READ;
  CHECK(read.post(*pair.ends[0]) == EINVAL);
  Requests inlined;
  inlined.write(source, 0, target, 0, 65).send_flags = IBV_SEND_INLINE;
  CHECK(inlined.post(*pair.ends[0]) == EINVAL);
}

TEST_CASE("rdma emulation: a delay holds for each message, and messages overlap") {
  Fabric::Options options;
  options.delay = std::chrono::milliseconds(20);
  Wires wires = makeWires(options);
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  Pair pair(wires);
  REQUIRE(pair.ends[1]->postReceives(20, 0) == 0);
  const Clock::time_point start = Clock::now();
  for (uint32_t i = 0; i < 20; ++i) {
    Requests requests;
    requests.writeImmediate(source, 0, target, 0, 10, i);
    REQUIRE(requests.post(*pair.ends[0]) == 0);
  }
  REQUIRE(take(*wires.nics[1], 1).size() == 1);
  CHECK(Clock::now() - start >= milliseconds(20));
  REQUIRE(take(*wires.nics[1], 19).size() == 19);
  CHECK(Clock::now() - start < milliseconds(390)); // 20 times 20 ms, if one waited for another
}

/// Whether a message of 16 MiB, stopped on its way, has reached memory in another order than that
/// of its bytes. 0: it could not be stopped.
static int orderOfPart(uint64_t seed, std::chrono::microseconds pause) {
  constexpr size_t packet = 1 << 20, packets = 64;
  Fabric::Options options;
  options.seed = seed;
  options.retryTime = std::chrono::minutes(1);
  Wires wires = makeWires(options);
  Buffer source(*wires.nics[0], packet * packets), target(*wires.nics[1], packet * packets);
  std::memset(source.bytes.data(), 1, source.bytes.size());
  Pair pair(wires);
  Requests requests;
  requests.write(source, 0, target, 0, packet * packets);
  REQUIRE(requests.post(*pair.ends[0]) == 0);
  std::this_thread::sleep_for(pause);
  wires.fabric->setLink("nic1", false);
  pair.ends[0]->breakOff(); // nothing is written after that
  REQUIRE(take(*wires.nics[0], 1).size() == 1);
  // In order, no byte that is there comes behind one that is not.
  const size_t there = size_t(std::count(target.bytes.begin(), target.bytes.end(), 1));
  if (there == 0 || there == target.bytes.size())
    return 0;
  const bool isPrefix = std::count(target.bytes.begin(), target.bytes.begin() + ptrdiff_t(there),
                                   1) == ptrdiff_t(there);
  return isPrefix ? 1 : 2;
}

TEST_CASE("rdma emulation: with a seed packets reach memory in any order, without in order") {
  int orders[3][3] = {};
  for (const uint64_t seed : {0, 1, 2})
    for (int attempt = 0; attempt < 60 && orders[seed][1] + orders[seed][2] < 3; ++attempt)
      ++orders[seed][orderOfPart(seed, std::chrono::microseconds(200 << attempt % 10))];
  CHECK(orders[0][1] > 0);
  CHECK(orders[0][2] == 0);
  CHECK(orders[1][2] > 0);
  CHECK(orders[2][2] > 0);
}

TEST_CASE(
    "rdma emulation: a link that is down for a moment costs time, for longer the queue pair") {
  Fabric::Options options;
  options.retryTime = milliseconds(300);
  Wires wires = makeWires(options);
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  Pair pair(wires);
  REQUIRE(pair.ends[1]->postReceives(2, 0) == 0);
  for (const char *name : {"nic0", "nic1"}) {
    Requests requests;
    requests.writeImmediate(source, 0, target, 0, 10, 1);
    wires.fabric->setLink(name, false);
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    CHECK(take(*wires.nics[1], 1, milliseconds(30)).empty());
    wires.fabric->setLink(name, true);
    const std::vector<ibv_wc> sent = take(*wires.nics[0], 1);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].status == IBV_WC_SUCCESS);
    CHECK(take(*wires.nics[1], 1).size() == 1);
  }
  CHECK(wires.nics[0]->events() == "port 1 of nic0 went down; port 1 of nic0 is active again");
  CHECK(wires.nics[0]->events() == "");
  wires.fabric->setLink("nic1", false);
  CHECK(contains(wires.nics[1]->events(), "went down; port 1 of nic1 is active again; port 1"));
  Requests requests;
  requests.write(source, 0, target, 0, 10);
  requests.write(source, 0, target, 0, 10);
  const Clock::time_point start = Clock::now();
  REQUIRE(requests.post(*pair.ends[0]) == 0);
  const std::vector<ibv_wc> ended = take(*wires.nics[0], 2);
  CHECK(Clock::now() - start >= milliseconds(300));
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(ended[1].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("rdma emulation: a work request fails when it is told to") {
  Wires wires = makeWires({});
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  Pair pair(wires);
  wires.fabric->failAfter("nic0", 3, IBV_WC_REM_OP_ERR);
  Requests requests;
  for (int i = 0; i < 5; ++i)
    requests.write(source, 0, target, 0, 10);
  REQUIRE(requests.post(*pair.ends[0]) == 0);
  const std::vector<ibv_wc> ended = take(*wires.nics[0], 2);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].wr_id == 3);
  CHECK(ended[0].status == IBV_WC_REM_OP_ERR);
  CHECK(ended[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(wires.fabric->sentBytes("nic0") == 30);
  CHECK(wires.fabric->sentBytes("nic1") == 0);
}

TEST_CASE("rdma emulation: a device that is lost says so, and wakes who sleeps") {
  Wires wires = makeWires({});
  Nic &nic = *wires.nics[1];
  CHECK(nic.arm());
  std::thread thread([&] { wires.fabric->removeDevice("nic1"); });
  pollfd descriptor{nic.descriptor(), POLLIN, 0};
  CHECK(poll(&descriptor, 1, 10000) == 1);
  thread.join();
  ibv_wc completion{};
  CHECK(nic.poll(&completion, 1) < 0);
  CHECK_FALSE(nic.arm());
  CHECK(nic.events() == "nic1 is gone");
}

TEST_CASE("rdma emulation: queue pairs that are not, or wrongly, connected") {
  Wires wires = makeWires({});
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  auto queue = llvm::cantFail(wires.nics[0]->createQueuePair({}));
  Requests requests;
  requests.write(source, 0, target, 0, 10);
  CHECK(requests.post(*queue) == EINVAL);
  QueueAddress nowhere = queue->address();
  nowhere.gid[15] = 77;
  CHECK(contains(llvm::toString(queue->connect(nowhere)), "nic0 port 1, GID index 0: no route"));
  // To one that is connected with another.
  Pair pair(wires);
  llvm::cantFail(queue->connect(pair.ends[1]->address()));
  CHECK(contains(llvm::toString(queue->connect(pair.ends[1]->address())), "connected before"));
  REQUIRE(requests.post(*queue) == 0);
  const std::vector<ibv_wc> ended = take(*wires.nics[0], 1);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("rdma emulation: limits of a NIC, and names") {
  Wires wires = makeWires({});
  QueueLimits limits;
  limits.sends = 2000;
  CHECK(contains(llvm::toString(wires.nics[0]->createQueuePair(limits).takeError()),
                 "a send queue has from 1 to 1024"));
  limits = {};
  limits.inlineBytes = 1000;
  CHECK(contains(llvm::toString(wires.nics[0]->createQueuePair(limits).takeError()),
                 "1000 inline bytes"));
  limits = {};
  limits.receives = 1 << 15;
  auto first = wires.nics[0]->createQueuePair(limits);
  REQUIRE(bool(first));
  CHECK(contains(llvm::toString(wires.nics[0]->createQueuePair(limits).takeError()),
                 "could make more completions than the 65536"));
  first->reset();
  CHECK(bool(wires.nics[0]->createQueuePair(limits)));
  CHECK(contains(llvm::toString(wires.nics[0]->registerMemory(nullptr, 8).takeError()), "nic0"));
  CHECK(wires.fabric->addNic("nic0") == nullptr);
  wires.nics[0].reset();
  wires.nics[0] = wires.fabric->addNic("nic0");
  REQUIRE(wires.nics[0]);
  Pair pair(wires);
  CHECK(pair.ends[0]->address().gid[15] == 1);
}

TEST_CASE("rdma: without a library or a device") {
  NicOptions options;
  options.device = "no-such-nic";
  CHECK(contains(llvm::toString(openVerbs("/nowhere/libibverbs.so.1", options).takeError()),
                 "/nowhere/libibverbs.so.1"));
  const std::string text = llvm::toString(listVerbs("/nowhere/libibverbs.so.1").takeError());
  CHECK(contains(text, "install libibverbs1"));
  CHECK(contains(text, "CCL_VERBS_LIBRARY"));
  CHECK(contains(llvm::toString(listVerbs("libm.so.6").takeError()),
                 "libm.so.6 has no function ibv_get_device_list"));
  options.mtu = 1500;
  CHECK(contains(llvm::toString(openVerbs("", options).takeError()), "CCL_RDMA_MTU"));
  options.mtu = 0;
  options.device = "mlx5_0:x";
  const std::string wrong = llvm::toString(openVerbs("", options).takeError());
  CHECK((contains(wrong, "'mlx5_0:x': expected a device") || contains(wrong, "install")));
}
