//===- SimulateCode.h - A program and its messages as flat arrays ---------===//
//
// What the engine of Simulate.h runs: operands resolved to channels between agents and to ways
// over *servers* (wires and shared resources), with the numbers of one cost model.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Network.h"
#include "dialect/simulate/Routes.h"
#include "dialect/simulate/Simulate.h"

#include <limits>
#include <unordered_map>

namespace ccl::model {

/// A wire as the cost model has it.
struct SimWire {
  double usPerByte = 0;
  double slowest = 0; ///< the same, of it and of its resources
  double latency = 0;
  int32_t firstShare = 0, numShares = 0; ///< in SimCode::shares
};
/// A shared resource of a wire.
struct SimShare {
  int32_t resource = 0;
  double usPerByte = 0; ///< 0: links take turns
};
/// Of a message on a way with a curve: what the narrowest links are busy with a byte, and how much
/// later than by its links' latency it arrives.
struct SimPace {
  double usPerByte = 0, laterUs = 0;
};
struct SimWay {
  int32_t firstHop = 0, numHops = 0; ///< in SimCode::hops: wires
  double latency = 0;                ///< of all, and `extra`
  double signalUs = 0;               ///< of a signal
  double extra = 0;                  ///< at the end, whatever the wires
  int32_t src = 0, dst = 0;
  const CostCurve *curve = nullptr;
  double narrowest = 0; ///< the most us per byte of a link of it
  bool only = true;     ///< of equal ways there is one: Routes::isOnly
  bool circuit = false; ///< no hops: from a port of `src` to a port of `dst`, as Circuits.h says

  SimPace pace(double bytes) const;
};
/// Tokens that an instruction needs on a channel, and then takes or makes.
struct SimUse {
  int32_t link = 0; ///< of the network
  int32_t number = 1;
  bool adds = false;
};
struct SimSend {
  int32_t way = 0;
  int32_t link = -1; ///< the channel's; -1: of a place
  /// The send of the same transfer, by its number in it, with which it shares links, or -1. A push
  /// goes with that for its first `own` hops, to be copied there; a pull goes for its first `own`
  /// hops, to be combined there with that.
  int32_t trunk = -1, own = 0;
};
/// The place that a send reads or writes; of slots and signals none.
struct SimPlace {
  int32_t buffer = -1;
  int64_t chunk = 0;
  friend bool operator==(const SimPlace &, const SimPlace &) = default;
};
struct SimStep {
  enum class Kind : uint8_t { Transfer, Signal, Wait };
  Kind kind = Kind::Transfer;
  bool shares = false;  ///< some of its sends have a trunk
  bool inShard = false; ///< as long as in/out chunks from `chunk` on, else `count` longest ones
  uint16_t sources = 1;
  int32_t count = 1;
  int32_t numUses = 0, numPulls = 0, numPushes = 0;
  uint32_t firstUse = 0, firstSend = 0; ///< pulls first
  int64_t chunk = 0;
  int64_t firstLength = -1; ///< in SimCode::lengths, of an uneven launch
  double bytes = -1;        ///< of every micro-batch, or -1: they differ
};
struct SimAgent {
  int32_t rank = 0, index = 0;
  uint32_t firstStep = 0, numSteps = 0;
};

struct SimCode {
  std::vector<SimAgent> agents;
  std::vector<SimStep> steps;
  std::vector<SimUse> uses;
  std::vector<SimSend> sends;
  std::vector<int32_t> capacities; ///< by link of the network: slots, or 0 for signals
  std::vector<SimWay> ways;
  std::vector<int32_t> hops;
  std::vector<SimWire> wires;
  std::vector<SimShare> shares;
  std::vector<int64_t> lengths; ///< elements of chunks
  int32_t numResources = 0;
  int32_t ranks = 1; ///< that are simulated
  int64_t chunks = 1, count = 0, elementBytes = 4, batches = 1;
  double epochUs = 0;
  std::optional<double> changeUs; ///< of a circuit; nothing: there are none

  /// Bytes of a micro-batch of a transfer.
  double bytesOf(const SimStep &step, int64_t batch) const;
};

/// Makes the code of a network that `build` found right. Folded, `program` is that of rank 0.
class SimCodeBuilder {
public:
  SimCodeBuilder(const Program &program, const Contract &contract, const Topology &topology,
                 const Network &network, const SimulateOptions &options)
      : program(program), contract(contract), topology(topology), network(network),
        options(options), routes(topology) {}

  /// What is wrong goes to `faults`; then the code must not be run.
  SimCode build(std::vector<Fault> &faults);
  const Routes &wires() const { return routes; }

  /// What a way goes through: `Nvlink`, `Pci` or `Net`, as CostModel::Latencies has them.
  static WayCurve::Of kindOf(const Topology &topology, const Routes &routes,
                             const std::vector<int32_t> &way, int32_t src, int32_t dst);
  /// Latency of a message in the model `nccl`.
  static double latencyOf(const CostModel::Latencies &latencies, WayCurve::Of kind);
  /// The curve of a way, or null.
  static const CostCurve *curveOf(const std::vector<WayCurve> &curves, WayCurve::Of kind,
                                  int32_t src, int32_t dst);

private:
  void addWires(SimCode &code) const;
  void addStep(SimCode &code, const NetworkAgent &agent, int32_t index, std::vector<Fault> &faults);
  void addSends(SimCode &code, SimStep &step, int32_t rank, const Instruction &instruction);
  void addLengths(SimCode &code, SimStep &step, int32_t rank, const Operand &operand) const;
  void addSend(SimCode &code, int32_t src, int32_t dst, int32_t link, SimPlace place = {});
  void addUse(SimCode &code, const SimStep &step, int32_t link, bool adds) const;
  int32_t wayNumber(SimCode &code, int32_t src, int32_t dst);
  void addWays(SimCode &code, std::vector<Fault> &faults);
  std::string whyNoWay(const SimWay &way, bool hasData) const;
  void addCircuits(SimCode &code) const;
  void setPace(const SimCode &code, SimWay &way, const std::vector<int32_t> &wires) const;
  void addTrunks(SimCode &code) const;
  int32_t sharedHops(const SimCode &code, const SimWay &a, const SimWay &b, bool combines) const;
  void findPorts(const SimCode &code);
  void setLengths(SimCode &code) const;
  bool exists(const NetworkAgent &agent, int32_t index, const Operand &operand, int32_t count,
              std::vector<Fault> &faults) const;
  Fault faultAt(int32_t agent, int32_t instruction, std::string message) const;

  const Program &program;
  const Contract &contract;
  const Topology &topology;
  const Network &network;
  const SimulateOptions &options;
  Routes routes;
  std::unordered_map<uint64_t, int32_t> wayNumbers;    ///< by source and destination
  std::vector<std::pair<int32_t, int32_t>> firstUsers; ///< by way: agent and instruction
  std::vector<bool> carriesData;                       ///< by way: more than signals
  std::vector<SimPlace> places;                        ///< as SimCode::sends
  /// What the best port of a rank has, by rank; none: its `usPerByte` is infinite.
  struct BestPort {
    double usPerByte = std::numeric_limits<double>::infinity();
    double latency = std::numeric_limits<double>::infinity();
    bool exists() const { return usPerByte < std::numeric_limits<double>::infinity(); }
  };
  std::vector<BestPort> sendPorts, receivePorts;
};

} // namespace ccl::model
