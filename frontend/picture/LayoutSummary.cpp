//===- LayoutSummary.cpp - More ranks than can be drawn one by one --------===//
#include "frontend/picture/Layout.h"
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::picture {
namespace {

constexpr int64_t mostTiles = 256;
constexpr double tileHeight = 26, tileGap = 4;

/// The first axes that leave at most `mostRanks` ranks in a group.
size_t groupAxes(const model::Topology &topology) {
  int64_t ranks = topology.ranks();
  size_t axes = 0;
  while (axes < topology.axes.size() && ranks > mostRanks)
    ranks /= topology.axes[axes++].size;
  return axes;
}

/// Whose switches and ranks are: of the group that is nearer than all others.
struct Owners {
  static constexpr int64_t nobody = -1, several = -2;

  Owners(const model::Topology &topology, int64_t groupSize)
      : neighbors(size_t(topology.nodes())), owner(size_t(topology.nodes()), nobody) {
    for (const model::Link &link : topology.links) {
      neighbors[size_t(link.src)].push_back(link.dst);
      neighbors[size_t(link.dst)].push_back(link.src);
    }
    std::vector<int32_t> distance(size_t(topology.nodes()), -1);
    for (int32_t r = 0; r < topology.ranks(); ++r)
      owner[size_t(r)] = r / groupSize, distance[size_t(r)] = 0, order.push_back(r);
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t node = size_t(order[i]);
      for (int32_t next : neighbors[node]) {
        if (distance[size_t(next)] < 0) {
          distance[size_t(next)] = distance[node] + 1;
          owner[size_t(next)] = owner[node];
          order.push_back(next);
        } else if (distance[size_t(next)] == distance[node] + 1 &&
                   owner[size_t(next)] != owner[node]) {
          owner[size_t(next)] = several;
        }
      }
    }
  }

  std::vector<std::vector<int32_t>> neighbors;
  std::vector<int64_t> owner;
  std::vector<int32_t> order; ///< nodes by their distance from ranks
};

/// A group of ranks with the switches that are its own, and those that join it with others.
struct Part {
  model::Topology topology;
  std::vector<int32_t> nodes; ///< of the whole topology
  std::vector<int32_t> links;
};

Part partOf(const model::Topology &topology, const Owners &owners, int64_t group, size_t axes,
            int64_t size) {
  const int64_t ranks = topology.ranks(), first = group * size;
  std::vector<int32_t> number(size_t(topology.nodes()), -1);
  Part part;
  part.topology.axes.assign(topology.axes.begin() + long(axes), topology.axes.end());
  for (int64_t r = first; r < first + size; ++r) {
    number[size_t(r)] = int32_t(part.nodes.size());
    part.nodes.push_back(int32_t(r));
  }
  auto isOwn = [&](int32_t node) { return owners.owner[size_t(node)] == group; };
  for (int32_t node : owners.order) {
    if (node < ranks)
      continue;
    const std::vector<int32_t> &list = owners.neighbors[size_t(node)];
    const bool joins = owners.owner[size_t(node)] == Owners::several &&
                       std::any_of(list.begin(), list.end(), isOwn);
    if (!isOwn(node) && !joins)
      continue;
    number[size_t(node)] = int32_t(part.nodes.size());
    part.nodes.push_back(node);
    part.topology.switches.push_back(topology.switches[size_t(node - ranks)]);
  }
  for (size_t l = 0; l < topology.links.size(); ++l) {
    const int32_t src = number[size_t(topology.links[l].src)],
                  dst = number[size_t(topology.links[l].dst)];
    if (src < 0 || dst < 0)
      continue;
    part.topology.links.push_back({src, dst, topology.links[l].bandwidth, 0, {}});
    part.links.push_back(int32_t(l));
  }
  return part;
}

/// The part's own layout. Labels of ranks count within the part: so they stay short.
Layout detail(const model::Topology &topology, const Part &part) {
  Layout layout = layOut(part.topology);
  for (PlacedNode &node : layout.nodes) {
    node.node = part.nodes[size_t(node.node)];
    node.name = topology.nodeName(node.node);
  }
  for (PlacedWire &wire : layout.wires)
    for (int32_t &link : wire.links)
      link = part.links[size_t(link)];
  return layout;
}

void addCaption(Layout &layout, const std::string &whole, double x, double y, double width) {
  const std::string text = fit(whole, 12, width);
  layout.labels.push_back({text, {x, y, textWidth(text, 12), 15}, 12, LabelBox::Kind::Caption});
}

} // namespace

