//===- SimulateSymmetric.cpp - One rank for all ----------------------------===//
//
// Ranks that all do the same, shifted, keep step if each server (a wire, a shared resource) sees
// what all servers of its class see. What passes a server are images of rank 0's messages: of hop h
// of way w, that of rank g passes the server at hop h of the way between the images of its ends.
// So: the images of one hop are all on different servers, and servers that have one hop in common
// have all in common. Then the server of rank 0's own hop stands for its class.
//===----------------------------------------------------------------------===//
#include "dialect/simulate/SimulateRun.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::model {
namespace {

class Folding {
public:
  Folding(SimCode &code, const Symmetry &symmetry, const Topology &topology,
          const std::vector<Buffer> &buffers, const SimulateOptions &options, const Routes &wires)
      : code(code), group(symmetry), symmetry(symmetry), topology(topology), buffers(buffers),
        options(options), routes(topology), wires(wires.wires()),
        hopsOf(wires.wires().size() + topology.resources.size()), classOf(hopsOf.size(), -1) {}

  /// Why ranks may not keep step, or "".
  std::string fold();
  /// By wire, by resource: which one stands for it; what is not used, for itself.
  std::vector<int32_t> wireClasses() const { return classes(0, wires.size()); }
  std::vector<int32_t> resourceClasses() const { return classes(wires.size(), classOf.size()); }

private:
  std::vector<int32_t> classes(size_t begin, size_t end) const;
  std::string checkLengths() const;
  std::string checkSweeps() const;
  int64_t lengthOf(int64_t chunk) const {
    const int64_t c = chunk % code.chunks;
    return chunkStart(c + 1, code.count, code.chunks) - chunkStart(c, code.count, code.chunks);
  }
  bool isAsLong(const SimStep &a, const SimStep &b) const;
  bool isSame(const SimStep &a, const SimStep &b) const;
  /// What the node at the end of a wire does: multicast, reduce.
  std::pair<bool, bool> joins(int32_t wire) const {
    const int64_t number = wires[size_t(wire)].dst - topology.ranks();
    if (number < 0)
      return {};
    const Switch &at = topology.switches[size_t(number)];
    return {at.multicast, at.reduce};
  }
  std::string addImage(int64_t shift, int32_t way, int64_t firstHop);
  std::string checkClasses();
  void takeClasses(const std::vector<int64_t> &firstHops);
  std::string nameOf(int32_t server) const;

