//===- SimulateFair.h - Messages that share links evenly ------------------===//
//
// Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): all
// rates grow alike until a server is full; what goes through it is settled; the others grow on.
// Only flows that share a server with one that came or went, also through others, are settled anew.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/SimulateCode.h"

#include <span>

namespace ccl::model {

class FairShares {
public:
  explicit FairShares(const SimCode &code);

  /// `flow`: any number that is free; numbers should be small. `mostUsPerByte`: it is no faster
  /// than that, 0 if any rate will do.
  void add(int32_t flow, std::span<const int32_t> wires, double bytes, double mostUsPerByte,
           double now);
  void remove(int32_t flow);
  bool isDirty() const { return !dirty.empty(); }
  /// Settles rates; then `changed` holds the flows that end at another time than before.
  void settle(double now);
  struct Change {
    int32_t flow;
    double end;
  };
  std::vector<Change> changed;

private:
  /// What is settled anew, by `dirty`: flows, and the servers that they go through.
  struct Component {
    std::vector<int32_t> servers, flows;
  };
  Component takeComponent();
  /// Of each of its flows.
  std::vector<double> rates(const Component &component);
  struct Flow {
    std::vector<std::pair<int32_t, double>> servers; ///< and the share that a byte a us takes
    double left = 0, rate = 0, since = 0, most = 0;
    bool active = false, seen = false, open = false;
  };

  const SimCode &code;
  std::vector<Flow> flows;
  std::vector<std::vector<int32_t>> users; ///< flows, by server
  std::vector<bool> inComponent;           ///< servers
  std::vector<int32_t> dirty;              ///< servers
  std::vector<double> room, load;          ///< by server
  std::vector<int32_t> openUsers;          ///< by server
};

} // namespace ccl::model
