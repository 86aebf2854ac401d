#include "test/unit/frontend/Ranks.h"

using namespace ccl;
using namespace ccl::test;

TEST_CASE("stream: calls are executed in order, between blocking ones") {
  onRanks(2, [](Communicator &rank) {
    Stream stream = valueOf(rank.openStream());
    std::vector<int64_t> data(1000, rank.rank() + 1);
    // Each doubles the sum of before: 3, 6, 12, ...
    for (int i = 0; i < 20; ++i)
      CHECK_OK(rank.allReduce(data.data(), data.data(), 1000, DataType::i64, Op::sum,
                              {.stream = &stream}));
    std::vector<int64_t> blocking(1000);
    CHECK_OK(rank.allReduce(data.data(), blocking.data(), 1000, DataType::i64, Op::max));
    CHECK(blocking == std::vector<int64_t>(1000, 3 << 19)); // it came after all of them
    CHECK_OK(stream.wait());
    CHECK(data == blocking);
    CHECK(stream.idle());
  });
}

TEST_CASE("stream: the communicator goes first, the stream finishes its work") {
  std::vector<std::vector<int>> data(2);
  std::vector<std::optional<Stream>> streams(2);
  {
    std::vector<Communicator> ranks = open(2);
    for (int r = 0; r < 2; ++r) {
      data[size_t(r)].assign(100000, r + 1);
      streams[size_t(r)] = valueOf(ranks[size_t(r)].openStream());
      for (int i = 0; i < 5; ++i)
        CHECK_OK(ranks[size_t(r)].allReduce(data[size_t(r)].data(), data[size_t(r)].data(), 100000,
                                            DataType::i32, Op::max,
                                            {.stream = &*streams[size_t(r)]}));
    }
  }
  CHECK_OK(streams[0]->wait());
  streams.clear(); // waits for the other one
  CHECK(data[1] == std::vector<int>(100000, 2));
  CHECK(data[0] == data[1]);
}

TEST_CASE("stream: destroyed with work whose partner never comes, it fails that work") {
  onRanks(2, [](Communicator &rank) {
    if (rank.rank() == 1)
      return;
    int in = 1, out = 0;
    {
      Stream stream = valueOf(rank.openStream());
      CHECK_OK(rank.allReduce(&in, &out, 1, DataType::i32, Op::sum,
                              {.stream = &stream, .timeout = 100ms}));
    }
    REQUIRE(rank.failure());
    CHECK(rank.failure()->kind == Error::Kind::timeout);
  });
}

TEST_CASE("stream: wait gives the first error; its own time-out stops nothing") {
  onRanks(2, [](Communicator &rank) {
    Stream stream = valueOf(rank.openStream());
    std::vector<int> in(10, 1), out(10);
    CHECK_OK(stream.wait());
    CHECK(messageOf(stream.wait(-1ms)) == "a time-out of -1 ms");
    if (rank.rank() == 0) {
      CHECK_OK(rank.barrier({.stream = &stream}));
      CHECK(contains(refusal(stream.wait(20ms), Error::Kind::timeout),
                     "1 calls of the stream are not done after 20 ms"));
      CHECK(!stream.idle());
    } else {
      std::this_thread::sleep_for(60ms);
      CHECK_OK(rank.barrier({.stream = &stream}));
    }
    CHECK_OK(stream.wait());
    // Counts that differ: an error of both, found by the stream's thread.
    CHECK_OK(rank.allReduce(in.data(), out.data(), rank.rank() + 1, DataType::i32, Op::sum,
                            {.stream = &stream}));
    const std::string first = refusal(stream.wait(), Error::Kind::mismatch);
    CHECK_OK(rank.barrier({.stream = &stream})); // queued; it fails like all others
    CHECK(messageOf(stream.wait()) == first);
  });
}

TEST_CASE("stream: what can be checked at once is an error at once") {
  std::vector<Communicator> ranks = open(2);
  Stream stream = valueOf(ranks[0].openStream());
  int in = 1, out = 0;
  CHECK(contains(messageOf(ranks[0].broadcast(&in, &out, 1, DataType::i32, 9, {.stream = &stream})),
                 "root 9"));
  CHECK(contains(messageOf(ranks[1].barrier({.stream = &stream})), "another communicator"));
  Stream moved = std::move(stream);
  CHECK(contains(messageOf(ranks[0].barrier({.stream = &stream})), "moved"));
  CHECK(contains(messageOf(stream.wait()), "moved"));
  CHECK(stream.idle());
}

TEST_CASE("stream: events order streams of two communicators") {
  onRanks(2, [](Communicator &rank) {
    Communicator other = valueOf(rank.dup());
    Stream first = valueOf(rank.openStream()), second = valueOf(other.openStream());
    std::vector<int> data(50000, rank.rank() + 1), result(50000);
    for (int i = 0; i < 10; ++i) {
      CHECK_OK(rank.allReduce(data.data(), data.data(), 50000, DataType::i32, Op::max,
                              {.stream = &first}));
      Event event = valueOf(first.record());
      CHECK_OK(second.after(event));
      CHECK_OK(other.allReduce(data.data(), result.data(), 50000, DataType::i32, Op::sum,
                               {.stream = &second}));
      Event back = valueOf(second.record());
      CHECK_OK(first.after(back));
    }
    CHECK_OK(second.wait());
    CHECK(result == std::vector<int>(50000, 4));
    Event last = valueOf(second.record());
    CHECK_OK(last.wait());
    CHECK(last.done());
  });
}

TEST_CASE("stream: what waits for an event that fails is aborted") {
  onRanks(2, [](Communicator &rank) {
    Communicator other = valueOf(rank.dup());
    Stream first = valueOf(rank.openStream()), second = valueOf(other.openStream());
    int in = 1, out = 0;
    CHECK_OK(rank.allReduce(&in, &out, rank.rank(), DataType::i32, Op::sum, {.stream = &first}));
    Event event = valueOf(first.record());
    CHECK_OK(second.after(event));
    CHECK_OK(other.barrier({.stream = &second}));
    CHECK(!second.wait());
    refusal(event.wait(), Error::Kind::mismatch);
    REQUIRE(other.failure());
    CHECK(contains(other.failure()->message, "the event that a stream waits for failed"));
  });
}

TEST_CASE("stream: threads enqueue and wait at once") {
  onRanks(1, [](Communicator &rank) {
    Stream stream = valueOf(rank.openStream());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 25; ++i) {
          CHECK_OK(rank.barrier({.stream = &stream}));
          CHECK_OK(stream.wait());
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    CHECK(stream.idle());
  });
}

TEST_CASE("stream: whoever sees a mark reached sees an idle stream") {
  onRanks(1, [](Communicator &rank) {
    Stream stream = valueOf(rank.openStream());
    for (int i = 0; i < 2000; ++i) {
      CHECK_OK(rank.barrier({.stream = &stream}));
      Event event = valueOf(stream.record());
      CHECK_OK(event.wait());
      REQUIRE(stream.idle());
    }
  });
}
