//===- DrawTopology.cpp - The topology as SVG, links colored by use -------===//
#include "frontend/picture/Links.h"
#include "frontend/picture/Page.h"
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace ccl::picture {
namespace {

/// Links there and back are lines this far apart.
constexpr double apart = 4;

std::string_view className(PlacedNode::Shape shape) {
  switch (shape) {
  case PlacedNode::Shape::Rank: return "rank";
  case PlacedNode::Shape::Switch: return "switch";
  case PlacedNode::Shape::Nic: return "nic";
  case PlacedNode::Shape::Pcie: return "pcie";
  case PlacedNode::Shape::Cpu: return "cpu";
  case PlacedNode::Shape::Tile: return "tile";
  }
  return "";
}

double cornerRadius(const PlacedNode &node) {
  switch (node.shape) {
  case PlacedNode::Shape::Switch: return node.box.height / 2;
  case PlacedNode::Shape::Rank: return 7;
  case PlacedNode::Shape::Tile: return 4;
  default: return 3;
  }
}

class Painter {
public:
  explicit Painter(const PageInput &input)
      : topology(*input.topology), report(*input.report), share(linkShares(topology, report)),
        layout(layOut(topology, share)) {}

  Drawing draw() {
    const double least = std::min(layout.width, std::max(340.0, 0.62 * layout.width));
    add(R"(<svg class="topology" role="img" aria-label="{}" viewBox="0 0 {} {}" )"
        R"(style="max-width:{}px;min-width:{}px">)",
        escape(fmt::format("Topology {}: {} ranks, {} switches, {} links", topology.name,
                           topology.ranks(), topology.switches.size(), topology.links.size())),
        number(layout.width), number(layout.height), number(layout.width), number(least));
    for (const Box &frame : layout.frames)
      add(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}" rx="10"/>)", number(frame.x),
          number(frame.y), number(frame.width), number(frame.height));
    wires();
    for (const PlacedNode &node : layout.nodes)
      drawNode(node);
    drawing.html += "<g class=\"words\">\n";
    for (const LabelBox &label : layout.labels)
      drawLabel(label);
    drawing.html += "</g>\n</svg>\n";
    drawing.labels = layout.labels;
    if (!layout.note.empty())
      drawing.notes.push_back(layout.note);
    return std::move(drawing);
  }

private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(drawing.html), format, std::forward<Args>(args)...);
    drawing.html += '\n';
  }
  static std::string number(double value) { return fixed(value, 2); }

  /// Of links drawn as one: the busiest's.
  double shareOf(const std::vector<int32_t> &links) const {
    double most = 0;
    for (int32_t link : links)
      most = std::max(most, share[size_t(link)]);
    return most;
  }

  void wires() {
    // The busiest are drawn last, on top.
    std::vector<size_t> order(layout.wires.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const double first = shareOf(layout.wires[a].links), second = shareOf(layout.wires[b].links);
      return first != second ? first < second : a < b;
    });
    double widest = 0;
    for (const model::Link &link : topology.links)
      widest = std::max(widest, link.bandwidth);
    thin = std::clamp(std::sqrt(500 / (double(order.size()) + 1)), 0.35, 1.0);
    drawing.html += "<g class=\"wires\">\n";
    for (size_t i : order)
      drawWire(layout.wires[i], widest);
    drawing.html += "</g>\n";
  }

  using Point = std::pair<double, double>;

  /// Lines between tiers begin and end at the edges that face each other, so that they do not cross
  /// the neighbors of their ends; at a wide switch they fan out. All others go between middles.
  std::pair<Point, Point> ends(const PlacedWire &wire) const {
    const PlacedNode &from = layout.nodes[size_t(wire.from)], &to = layout.nodes[size_t(wire.to)];
    const bool ranks = from.shape == PlacedNode::Shape::Rank && to.shape == PlacedNode::Shape::Rank;
    const bool apartInY = from.box.bottom() < to.box.y || to.box.bottom() < from.box.y;
    if (ranks || !apartInY || wire.bendX != 0 || wire.bendY != 0)
      return {{from.box.midX(), from.box.midY()}, {to.box.midX(), to.box.midY()}};
    auto edge = [](const PlacedNode &node, const Box &other) {
      const double most = std::max(0.0, node.box.width / 2 - node.box.height / 2 - 2);
      const double aside = std::clamp(0.14 * (other.midX() - node.box.midX()), -most, most);
      const bool fans = node.shape == PlacedNode::Shape::Switch;
      return Point(node.box.midX() + (fans ? aside : 0),
                   other.y > node.box.bottom() ? node.box.bottom() : node.box.y);
    };
    return {edge(from, to.box), edge(to, from.box)};
  }

  void drawWire(const PlacedWire &wire, double widest) {
    const auto [from, to] = ends(wire);
    const double dx = to.first - from.first, dy = to.second - from.second;
    const double length = std::max(std::hypot(dx, dy), 1e-9);
    // Like cars, each direction keeps to its right.
    const double sideX = -dy / length * apart / 2, sideY = dx / length * apart / 2;
    const double x0 = from.first + sideX, y0 = from.second + sideY;
    const double x1 = to.first + sideX, y1 = to.second + sideY;
    std::string path = fmt::format("M{} {}", number(x0), number(y0));
    if (wire.bendX == 0 && wire.bendY == 0)
      path += fmt::format("L{} {}", number(x1), number(y1));
    else
      path += fmt::format("C{} {} {} {} {} {}", number(x0 + wire.bendX), number(y0 + wire.bendY),
                          number(x1 + wire.bendX), number(y1 + wire.bendY), number(x1), number(y1));
    double bandwidth = 0, bytesSum = 0;
    for (int32_t l : wire.links) {
      bandwidth += topology.links[size_t(l)].bandwidth;
      bytesSum += size_t(l) < report.links.size() ? report.links[size_t(l)].bytes : 0;
    }
    const double width = thin * (1 + 1.5 * std::sqrt(std::min(1.0, bandwidth / widest)));
    const double use = shareOf(wire.links);
    add(R"(<path class="h{}" stroke-width="{}" d="{}"><title>{}</title></path>)", heatStep(use),
        fixed(width, 1), path,
        escape(
            fmt::format("{}{}: {}{}busy {}, {}", linkName(topology, wire.links[0]),
                        wire.links.size() > 1 ? fmt::format(", {} links", wire.links.size()) : "",
                        rate(bandwidth), ", ", percent(use), bytes(bytesSum))));
  }

  void drawNode(const PlacedNode &node) {
    const bool isTile = node.shape == PlacedNode::Shape::Tile;
    const double use = isTile ? shareOf(node.links) : 0;
    add(R"(<rect class="{}{}" x="{}" y="{}" width="{}" height="{}" rx="{}"><title>{}</title></rect>)",
        className(node.shape), isTile ? fmt::format(" h{}", heatStep(use)) : "", number(node.box.x),
        number(node.box.y), number(node.box.width), number(node.box.height),
        number(cornerRadius(node)),
        escape(isTile ? fmt::format("{}: busiest link {} busy", node.name, percent(use))
                      : node.name));
    if (isTile)
      tileSteps.push_back(heatStep(use));
  }

  void drawLabel(const LabelBox &label) {
    const double baseline = label.box.midY() + 0.36 * label.size;
    if (label.kind == LabelBox::Kind::Node) {
      // Tiles are the first nodes, and theirs the first labels of nodes.
      const bool onTile = nodeLabels < tileSteps.size();
      const std::string on = onTile ? fmt::format(R"( class="t{}")", tileSteps[nodeLabels]) : "";
      ++nodeLabels;
      add(R"(<text{} x="{}" y="{}" text-anchor="middle">{}</text>)", on, number(label.box.midX()),
          number(baseline), escape(label.text));
      return;
    }
    add(R"(<text class="{}" x="{}" y="{}">{}</text>)",
        label.kind == LabelBox::Kind::Title ? "title" : "caption", number(label.box.x),
        number(baseline), escape(label.text));
  }

  const model::Topology &topology;
  const model::SimulateReport &report;
  const std::vector<double> share;
  const Layout layout;
  Drawing drawing;
  double thin = 1; ///< many lines are drawn thinner
  std::vector<int> tileSteps;
  size_t nodeLabels = 0;
};

} // namespace

Drawing drawTopology(const PageInput &input) { return Painter(input).draw(); }

} // namespace ccl::picture
