#include "test/unit/bound/Networks.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ccl::model;

namespace networks {

Topology ranks(const std::vector<int64_t> &sizes) {
  Topology t;
  t.name = "t";
  for (int64_t size : sizes)
    t.axes.push_back({fmt::format("x{}", t.axes.size()), size});
  return t;
}

int32_t addSwitch(Topology &t, bool multicast, bool reduce) {
  t.switches.push_back({fmt::format("s{}", t.switches.size()), multicast, reduce});
  return int32_t(t.nodes() - 1);
}

void addLink(Topology &t, int64_t src, int64_t dst, double bandwidth, double latency) {
  t.links.push_back({int32_t(src), int32_t(dst), bandwidth, latency, {}});
}

void join(Topology &t, int64_t a, int64_t b, double bandwidth, double latency) {
  addLink(t, a, b, bandwidth, latency);
  addLink(t, b, a, bandwidth, latency);
}

namespace {

Topology grid(const std::vector<int64_t> &sizes, bool wraps) {
  Topology t = ranks(sizes);
  for (int64_t rank = 0; rank < t.ranks(); ++rank)
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      std::vector<int64_t> to = t.coordinates(rank);
      bool last = ++to[axis] == sizes[axis];
      if (sizes[axis] == 1 || (last && (!wraps || sizes[axis] == 2)))
        continue;
      to[axis] %= sizes[axis];
      join(t, rank, t.rankAt(to), 1);
    }
  return t;
}

} // namespace

Topology torus(const std::vector<int64_t> &sizes) { return grid(sizes, true); }
Topology mesh(const std::vector<int64_t> &sizes) { return grid(sizes, false); }

Topology oneWayRing(int64_t count) {
  Topology t = ranks({count});
  for (int64_t rank = 0; rank < count; ++rank)
    addLink(t, rank, (rank + 1) % count, 1);
  return t;
}

Topology full(int64_t count) {
  Topology t = ranks({count});
  for (int64_t a = 0; a < count; ++a)
    for (int64_t b = 0; b < a; ++b)
      join(t, a, b, 1);
  return t;
}

Topology star(int64_t count, double bandwidth) {
  Topology t = ranks({count});
  int32_t middle = addSwitch(t);
  for (int64_t rank = 0; rank < count; ++rank)
    join(t, rank, middle, bandwidth);
  return t;
}

Topology boxes(int64_t boxes, int64_t gpus, double inBox, double nic, int64_t planes) {
  Topology t = ranks({boxes, gpus});
  for (int64_t box = 0; box < boxes; ++box) {
    int32_t own = addSwitch(t);
    for (int64_t gpu = 0; gpu < gpus; ++gpu)
      join(t, box * gpus + gpu, own, inBox);
  }
  if (boxes == 1)
    return t;
  int32_t first = int32_t(t.nodes());
  for (int64_t plane = 0; plane < planes; ++plane)
    addSwitch(t);
  for (int64_t rank = 0; rank < t.ranks(); ++rank)
    join(t, rank, first + rank % gpus % planes, nic);
  return t;
}

Topology unwound(int64_t boxes, double inBox, double between) {
  Topology t = ranks({boxes, 8});
  for (int64_t a = 0; a < t.ranks(); ++a)
    for (int64_t b = 0; b < a; ++b)
      if (a / 8 == b / 8)
        join(t, a, b, inBox);
      else if (a % 8 == b % 8)
        join(t, a, b, between);
  return t;
}

namespace {

void addDgx1(Topology &t, int64_t first) {
  struct {
    int64_t a, b;
    double bandwidth;
  } pairs[] = {{0, 1, 25}, {0, 2, 25}, {0, 3, 50}, {0, 4, 50}, {1, 2, 50}, {1, 3, 25},
               {1, 5, 50}, {2, 3, 50}, {2, 6, 25}, {3, 7, 25}, {4, 5, 25}, {4, 6, 25},
               {4, 7, 50}, {5, 6, 50}, {5, 7, 25}, {6, 7, 50}};
  for (auto [a, b, bandwidth] : pairs)
    join(t, first + a, first + b, bandwidth);
}

} // namespace

Topology dgx1() {
  Topology t = ranks({8});
  addDgx1(t, 0);
  return t;
}

Topology ndv2(int64_t boxes) {
  Topology t = ranks({boxes, 8});
  std::vector<int32_t> nics;
  for (int64_t box = 0; box < boxes; ++box) {
    addDgx1(t, 8 * box);
    nics.push_back(addSwitch(t));
    for (int64_t gpu = 0; gpu < 8; ++gpu)
      join(t, 8 * box + gpu, nics.back(), 12);
  }
  int32_t fabric = addSwitch(t);
  for (int32_t nic : nics)
    join(t, nic, fabric, 12);
  return t;
}

Topology readEdgeList(const std::string &path) {
  std::ifstream file(path);
  int64_t ranksIn = 0, nodes = 0, edges = 0, src, dst;
  double bandwidth;
  file >> ranksIn >> nodes >> edges;
  Topology t = ranks({ranksIn});
  while (t.nodes() < nodes)
    addSwitch(t);
  while (file >> src >> dst >> bandwidth)
    addLink(t, src, dst, bandwidth);
  return int64_t(t.links.size()) == edges ? t : Topology();
}

Topology withFailures(Topology t, int64_t count, std::mt19937_64 &random) {
  for (int64_t tries = 20 * count; count > 0 && tries > 0; --tries) {
    auto victim = t.links.begin() + ptrdiff_t(random() % t.links.size());
    Link lost = *victim;
    size_t at = size_t(victim - t.links.begin());
    t.links.erase(victim);
    if (t.check().empty())
      --count;
    else
      t.links.insert(t.links.begin() + ptrdiff_t(at), lost);
  }
  return t;
}

Topology randomNetwork(std::mt19937_64 &random, int64_t maxNodes, bool switches, bool balanced) {
  auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
  while (true) {
    int64_t nodes = 2 + below(maxNodes - 1);
    int64_t count = switches ? 2 + below(nodes - 1) : nodes;
    Topology t = ranks({count});
    while (t.nodes() < nodes)
      addSwitch(t);
    int64_t density = 2 + below(7), largest = 1 + below(9);
    for (int64_t a = 0; a < nodes; ++a)
      for (int64_t b = 0; b < nodes; ++b) {
        if (a == b || (balanced && a < b) || below(10) >= density)
          continue;
        double bandwidth = double(1 + below(largest));
        if (balanced)
          join(t, a, b, bandwidth);
        else
          addLink(t, a, b, bandwidth);
      }
    if (t.check().empty())
      return t;
  }
}

std::string corpus() {
  // The tree is test/unit/model/../../.., collections lie beside it.
  std::filesystem::path tree = std::filesystem::path(__FILE__).parent_path() / "../../..";
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(tree, error) / "../shared/corpus";
  return std::filesystem::is_directory(path, error) ? path.string() : "";
}

std::vector<std::vector<std::string>> readTable(const std::string &path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line); // its head
  while (std::getline(file, line)) {
    std::stringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');)
      row.push_back(cell);
    if (!row.empty())
      rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace networks
