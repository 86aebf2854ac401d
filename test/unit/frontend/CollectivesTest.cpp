// Every collective once, small: that the right program runs on the right buffers.
#include "test/unit/frontend/Ranks.h"

#include <numeric>

using namespace ccl;
using ccl::test::contains;
using ccl::test::messageOf;
using ccl::test::onRanks;
using ccl::test::refusal;
using ccl::test::valueOf;

namespace {

constexpr int n = 3;
constexpr int64_t count = 500;

/// What rank r contributes at element i.
int value(int r, int64_t i) { return int(1000 * r + i % 991); }

std::vector<int> input(int r, int64_t elements) {
  std::vector<int> data(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i)
    data[size_t(i)] = value(r, i);
  return data;
}

/// Elements [from, from + length) of rank r's input.
void append(std::vector<int> &to, int r, int64_t from, int64_t length) {
  for (int64_t i = from; i < from + length; ++i)
    to.push_back(value(r, i));
}

std::vector<int> sum(int64_t from, int64_t length) {
  std::vector<int> result;
  for (int64_t i = from; i < from + length; ++i) {
    int total = 0;
    for (int r = 0; r < n; ++r)
      total += value(r, i);
    result.push_back(total);
  }
  return result;
}

} // namespace

TEST_CASE("collectives: all_reduce, reduce, broadcast") {
  onRanks(n, [](Communicator &rank) {
    std::vector<int> in = input(rank.rank(), count), out(count, -1);
    CHECK_OK(rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::sum));
    CHECK(out == sum(0, count));
    CHECK_OK(rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::min));
    CHECK(out == input(0, count));
    out.assign(count, -1);
    CHECK_OK(rank.reduce(in.data(), out.data(), count, DataType::i32, Op::sum, 1));
    CHECK(out == (rank.rank() == 1 ? sum(0, count) : std::vector<int>(count, -1)));
    CHECK_OK(rank.broadcast(rank.rank() == 2 ? in.data() : nullptr, out.data(), count,
                            DataType::i32, 2));
    CHECK(out == input(2, count));
    CHECK_OK(rank.allReduce(in.data(), in.data(), count, DataType::i32, Op::sum));
    CHECK(in == sum(0, count));
  });
}

TEST_CASE("collectives: all_gather, gather, scatter, reduce_scatter, all_to_all") {
  onRanks(n, [](Communicator &rank) {
    const int me = rank.rank();
    std::vector<int> in = input(me, count), wide = input(me, n * count);
    std::vector<int> all(n * count, -1), one(count, -1), wanted;
    for (int r = 0; r < n; ++r)
      append(wanted, r, 0, count);
    CHECK_OK(rank.allGather(in.data(), all.data(), count, DataType::i32));
    CHECK(all == wanted);
    all.assign(n * count, -1);
    CHECK_OK(rank.gather(in.data(), all.data(), count, DataType::i32, 2));
    CHECK(all == (me == 2 ? wanted : std::vector<int>(n * count, -1)));

    CHECK_OK(rank.scatter(me == 1 ? wide.data() : nullptr, one.data(), count, DataType::i32, 1));
    wanted.clear();
    append(wanted, 1, me * count, count);
    CHECK(one == wanted);
    CHECK_OK(rank.reduceScatter(wide.data(), one.data(), count, DataType::i32, Op::sum));
    CHECK(one == sum(me * count, count));
    wanted.clear();
    for (int r = 0; r < n; ++r)
      append(wanted, r, me * count, count);
    CHECK_OK(rank.allToAll(wide.data(), all.data(), count, DataType::i32));
    CHECK(all == wanted);
  });
}

TEST_CASE("collectives: permute and barrier") {
  onRanks(n, [](Communicator &rank) {
    const int targets[] = {2, 0, 1}, same[] = {0, 1, 2};
    std::vector<int> in = input(rank.rank(), count), out(count, -1);
    CHECK_OK(rank.permute(in.data(), out.data(), count, DataType::i32, targets));
    CHECK(out == input((rank.rank() + 1) % n, count));
    CHECK_OK(rank.permute(in.data(), out.data(), count, DataType::i32, same));
    CHECK(out == in);
    CHECK_OK(rank.barrier());
  });
}

TEST_CASE("collectives: uneven shards") {
  onRanks(n, [](Communicator &rank) {
    const int me = rank.rank();
    const int64_t counts[n] = {5, 0, 301}, total = 306, starts[n] = {0, 5, 5};
    std::vector<int> in = input(me, counts[me]), wide = input(me, total);
    std::vector<int> all(total, -1), one(size_t(counts[me]), -1), wanted;
    for (int r = 0; r < n; ++r)
      append(wanted, r, 0, counts[r]);
    CHECK_OK(rank.allGatherV(in.data(), all.data(), counts, DataType::i32));
    CHECK(all == wanted);
    all.assign(total, -1);
    CHECK_OK(rank.gatherV(in.data(), all.data(), counts, DataType::i32, 0));
    CHECK(all == (me == 0 ? wanted : std::vector<int>(total, -1)));
    CHECK_OK(rank.scatterV(wide.data(), one.data(), counts, DataType::i32, 2));
    wanted.clear();
    append(wanted, 2, starts[me], counts[me]);
    CHECK(one == wanted);
    CHECK_OK(rank.reduceScatterV(wide.data(), one.data(), counts, DataType::i32, Op::sum));
    CHECK(one == sum(starts[me], counts[me]));
  });
}

