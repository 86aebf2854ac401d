//===- SimulateSymmetric.cpp - One rank for all ----------------------------===//
//
// Ranks have to move the same at the same time, and to keep step on the topology (KeepStep.h).
//===----------------------------------------------------------------------===//
#include "dialect/simulate/KeepStep.h"
#include "dialect/simulate/SimulateRun.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::model {
namespace {

int64_t lengthOf(int64_t chunk, int64_t count, int64_t chunks) {
  const int64_t c = chunk % chunks;
  return chunkStart(c + 1, count, chunks) - chunkStart(c, count, chunks);
}

/// Whether what moves is as long as its image on another rank: chunks of a shard may differ in
/// length, if shifts take each to one as long.
bool keepsLengths(const Program &rankZero, const Contract &contract, const ShiftGroup &group,
                  const SimulateOptions &options) {
  if (options.count % contract.chunks == 0)
    return true;
  auto length = [&](int64_t chunk) { return lengthOf(chunk, options.count, contract.chunks); };
  for (int64_t shift : group.generators())
    for (size_t b = 0; b < rankZero.buffers.size(); ++b)
      for (int64_t k = 0; k < rankZero.buffers[b].chunks; ++k)
        if (rankZero.buffers[b].role != Role::Scratch &&
            length(k) != length(group.moveChunk(shift, int32_t(b), k)))
          return false;
  return true;
}

class Folding {
public:
  Folding(SimCode &code, const Symmetry &symmetry, const Topology &topology,
          const SimulateOptions &options, const Routes &routes)
      : code(code), group(symmetry), symmetry(symmetry), numWires(routes.wires().size()),
        servers(code, group, topology, options, routes) {}

  /// Why ranks may not keep step, or "".
  std::string fold();
  /// By wire, by resource: which one stands for it; what is not used, for itself.
  std::vector<int32_t> wireClasses() const { return classes(0, numWires); }
  std::vector<int32_t> resourceClasses() const { return classes(numWires, classOf.size()); }

private:
  std::vector<int32_t> classes(size_t begin, size_t end) const;
  std::string checkSweeps() const;
  bool isAsLong(const SimStep &a, const SimStep &b) const;
  bool isSame(const SimStep &a, const SimStep &b) const;
  void takeClasses();

  SimCode &code;
  const ShiftGroup group;
  const Symmetry &symmetry;
  const size_t numWires;
  KeepStep servers;
  std::vector<int32_t> classOf; ///< by server: the one that stands for it
};

std::vector<int32_t> Folding::classes(size_t begin, size_t end) const {
  std::vector<int32_t> result;
  for (size_t i = begin; i < end; ++i)
    result.push_back(classOf[i] - int32_t(begin));
  return result;
}

/// In every micro-batch.
bool Folding::isAsLong(const SimStep &a, const SimStep &b) const {
  if (a.bytes >= 0 || b.bytes >= 0 || a.kind != SimStep::Kind::Transfer)
    return a.bytes == b.bytes;
  bool same = a.count == b.count;
  for (int64_t i = 0; same && i < a.count; ++i)
    same = lengthOf(a.chunk + i, code.count, code.chunks) ==
           lengthOf(b.chunk + i, code.count, code.chunks);
  return same;
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

std::string Folding::fold() {
  if (code.changeUs)
    return "the fabric changes links";
  if (std::string why = checkSweeps(); !why.empty())
    return why;
  if (std::string why = servers.check(); !why.empty())
    return why;
  takeClasses();
  return "";
}

/// Rank 0's messages go where those of all ranks would, one of each.
void Folding::takeClasses() {
  classOf = servers.classes();
  for (int32_t &wire : code.hops)
    wire = classOf[size_t(wire)];
  for (SimShare &share : code.shares)
    share.resource = classOf[numWires + size_t(share.resource)] - int32_t(numWires);
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
  if (!options.lengths.empty())
    return refuse("shards have different lengths");
  if (!keepsLengths(rankZero, contract, group, options)) {
    if (int64_t(network.numEvents()) <= options.mostUneven / contract.ranks)
      return refuse(
          fmt::format("{} elements are not divisible by {} chunks, so that lengths differ",
                      options.count, contract.chunks));
    options.count = longestChunk(options.count, contract.chunks) * contract.chunks;
    report.lengthened = true;
  }
  SimCodeBuilder builder(rankZero, contract, topology, network, options);
  SimCode code = builder.build(report.faults);
  if (!report.ok())
    return report;
  Folding folding(code, symmetry, topology, options, builder.wires());
  if (std::string reason = folding.fold(); !reason.empty())
    return refuse(std::move(reason));

  if (!runSimulation(code, options, topology, builder.wires().wires(), folding.wireClasses(),
                     folding.resourceClasses(), report))
    return report;
  report.folded = true;
  report.moved *= double(contract.ranks);
  report.messages *= uint64_t(contract.ranks);
  setRates(contract, given, report);
  return report;
}

} // namespace ccl::model
