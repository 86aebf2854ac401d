//===- Specs.cpp - The graphs that published comparisons use ------------------------===//
#include "frontend/topology/Graphs.h"
#include "frontend/topology/Presets.h"

#include <fmt/format.h>

namespace ccl::topology {
namespace {

using model::Topology;
using Dimensions = std::vector<int64_t>;

Topology flat(int64_t ranks, int64_t switches) {
  Topology topology;
  topology.axes = {{"gpu", ranks}};
  for (int64_t i = 0; i < switches; ++i)
    topology.switches.push_back({fmt::format("switch{}", i)});
  return topology;
}

Topology boxes(int64_t count, int64_t gpus) {
  Topology topology;
  topology.axes = {{"node", count}, {"gpu", gpus}};
  return topology;
}

int64_t addSwitch(Topology &topology, std::string name) {
  topology.switches.push_back({std::move(name)});
  return topology.nodes() - 1;
}

Topology ring(const Dimensions &d) {
  Topology topology = grid(d, true, 1);
  topology.axes = {{"gpu", d[0]}};
  return topology;
}

Topology oneWayRing(const Dimensions &d) {
  Topology topology = flat(d[0], 0);
  for (int64_t i = 0; i < d[0] && d[0] > 1; ++i)
    topology.links.push_back({int32_t(i), int32_t((i + 1) % d[0]), 1, 0, {}});
  return topology;
}

Topology full(const Dimensions &d) {
  Topology topology = flat(d[0], 0);
  for (int64_t a = 0; a < d[0]; ++a)
    for (int64_t b = a + 1; b < d[0]; ++b)
      join(topology, a, b, 1);
  return topology;
}

Topology star(const Dimensions &d) {
  Topology topology = flat(d[0], 1);
  for (int64_t i = 0; i < d[0]; ++i)
    join(topology, i, d[0], 1);
  return topology;
}

Topology cube(const Dimensions &d) { return grid(Dimensions(size_t(d[0]), 2), false, 1); }

Topology mesh(const Dimensions &d) { return grid(d, false, 1); }
Topology torus(const Dimensions &d) { return grid(d, true, 1); }

void addBonds(Topology &topology, int64_t first, const std::vector<Bond> &bonds, double link) {
  for (const Bond &bond : bonds)
    join(topology, first + bond.a, first + bond.b, bond.links * link);
}

Topology dgx1(const Dimensions &) {
  Topology topology = flat(8, 0);
  addBonds(topology, 0, hybridMesh(), 25);
  return topology;
}

Topology ndv2(const Dimensions &d) {
  Topology topology = boxes(d[0], 8);
  for (int64_t box = 0; box < d[0]; ++box)
    addBonds(topology, box * 8, hybridMesh(), 25);
  if (d[0] == 1)
    return topology;
  std::vector<int64_t> nics;
  for (int64_t box = 0; box < d[0]; ++box) {
    nics.push_back(addSwitch(topology, fmt::format("node{}.nic", box)));
    topology.switches.back().kind = model::SwitchKind::Nic;
  }
  int64_t network = addSwitch(topology, "network");
  for (int64_t box = 0; box < d[0]; ++box) {
    for (int64_t gpu = 0; gpu < 8; ++gpu)
      join(topology, box * 8 + gpu, nics[size_t(box)], 12);
    join(topology, nics[size_t(box)], network, 12);
  }
  return topology;
}

/// Boxes of GPUs on a switch each, and every GPU on one of `planes` networks.
Topology switched(int64_t count, int64_t gpus, double nvlink, double nic, int64_t planes) {
  Topology topology = boxes(count, gpus);
  std::vector<int64_t> inner, outer;
  for (int64_t box = 0; box < count; ++box)
    inner.push_back(addSwitch(topology, fmt::format("node{}.nvswitch", box)));
  for (int64_t plane = 0; plane < planes && count > 1; ++plane)
    outer.push_back(addSwitch(topology, fmt::format("network{}", plane)));
  for (int64_t rank = 0; rank < count * gpus; ++rank) {
    join(topology, rank, inner[size_t(rank / gpus)], nvlink);
    if (count > 1)
      join(topology, rank, outer[size_t(rank % gpus % planes)], nic);
  }
  return topology;
}

Topology dgx2(const Dimensions &d) { return switched(d[0], 16, 150, 12, 1); }
Topology dgxA100(const Dimensions &d) { return switched(d[0], 8, 300, 25, 2); }
Topology dgxH100(const Dimensions &d) { return switched(d[0], 8, 450, 50, 1); }
Topology dgxH100Rail(const Dimensions &d) { return switched(d[0], 8, 450, 50, 8); }
Topology nvl72(const Dimensions &d) { return switched(d[0], 72, 900, 50, 1); }

Topology mi250(const Dimensions &d) {
  Topology topology = boxes(d[0], 16);
  for (int64_t box = 0; box < d[0]; ++box)
    addBonds(topology, box * 16, mi250Mesh(), 50);
  if (d[0] == 1)
    return topology;
  int64_t network = addSwitch(topology, "network");
  for (int64_t rank = 0; rank < d[0] * 16; ++rank)
    join(topology, rank, network, 16);
  return topology;
}

/// Boxes of 8 whose switches are unwound into pairs.
Topology unwound(int64_t count, double pair, double across) {
  Topology topology = boxes(count, 8);
  for (int64_t rank = 0; rank < count * 8; ++rank) {
    for (int64_t peer = rank + 1; peer < rank / 8 * 8 + 8; ++peer)
      join(topology, rank, peer, pair);
    for (int64_t peer = rank + 8; peer < count * 8; peer += 8)
      join(topology, rank, peer, across / double(count - 1));
  }
  return topology;
}

Topology unw(const Dimensions &d) { return unwound(d[0], 64, 48); }
Topology unwb(const Dimensions &d) { return unwound(d[0], 63, 63); }

struct Spec {
  TopologyName text;
  size_t dimensions; ///< of the size: 0 none, 1 a number, more: any number of them
  int64_t most;      ///< product of the size
  Topology (*make)(const Dimensions &);
};

const Spec specs[] = {
    {{"ring", "GPUs", "a ring, both directions, links of 1"}, 1, 1 << 20, ring},
    {{"uniring", "GPUs", "a ring, one direction"}, 1, 1 << 20, oneWayRing},
    {{"full", "GPUs", "a link of 1 between any two"}, 1, 4096, full},
    {{"star", "GPUs", "one switch, links of 1"}, 1, 1 << 19, star},
    {{"cube", "dimensions", "a hypercube, links of 1"}, 1, 18, cube},
    {{"mesh", "AxBx...", "a grid, links of 1"}, 9, 1 << 20, mesh},
    {{"torus", "AxBx...", "a grid that wraps around, links of 1"}, 9, 1 << 20, torus},
    {{"dgx1", "", "8 V100 in a hybrid mesh, 25 a link"}, 0, 1, dgx1},
    {{"ndv2", "boxes", "dgx1 boxes with one NIC of 12"}, 1, 1 << 14, ndv2},
    {{"dgx2", "boxes", "16 GPUs of 150 on a switch, 12 to a network each"}, 1, 1 << 14, dgx2},
    {{"dgxa100", "boxes", "8 GPUs of 300 on a switch, 25 to two networks"}, 1, 1 << 14, dgxA100},
    {{"dgxh100", "boxes", "8 GPUs of 450 on a switch, 50 to a network each"}, 1, 1 << 14, dgxH100},
    {{"dgxh100rail", "boxes", "the same with 8 networks"}, 1, 1 << 14, dgxH100Rail},
    {{"nvl72", "racks", "72 GPUs of 900 on a switch, 50 to a network each"}, 1, 1 << 12, nvl72},
    {{"mi250", "boxes", "16 dies in a mesh, 50 a link, 16 to a network each"}, 1, 1 << 14, mi250},
    {{"unw", "boxes", "8 GPUs, 64 a pair in a box, 48 shared out over the peers of one's place"},
     1,
     1 << 10,
     unw},
    {{"unwb", "boxes", "8 GPUs, 63 a pair in a box, 63 shared out over the peers of one's place"},
     1,
     1 << 10,
     unwb},
};

} // namespace

std::vector<TopologyName> specNames() {
  std::vector<TopologyName> names;
  for (const Spec &spec : specs)
    names.push_back(spec.text);
  return names;
}

std::optional<Topology> makeSpec(std::string_view name, std::string_view size, std::string &error) {
  for (const Spec &spec : specs) {
    if (name != spec.text.name)
      continue;
    std::optional<Dimensions> dimensions = parseSize(size, spec.dimensions, spec.most, error);
    if (!dimensions) {
      error = fmt::format("`{}{}{}`: {}; it is written {}{}{}", name, size.empty() ? "" : ":", size,
                          error, name, spec.dimensions ? ":" : "", spec.text.size);
      return std::nullopt;
    }
    Topology topology = spec.make(*dimensions);
    topology.name = spec.text.name;
    return topology;
  }
  return std::nullopt;
}

} // namespace ccl::topology
