#include "dialect/bound/Flow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ccl::model;

namespace {

/// Paths one by one, in a matrix.
int64_t plainFlow(std::vector<std::vector<int64_t>> left, size_t source, size_t sink) {
  int64_t total = 0;
  while (true) {
    std::vector<size_t> before(left.size(), SIZE_MAX), queue = {source};
    before[source] = source;
    for (size_t at = 0; at < queue.size(); ++at)
      for (size_t n = 0; n < left.size(); ++n)
        if (before[n] == SIZE_MAX && left[queue[at]][n] > 0)
          before[n] = queue[at], queue.push_back(n);
    if (before[sink] == SIZE_MAX)
      return total;
    int64_t amount = INT64_MAX;
    for (size_t n = sink; n != source; n = before[n])
      amount = std::min(amount, left[before[n]][n]);
    for (size_t n = sink; n != source; n = before[n])
      left[before[n]][n] -= amount, left[n][before[n]] += amount;
    total += amount;
  }
}

struct Case {
  int32_t nodes;
  std::vector<Arc> arcs;
  std::vector<std::vector<int64_t>> matrix() const {
    size_t count = size_t(nodes);
    std::vector<std::vector<int64_t>> m(count, std::vector<int64_t>(count));
    for (const Arc &arc : arcs)
      m[size_t(arc.src)][size_t(arc.dst)] += arc.capacity;
    return m;
  }
};

Case randomCase(std::mt19937_64 &random) {
  Case c;
  c.nodes = int32_t(2 + random() % 14);
  int64_t largest = random() % 4 ? int64_t(1 + random() % 20) : int64_t(1) << 50;
  for (size_t i = 0, count = random() % size_t(c.nodes * c.nodes); i < count; ++i) {
    int32_t a = int32_t(random() % uint64_t(c.nodes)), b = int32_t(random() % uint64_t(c.nodes));
    if (a != b) // several from a to b, too
      c.arcs.push_back({a, b, int64_t(random() % uint64_t(largest))});
  }
  return c;
}

/// Whether it is a flow of `value` within the capacities.
bool isFlow(const Case &c, const FlowGraph &graph, int32_t source, int32_t sink, int64_t value) {
  std::vector<int64_t> balance(size_t(c.nodes));
  for (size_t i = 0; i < c.arcs.size(); ++i) {
    int64_t flow = graph.flow(int32_t(i));
    if (flow < 0 || flow > graph.capacity(int32_t(i)))
      return false;
    balance[size_t(c.arcs[i].src)] -= flow, balance[size_t(c.arcs[i].dst)] += flow;
  }
  for (int32_t n = 0; n < c.nodes; ++n)
    if (balance[size_t(n)] != (n == source ? -value : n == sink ? value : 0))
      return false;
  return true;
}

} // namespace

TEST_CASE("maximum flows equal those of paths one by one") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    Case c = randomCase(random);
    FlowGraph graph(c.nodes, c.arcs);
    for (int again = 0; again < 3; ++again) {
      int32_t source = int32_t(random() % uint64_t(c.nodes));
      int32_t sink =
          int32_t((size_t(source) + 1 + random() % uint64_t(c.nodes - 1)) % size_t(c.nodes));
      int64_t value = plainFlow(c.matrix(), size_t(source), size_t(sink));
      REQUIRE(graph.run(source, sink) == value);
      REQUIRE(isFlow(c, graph, source, sink, value));
      if (value > 0) {
        int64_t enough = 1 + int64_t(random() % uint64_t(value));
        REQUIRE(graph.run(source, sink, enough) == enough);
        REQUIRE(isFlow(c, graph, source, sink, enough));
      }
      if (!c.arcs.empty()) {
        size_t arc = random() % c.arcs.size();
        c.arcs[arc].capacity = int64_t(random() % 30);
        graph.setCapacity(int32_t(arc), c.arcs[arc].capacity);
      }
    }
  }
}

TEST_CASE("the source's side is a least cut, and the smallest") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    Case c = randomCase(random);
    if (c.nodes > 9)
      continue;
    FlowGraph graph(c.nodes, c.arcs);
    int64_t value = graph.run(0, 1);
    std::vector<bool> side = graph.sourceSide();
    // All sets with node 0 and without node 1.
    size_t smallest = SIZE_MAX;
    for (uint32_t set = 0; set < 1u << c.nodes; ++set) {
      if (!(set & 1) || (set & 2))
        continue;
      int64_t leaving = 0;
      for (const Arc &arc : c.arcs)
        if ((set >> arc.src & 1) && !(set >> arc.dst & 1))
          leaving += arc.capacity;
      REQUIRE(leaving >= value);
      if (leaving == value)
        smallest = std::min(smallest, size_t(__builtin_popcount(set)));
    }
    int64_t leaving = 0;
    for (const Arc &arc : c.arcs)
      if (side[size_t(arc.src)] && !side[size_t(arc.dst)])
        leaving += arc.capacity;
    CHECK(side[0]);
    CHECK_FALSE(side[1]);
    CHECK(leaving == value);
    CHECK(size_t(std::count(side.begin(), side.end(), true)) == smallest);
  }
}

TEST_CASE("a graph grows between runs") {
  FlowGraph graph(2);
  CHECK(graph.run(0, 1) == 0);
  int32_t direct = graph.addArc(0, 1, 3);
  CHECK(graph.run(0, 1) == 3);
  int32_t middle = graph.addNode();
  CHECK(middle == 2);
  graph.addArc(0, middle, 5);
  int32_t last = graph.addArc(middle, 1, 4);
  CHECK(graph.run(0, 1) == 7);
  CHECK(graph.flow(direct) == 3);
  CHECK(graph.flow(last) == 4);
  graph.setCapacity(last, 1);
  CHECK(graph.flow(last) == 4); // of the last run
  CHECK(graph.run(0, 1) == 4);
  CHECK(graph.flow(last) == 1);
}

// Long enough that a wave takes over from paths.
TEST_CASE("long ways: everybody sends to one end of a line, a ring, a grid with random links") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    Case c;
    int32_t width = i % 4 == 0 ? 1 : int32_t(2 + random() % 4),
            length = int32_t(30 + random() % 30);
    c.nodes = width * length + 1;
    auto at = [&](int32_t x, int32_t y) { return x * width + y; };
    auto join = [&](int32_t a, int32_t b) {
      c.arcs.push_back({a, b, int64_t(1 + random() % 50)});
      c.arcs.push_back({b, a, int64_t(random() % 50)});
    };
    for (int32_t x = 0; x < length; ++x)
      for (int32_t y = 0; y < width; ++y) {
        if (x + 1 < length)
          join(at(x + 1, y), at(x, y));
        if (y + 1 < width)
          join(at(x, y + 1), at(x, y));
        c.arcs.push_back({c.nodes - 1, at(x, y), int64_t(random() % 4)});
      }
    if (i % 4 == 1)
      join(at(0, 0), at(length - 1, 0));
    FlowGraph graph(c.nodes, c.arcs);
    int64_t value = plainFlow(c.matrix(), size_t(c.nodes - 1), 0);
    CHECK(graph.run(c.nodes - 1, 0) == value);
    CHECK(isFlow(c, graph, c.nodes - 1, 0, value));
    CHECK(graph.run(c.nodes - 1, 0, value / 2) == value / 2);
    CHECK(isFlow(c, graph, c.nodes - 1, 0, value / 2));
  }
}
