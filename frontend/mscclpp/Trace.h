//===- Trace.h - What the agents of a plan do, before they are joined -----===//
//
// A plan's ops as instructions of agents, in order. Signals and waits name counters: what
// counts up on one side and is waited for on the other. Who takes which signal, and so
// which channels of the program there are, is decided when all agents are known
// (`joinAgents`). A packet is read when it has been written: such waits are not ops of the
// plan, but follow from who writes what.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/mscclpp/Layout.h"

#include <map>
#include <tuple>

namespace ccl::mscclpp {

/// A range of chunks in the scratch of a rank.
struct PacketRange {
  int32_t rank = 0;
  int64_t chunk = 0, count = 0;
};

struct Item {
  model::Instruction instruction;
  bool isInstruction = true;              ///< else only a point that others wait for, or wait at
  int32_t counter = -1;                   ///< Signal, Wait
  bool relaxed = false;                   ///< orders no data in MSCCL++
  int32_t loop = 0;                       ///< 0, or which kind of pipeline it is repeated by
  std::vector<PacketRange> reads, writes; ///< of packets
};

struct AgentTrace {
  int32_t rank = 0;
  bool proxy = false;
  int32_t id = 0;
  std::vector<Item> items;
};

/// One of these on one agent.
struct Use {
  int32_t agent = -1, item = -1;
};

struct Counter {
  int32_t from = 0, to = 0; ///< ranks
  int64_t initial = 0;
  std::string name; ///< "memory channel 2 of rank 0 to rank 1"
  std::vector<Use> signals, waits;
};

/// `reader` goes on when `writer` has been done.
struct Dependence {
  Use reader, writer;
};

struct Trace {
  std::vector<AgentTrace> agents;
  std::vector<Counter> counters;
  std::vector<Dependence> dependences;
  std::vector<interchange::TextPlace> places; ///< by `loc`
};

/// What every rank does. Errors go to `log`.
Trace traceOps(const Plan &plan, const Layout &layout, Log &log);

/// Makes channels of counters and dependences, and of the trace's instructions the programs of
/// the ranks. Errors, where the pairing of signals and waits is not determined, go to `log`.
std::vector<model::RankProgram> joinAgents(Trace &trace, int64_t ranks, Log &log);

/// Warnings about what MSCCL++'s executor makes of a plan that says something else.
void tellCautions(const Plan &plan, Log &log);
/// Warnings where threads of a thread block overtake each other.
void tellThreadOrder(const Plan &plan, Log &log);

} // namespace ccl::mscclpp
