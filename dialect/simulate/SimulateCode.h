//===- SimulateCode.h - A program and its messages as flat arrays ---------===//
//
// What the engine of Simulate.h runs: operands resolved to channels between agents and to ways
// over *servers* (wires and shared resources), with the numbers of one cost model.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Network.h"
#include "dialect/simulate/Routes.h"
#include "dialect/simulate/Simulate.h"

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
struct SimWay {
  int32_t firstHop = 0, numHops = 0; ///< in SimCode::hops: wires
  double latency = 0;                ///< of all, and `extra`
  double extra = 0;                  ///< at the end, whatever the wires
  int32_t src = 0, dst = 0;
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
};
struct SimStep {
  enum class Kind : uint8_t { Transfer, Signal, Wait };
  Kind kind = Kind::Transfer;
  bool inShard = false; ///< as long as in/out chunks from `chunk` on, else `count` longest ones
  uint16_t sources = 1;
  int32_t count = 1;
  int32_t numUses = 0, numPulls = 0, numPushes = 0;
  uint32_t firstUse = 0, firstSend = 0; ///< pulls first
  int64_t chunk = 0;
  double bytes = -1; ///< of every micro-batch, or -1: they differ
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
  int32_t numResources = 0;
  int32_t ranks = 1; ///< that are simulated
  int64_t chunks = 1, count = 0, elementBytes = 4, batches = 1;
  double epochUs = 0;

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

  /// Latency of a message in the model `nccl`.
  static double latencyOf(const CostModel::Latencies &latencies, const Topology &topology,
                          const Routes &routes, const std::vector<int32_t> &way, int32_t src,
                          int32_t dst);

private:
  void addWires(SimCode &code) const;
  void addStep(SimCode &code, const NetworkAgent &agent, int32_t index, std::vector<Fault> &faults);
  void addUse(SimCode &code, const SimStep &step, int32_t link, bool adds) const;
  int32_t wayNumber(SimCode &code, int32_t src, int32_t dst);
  void addWays(SimCode &code, std::vector<Fault> &faults);
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
};

} // namespace ccl::model
