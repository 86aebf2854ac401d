//===- NcclModel.cpp - What NCCL would do, by its own cost model ----------===//

#include "dialect/simulate/NcclModel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace ccl::model;

namespace {

constexpr size_t numAlgorithms = 7, numProtocols = 3;
constexpr std::array<std::string_view, numAlgorithms> algorithmNames = {
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
constexpr std::array<std::string_view, numProtocols> protocolNames = {"LL", "LL128", "Simple"};

using PerProtocol = std::array<double, numProtocols>;
using Latencies = std::array<PerProtocol, numAlgorithms>;

/// us, of a call.
constexpr Latencies callLatency = {{{6.8, 14, 8.4}, {6.6, 14, 8.4}, {}, {}, {}, {}, {8, 8, 8}}};
/// us, of a hop.
constexpr Latencies nvlinkLatency = {
    {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}}};
constexpr Latencies pcieLatency = {
    {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {}, {}, {0, 0, 4}}};
constexpr Latencies netLatency = {
    {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}};

/// GB/s by generation (Volta, Ampere, Hopper, Blackwell) and nodes (1, 2, more).
using Limits = std::array<std::array<double, 3>, 4>;
/// Of LL, all channels together. On several nodes the first index means the CPU: Intel, AMD.
constexpr Limits llLimit = {
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {2 * 141, 2 * 45, 2 * 35}}};
/// Of a channel.
constexpr Limits ringLL128Limit = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr Limits treeLL128Limit = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr Limits treeLimit = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr Limits nvlsTreeLimit = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}}};
/// What in-switch reduction keeps of a link, by generation.
constexpr std::array<double, 4> nvlsEfficiency = {0, 0, 0.85, 0.74};

/// What trees reach of their bandwidth, by powers of two from 64 B to 512 MB.
constexpr std::array<std::array<double, 24>, numProtocols> treeCorrection = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
      .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}}};

/// What trees keep of a bandwidth before their protocol takes its part.
constexpr double treeEfficiency = 0.92;

constexpr int32_t warp = 32, mostThreads = 640, mostKernelChannels = 64;

size_t generationOf(int32_t arch) { return arch >= 100 ? 3 : arch >= 90 ? 2 : arch >= 80 ? 1 : 0; }

/// Index into Limits.
size_t scaleOf(int64_t nodes) { return nodes <= 2 ? size_t(nodes) - 1 : 2; }

int log2Floor(int64_t n) {
  int log = 0;
  while (n >>= 1)
    ++log;
  return log;
}

bool reducesScatteredOrGathers(Collective c) {
  return c == Collective::AllGather || c == Collective::ReduceScatter;
}
bool isModelled(Collective c) {
  return c == Collective::AllReduce || c == Collective::Broadcast || c == Collective::Reduce ||
         reducesScatteredOrGathers(c);
}

/// One collective on one machine.
class Model {
public:
  using A = NcclAlgorithm;
  using P = NcclProtocol;

  Model(const NcclMachine &machine, Collective collective)
      : m(machine), collective(collective), generation(generationOf(m.arch)),
        scale(scaleOf(m.nodes)), perNode(double(m.ranks) / double(m.nodes)) {
    steps = collective == Collective::AllReduce     ? 2 * (m.ranks - 1)
            : reducesScatteredOrGathers(collective) ? m.ranks - 1
                                                    : m.ranks;
  }

  /// Whether NCCL has it for this collective here.
  bool isAvailable(A a, P p) const {
    bool simple = p == P::Simple, several = m.nodes > 1;
    bool isAllReduce = collective == Collective::AllReduce;
    bool gathers = reducesScatteredOrGathers(collective);
    // In-network gathering wants a NIC for every GPU.
    bool everyGpuHasNic = m.collnet.channels >= m.ranksPerNode();
    if (p == P::LL128 && (!m.ll128 || !m.nvlink || m.arch < 70))
      return false;
    switch (a) {
    case A::Tree: return isAllReduce && m.tree.channels > 0;
    case A::Ring: return m.ring.channels > 0;
    case A::CollNetDirect:
      return simple && m.sharp && several && m.nvswitch && m.collnet.channels > 0 &&
             (isAllReduce || (gathers && everyGpuHasNic));
    case A::CollNetChain:
      return simple && m.sharp && several && m.collnet.channels > 0 && isAllReduce;
    case A::Nvls:
      return simple && m.nvls.channels >= 2 && (isAllReduce || gathers) &&
             (!several || (m.sharp && (isAllReduce || everyGpuHasNic)));
    case A::NvlsTree: return simple && m.nvls.channels >= 2 && several && isAllReduce;
    case A::Pat: return simple && gathers && m.nodes == m.ranks && m.tree.channels > 0;
    }
    return false;
  }

