//===- ManyTest.cpp - Threads that all write to each other ----------------------------===//
#include "test/unit/rdma/Wires.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <sched.h>
#include <thread>

using namespace ccl;
using namespace ccl::rdma;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t slots = 4, slotBytes = 9000;
constexpr uint64_t messages = 150;

uint8_t valueOf(int from, int to, uint64_t message) {
  return uint8_t(31 * from + 17 * to + 7 * message + 1);
}
uint32_t lengthOf(int from, int to, uint64_t message) {
  return uint32_t(valueOf(from, to, message)) * 35 + uint32_t(message % 13);
}

/// One side of a connection: slots that the peer fills, and a word that says how many slots of the
/// peer are free again.
struct End {
  End(Nic &nic) : source(nic, slots * slotBytes), target(nic, slots * slotBytes), words(nic, 32) {
    queue = llvm::cantFail(nic.createQueuePair({64, 64, 64, 4}));
  }
  uint64_t *freed() const { return reinterpret_cast<uint64_t *>((words.at(0) + 7) & ~uint64_t(7)); }
  uint64_t *own() const { return freed() + 1; }

  Buffer source, target, words;
  std::unique_ptr<QueuePair> queue;
  End *peer = nullptr;
  uint64_t sent = 0, received = 0;
  int free = 64; ///< work requests that fit, all of them signalled
};

struct Member {
  int rank = 0;
  Nic *nic = nullptr;
  std::vector<std::unique_ptr<End>> ends; ///< by peer; that of this rank is null
  std::string error;

  void send(int to);
  void take(const ibv_wc &completion);
  bool isOver() const;
  void run();
};

void Member::send(int to) {
  End &end = *ends[size_t(to)];
  const uint64_t message = end.sent;
  if (message == messages || end.free == 0 ||
      message - __atomic_load_n(end.freed(), __ATOMIC_ACQUIRE) >= slots)
    return;
  const size_t place = message % slots * slotBytes;
  const uint32_t length = lengthOf(rank, to, message);
  std::memset(&end.source.bytes[place], valueOf(rank, to, message), length);
  Requests requests;
  requests.writeImmediate(end.source, place, end.peer->target, place, length, uint32_t(message));
  if (requests.post(*end.queue) != 0)
    error = fmt::format("rank {} cannot post message {} for {}", rank, message, to);
  --end.free;
  ++end.sent;
}

void Member::take(const ibv_wc &completion) {
  int from = -1;
  for (size_t i = 0; i < ends.size(); ++i)
    if (ends[i] && ends[i]->queue->number() == completion.qp_num)
      from = int(i);
  if (from < 0 || completion.status != IBV_WC_SUCCESS) {
    error = fmt::format("rank {}: {}", rank, describeStatus(completion.status));
    return;
  }
  End &end = *ends[size_t(from)];
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    ++end.free;
    return;
  }
  const uint64_t message = end.received++;
  const uint32_t length = lengthOf(from, rank, message);
  const auto begin = end.target.bytes.begin() + ptrdiff_t(message % slots * slotBytes);
  if (completion.imm_data != message || completion.byte_len != length ||
      std::count(begin, begin + length, valueOf(from, rank, message)) != length) {
    error = fmt::format("rank {}: message {} of {} is wrong", rank, message, from);
    return;
  }
  __atomic_store_n(end.own(), end.received, __ATOMIC_RELEASE);
  Requests requests;
  ibv_send_wr &request =
      requests.write(end.words, size_t(reinterpret_cast<uint64_t>(end.own()) - end.words.at(0)),
                     end.peer->words, 0, sizeof(uint64_t));
  request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(end.peer->freed());
  request.send_flags = IBV_SEND_INLINE;
  --end.free;
  if (requests.post(*end.queue) != 0 || end.queue->postReceives(1, 0) != 0)
    error = fmt::format("rank {} cannot free a slot of {}", rank, from);
}

bool Member::isOver() const {
  return std::all_of(ends.begin(), ends.end(), [](const auto &end) {
    return !end || (end->sent == messages && end->received == messages &&
                    __atomic_load_n(end->freed(), __ATOMIC_ACQUIRE) == messages);
  });
}

void Member::run() {
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(60);
  while (error.empty() && !isOver()) {
    for (size_t to = 0; to < ends.size(); ++to)
      if (ends[to])
        send(int(to));
    std::array<ibv_wc, 8> completions;
    const int got = nic->poll(completions.data(), int(completions.size()));
    for (int i = 0; i < got; ++i)
      take(completions[size_t(i)]);
    if (got == 0)
      sched_yield();
    if (got < 0 || Clock::now() > limit)
      error = fmt::format("rank {} is stuck", rank);
  }
}

/// Until `isOver` takes and gives memory and queue pairs on each NIC, and links of an emulation.
void disturb(std::vector<std::unique_ptr<Nic>> &nics, Fabric *fabric, std::atomic<bool> &isOver) {
  std::vector<uint8_t> memory(5000);
  for (size_t i = 0; !isOver; ++i) {
    Nic &nic = *nics[i % nics.size()];
    auto region = llvm::cantFail(nic.registerMemory(memory.data(), memory.size()));
    auto queue = llvm::cantFail(nic.createQueuePair({}));
    llvm::consumeError(queue->connect(queue->address()));
    if (queue->postReceives(3, 0) != 0)
      return;
    queue.reset();
    region.reset();
    if (fabric)
      fabric->setLink(nic.facts().device, false);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (fabric)
      fabric->setLink(nic.facts().device, true);
    nic.events();
  }
}

void exchangeAll(std::vector<std::unique_ptr<Nic>> &nics, Fabric *fabric) {
  std::vector<Member> members(nics.size());
  for (size_t rank = 0; rank < nics.size(); ++rank) {
    members[rank].rank = int(rank);
    members[rank].nic = nics[rank].get();
    for (size_t peer = 0; peer < nics.size(); ++peer)
      members[rank].ends.push_back(peer == rank ? nullptr : std::make_unique<End>(*nics[rank]));
  }
  for (size_t a = 0; a < nics.size(); ++a)
    for (size_t b = 0; b < nics.size(); ++b)
      if (a != b) {
        End &end = *members[a].ends[b];
        end.peer = members[b].ends[a].get();
        llvm::cantFail(end.queue->connect(end.peer->queue->address()));
        REQUIRE(end.queue->postReceives(slots, 0) == 0);
      }
  std::atomic<bool> isOver = false;
  std::thread other([&] { disturb(nics, fabric, isOver); });
  std::vector<std::thread> threads;
  for (Member &member : members)
    threads.emplace_back([&] { member.run(); });
  for (std::thread &thread : threads)
    thread.join();
  isOver = true;
  other.join();
  for (const Member &member : members)
    CHECK(member.error == "");
}

} // namespace

TEST_CASE("rdma: threads that write to each other, while memory, queue pairs and links come and "
          "go") {
  std::vector<std::unique_ptr<Nic>> nics;
  if (!realDevices().empty()) {
    for (const std::string &device : realDevices())
      nics.push_back(llvm::cantFail(openVerbs("", realOptions(device))));
    return exchangeAll(nics, nullptr);
  }
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Fabric::Options options;
    options.seed = seed;
    options.retryTime = std::chrono::seconds(30);
    options.delay = std::chrono::microseconds(seed % 2 ? 20 : 0);
    std::shared_ptr<Fabric> fabric = Fabric::create(options);
    for (int i = 0; i < 3; ++i)
      nics.push_back(fabric->addNic(fmt::format("nic{}", i)));
    exchangeAll(nics, fabric.get());
    nics.clear();
  }
}
