#include "test/unit/frontend/Ranks.h"

#include <cstring>

using namespace ccl;
using namespace ccl::test;

namespace {

/// All ranks add their numbers up.
void works(Communicator &rank) {
  std::vector<int> in(100, rank.rank() + 1), out(100);
  CHECK_OK(rank.allReduce(in.data(), out.data(), 100, DataType::i32, Op::sum));
  CHECK(out == std::vector<int>(100, rank.size() * (rank.size() + 1) / 2));
}

} // namespace

TEST_CASE("communicator: opening") {
  std::vector<Communicator> ranks = open(3, {.timeout = 5s});
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[1].rank() == 1);
  CHECK(ranks[1].size() == 3);
  CHECK(ranks[1].timeout() == 5s);
  CHECK(ranks[1].isDirect());
  CHECK(open(1)[0].timeout() == 10min);
  CHECK(messageOf(Communicator::openThreads(0)) == "a communicator has 1 to 1048576 ranks, not 0");
  CHECK(contains(messageOf(Communicator::openThreads(2, {.timeout = -1ms})), "-1 ms"));
}

TEST_CASE("communicator: one process per rank says what it lacks") {
  // The environment of tests has none of these.
  CHECK(contains(messageOf(Communicator::open()), "CCL_RANK"));
  CHECK(contains(messageOf(Communicator::open({.rank = 0})), "CCL_SIZE"));
  CHECK(contains(messageOf(Communicator::open({.rank = 0, .size = 2})), "CCL_SOCKET"));
  CHECK(contains(messageOf(Communicator::open({.rank = 2, .size = 2})), "rank 2 of 2"));
  CHECK(contains(messageOf(Communicator::open({.rank = 0, .size = -2})), "rank 0 of -2"));
}

TEST_CASE("communicator: split and dup, the parent goes first") {
  onRanks(4, [](Communicator &rank) {
    Result<std::optional<Communicator>> half = rank.split(rank.rank() % 2, -rank.rank());
    CHECK_OK(half);
    REQUIRE(*half);
    CHECK((*half)->size() == 2);
    CHECK((*half)->rank() == (rank.rank() < 2 ? 1 : 0)); // by key
    Result<std::optional<Communicator>> some = rank.split(rank.rank() == 0 ? -1 : 7, 0);
    CHECK_OK(some);
    CHECK(bool(*some) == (rank.rank() != 0));
    Communicator copy = valueOf(rank.dup());
    works(rank);
    {
      Communicator gone = std::move(rank);
    }
    CHECK(rank.rank() == -1);
    CHECK(contains(messageOf(rank.barrier()), "moved"));
    works(**half);
    works(copy);
  });
}

TEST_CASE("communicator: two, used by two threads of each rank at once") {
  onRanks(2, [](Communicator &rank) {
    Communicator other = valueOf(rank.dup());
    std::thread thread([&] {
      for (int i = 0; i < 50; ++i)
        works(other);
    });
    for (int i = 0; i < 50; ++i)
      works(rank);
    thread.join();
  });
}

TEST_CASE("communicator: one, used by several threads: one call after the other") {
  // With a single rank, any order is the same on all.
  onRanks(1, [](Communicator &rank) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
          works(rank);
      });
    for (std::thread &thread : threads)
      thread.join();
  });
}

TEST_CASE("communicator: abort ends all calls with its reason, and rebuild makes a new one") {
  std::vector<Communicator> ranks = open(3);
  CHECK(!ranks[1].failure());
  onEach(ranks, [](Communicator &rank) {
    if (rank.rank() == 1)
      rank.abort("enough");
    int in = 1, out = 0;
    Status status = rank.allReduce(&in, &out, 1, DataType::i32, Op::sum);
    // Ranks 0 and 2 may have met before; rank 1 cannot.
    while (status)
      status = rank.allReduce(&in, &out, 1, DataType::i32, Op::sum);
    CHECK(status.error().kind == Error::Kind::aborted);
    CHECK(contains(status.error().message, "enough"));
    REQUIRE(rank.failure());
    CHECK(rank.failure()->message == status.error().message);
    CHECK(!rank.barrier());
    CHECK(!rank.allocate(100));
    Communicator next = valueOf(rank.rebuild(20s));
    CHECK(next.size() == 3);
    works(next);
  });
}

