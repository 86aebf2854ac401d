//===- PlanForbidden.cpp --------------------------------------------------===//
#include "frontend/cli/PlanForbidden.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace ccl::cli {

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

std::string forbid(model::Topology &topology, const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    const int32_t node = findNode(topology, name);
    if (node >= 0 && node < topology.ranks())
      return fmt::format("{}: a rank takes part; name links of it, as {}-NODE", name, name);
    const auto [a, b] = findEnds(topology, name);
    if (node < 0 && a < 0)
      return fmt::format("{}: no switch, and no link A-B of two nodes, has that name; ranks are "
                         "numbers (`ccl topo T -o -` shows all)",
                         name);
    const size_t erased = std::erase_if(topology.links, [&](const model::Link &link) {
      if (node >= 0)
        return link.src == node || link.dst == node;
      return (link.src == a && link.dst == b) || (link.src == b && link.dst == a);
    });
    if (erased == 0)
      return fmt::format("{}: there is no such link", name);
  }
  return "";
}

} // namespace ccl::cli
