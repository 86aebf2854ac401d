//===- Circuits.h - A fabric that changes its links -----------------------===//
//
// Which ports of ranks are joined, and what joining others takes. Simulate.h has the rule.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/SimulateCode.h"

namespace ccl::model {

/// Whether the fabric can join the ends of this wire with others.
bool isCircuit(const Topology &topology, const Wire &wire);

class Circuits {
public:
  /// The topology is reconfigurable; `code` has its wires, and must outlive this.
  Circuits(const SimCode &code, const Topology &topology, const std::vector<Wire> &wires);

  struct Circuit {
    int32_t sender = 0, receiver = 0; ///< ports, by the wire that was theirs at first
    double usPerByte = 0, latency = 0;
    double free = 0; ///< when it can begin to carry something
    double changeBegin = 0;
    bool isNew = false; ///< it has to be made, from `changeBegin` to `free`
  };
  /// For a message that is there at `now`. Nothing changes yet.
  Circuit find(int32_t src, int32_t dst, double now) const;
  /// Makes it, if it is new, and keeps it busy until `end`; what it carries has arrived at `quiet`.
  void use(const Circuit &circuit, double end, double quiet);

private:
  /// One end of a circuit.
  struct Port {
    int32_t other = -1; ///< the port that it leads to, or -1
    double free = 0, quiet = 0;
  };
  int32_t choose(const std::vector<int32_t> &candidates, const std::vector<Port> &ports) const;

  const SimCode &code;
  const double changeUs;
  std::vector<Port> senders, receivers;                 ///< by wire
  std::vector<std::vector<int32_t>> sending, receiving; ///< wires, by rank
};

} // namespace ccl::model