TEST_CASE("communicator: who comes late learns it, even if all others are done by then") {
  for (int repeat = 0; repeat < 8; ++repeat) {
    std::vector<Communicator> ranks = open(3);
    ranks[2].abort("enough");
    auto rebuild = [&](size_t r) {
      Result<Communicator> next = ranks[r].rebuild(20ms);
      // One may come too late here, too, and is then told so.
      if (next)
        (void)next->barrier({.timeout = 10s});
      else
        CHECK(contains(messageOf(next), "which came late"));
    };
    std::thread other([&] { rebuild(1); });
    rebuild(0);
    other.join();
    // What the others made of it is given back.
    CHECK(contains(messageOf(ranks[2].rebuild(20ms)),
                   "the communicator went on without rank 2, which came late"));
  }
}

TEST_CASE("communicator: ranks that ask for different things all get one error") {
  std::vector<std::string> messages(2);
  onRanks(2, [&](Communicator &rank) {
    int in[2] = {1, 2}, out[2] = {};
    messages[size_t(rank.rank())] = refusal(
        rank.allReduce(in, out, rank.rank() + 1, DataType::i32, Op::sum), Error::Kind::mismatch);
  });
  CHECK(messages[0] == messages[1]);
}

TEST_CASE("communicator: an argument that makes no sense is blamed on the rank that gave it") {
  onRanks(3, [](Communicator &rank) {
    int in = 1, out = 0;
    const int64_t count = rank.rank() == 1 ? -1 : 1;
    Status status = rank.allReduce(&in, &out, count, DataType::i32, Op::sum);
    CHECK(contains(refusal(status, Error::Kind::argument), "-1"));
    CHECK(status.error().culprit == 1);
    REQUIRE(rank.failure());
    CHECK(rank.failure()->culprit == 1);
  });
}

TEST_CASE("communicator: a call that nobody joins ends at its time-out and names who is missing") {
  onRanks(2, [](Communicator &rank) {
    if (rank.rank() == 1)
      return;
    Status status = rank.barrier({.timeout = 200ms});
    refusal(status, Error::Kind::timeout);
    CHECK(status.error().culprit == 1);
  });
}

TEST_CASE("memory: all ranks address it; it is handed out again once all have given it back") {
  onRanks(2, [](Communicator &rank) {
    const int me = rank.rank(), other = 1 - me;
    void *first = nullptr;
    {
      Memory memory = valueOf(rank.allocate(1000));
      CHECK(memory.size() == 1000);
      CHECK(memory.as<int>().size() == 250);
      CHECK(memory.peer(me) == memory.data());
      CHECK(memory.peer(2) == nullptr);
      CHECK(memory.peer(-1) == nullptr);
      first = memory.data();
      memory.as<int>()[0] = 10 + me;
      CHECK_OK(rank.barrier());
      CHECK(*static_cast<int *>(memory.peer(other)) == 10 + other);
      CHECK_OK(rank.barrier());
      // Only one of them gives this one back.
      Memory kept = valueOf(rank.allocate(5000));
      void *there = kept.data();
      if (me == 0)
        Memory gone = std::move(kept);
      Memory next = valueOf(rank.allocate(5000));
      CHECK(next.data() != there);
    }
    Memory again = valueOf(rank.allocate(900));
    CHECK(again.data() == first);
    std::vector<int> in(200, me + 1);
    std::memcpy(again.data(), in.data(), 800);
    CHECK_OK(rank.allReduce(again.data(), again.data(), 200, DataType::i32, Op::sum));
    CHECK(again.as<int>()[199] == 3);
  });
}

TEST_CASE("memory: outlives its communicator") {
  std::vector<std::optional<Memory>> kept(2);
  onRanks(2, [&](Communicator &rank) {
    kept[size_t(rank.rank())] = valueOf(rank.allocate(64));
    CHECK_OK(rank.barrier());
  });
  std::memset(kept[0]->data(), 1, 64);
  std::memset(kept[0]->peer(1), 2, 64);
  CHECK(kept[1]->as<char>()[63] == 2);
}

TEST_CASE("memory: sizes that cannot be, or differ") {
  onRanks(2, [](Communicator &rank) {
    CHECK(contains(messageOf(rank.allocate(size_t(1) << 60)), "the limit is"));
    Memory none = valueOf(rank.allocate(0));
    CHECK(none.size() == 0);
    refusal(rank.allocate(rank.rank() ? 5000 : 50), Error::Kind::mismatch);
  });
}