  /// GB/s of bytes, but for corrections by size.
  double bandwidth(A a, P p) const {
    const NcclGraph &graph = graphOf(a);
    bool inNetwork = a == A::CollNetDirect || a == A::CollNetChain;
    double channels = graph.channels;
    double each = m.nodes <= 2 || inNetwork ? graph.bwIntra : graph.bwInter;
    if (a == A::Nvls || a == A::NvlsTree)
      each = nvlsChannel(a);
    double bus = channels * each;
    double ll = mostOfLL(m.arch, m.nodes, m.cpu);
    if (a == A::Ring) {
      bus *= efficiencyOf(a, p, m.nodes);
      if (p == P::LL)
        bus = std::min(ll, bus);
      if (p == P::LL128)
        bus = std::min(bus, channels * ringLL128Limit[generation][scale]);
    }
    if (a == A::Tree) {
      // The limit is one of trees, of whatever protocol.
      bus = std::min(bus, channels * treeLimit[generation][scale] / treeEfficiency) *
            efficiencyOf(a, p, m.nodes);
      if (p == P::LL)
        bus = std::min(bus, ll);
      if (p == P::LL128)
        bus = std::min(bus, channels * treeLL128Limit[generation][scale]);
      if (m.plainTree)
        bus *= 0.85;
    }
    if (a == A::Pat)
      bus *= 0.75;
    bool gathers = reducesScatteredOrGathers(collective);
    if (a == A::CollNetDirect && gathers) {
      bus = perNode * std::min(graph.bwIntra, graph.bwInter * 0.9);
    } else if (a == A::CollNetDirect) {
      // Without a NIC of its own a GPU shares one.
      double sharing = perNode / channels;
      bus /= sharing - (sharing - 1) / 2;
      if (m.arch >= 90)
        bus *= 0.85;
    }
    // From what links carry to what the caller sees.
    if (a == A::Ring || (!gathers && (a == A::Nvls || a == A::NvlsTree)))
      return bus * double(m.ranks) / double(steps);
    return gathers ? bus : bus / 2;
  }

  double latency(A a, P p) const {
    const size_t i = size_t(a), j = size_t(p);
    double call = callLatency[i][j];
    double intra = (m.nvlink ? nvlinkLatency : pcieLatency)[i][j];
    // With one GPU a node nothing hides the network.
    double inter = netLatency[perNode == 1 ? size_t(A::Tree) : i][j] + m.netLatency;
    if (p == P::Simple)
      inter += m.netLatency; // the flush after the data
    const int64_t others = m.ranksPerNode() - 1, depth = log2Floor(m.nodes);
    switch (a) {
    case A::Ring: return call + ringLatency(p, intra, inter);
    case A::Tree: return call + 2 * (double(others) * intra + double(depth) * inter);
    case A::CollNetDirect:
      return call + 2 * (double(std::min<int64_t>(1, others)) * intra + double(others) * 0.4) +
             inter;
    case A::CollNetChain: return call + 2 * double(others) * intra + inter;
    case A::Nvls: return intra + (m.nodes > 1 ? inter : 0);
    case A::NvlsTree: return call + intra + 2 * double(depth) * inter;
    case A::Pat: return call + double(depth) * inter / 3.5 + double(m.ranks) * 2.8;
    }
    return 0;
  }

