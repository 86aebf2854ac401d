//===- Without.cpp --------------------------------------------------------------===//
#include "frontend/topology/Without.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace ccl::topology {

/// The number of a node, or -1.
static int32_t findNode(const model::Topology &topology, llvm::StringRef name) {
  int32_t number = 0;
  if (!name.getAsInteger(10, number))
    return number >= 0 && number < topology.ranks() ? number : -1;
  for (int32_t node = int32_t(topology.ranks()); node < topology.nodes(); ++node)
    if (topology.nodeName(node) == name)
      return node;
  return -1;
}

/// Names of switches may have hyphens, too.
static std::pair<int32_t, int32_t> findEnds(const model::Topology &topology, llvm::StringRef name) {
  for (size_t at = name.find('-'); at != llvm::StringRef::npos; at = name.find('-', at + 1)) {
    const int32_t from = findNode(topology, name.take_front(at));
    const int32_t to = findNode(topology, name.drop_front(at + 1));
    if (from >= 0 && to >= 0)
      return {from, to};
  }
  return {-1, -1};
}

/// By axis, which of its indices have a rank that is left.
static std::vector<std::vector<bool>> usedIndices(const model::Topology &topology,
                                                  const std::vector<bool> &isOut) {
  std::vector<std::vector<bool>> used;
  for (const model::Axis &axis : topology.axes)
    used.emplace_back(size_t(axis.size), false);
  for (int64_t rank = 0; rank < topology.ranks(); ++rank)
    if (!isOut[size_t(rank)])
      for (auto [axis, index] : llvm::enumerate(topology.coordinates(rank)))
        used[axis][size_t(index)] = true;
  return used;
}

static std::vector<model::Axis> axesWithout(const model::Topology &topology,
                                            const std::vector<bool> &isOut) {
  const int64_t left = llvm::count(isOut, false);
  std::vector<model::Axis> axes = topology.axes;
  int64_t box = 1;
  for (auto [axis, used] : llvm::zip_equal(axes, usedIndices(topology, isOut)))
    box *= axis.size = llvm::count(used, true);
  return box == left ? axes : std::vector<model::Axis>{{topology.axes.back().name, left}};
}

static void takeRanksOut(model::Topology &topology, const std::vector<bool> &isOut) {
  std::vector<int32_t> numbers(size_t(topology.nodes()), -1);
  int32_t next = 0;
  for (size_t node = 0; node < numbers.size(); ++node)
    if (node >= isOut.size() || !isOut[node])
      numbers[node] = next++;
  std::vector<model::Axis> axes = axesWithout(topology, isOut);
  topology.axes = std::move(axes);
  llvm::erase_if(topology.links, [&](model::Link &link) {
    link.src = numbers[size_t(link.src)], link.dst = numbers[size_t(link.dst)];
    return link.src < 0 || link.dst < 0;
  });
}

std::string takeOut(model::Topology &topology, const std::vector<std::string> &names) {
  std::vector<bool> isOut(size_t(topology.ranks()), false), isCut(topology.links.size(), false);
  for (const std::string &name : names) {
    const int32_t node = findNode(topology, name);
    if (node >= 0 && node < topology.ranks()) {
      isOut[size_t(node)] = true;
      continue;
    }
    const auto [a, b] = findEnds(topology, name);
    if (node < 0 && a < 0)
      return fmt::format("{}: no rank, no switch, and no link A-B of two nodes, has that name; "
                         "ranks are numbers (`ccl topo T -o -` shows all)",
                         name);
    bool isThere = false;
    for (auto [link, cut] : llvm::zip_equal(topology.links, isCut))
      if (node >= 0 ? link.src == node || link.dst == node
                    : (link.src == a && link.dst == b) || (link.src == b && link.dst == a))
        cut = isThere = true;
    if (!isThere)
      return fmt::format("{}: there is no such link", name);
  }
  if (llvm::count(isOut, false) == 0)
    return "no rank is left";
  size_t next = 0;
  llvm::erase_if(topology.links, [&](const model::Link &) { return isCut[next++]; });
  if (llvm::is_contained(isOut, true))
    takeRanksOut(topology, isOut);
  return "";
}

} // namespace ccl::topology