Layout summaryLayout(const model::Topology &topology, const std::vector<double> &share) {
  const size_t axes = groupAxes(topology);
  int64_t size = topology.ranks();
  for (size_t a = 0; a < axes; ++a)
    size /= topology.axes[a].size;
  const int64_t groups = topology.ranks() / size;
  const int64_t inTile = (groups + mostTiles - 1) / mostTiles;
  const int64_t tiles = (groups + inTile - 1) / inTile;
  const std::string what = size == 1 ? "ranks" : "groups";

  Layout layout;
  auto tileName = [&](int64_t tile) {
    const int64_t first = tile * inTile, last = std::min(groups, first + inTile) - 1;
    return first == last ? fmt::format("{}", first) : fmt::format("{}–{}", first, last);
  };
  const double tileWidth = std::max(30.0, textWidth(tileName(tiles - 1), 11) + 8);
  const int64_t perRow =
      std::min<int64_t>(tiles, int64_t((pageWidth + tileGap) / (tileWidth + tileGap)));
  constexpr double top = 24;
  for (int64_t t = 0; t < tiles; ++t) {
    PlacedNode tile;
    tile.shape = PlacedNode::Shape::Tile;
    tile.node = int32_t(t * inTile * size);
    tile.name = inTile > 1  ? fmt::format("{} {}", what, tileName(t))
                : size == 1 ? topology.nodeName(tile.node)
                            : groupName(topology, t, axes);
    tile.label = tileName(t);
    tile.box = {double(t % perRow) * (tileWidth + tileGap),
                top + double(t / perRow) * (tileHeight + tileGap), tileWidth, tileHeight};
    layout.nodes.push_back(std::move(tile));
  }
  const Owners owners(topology, size);
  int64_t busiest = 0;
  double most = -1;
  for (size_t l = 0; l < topology.links.size(); ++l)
    for (int32_t end : {topology.links[l].src, topology.links[l].dst}) {
      const int64_t group = owners.owner[size_t(end)];
      if (group < 0)
        continue;
      std::vector<int32_t> &links = layout.nodes[size_t(group / inTile)].links;
      if (links.empty() || links.back() != int32_t(l))
        links.push_back(int32_t(l));
      if (l < share.size() && share[l] > most)
        most = share[l], busiest = group;
    }
  addCaption(layout,
             fmt::format("{} ranks{}{}: the color is that of the busiest link", topology.ranks(),
                         size > 1 ? fmt::format(" in {} groups of {}", groups, size) : "",
                         inTile > 1 ? fmt::format(", {} {} to a tile", inTile, what) : ""),
             0, 0, pageWidth);
  addNodeLabels(layout);
  layout.note = fmt::format("{} ranks are too many to draw one by one.", topology.ranks());
  if (size > 1) {
    const Layout inner = detail(topology, partOf(topology, owners, busiest, axes, size));
    const double y = top + double((tiles + perRow - 1) / perRow) * (tileHeight + tileGap) + 20;
    addCaption(layout,
               fmt::format("{}: ranks {} to {}, with the busiest link",
                           groupName(topology, busiest, axes), busiest * size,
                           (busiest + 1) * size - 1),
               0, y, pageWidth);
    const int32_t offset = int32_t(layout.nodes.size());
    for (PlacedNode node : inner.nodes) {
      node.box.y += y + 24;
      layout.nodes.push_back(std::move(node));
    }
    for (PlacedWire wire : inner.wires) {
      wire.from += offset, wire.to += offset;
      layout.wires.push_back(std::move(wire));
    }
    for (Box frame : inner.frames) {
      frame.y += y + 24;
      layout.frames.push_back(frame);
    }
    for (LabelBox label : inner.labels) {
      label.box.y += y + 24;
      layout.labels.push_back(std::move(label));
    }
    layout.note +=
        fmt::format(" Of the groups, {} alone is drawn.", groupName(topology, busiest, axes));
    if (!inner.note.empty())
      layout.note += " " + inner.note;
  }
  close(layout, 10);
  return layout;
}

} // namespace ccl::picture