  NcclEstimate estimate(A a, P p, int64_t bytes) const {
    NcclEstimate result{.algorithm = a, .protocol = p};
    result.latency = latency(a, p);
    result.bandwidth = bandwidth(a, p);
    size_t size = size_t(log2Floor(bytes >> 6)); // of anything below 128 B: 0
    bool corrected =
        (a == A::Tree && size < 23) ||
        (a == A::NvlsTree && size < 24 && m.arch >= 100 && m.cpu != NcclMachine::Cpu::Other);
    if (corrected)
      result.bandwidth *= treeCorrection[size_t(p)][size];
    // Long rings have a plateau between latency and bandwidth.
    if (a == A::Ring && p == P::Simple && m.nodes > 1 && collective == Collective::AllReduce &&
        bytes / (m.kernelChannels() * m.ranks) >= 64)
      result.latency *= m.arch < 80 ? 1.9 : 1.4;
    result.us = result.latency + double(bytes) / (1000 * result.bandwidth);
    result.algbw = double(bytes) / (1000 * result.us);
    launch(result, bytes);
    return result;
  }

private:
  const NcclGraph &graphOf(A a) const {
    switch (a) {
    case A::Tree:
    case A::Pat: return m.tree;
    case A::CollNetDirect:
    case A::CollNetChain: return m.collnet;
    case A::Nvls:
    case A::NvlsTree: return m.nvls;
    default: return m.ring;
    }
  }

  /// GB/s of a channel of in-switch reduction.
  double nvlsChannel(A a) const {
    double heads = m.nvls.channels;
    double intra = m.nvls.bwIntra * nvlsEfficiency[generation] * (heads - 1) / heads;
    // all_reduce has both directions of the links at work.
    intra *= collective == Collective::AllReduce ? 2 : (perNode - 1) / perNode;
    double inter = m.nvls.bwInter * (m.nodes <= 2 && a == A::NvlsTree ? 2 : 1);
    double limit = a == A::NvlsTree ? nvlsTreeLimit[generation][scale]
                                    : std::numeric_limits<double>::infinity();
    return std::min({intra, inter, limit});
  }

  double ringLatency(P p, double intra, double inter) const {
    if (collective == Collective::Broadcast || collective == Collective::Reduce) {
      const Latencies &hop = m.nodes > 1 ? netLatency : m.nvlink ? nvlinkLatency : pcieLatency;
      if (m.sameChannels)
        return hop[size_t(A::Ring)][size_t(p)];
      return double(steps) * hop[size_t(p == P::Simple ? A::Tree : A::Ring)][size_t(p)];
    }
    int64_t interSteps = 0;
    if (m.nodes > 1) {
      // A proxy posts every step.
      double post = m.cpu == NcclMachine::Cpu::Amd ? 2 : 1;
      intra = std::max(intra, p == P::Simple ? 3 * post : post);
      interSteps = (collective == Collective::AllReduce ? 2 : 1) * (m.nodes - 1);
    }
    return double(steps - interSteps) * intra + double(interSteps) * inter;
  }

  /// Small calls get fewer channels, then fewer threads: as many as have work enough.
  void launch(NcclEstimate &e, int64_t bytes) const {
    bool ll = e.protocol == P::LL, simple = e.protocol == P::Simple;
    int64_t channels = m.kernelChannels(), threads = e.protocol == P::LL128 ? mostThreads : 512;
    int64_t work = simple ? 64 : 8; // bytes a thread
    switch (e.algorithm) {
    case A::Nvls:
    case A::NvlsTree:
      e.channels = m.arch < 100 ? 16 : m.nodes == 1 ? 24 : 32;
      e.threads = mostThreads;
      return;
    case A::CollNetDirect:
      threads = mostThreads, work = 512;
      // Channels go one by one; on the way to 16, 8, ... a thread may have half as much work.
      for (int64_t stop = 16; stop >= 1; stop /= 2)
        while (channels > stop && bytes < channels * threads * m.collnet.channels * work) {
          if (channels == stop + stop / 2)
            work /= 2;
          --channels;
        }
      e.channels = int32_t(channels), e.threads = int32_t(threads);
      return;
    case A::CollNetChain: threads = mostThreads, work = 512; break;
    case A::Ring:
      if (ll)
        work *= m.ranks;
      if (simple && m.ring.bwIntra * m.ring.channels <= 12)
        threads = 256; // PCIe: fewer keep up
      break;
    default: break;
    }
    while (channels > 1 && bytes < channels * threads * work)
      --channels;
    while (threads % 128 == 0 && bytes < channels * threads * work)
      threads /= 2;
    if (simple && e.algorithm == A::Ring)
      threads += warp;
    threads = std::max<int64_t>(threads, 3 * warp);
    if (e.algorithm == A::Tree || e.algorithm == A::Pat)
      threads = mostThreads;
    e.channels = int32_t(channels), e.threads = int32_t(threads);
  }

