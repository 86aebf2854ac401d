//===- Layout.cpp - What all layouts share --------------------------------===//
#include "frontend/picture/Layout.h"

#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace ccl::picture {

PlacedNode nodeOf(const model::Topology &topology, int32_t node) {
  PlacedNode placed;
  placed.node = node;
  placed.name = topology.nodeName(node);
  if (node < topology.ranks()) {
    placed.label = fmt::format("{}", node);
    return placed;
  }
  const model::Switch &s = topology.switches[size_t(node - topology.ranks())];
  placed.label = placed.name;
  switch (s.kind) {
  case model::SwitchKind::Switch: placed.shape = PlacedNode::Shape::Switch; break;
  case model::SwitchKind::Nic: placed.shape = PlacedNode::Shape::Nic; break;
  case model::SwitchKind::Pcie: placed.shape = PlacedNode::Shape::Pcie; break;
  case model::SwitchKind::Cpu: placed.shape = PlacedNode::Shape::Cpu; break;
  }
  return placed;
}

void addWires(Layout &layout, const model::Topology &topology) {
  std::vector<int32_t> placeOf(size_t(topology.nodes()), -1);
  for (size_t i = 0; i < layout.nodes.size(); ++i)
    if (layout.nodes[i].shape != PlacedNode::Shape::Tile)
      placeOf[size_t(layout.nodes[i].node)] = int32_t(i);
  std::map<std::pair<int32_t, int32_t>, size_t> wireOf;
  for (size_t l = 0; l < topology.links.size(); ++l) {
    const model::Link &link = topology.links[l];
    const int32_t from = placeOf[size_t(link.src)], to = placeOf[size_t(link.dst)];
    if (from < 0 || to < 0 || from == to)
      continue;
    auto [it, isNew] = wireOf.try_emplace({from, to}, layout.wires.size());
    if (isNew)
      layout.wires.push_back({from, to, 0, 0, {}});
    layout.wires[it->second].links.push_back(int32_t(l));
  }
}

void addNodeLabels(Layout &layout) {
  for (PlacedNode &node : layout.nodes) {
    constexpr double size = 11;
    const double width = textWidth(node.label, size);
    if (node.label.empty())
      continue;
    layout.labels.push_back(
        {node.label,
         {node.box.midX() - width / 2, node.box.midY() - 0.6 * size, width, 1.2 * size},
         size,
         LabelBox::Kind::Node});
  }
}

void close(Layout &layout, double margin) {
  double left = std::numeric_limits<double>::max(), top = left, right = -left, bottom = -left;
  auto include = [&](const Box &box) {
    left = std::min(left, box.x), top = std::min(top, box.y);
    right = std::max(right, box.right()), bottom = std::max(bottom, box.bottom());
  };
  for (const PlacedNode &node : layout.nodes)
    include(node.box);
  for (const Box &frame : layout.frames)
    include(frame);
  for (const LabelBox &label : layout.labels)
    include(label.box);
  for (const PlacedWire &wire : layout.wires) {
    // A curve stays between its ends and three quarters of the bend beside them.
    for (int32_t end : {wire.from, wire.to}) {
      const Box &box = layout.nodes[size_t(end)].box;
      include({box.midX() + 0.75 * wire.bendX, box.midY() + 0.75 * wire.bendY, 0, 0});
    }
  }
  if (left > right)
    left = top = right = bottom = 0;
  const double dx = margin - left, dy = margin - top;
  for (PlacedNode &node : layout.nodes)
    node.box.x += dx, node.box.y += dy;
  for (Box &frame : layout.frames)
    frame.x += dx, frame.y += dy;
  for (LabelBox &label : layout.labels)
    label.box.x += dx, label.box.y += dy;
  layout.width = right - left + 2 * margin;
  layout.height = bottom - top + 2 * margin;
}

std::string groupName(const model::Topology &topology, int64_t group, size_t axes) {
  std::string name;
  for (size_t a = axes; a-- > 0;) {
    const model::Axis &axis = topology.axes[a];
    if (axis.size > 1)
      name = fmt::format("{} {}{}{}", axis.name, group % axis.size, name.empty() ? "" : ", ", name);
    group /= axis.size;
  }
  return name;
}

Layout layOut(const model::Topology &topology, const std::vector<double> &share) {
  if (topology.ranks() > mostRanks)
    return summaryLayout(topology, share);
  const auto isLong = [](const model::Axis &axis) { return axis.size > 1; };
  const auto dimensions = std::count_if(topology.axes.begin(), topology.axes.end(), isLong);
  if (topology.switches.empty() && dimensions <= 1)
    return circleLayout(topology);
  if (topology.switches.empty() && isGrid(topology))
    return gridLayout(topology);
  return tierLayout(topology);
}

} // namespace ccl::picture