  SimCode &code;
  const ShiftGroup group;
  const Symmetry &symmetry;
  const Topology &topology;
  const std::vector<Buffer> &buffers;
  const SimulateOptions &options;
  Routes routes; ///< ours: of all ranks
  const std::vector<Wire> &wires;
  std::vector<std::vector<int64_t>> hopsOf; ///< by server: of rank 0's ways, of images
  std::vector<int32_t> classOf;             ///< by server: the one that stands for it
};

std::vector<int32_t> Folding::classes(size_t begin, size_t end) const {
  std::vector<int32_t> result;
  for (size_t i = begin; i < end; ++i)
    result.push_back((classOf[i] < 0 ? int32_t(i) : classOf[i]) - int32_t(begin));
  return result;
}

/// In every micro-batch.
bool Folding::isAsLong(const SimStep &a, const SimStep &b) const {
  if (a.bytes >= 0 || b.bytes >= 0 || a.kind != SimStep::Kind::Transfer)
    return a.bytes == b.bytes;
  bool same = a.count == b.count;
  for (int64_t i = 0; same && i < a.count; ++i)
    same = lengthOf(a.chunk + i) == lengthOf(b.chunk + i);
  return same;
}

/// What moves is as long as its image on another rank: chunks of a shard may differ in length, if
/// shifts take each to one as long.
std::string Folding::checkLengths() const {
  if (std::none_of(code.steps.begin(), code.steps.end(), [](const SimStep &step) {
        return step.kind == SimStep::Kind::Transfer && step.bytes < 0;
      }))
    return "";
  for (int64_t shift : group.generators())
    for (size_t b = 0; b < buffers.size(); ++b)
      for (int64_t k = 0; k < buffers[b].chunks && buffers[b].role != Role::Scratch; ++k)
        if (lengthOf(k) != lengthOf(group.moveChunk(shift, int32_t(b), k)))
          return fmt::format("{} elements are not divisible by {} chunks and {} micro-batches, so "
                             "that lengths differ",
                             code.count, code.chunks, code.batches);
  return "";
}

bool Folding::isSame(const SimStep &a, const SimStep &b) const {
  if (a.kind != b.kind || !isAsLong(a, b) || a.sources != b.sources || a.numUses != b.numUses ||
      a.numPulls != b.numPulls || a.numPushes != b.numPushes)
    return false;
  for (int32_t i = 0; i < a.numUses; ++i) {
    const SimUse &x = code.uses[a.firstUse + size_t(i)], &y = code.uses[b.firstUse + size_t(i)];
    if (x.link != y.link || x.number != y.number || x.adds != y.adds)
      return false;
  }
  const int32_t sends = a.kind == SimStep::Kind::Signal ? 1 : a.numPulls + a.numPushes;
  for (int32_t i = 0; i < sends; ++i) {
    const SimSend &x = code.sends[a.firstSend + size_t(i)],
                  &y = code.sends[b.firstSend + size_t(i)];
    if (x.way != y.way || x.link != y.link)
      return false;
  }
  return true;
}

/// Other ranks execute iterations in another order than the images of rank 0's; that is the same
/// if all iterations take the same time.
std::string Folding::checkSweeps() const {
  for (const Sweep &sweep : symmetry.sweeps) {
    const SimAgent &agent = code.agents[size_t(sweep.agent)];
    for (int64_t i = sweep.length; i < int64_t(sweep.length) * sweep.trips; ++i) {
      const int64_t first = int64_t(agent.firstStep) + sweep.begin;
      if (!isSame(code.steps[size_t(first + i)], code.steps[size_t(first + i % sweep.length)]))
        return fmt::format("agent {}, instruction {}: iterations that ranks execute in different "
                           "orders take different times",
                           sweep.agent, sweep.begin + i);
    }
  }
  return "";
}

std::string Folding::nameOf(int32_t server) const {
  if (size_t(server) >= wires.size())
    return fmt::format("resource {}", topology.resources[size_t(server) - wires.size()].name);
  const Wire &wire = wires[size_t(server)];
  return fmt::format("the link from {} to {}", topology.nodeName(wire.src),
                     topology.nodeName(wire.dst));
}

std::string Folding::addImage(int64_t shift, int32_t wayNumber, int64_t firstHop) {
  const SimWay &way = code.ways[size_t(wayNumber)];
  const int32_t src = int32_t(group.moveRank(shift, way.src));
  const int32_t dst = int32_t(group.moveRank(shift, way.dst));
  const std::vector<int32_t> &image = routes.way(src, dst);
  const std::string pairs = fmt::format(
      "the ways from rank {} to rank {} and from rank {} to rank {}", way.src, way.dst, src, dst);
  bool same = int32_t(image.size()) == way.numHops;
  if (same && (options.model.latencies || !options.curves.empty())) {
    const WayCurve::Of kind = SimCodeBuilder::kindOf(topology, routes, image, src, dst);
    same = way.curve == SimCodeBuilder::curveOf(options.curves, kind, src, dst) &&
           (!options.model.latencies ||
            way.extra == SimCodeBuilder::latencyOf(*options.model.latencies, kind));
  }
  for (int32_t h = 0; same && h < way.numHops; ++h) {
    const int32_t wire = image[size_t(h)];
    const SimWire &numbers = code.wires[size_t(wire)];
    const SimWire &own = code.wires[size_t(code.hops[size_t(way.firstHop + h)])];
    same = numbers.usPerByte == own.usPerByte && numbers.latency == own.latency &&
           numbers.numShares == own.numShares &&
           joins(wire) == joins(code.hops[size_t(way.firstHop + h)]);
    // Hops of all ways are numbered through; those of shared resources come between.
    int64_t hop = firstHop + h * 64;
    hopsOf[size_t(wire)].push_back(hop);
    for (int32_t i = 0; same && i < numbers.numShares; ++i) {
      const SimShare &share = code.shares[size_t(numbers.firstShare + i)];
      same = share.usPerByte == code.shares[size_t(own.firstShare + i)].usPerByte;
      hopsOf[wires.size() + size_t(share.resource)].push_back(++hop);
    }
  }
  return same ? "" : pairs + " differ in links, bandwidth or latency";
}

std::string Folding::checkClasses() {
  std::vector<std::pair<int64_t, int32_t>> byHop; ///< every hop on every server
  for (size_t server = 0; server < hopsOf.size(); ++server) {
    std::sort(hopsOf[server].begin(), hopsOf[server].end());
    if (std::adjacent_find(hopsOf[server].begin(), hopsOf[server].end()) != hopsOf[server].end())
      return fmt::format("{} carries the same message of several ranks", nameOf(int32_t(server)));
    for (int64_t hop : hopsOf[server])
      byHop.push_back({hop, int32_t(server)});
  }
  std::sort(byHop.begin(), byHop.end());
  for (size_t i = 1; i < byHop.size(); ++i) {
    if (byHop[i].first != byHop[i - 1].first)
      continue;
    const int32_t a = byHop[i - 1].second, b = byHop[i].second;
    if (hopsOf[size_t(a)] != hopsOf[size_t(b)])
      return fmt::format("{} and {} carry different messages", nameOf(a), nameOf(b));
  }
  return "";
}

std::string Folding::fold() {
  if (code.changeUs)
    return "the fabric changes links";
  if (!options.lengths.empty())
    return "shards have different lengths";
  if (std::string why = checkLengths(); !why.empty())
    return why;
  if (std::string why = checkSweeps(); !why.empty())
    return why;
  for (const SimWire &wire : code.wires)
    if (wire.numShares >= 63)
      return "a link shares more than 62 resources";
  struct Image {
    int32_t src, way;
    int64_t shift;
  };
  std::vector<Image> images;
  std::vector<int64_t> firstHops;
  int64_t hops = 0;
  for (size_t w = 0; w < code.ways.size(); ++w) {
    firstHops.push_back(hops);
    hops += int64_t(code.ways[w].numHops) * 64;
    for (int64_t shift = 0; shift < group.numRanks(); ++shift)
      images.push_back({int32_t(group.moveRank(shift, code.ways[w].src)), int32_t(w), shift});
  }
  std::sort(images.begin(), images.end(), [](const Image &a, const Image &b) {
    return std::pair(a.src, a.way) < std::pair(b.src, b.way);
  });
  for (const Image &image : images)
    if (std::string why = addImage(image.shift, image.way, firstHops[size_t(image.way)]);
        !why.empty())
      return why;
  if (std::string why = checkClasses(); !why.empty())
    return why;
  takeClasses(firstHops);
  return "";
}

/// Every server of a class has the class's first hop; rank 0's own is where it is now.
void Folding::takeClasses(const std::vector<int64_t> &firstHops) {
  std::vector<std::pair<int64_t, int32_t>> own; ///< rank 0's hops and their servers
  for (size_t w = 0; w < code.ways.size(); ++w)
    for (int32_t h = 0; h < code.ways[w].numHops; ++h) {
      const int32_t wire = code.hops[size_t(code.ways[w].firstHop + h)];
      const SimWire &numbers = code.wires[size_t(wire)];
      own.push_back({firstHops[w] + h * 64, wire});
      for (int32_t i = 0; i < numbers.numShares; ++i)
        own.push_back(
            {firstHops[w] + h * 64 + i + 1,
             int32_t(wires.size()) + code.shares[size_t(numbers.firstShare + i)].resource});
    }
  std::sort(own.begin(), own.end());
  for (size_t server = 0; server < hopsOf.size(); ++server)
    if (!hopsOf[server].empty())
      classOf[server] =
          std::lower_bound(own.begin(), own.end(), std::pair(hopsOf[server].front(), int32_t(-1)))
              ->second;
  for (int32_t &wire : code.hops)
    wire = classOf[size_t(wire)];
  for (SimShare &share : code.shares) {
    const int32_t server = classOf[wires.size() + size_t(share.resource)];
    if (server >= 0)
      share.resource = server - int32_t(wires.size());
  }
}

} // namespace

