//===- WireListTest.cpp - The lists of work requests that a wire posts ---------------===//
#include "WireNet.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>

using namespace ccl;
using namespace ccl::rdma;
using namespace ccl::test;

namespace {

struct Posted {
  ibv_wr_opcode opcode;
  bool isSignaled, isInline;
  int64_t bytes;
  uint32_t immediate;
};

/// What was posted on all queue pairs of a NIC, list by list; completions of sends can be held.
struct Record {
  std::mutex mutex;
  std::vector<std::vector<Posted>> lists;
  bool holdsSends = false;
  int inlineBytes = 64; ///< of the device
  std::deque<ibv_wc> held;

  std::vector<Posted> all() {
    const std::lock_guard lock(mutex);
    std::vector<Posted> posted;
    for (const auto &list : lists)
      posted.insert(posted.end(), list.begin(), list.end());
    return posted;
  }
  size_t size() {
    const std::lock_guard lock(mutex);
    return lists.size();
  }
  void hold(bool holds) {
    const std::lock_guard lock(mutex);
    holdsSends = holds;
  }
};

class RecordedQueue final : public QueuePair {
public:
  RecordedQueue(std::unique_ptr<QueuePair> queue, Record &record)
      : queue(std::move(queue)), record(record) {}
  QueueAddress address() const override { return queue->address(); }
  llvm::Error connect(const QueueAddress &peer) override { return queue->connect(peer); }
  int post(ibv_send_wr *first, ibv_send_wr **bad) override {
    {
      const std::lock_guard lock(record.mutex);
      record.lists.emplace_back();
      for (const ibv_send_wr *work = first; work; work = work->next) {
        int64_t bytes = 0;
        for (int i = 0; i < work->num_sge; ++i)
          bytes += work->sg_list[i].length;
        record.lists.back().push_back({work->opcode, (work->send_flags & IBV_SEND_SIGNALED) != 0,
                                       (work->send_flags & IBV_SEND_INLINE) != 0, bytes,
                                       ntohl(work->imm_data)});
      }
    }
    return queue->post(first, bad);
  }
  int postReceives(int number, uint64_t id) override { return queue->postReceives(number, id); }
  uint32_t number() const override { return queue->number(); }
  QueueLimits limits() const override {
    QueueLimits limits = queue->limits();
    limits.inlineBytes = std::min(limits.inlineBytes, record.inlineBytes);
    return limits;
  }
  void breakOff() override { queue->breakOff(); }

private:
  const std::unique_ptr<QueuePair> queue;
  Record &record;
};

class RecordedNic final : public Nic {
public:
  RecordedNic(std::unique_ptr<Nic> nic, Record &record) : nic(std::move(nic)), record(record) {}
  const NicFacts &facts() const override { return nic->facts(); }
  llvm::Expected<std::unique_ptr<Region>> registerMemory(void *address, size_t bytes) override {
    return nic->registerMemory(address, bytes);
  }
  llvm::Expected<std::unique_ptr<QueuePair>> createQueuePair(const QueueLimits &limits) override {
    llvm::Expected<std::unique_ptr<QueuePair>> queue = nic->createQueuePair(limits);
    if (!queue)
      return queue.takeError();
    return std::make_unique<RecordedQueue>(std::move(*queue), record);
  }
  int poll(ibv_wc *completions, int n) override {
    const int number = nic->poll(completions, n);
    const std::lock_guard lock(record.mutex);
    int kept = 0;
    for (int i = 0; i < number; ++i)
      if (record.holdsSends && (completions[i].opcode & IBV_WC_RECV) == 0)
        record.held.push_back(completions[i]);
      else
        completions[kept++] = completions[i];
    for (; !record.holdsSends && !record.held.empty() && kept < n; record.held.pop_front())
      completions[kept++] = record.held.front();
    return number < 0 ? number : kept;
  }
  bool arm() override { return nic->arm(); }
  int descriptor() const override { return nic->descriptor(); }
  std::string events() override { return nic->events(); }

private:
  const std::unique_ptr<Nic> nic;
  Record &record;
};

/// Two ranks; the NICs of rank 0 are recorded.
struct RecordedPair {
  std::vector<Record> records;
  Net net;