TEST_CASE("collectives: uneven all_to_all") {
  onRanks(n, [](Communicator &rank) {
    const int me = rank.rank();
    // From p to q: 10 p + q elements.
    std::vector<int64_t> sends, receives;
    for (int r = 0; r < n; ++r) {
      sends.push_back(10 * me + r);
      receives.push_back(10 * r + me);
    }
    int64_t sent = std::accumulate(sends.begin(), sends.end(), int64_t(0));
    std::vector<int> in = input(me, sent), wanted;
    for (int p = 0; p < n; ++p) {
      int64_t before = 0;
      for (int q = 0; q < me; ++q)
        before += 10 * p + q;
      append(wanted, p, before, 10 * p + me);
    }
    std::vector<int> out(wanted.size(), -1);
    CHECK_OK(rank.allToAllV(in.data(), sends, out.data(), receives, DataType::i32));
    CHECK(out == wanted);
  });
}

TEST_CASE("collectives: a program in place of the default") {
  Program tree = valueOf(Program::generate(
      Collective::allReduce, {.ranks = n, .type = DataType::i32, .algorithm = "binomial"}));
  onRanks(n, [&](Communicator &rank) {
    std::vector<int> in = input(rank.rank(), count), out(count, -1);
    CHECK_OK(
        rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::sum, {.program = &tree}));
    CHECK(out == sum(0, count));
    CHECK_OK(rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::sum,
                            {.algorithm = "one_shot"}));
    CHECK(out == sum(0, count));
    CHECK(contains(refusal(rank.allReduce(in.data(), out.data(), count, DataType::f32, Op::sum,
                                          {.program = &tree}),
                           Error::Kind::argument),
                   "the data is f32"));
    CHECK(contains(refusal(rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::max,
                                          {.program = &tree}),
                           Error::Kind::argument),
                   "the op is max"));
    CHECK(contains(refusal(rank.reduce(in.data(), out.data(), count, DataType::i32, Op::sum, 0,
                                       {.program = &tree}),
                           Error::Kind::argument),
                   "it is for another collective"));
    CHECK(contains(refusal(rank.allReduce(in.data(), out.data(), count, DataType::i32, Op::sum,
                                          {.algorithm = "pigeon"}),
                           Error::Kind::argument),
                   "nothing called 'pigeon'"));
    // Refused before anything began: the communicator is as it was.
    CHECK(!rank.failure());
    CHECK_OK(rank.barrier());
  });
}

TEST_CASE("collectives: arguments that cannot be") {
  onRanks(1, [](Communicator &rank) {
    int in = 1, out = 0;
    CHECK(contains(messageOf(rank.broadcast(&in, &out, 1, DataType::i32, 1)),
                   "root 1 is outside [0, 1)"));
    CHECK(contains(messageOf(rank.broadcast(&in, &out, 1, DataType::i32, -1)), "root -1"));
    CHECK(contains(messageOf(rank.allReduce(&in, &out, 1, DataType(50), Op::sum)), "no such type"));
    CHECK(contains(messageOf(rank.allReduce(&in, &out, 1, DataType::i32, Op(50))), "no such"));
    CHECK(
        contains(messageOf(rank.permute(&in, &out, 1, DataType::i32, {})), "one target for each"));
    CHECK(contains(messageOf(rank.barrier({.timeout = std::chrono::milliseconds(-1)})),
                   "a time-out of -1 ms"));
    Program two = valueOf(Program::generate(Collective::allReduce, {.ranks = 2}));
    CHECK(contains(messageOf(rank.launch(two, &in, &out, 1)),
                   "is for 2 ranks, the communicator has 1"));
    CHECK(!rank.failure());
    // Found by the call itself: it is the last.
    CHECK(!rank.allReduce(&in, &out, -1, DataType::i32, Op::sum));
    CHECK(rank.failure());
  });
}

TEST_CASE("collectives: CCL_ALGO is for those that have a generator of that name") {
  auto with = [](const char *algorithm) {
    setenv("CCL_ALGO", algorithm, 1);
    std::vector<Communicator> ranks = test::open(2);
    unsetenv("CCL_ALGO");
    return ranks;
  };
  std::vector<Communicator> trees = with("binomial");
  test::onEach(trees, [](Communicator &rank) {
    CHECK(contains(rank.program(Collective::allReduce)->name(), "binomial"));
    CHECK_OK(rank.program(Collective::allToAll));
    CHECK_OK(rank.barrier());
  });
  std::vector<Communicator> pigeons = with("pigeon");
  CHECK(messageOf(pigeons[0].barrier()) ==
        "CCL_ALGO=pigeon: no generator has that name; there are: ring, one_shot, two_shot, "
        "in_switch, pairwise, entry, binomial, recursive_doubling, recursive_halving, bruck, "
        "hierarchical");
}

TEST_CASE("collectives: all communicators of a process share programs") {
  std::vector<std::string> hashes(4);
  onRanks(4, [&](Communicator &rank) {
    Program program = valueOf(rank.program(Collective::allReduce, {.type = DataType::f64}));
    CHECK(program.ranks() == 4);
    hashes[size_t(rank.rank())] = program.hash();
  });
  for (const std::string &hash : hashes)
    CHECK(hash == hashes.front());
}