std::optional<SimulateReport> simulateSymmetric(const Program &rankZero, const Contract &contract,
                                                const Symmetry &symmetry, const Topology &topology,
                                                const SimulateOptions &given, std::string *why) {
  auto refuse = [&](std::string reason) {
    if (why)
      *why = std::move(reason);
    return std::nullopt;
  };
  if (rankZero.ranks.size() != 1)
    return refuse("it is not the program of one rank");
  SimulateOptions options = given;
  options.maxFaults = std::max<size_t>(options.maxFaults, 1);
  SimulateReport report;
  if (std::string error = checkSimulation(contract, topology, options); !error.empty())
    return refuse(std::move(error));
  if (std::string error = contradiction(symmetry, rankZero.buffers, contract, /*inPlace=*/false);
      !error.empty())
    return refuse(std::move(error));
  const ShiftGroup group(symmetry);
  Network network(rankZero, contract.ranks,
                  [&](int32_t rank) { return int32_t(group.inverse(rank)); });
  network.build(report.faults, options.maxFaults);
  if (!report.ok() || !isLive(network, options, report))
    return report;
  SimCodeBuilder builder(rankZero, contract, topology, network, options);
  SimCode code = builder.build(report.faults);
  if (!report.ok())
    return report;
  Folding folding(code, symmetry, topology, rankZero.buffers, options, builder.wires());
  if (std::string reason = folding.fold(); !reason.empty())
    return refuse(std::move(reason));

  if (!runSimulation(code, options, topology, builder.wires().wires(), folding.wireClasses(),
                     folding.resourceClasses(), report))
    return report;
  report.folded = true;
  report.moved *= double(contract.ranks);
  report.messages *= uint64_t(contract.ranks);
  setRates(contract, options, report);
  return report;
}

} // namespace ccl::model
