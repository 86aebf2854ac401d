#include "frontend/topology/Graphs.h"

#include <fmt/format.h>

namespace ccl::topology {

void join(model::Topology &topology, int64_t a, int64_t b, double bandwidth, double latency) {
  topology.links.push_back({int32_t(a), int32_t(b), bandwidth, latency, {}});
  topology.links.push_back({int32_t(b), int32_t(a), bandwidth, latency, {}});
}

model::Topology grid(const std::vector<int64_t> &dimensions, bool wraps, double bandwidth) {
  model::Topology topology;
  for (size_t d = dimensions.size(); d-- > 0;)
    topology.axes.push_back(
        {dimensions.size() > 3 ? fmt::format("d{}", d) : std::string(1, "xyz"[d]), dimensions[d]});
  int64_t ranks = topology.ranks(), stride = 1;
  for (int64_t size : dimensions) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t place = rank / stride % size;
      if (place + 1 < size)
        join(topology, rank, rank + stride, bandwidth);
      else if (wraps && size > 2)
        join(topology, rank, rank - place * stride, bandwidth);
    }
    stride *= size;
  }
  return topology;
}

const std::vector<Bond> &hybridMesh() {
  static const std::vector<Bond> bonds = {
      {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
      {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  return bonds;
}

const std::vector<Bond> &mi250Mesh() {
  static const std::vector<Bond> bonds = {
      {0, 1, 4},   {0, 4, 2},   {0, 8, 1},   {1, 5, 1},   {1, 9, 1},   {1, 10, 1},  {2, 3, 4},
      {2, 6, 1},   {2, 9, 1},   {2, 10, 1},  {3, 7, 2},   {3, 11, 1},  {4, 5, 4},   {4, 6, 1},
      {5, 6, 1},   {5, 7, 1},   {6, 7, 4},   {8, 9, 4},   {8, 12, 2},  {9, 13, 1},  {10, 11, 4},
      {10, 14, 1}, {11, 15, 2}, {12, 13, 4}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}, {14, 15, 4}};
  return bonds;
}

} // namespace ccl::topology