  const NcclMachine &m;
  Collective collective;
  size_t generation, scale;
  double perNode;
  int64_t steps; ///< of a ring
};

} // namespace

std::string_view ccl::model::name(NcclAlgorithm algorithm) {
  return algorithmNames[size_t(algorithm)];
}
std::string_view ccl::model::name(NcclProtocol protocol) { return protocolNames[size_t(protocol)]; }

NcclLatency ccl::model::latencyOf(NcclAlgorithm algorithm, NcclProtocol protocol) {
  const size_t a = size_t(algorithm), p = size_t(protocol);
  return {callLatency[a][p], nvlinkLatency[a][p], pcieLatency[a][p], netLatency[a][p]};
}

double ccl::model::efficiencyOf(NcclAlgorithm algorithm, NcclProtocol protocol, int64_t nodes) {
  const bool tree = algorithm == NcclAlgorithm::Tree;
  if (!tree && algorithm != NcclAlgorithm::Ring)
    return 1;
  switch (protocol) {
  case NcclProtocol::LL: return tree ? treeEfficiency / 3.8 : 0.5; // half of it are flags
  case NcclProtocol::LL128:
    return !tree ? 0.92 : treeEfficiency * (nodes <= 1 ? 7.0 / 9 : 120.0 / 128);
  case NcclProtocol::Simple: return tree ? treeEfficiency : 1;
  }
  return 1;
}

double ccl::model::mostOfLL(int32_t arch, int64_t nodes, NcclMachine::Cpu cpu) {
  const size_t row = nodes <= 1 ? generationOf(arch) : cpu == NcclMachine::Cpu::Amd ? 1 : 0;
  return llLimit[row][scaleOf(std::max<int64_t>(nodes, 1))];
}

int32_t NcclMachine::kernelChannels() const {
  return std::clamp(2 * ring.channels, 1, mostKernelChannels);
}

std::string NcclMachine::check() const {
  if (ranks < 1 || nodes < 1 || ranks % nodes != 0)
    return fmt::format("{} ranks on {} nodes: needs as many on each, and one at least", ranks,
                       nodes);
  if (arch < 60)
    return fmt::format("NCCL has no model for compute capability {}; needs 60 or more", arch);
  if (!(netLatency >= 0))
    return fmt::format("the network's latency is {} us; needs at least 0", netLatency);
  for (auto [graph, what] : {std::pair(&ring, "ring"), std::pair(&tree, "tree"),
                             std::pair(&nvls, "nvls"), std::pair(&collnet, "collnet")})
    if (graph->channels < 0 || (graph->channels > 0 && !(graph->bwIntra > 0)) ||
        (graph->channels > 0 && nodes > 1 && !(graph->bwInter > 0)))
      return fmt::format("{}: {} channels of {} GB/s inside and {} GB/s between nodes; needs "
                         "positive bandwidths",
                         what, graph->channels, graph->bwIntra, graph->bwInter);
  return "";
}

std::vector<NcclEstimate> ccl::model::estimates(const NcclMachine &machine, Collective collective,
                                                int64_t bytes) {
  std::vector<NcclEstimate> result;
  if (!isModelled(collective) || machine.ranks < 2 || bytes <= 0 || !machine.check().empty())
    return result;
  Model model(machine, collective);
  for (size_t a = 0; a < numAlgorithms; ++a)
    for (size_t p = 0; p < numProtocols; ++p)
      if (model.isAvailable(NcclAlgorithm(a), NcclProtocol(p)) &&
          model.bandwidth(NcclAlgorithm(a), NcclProtocol(p)) > 0)
        result.push_back(model.estimate(NcclAlgorithm(a), NcclProtocol(p), bytes));
  return result;
}

std::optional<NcclEstimate> ccl::model::pick(const NcclMachine &machine, Collective collective,
                                             int64_t bytes) {
  std::vector<NcclEstimate> all = estimates(machine, collective, bytes);
  auto best =
      std::min_element(all.begin(), all.end(),
                       [](const NcclEstimate &a, const NcclEstimate &b) { return a.us < b.us; });
  return best == all.end() ? std::optional<NcclEstimate>() : *best;
}
