//===- Layout.h - Where ranks, switches and links are drawn ---------------===//
//
// The places alone, as data: tests look at them, DrawTopology.cpp draws them. In pixels of the
// drawing's natural size; y grows downwards. The same topology always has the same layout.
//
//   ring, full mesh        one axis and no switches: a circle
//   torus, mesh            no switches, links along axes: a grid of the two fastest axes, in a
//                          frame for each value of the others
//   anything else          a frame for each value of the slowest axis: switches above their ranks;
//                          NICs, PCIe switches and CPUs below; what joins frames, outside of them
//   more than 64 ranks     a tile for each group of ranks, and one group drawn as above
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Topology.h"

#include <string>
#include <vector>

namespace ccl::picture {

/// As many ranks are drawn one by one.
constexpr int64_t mostRanks = 64;
/// Frames are placed side by side up to this width.
constexpr double pageWidth = 1060;

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double midX() const { return x + width / 2; }
  double midY() const { return y + height / 2; }
  bool meets(const Box &other) const {
    return x < other.right() && other.x < right() && y < other.bottom() && other.y < bottom();
  }
};

/// Text and the space that it takes at most.
struct LabelBox {
  enum class Kind : uint8_t { Node, Title, Caption };
  std::string text;
  Box box;
  double size = 11; ///< of the font
  Kind kind = Kind::Node;
};

struct PlacedNode {
  enum class Shape : uint8_t { Rank, Switch, Nic, Pcie, Cpu, Tile };
  Shape shape = Shape::Rank;
  int32_t node = -1; ///< of the topology; Tile: the first rank
  std::string name;  ///< in full
  std::string label; ///< what fits, perhaps nothing
  Box box;
  std::vector<int32_t> links; ///< Tile: whose use colors it
};

/// Links from one node to another, drawn as one line.
struct PlacedWire {
  int32_t from = 0, to = 0; ///< index into Layout::nodes
  /// How far a curve is drawn aside at its ends; both 0: a straight line. Links there and back
  /// have the same.
  double bendX = 0, bendY = 0;
  std::vector<int32_t> links; ///< of the topology
};

struct Layout {
  double width = 0, height = 0;
  std::vector<PlacedNode> nodes;
  std::vector<PlacedWire> wires;
  std::vector<Box> frames;
  std::vector<LabelBox> labels; ///< of frames and of nodes
  std::string note;             ///< what is left out; "" if nothing is
};

/// `share`: how busy each link is, to find the group that stands for the others.
Layout layOut(const model::Topology &topology, const std::vector<double> &share = {});

//===----------------------------------------------------------------------===//
// The kinds of layouts
//===----------------------------------------------------------------------===//

/// A node still without a place.
PlacedNode nodeOf(const model::Topology &topology, int32_t node);
/// Wires between the placed nodes: links with the same ends are one.
void addWires(Layout &layout, const model::Topology &topology);
/// Labels in the middle of nodes, as much of them as fits.
void addNodeLabels(Layout &layout);
/// Moves everything so that it begins at (margin, margin), and sets width and height.
void close(Layout &layout, double margin);
/// "node 1", "plane 0, row 2": of the first `axes` coordinates.
std::string groupName(const model::Topology &topology, int64_t group, size_t axes);

Layout circleLayout(const model::Topology &topology);
/// Links that differ in one coordinate only.
bool isGrid(const model::Topology &topology);
Layout gridLayout(const model::Topology &topology);
Layout tierLayout(const model::Topology &topology);
Layout summaryLayout(const model::Topology &topology, const std::vector<double> &share);

} // namespace ccl::picture
