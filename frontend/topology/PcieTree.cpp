#include "frontend/topology/PcieTree.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

namespace ccl::topology {
namespace {

/// Which devices are within a level of each other.
class Classes {
public:
  explicit Classes(size_t n) : parent(n) { std::iota(parent.begin(), parent.end(), size_t(0)); }
  size_t find(size_t i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent[std::max(find(a), find(b))] = std::min(find(a), find(b)); }

private:
  std::vector<size_t> parent;
};

} // namespace

bool addPcieTree(Machine &machine, const std::vector<int32_t> &devices,
                 const std::function<Level(size_t, size_t)> &level, const PcieSpeeds &speeds) {
  size_t n = devices.size();
  std::vector<Level> levels(n * n, Level::Unknown);
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < a; ++b)
      levels[a * n + b] = level(a, b);
  auto classesWithin = [&](Level most) {
    Classes classes(n);
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < a; ++b)
        if (levels[a * n + b] <= most)
          classes.join(a, b);
    return classes;
  };
  Classes bridge = classesWithin(Level::Bridge), bridges = classesWithin(Level::Bridges),
          node = classesWithin(Level::Node);
  bool contradicts = false;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < a; ++b) {
      Level known = levels[a * n + b];
      contradicts |= known != Level::Unknown &&
                     ((known > Level::Bridge && bridge.find(a) == bridge.find(b)) ||
                      (known > Level::Bridges && bridges.find(a) == bridges.find(b)) ||
                      (known > Level::Node && node.find(a) == node.find(b)));
    }

  std::vector<size_t> sizeOfBridge(n), sizeOfBridges(n);
  for (size_t i = 0; i < n; ++i) {
    ++sizeOfBridge[bridge.find(i)];
    ++sizeOfBridges[bridges.find(i)];
  }
  std::map<size_t, int32_t> sockets, upper, lower;
  int32_t named = 0;
  auto above = [&](std::map<size_t, int32_t> &nodes, size_t key, int32_t parent) {
    auto [it, isNew] = nodes.try_emplace(key, 0);
    if (isNew) {
      it->second = machine.add({DeviceKind::Pcie, fmt::format("pci{}", named++)});
      machine.connect(it->second, parent, speeds.slot);
    }
    return it->second;
  };
  for (size_t i = 0; i < n; ++i) {
    auto [socket, isNew] = sockets.try_emplace(node.find(i), 0);
    if (isNew)
      socket->second = machine.add({DeviceKind::Cpu, fmt::format("cpu{}", sockets.size() - 1)});
    int32_t parent = socket->second;
    size_t low = bridge.find(i), high = bridges.find(i);
    // A class of bridges that is all below one bridge is that bridge.
    if (sizeOfBridges[high] > sizeOfBridge[low])
      parent = above(upper, high, parent);
    if (sizeOfBridge[low] > 1)
      parent = above(lower, low, parent);
    machine.connect(devices[i], parent, speeds.slot);
  }
  for (auto [a, first] : sockets)
    for (auto [b, second] : sockets)
      if (a < b)
        machine.connect(first, second, speeds.sockets);
  return contradicts;
}

PcieSpeeds assumedPcie(const Assume &assume) { return {assumedSlot(assume), someSocket}; }

std::string assumedPcieText(const Assume &assume) {
  return fmt::format("generation and width of PCI Express, and the link between sockets: taken as "
                     "PCIe {} x16 and {} GB/s",
                     assumedGeneration(assume), someSocket.nominal);
}

} // namespace ccl::topology