  explicit RecordedPair(const NetOptions &options)
      : records(size_t(options.nics[0])), net(options) {
    std::vector<std::unique_ptr<Nic>> nics;
    nics.reserve(records.size());
    for (size_t i = 0; i < records.size(); ++i)
      nics.push_back(std::make_unique<RecordedNic>(net.fabric->addNic(fmt::format("recorded{}", i)),
                                                   records[i]));
    WireOptions wire;
    wire.slotBytes = options.slotBytes;
    wire.limits = options.limits;
    wire.queues = options.queues;
    net.wires[0] = llvm::cantFail(Wire::create(std::move(nics), wire));
  }
  // Records are written until the wire is gone.
  ~RecordedPair() { net.wires.clear(); }

  /// Rank 0 sends all of `flows` (no more than there are slots) before the wire may look.
  void post(const std::vector<Flow> &flows) {
    begin(flows);
    drain();
  }
  void begin(const std::vector<Flow> &flows) {
    REQUIRE(net.open(flows) == "");
    std::vector<ChannelEnd *> ends, sending;
    for (const Flow &flow : flows) {
      ChannelEnd *end = net.wires[0]->end(flow.key, true);
      ends.push_back(end);
      if (flow.key.slots > 0)
        sending.push_back(end);
      for (int m = 0; m < flow.messages && flow.key.slots > 0; ++m) {
        size_t position = 0;
        for (const Piece &piece : flow.pieces(uint64_t(m))) {
          fillMessage(flow.key, uint64_t(m), end->slots + m * end->slotBytes + piece.offset,
                      position, size_t(piece.bytes));
          position += size_t(piece.bytes);
        }
      }
      end->next += uint64_t(flow.messages);
      __atomic_store_n(end->depart, end->next, __ATOMIC_RELEASE);
    }
    net.wires[0]->begin(ends, sending,
                        [sent = flows](size_t index, uint64_t message, std::vector<Piece> &list) {
                          size_t at = 0;
                          for (const Flow &flow : sent)
                            if (flow.key.slots > 0 && at++ == index)
                              list = flow.pieces(message);
                        });
  }
  bool isDrainedWithin(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!net.wires[0]->isDrained()) {
      if (std::chrono::steady_clock::now() > end)
        return false;
      std::this_thread::yield();
    }
    return true;
  }
  void drain() {
    REQUIRE(isDrainedWithin(std::chrono::seconds(10)));
    net.wires[0]->end();
  }
};

std::vector<Flow> bothWays() {
  return {{{0, 1, 0, 3}, 50, whole(24)}, {{1, 0, 0, 3}, 50, whole(24)}};
}

int64_t signaled(const std::vector<Posted> &posted) {
  return std::count_if(posted.begin(), posted.end(), [](const Posted &p) { return p.isSignaled; });
}

} // namespace

TEST_CASE("what is there for one peer is one list with one signal") {
  RecordedPair pair({});
  // Eight messages of two pieces each, four of one, and 1000 signals: four immediates.
  pair.post({{{0, 1, 0, 8}, 8, [](uint64_t) { return std::vector<Piece>{{0, 100}, {1000, 50}}; }},
             {{0, 1, 1, 4}, 4, whole(4000)},
             {{0, 1, 2, 0}, 1000, {}}});
  const std::vector<Posted> posted = pair.records[0].all();
  CHECK(pair.records[0].size() == 1);
  CHECK(posted.size() == 8 * 2 + 4 + 4);
  CHECK(signaled(posted) == 1);
  CHECK(posted.back().isSignaled);
  int64_t immediates = 0, signals = 0;
  for (const Posted &p : posted) {
    CHECK(p.isInline == (p.bytes > 0 && p.bytes <= 64));
    if (p.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      ++immediates;
      signals += p.bytes == 0 ? int64_t(messagesOf(p.immediate)) : 0;
    }
  }
  CHECK(immediates == 8 + 4 + 4);
  CHECK(signals == 1000);
}

