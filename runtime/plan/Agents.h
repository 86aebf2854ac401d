//===- Agents.h - Rank programs as tables of instructions --------------------===//
//
// Programs with several agents, and long ones without loops, are not compiled: the runtime
// executes tables (runtime/Agents.h). What moves and combines data is code all the same, one
// function for every number of sources and destinations.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccl {

/// Where an operand of a transfer lies, or the channel of a signal or wait.
struct AgentOperand {
  /// `peer` of this rank's own places, and of channels; else whose place it is.
  static constexpr int32_t own = -1, channel = -2;
  int32_t peer = own;
  int32_t buffer = 0; ///< index into Plan::buffers, unless it is a channel
  int64_t chunk = 0;  ///< linear chunk; of a channel the index into KernelArgs::channels
};

struct AgentInstruction {
  static constexpr int32_t signal = -1, wait = -2;
  int32_t pattern = signal; ///< of a transfer: index into Plan::transfers
  /// Index of the first operand in RankAgents::operands: sources, then destinations. A signal
  /// and a wait have one.
  uint32_t operands = 0;
  int32_t count = 1; ///< adjacent chunks that a transfer moves
};

/// KernelArgs::agent.
constexpr int64_t agentNumber(bool proxy, int64_t id) { return 2 * id + proxy; }
/// "block 3", "proxy 0".
std::string agentName(int64_t number);

struct AgentCode {
  bool proxy = false;
  int32_t id = 0;
  uint32_t begin = 0, end = 0; ///< its instructions, in order
  int64_t number() const { return agentNumber(proxy, id); }
};

/// What one rank executes: its agents run concurrently.
struct RankAgents {
  std::vector<AgentCode> agents;
  std::vector<AgentInstruction> instructions;
  std::vector<AgentOperand> operands;
};

/// The code of transfers with so many sources and destinations.
struct TransferPattern {
  int32_t sources = 1, destinations = 1;
  std::string symbol; ///< of a TransferFunction in Plan::object
};

} // namespace ccl
