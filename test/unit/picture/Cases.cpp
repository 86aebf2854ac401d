#include "test/unit/picture/Cases.h"

#include "test/unit/model/Algorithms.h"

#include <fmt/format.h>

namespace ccl::picture {

using namespace model;

namespace {

void join(Topology &t, int64_t a, int64_t b, double bandwidth, double latency) {
  t.links.push_back({int32_t(a), int32_t(b), bandwidth, latency, {}});
  t.links.push_back({int32_t(b), int32_t(a), bandwidth, latency, {}});
}

int64_t addSwitch(Topology &t, std::string name, SwitchKind kind) {
  t.switches.push_back({std::move(name), false, false, kind});
  return t.nodes() - 1;
}

} // namespace

Topology dgx(int64_t nodes, int64_t gpus, bool pcie) {
  Topology t;
  t.name = fmt::format("dgx-{}x{}", nodes, gpus);
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  for (int64_t n = 0; n < nodes; ++n) {
    const int64_t nvswitch = addSwitch(t, fmt::format("n{}.nvswitch", n), SwitchKind::Switch);
    for (int64_t g = 0; g < gpus; ++g)
      join(t, n * gpus + g, nvswitch, 450, 0.5);
  }
  std::vector<int64_t> rails;
  for (int64_t g = 0; g < gpus; ++g)
    rails.push_back(addSwitch(t, fmt::format("rail{}", g), SwitchKind::Switch));
  for (int64_t n = 0; n < nodes; ++n)
    for (int64_t g = 0, bridge = 0; g < gpus; ++g) {
      const int64_t nic = addSwitch(t, fmt::format("n{}.nic{}", n, g), SwitchKind::Nic);
      join(t, nic, rails[size_t(g)], 50, 1);
      if (!pcie) {
        join(t, n * gpus + g, nic, 55, 0.7);
        continue;
      }
      if (g % 2 == 0)
        bridge = addSwitch(t, fmt::format("n{}.pcie{}", n, g / 2), SwitchKind::Pcie);
      join(t, n * gpus + g, bridge, 55, 0.4);
      join(t, bridge, nic, 55, 0.4);
    }
  return t;
}

Topology ring(int64_t ranks) {
  Topology t;
  t.name = fmt::format("ring-{}", ranks);
  t.axes = {{"x", ranks}};
  for (int64_t r = 0; r < ranks && ranks > 1; ++r)
    join(t, r, (r + 1) % ranks, 100, 1);
  return t;
}

Topology torus(std::vector<int64_t> sizes) {
  Topology t;
  t.name = "torus";
  for (size_t a = 0; a < sizes.size(); ++a)
    t.axes.push_back({std::string(1, char('x' + a)), sizes[a]});
  for (int64_t r = 0; r < t.ranks(); ++r)
    for (size_t a = 0; a < sizes.size(); ++a) {
      std::vector<int64_t> next = t.coordinates(r);
      next[a] = (next[a] + 1) % sizes[a];
      join(t, r, t.rankAt(next), 45, 1);
    }
  return t;
}

Topology full(int64_t ranks) {
  Topology t;
  t.name = fmt::format("full-{}", ranks);
  t.axes = {{"gpu", ranks}};
  for (int64_t a = 0; a < ranks; ++a)
    for (int64_t b = a + 1; b < ranks; ++b)
      join(t, a, b, 64, 1);
  return t;
}

Topology star(int64_t ranks) {
  Topology t;
  t.name = "star";
  t.axes = {{"rank", ranks}};
  const int64_t hub = addSwitch(t, "hub", SwitchKind::Switch);
  for (int64_t r = 0; r < ranks; ++r)
    join(t, r, hub, 25, 1);
  return t;
}

Topology meshes(int64_t nodes, int64_t gpus) {
  Topology t;
  t.name = "meshes";
  t.axes = {{"node", nodes}, {"gpu", gpus}};
  for (int64_t n = 0; n < nodes; ++n) {
    for (int64_t a = 0; a < gpus; ++a)
      for (int64_t b = a + 1; b < gpus; ++b)
        join(t, n * gpus + a, n * gpus + b, 50, 1);
    // Not of the same place, so that this is no grid.
    if (n + 1 < nodes)
      join(t, n * gpus + gpus - 1, (n + 1) * gpus, 12, 3);
  }
  return t;
}

Contract hierarchicalContract(int64_t nodes, int64_t gpus) {
  return makeContract(Collective::AllReduce, nodes * gpus, 2 * gpus * nodes, Reduction::Sum);
}

Program hierarchical(int64_t nodes, int64_t gpus) {
  Program program;
  program.buffers = {{"x", Role::InOut, 2 * gpus * nodes}};
  const auto modulo = [](int64_t a, int64_t n) { return (a % n + n) % n; };
  for (int64_t me = 0; me < nodes * gpus; ++me) {
    const int64_t node = me / gpus, gpu = me % gpus;
    RankProgram rank;
    for (int32_t b = 0; b < 2; ++b) {
      const int64_t way = b == 0 ? 1 : -1;
      auto inNode = [&](int64_t g) { return int32_t(node * gpus + modulo(g, gpus)); };
      auto onRail = [&](int64_t n) { return int32_t(modulo(n, nodes) * gpus + gpu); };
      const int32_t first = int32_t(rank.channels.size());
      rank.channels.push_back({true, inNode(gpu + way), b, 2});
      rank.channels.push_back({false, inNode(gpu - way), b, 2});
      rank.channels.push_back({true, onRail(node + 1), b, 2});
      rank.channels.push_back({false, onRail(node - 1), b, 2});
      const Operand next = channel(first), prev = channel(first + 1);
      const Operand out = channel(first + 2), in = channel(first + 3);
      // A piece has a chunk for each node.
      auto chunk = [&](int64_t piece, int64_t part) {
        return local(0, (b * gpus + modulo(piece, gpus)) * nodes + modulo(part, nodes));
      };
      auto piece = [&](int64_t p) { return chunk(p, 0); };
      const int32_t whole = int32_t(nodes);
      Agent block;
      block.id = b;
      std::vector<Instruction> &code = block.code;
      code.push_back(transfer({piece(gpu)}, {next}, false, whole));
      for (int64_t s = 1; s + 1 < gpus; ++s)
        code.push_back(transfer({prev, piece(gpu - way * s)}, {next}, true, whole));
      const int64_t own = gpu + way;
      code.push_back(transfer({prev, piece(own)}, {piece(own)}, true, whole));
      code.push_back(transfer({chunk(own, node)}, {out}));
      for (int64_t s = 1; s + 1 < nodes; ++s)
        code.push_back(transfer({in, chunk(own, node - s)}, {out}, true));
      code.push_back(transfer({in, chunk(own, node + 1)}, {chunk(own, node + 1), out}, true));
      for (int64_t s = 1; s + 1 < nodes; ++s)
        code.push_back(transfer({in}, {chunk(own, node + 1 - s), out}));
      code.push_back(transfer({in}, {chunk(own, node + 2)}));
      code.push_back(transfer({piece(own)}, {next}, false, whole));
      for (int64_t s = 1; s + 1 < gpus; ++s)
        code.push_back(transfer({prev}, {piece(own - way * s), next}, false, whole));
      code.push_back(transfer({prev}, {piece(own + way)}, false, whole));
      rank.agents.push_back(std::move(block));
    }
    program.ranks.push_back(std::move(rank));
  }
  return program;
}

PageInput Case::input() const {
  PageInput input;
  input.program = "hierarchical all-reduce";
  input.collective = "all_reduce sum";
  input.model = "ccl";
  input.topology = &topology;
  input.report = &report;
  input.code = &program;
  return input;
}

Case hierarchicalCase(int64_t nodes, int64_t gpus, int64_t batches) {
  Case result{dgx(nodes, gpus), hierarchical(nodes, gpus), {}};
  const Contract contract = hierarchicalContract(nodes, gpus);
  SimulateOptions options;
  options.model = cclModel();
  options.model.launchUs = 8;
  options.model.overheadUs = 0.4;
  options.count = countFor(contract, 64 << 20, 4);
  options.batches = batches;
  options.batchOrder = BatchOrder::Agent;
  options.timeline = true;
  result.report = simulate(result.program, contract, result.topology, options);
  return result;
}

Case circuitsCase(int64_t nodes, int64_t gpus) {
  Case result{ring(nodes * gpus), hierarchical(nodes, gpus), {}};
  result.topology.reconfigurable = 3;
  const Contract contract = hierarchicalContract(nodes, gpus);
  SimulateOptions options;
  options.count = countFor(contract, 1 << 20, 4);
  options.timeline = true;
  result.report = simulate(result.program, contract, result.topology, options);
  return result;
}

Case ringCase(int64_t ranks) {
  Case result{ring(ranks), ringProgram(ranks, 2, true), {}};
  const Contract contract = makeContract(Collective::AllReduce, ranks, ranks, Reduction::Sum);
  SimulateOptions options;
  options.model = cclModel();
  options.count = countFor(contract, 1 << 20, 4);
  options.timeline = true;
  result.report = simulate(result.program, contract, result.topology, options);
  return result;
}

SimulateReport plainReport(const Topology &topology) {
  SimulateReport report;
  report.us = 100;
  report.bytes = 1 << 20;
  report.algbw = double(report.bytes) / report.us / 1000;
  for (size_t l = 0; l < topology.links.size(); ++l) {
    const double share = double(l % 11) / 10;
    report.links.push_back({share * 1e6, share * 100});
  }
  return report;
}

} // namespace ccl::picture