TEST_CASE("queues that are short take lists in parts, each with a signal") {
  for (int depth : {1, 3, 4, 8, 64}) {
    CAPTURE(depth);
    NetOptions options;
    options.queues.sends = depth;
    options.limits.mostBytes = 100;
    RecordedPair pair(options);
    pair.post({{{0, 1, 0, 8}, 8, whole(1000)}});
    const std::vector<Posted> posted = pair.records[0].all();
    CHECK(posted.size() == 80);
    for (const std::vector<Posted> &list : pair.records[0].lists) {
      CHECK(int(list.size()) <= depth);
      CHECK(list.back().isSignaled);
    }
  }
}

TEST_CASE("signals come once in so many work requests") {
  for (int every : {1, 10, 64}) {
    CAPTURE(every);
    NetOptions options;
    options.limits.signalEvery = every;
    options.limits.mostBytes = 100;
    RecordedPair pair(options);
    pair.post({{{0, 1, 0, 4}, 4, whole(2000)}});
    const std::vector<Posted> posted = pair.records[0].all();
    CHECK(pair.records[0].size() == 1);
    CHECK(posted.size() == 80);
    CHECK(signaled(posted) == 80 / every + (80 % every != 0));
  }
}

TEST_CASE("stripes: each NIC gets its part and tells it by an immediate") {
  NetOptions options;
  options.nics = {3};
  options.slotBytes = 3 << 20;
  options.limits.mostBytes = 1 << 20;
  RecordedPair pair(options);
  pair.post({{{0, 1, 0, 2}, 2, whole(3 << 20)}});
  for (Record &record : pair.records) {
    const std::vector<Posted> posted = record.all();
    REQUIRE(posted.size() == 2);
    CHECK(signaled(posted) == 1);
    for (const Posted &p : posted) {
      CHECK(p.bytes == 1 << 20);
      CHECK(p.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
      CHECK(isPart(p.immediate));
      CHECK(messagesOf(p.immediate) == 1);
    }
  }
}

TEST_CASE("a device without inline data") {
  RecordedPair pair({});
  for (Record &record : pair.records)
    record.inlineBytes = 0;
  const std::vector<Flow> flows = bothWays();
  CHECK(pair.net.runAll(flows, 3) == "");
  const std::vector<Posted> posted = pair.records[0].all();
  int64_t bytes = 0;
  for (const Posted &p : posted) {
    CHECK_FALSE(p.isInline);
    bytes += p.bytes;
  }
  CHECK(bytes > 3 * 50 * 24);
}

TEST_CASE("a slot is not given back before the NIC here is done with it, and nothing is drained") {
  RecordedPair pair({});
  const std::vector<Flow> flows = {{{0, 1, 0, 2}, 2, whole(1000)}};
  pair.records[0].hold(true);
  pair.begin(flows);
  // The peer takes both messages and frees their slots.
  CHECK(pair.net.run(flows, 1, {0})[1] == "");
  const ChannelEnd *to = pair.net.wires[0]->end(flows[0].key, true);
  auto given = [&] { return __atomic_load_n(to->arrive, __ATOMIC_ACQUIRE); };
  CHECK_FALSE(pair.isDrainedWithin(std::chrono::milliseconds(30)));
  CHECK(given() == 0);
  pair.records[0].hold(false);
  pair.drain();
  pair.begin({{{0, 1, 0, 2}, 0, whole(1000)}});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (given() != 2 && std::chrono::steady_clock::now() < end)
    pair.net.wires[0]->progress();
  CHECK(given() == 2);
  pair.drain();
}
