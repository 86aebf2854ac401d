//===- LayoutGrid.cpp - Circles and grids of ranks ------------------------===//
#include "frontend/picture/Layout.h"
#include "frontend/picture/Text.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ccl::picture {
namespace {

constexpr double rankSize = 28, leastPitch = 44, mostPitch = 62;
constexpr double inset = 26, titleHeight = 20, gap = 26;

struct GridPlace {
  int64_t group, row, column;
};

/// The two fastest axes with more than one value are columns and rows.
struct GridShape {
  explicit GridShape(const model::Topology &topology) {
    size_t left = topology.axes.size();
    for (int64_t *size : {&columns, &rows})
      for (bool found = false; left > 0 && !found;) {
        --left;
        *size = topology.axes[left].size;
        found = *size > 1;
      }
    groupAxes = left;
    for (size_t a = 0; a < left; ++a)
      groups *= topology.axes[a].size;
  }
  GridPlace place(int64_t rank) const {
    return {rank / (rows * columns), rank / columns % rows, rank % columns};
  }
  int64_t columns = 1, rows = 1, groups = 1;
  size_t groupAxes = 0;
};

/// A line over `steps` places bends more, the farther it goes, but stays short of the next row.
double bendOver(int64_t steps, int64_t most, double pitch) {
  return steps <= 1 ? 0 : pitch * (0.4 + 0.24 * double(steps) / double(std::max<int64_t>(most, 1)));
}

} // namespace

Layout circleLayout(const model::Topology &topology) {
  Layout layout;
  const int64_t ranks = topology.ranks();
  const double radius =
      ranks == 1 ? 0 : std::max(78.0, 38 * double(ranks) / (2 * std::numbers::pi));
  for (int64_t r = 0; r < ranks; ++r) {
    PlacedNode node = nodeOf(topology, int32_t(r));
    const double angle = 2 * std::numbers::pi * double(r) / double(ranks);
    node.box = {radius * std::sin(angle) - rankSize / 2, -radius * std::cos(angle) - rankSize / 2,
                rankSize, rankSize};
    layout.nodes.push_back(std::move(node));
  }
  addWires(layout, topology);
  addNodeLabels(layout);
  close(layout, 10);
  return layout;
}

bool isGrid(const model::Topology &topology) {
  return std::all_of(topology.links.begin(), topology.links.end(), [&](const model::Link &link) {
    const std::vector<int64_t> a = topology.coordinates(link.src),
                               b = topology.coordinates(link.dst);
    int64_t different = 0;
    for (size_t i = 0; i < a.size(); ++i)
      different += a[i] != b[i];
    return different == 1;
  });
}

Layout gridLayout(const model::Topology &topology) {
  Layout layout;
  const GridShape shape(topology);
  const bool framed = shape.groups > 1;
  // In one row if it can be done. Else rows go there and back, so that neighbors stay neighbors.
  const double around = 2 * inset + rankSize;
  double pitch = mostPitch;
  if (shape.columns > 1) {
    const double room = (pageWidth + gap) / double(shape.groups) - gap - around;
    if (const double fitting = room / double(shape.columns - 1); fitting >= leastPitch)
      pitch = std::min(pitch, fitting);
  }
  const double width = double(shape.columns - 1) * pitch + around;
  const double height = double(shape.rows - 1) * pitch + around + titleHeight;
  const int64_t perRow =
      std::clamp(int64_t((pageWidth + gap) / (width + gap)), int64_t(1), shape.groups);
  auto corner = [&](int64_t group) {
    const int64_t row = group / perRow, place = group % perRow;
    const int64_t column = row % 2 == 0 ? place : perRow - 1 - place;
    return Box{double(column) * (width + gap), double(row) * (height + gap), width, height};
  };
  for (int64_t g = 0; g < shape.groups && framed; ++g) {
    layout.frames.push_back(corner(g));
    const std::string title = fit(groupName(topology, g, shape.groupAxes), 12, width - 20);
    layout.labels.push_back({title,
                             {corner(g).x + 10, corner(g).y + 6, textWidth(title, 12), 15},
                             12,
                             LabelBox::Kind::Title});
  }
  for (int64_t r = 0; r < topology.ranks(); ++r) {
    PlacedNode node = nodeOf(topology, int32_t(r));
    const GridPlace place = shape.place(r);
    const Box frame = corner(place.group);
    node.box = {frame.x + inset + double(place.column) * pitch,
                frame.y + inset + titleHeight + double(place.row) * pitch, rankSize, rankSize};
    layout.nodes.push_back(std::move(node));
  }
  addWires(layout, topology);
  for (PlacedWire &wire : layout.wires) {
    const GridPlace a = shape.place(layout.nodes[size_t(wire.from)].node),
                    b = shape.place(layout.nodes[size_t(wire.to)].node);
    if (a.group != b.group) {
      const bool besides = a.group / perRow == b.group / perRow;
      (besides ? wire.bendY : wire.bendX) = pitch * 0.5;
    } else if (a.row == b.row) {
      wire.bendY = -bendOver(std::abs(a.column - b.column), shape.columns - 1, pitch);
    } else {
      wire.bendX = -bendOver(std::abs(a.row - b.row), shape.rows - 1, pitch);
    }
  }
  addNodeLabels(layout);
  close(layout, 10);
  return layout;
}

} // namespace ccl::picture
