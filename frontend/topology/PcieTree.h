//===- PcieTree.h - Bridges and sockets from how near devices are ---------------===//
//
// Tools that print a matrix do not name bridges and sockets, only how far up the tree of PCI
// Express a path goes. Classes of devices within one level of each other are what hangs below
// one thing; the tree is those classes.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

#include <functional>

namespace ccl::topology {

/// How far up the path between two devices goes.
enum class Level : uint8_t { Bridge = 1, Bridges, Host, Node, System, Unknown };

struct PcieSpeeds {
  Speed slot, sockets;
};

/// Adds sockets (`cpu0`, ...) and bridges (`pci0`, ...) above `devices`, connected by `speeds`.
/// `level` must be symmetric. Levels that contradict each other (a and b below one bridge, c near
/// one of them only) are joined at the nearer one; returns whether there were some.
bool addPcieTree(Machine &machine, const std::vector<int32_t> &devices,
                 const std::function<Level(size_t, size_t)> &level, const PcieSpeeds &speeds);

/// The slot that `assume` or else NCCL assumes where nothing is known.
PcieSpeeds assumedPcie(const Assume &assume);
/// And in words.
std::string assumedPcieText(const Assume &assume);

} // namespace ccl::topology
