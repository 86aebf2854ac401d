//===- LayoutTiers.cpp - Ranks in frames, switches above, NICs below ------===//
#include "frontend/picture/Layout.h"
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace ccl::picture {
namespace {

constexpr double mostRankSize = 28, nodeHeight = 24, leastPitch = 22, mostPitch = 52;
constexpr double inset = 10, titleHeight = 26, frameGap = 14, tierGap = 44, rowGap = 14;
/// To what joins frames: lines from far away are flat, and need room to be told apart.
constexpr double outerGap = 84;
/// More nodes than that beside the ranks are left out: they would be a carpet.
constexpr size_t mostSwitches = 160;

/// A row, or several, of nodes of the same kind.
struct Tier {
  std::vector<int32_t> nodes; ///< of the topology
  double y = 0;
  size_t columns = 1;
  size_t rows() const { return (nodes.size() + columns - 1) / columns; }
};

struct Role {
  int32_t distance = -1; ///< links to the nearest rank
  int64_t frame = -1;    ///< -1: joins several
  bool below = false;    ///< NICs and what lies behind them
};

class Tiers {
public:
  explicit Tiers(const model::Topology &topology) : topology(topology) {}

  Layout build() {
    chooseFrames();
    findNeighbors();
    assignRoles();
    collect();
    chooseColumns();
    placeHeights();
    for (int64_t f = 0; f < frames; ++f)
      placeFrame(f);
    placeOuter(outerAbove, -1);
    placeOuter(outerBelow, 1);
    addWires(layout, topology);
    bendWires();
    addNodeLabels(layout);
    close(layout, 10);
    return std::move(layout);
  }

private:
  using TierKey = std::pair<int32_t, model::SwitchKind>; ///< distance, kind

  void chooseFrames() {
    for (const model::Axis &axis : topology.axes) {
      ++frameAxes;
      if (axis.size > 1) {
        frames = axis.size;
        break;
      }
    }
    ranksInFrame = topology.ranks() / frames;
    if (ranksInFrame == 1)
      frames = 1, ranksInFrame = topology.ranks();
  }

  void findNeighbors() {
    neighbors.resize(size_t(topology.nodes()));
    for (const model::Link &link : topology.links) {
      neighbors[size_t(link.src)].push_back(link.dst);
      neighbors[size_t(link.dst)].push_back(link.src);
    }
    for (std::vector<int32_t> &list : neighbors) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  /// From the ranks outwards: a switch belongs to the frame that all it joins belong to.
  void assignRoles() {
    roles.resize(size_t(topology.nodes()));
    std::vector<int32_t> order;
    for (int32_t r = 0; r < topology.ranks(); ++r) {
      roles[size_t(r)] = {0, r / ranksInFrame, false};
      order.push_back(r);
    }
    for (size_t i = 0; i < order.size(); ++i)
      for (int32_t next : neighbors[size_t(order[i])])
        if (Role &role = roles[size_t(next)]; role.distance < 0) {
          role.distance = roles[size_t(order[i])].distance + 1;
          order.push_back(next);
        }
    for (int32_t node : order) {
      if (node < topology.ranks())
        continue;
      Role &role = roles[size_t(node)];
      bool first = true;
      role.below = true;
      for (int32_t other : neighbors[size_t(node)]) {
        const Role &nearer = roles[size_t(other)];
        if (nearer.distance >= role.distance)
          continue;
        role.frame = first || role.frame == nearer.frame ? nearer.frame : -1;
        role.below &= nearer.below;
        first = false;
      }
      role.below |= kindOf(node) != model::SwitchKind::Switch;
    }
  }

  model::SwitchKind kindOf(int32_t node) const {
    return topology.switches[size_t(node - topology.ranks())].kind;
  }

  void collect() {
    above.resize(size_t(frames)), below.resize(size_t(frames));
    size_t drawn = 0;
    for (int32_t node = int32_t(topology.ranks()); node < topology.nodes(); ++node) {
      const Role &role = roles[size_t(node)];
      if (role.distance < 0 || drawn == mostSwitches)
        continue;
      ++drawn;
      const TierKey key(role.distance, kindOf(node));
      if (role.frame < 0)
        (role.below ? outerBelow : outerAbove)[key].nodes.push_back(node);
      else
        (role.below ? below : above)[size_t(role.frame)][key].nodes.push_back(node);
    }
    if (size_t left = topology.switches.size() - drawn; left > 0)
      layout.note = fmt::format("{} of {} switches are not drawn.", left, topology.switches.size());
  }

  /// All frames side by side if they can be, with their ranks in as few rows as then fit.
  void chooseColumns() {
    const double room = (pageWidth + frameGap) / double(frames) - frameGap - 2 * inset;
    auto places = [&](int64_t rows) {
      return double(columns) + (rows > 1 ? 0.5 : 0); // odd rows stand half a place aside
    };
    for (rankRows = (ranksInFrame + 15) / 16;; ++rankRows) {
      columns = size_t((ranksInFrame + rankRows - 1) / rankRows);
      if (columns == 1 || places(rankRows) * leastPitch <= room)
        break;
    }
    rankRows = (ranksInFrame + int64_t(columns) - 1) / int64_t(columns);
    pitch = std::clamp(room / places(rankRows), leastPitch, mostPitch);
    rankSize = std::min(mostRankSize, pitch - 3);
    inner = std::max(places(rankRows) * pitch, std::min(leastFrame(), room));
    perRow = std::max<int64_t>(1, int64_t((pageWidth + frameGap) / (inner + 2 * inset + frameGap)));
    frameWidth = inner + 2 * inset;
  }

  /// So wide that the title and the only switch of a row can be read.
  double leastFrame() const {
    double width = frames > 1 ? textWidth(groupName(topology, frames - 1, frameAxes), 12) + 12 : 0;
    for (const auto *side : {&above, &below})
      for (const auto &tiers : *side)
        for (const auto &[key, tier] : tiers)
          if (tier.nodes.size() == 1)
            width = std::max(width, wish(tier.nodes[0]));
    return std::min(width, 180.0);
  }

  double wish(int32_t node) const {
    return std::max(46.0, textWidth(topology.nodeName(node), 11) + 18);
  }

  /// The same in all frames: a tier has as many rows as it needs where it has most.
  void placeHeights() {
    std::map<TierKey, size_t> rowsAbove, rowsBelow;
    auto count = [&](auto &side, auto &rows) {
      for (auto &tiers : side)
        for (auto &[key, tier] : tiers) {
          tier.columns = columnsOf(tier);
          rows[key] = std::max(rows[key], tier.rows());
        }
    };
    count(above, rowsAbove), count(below, rowsBelow);
    double y = frames > 1 ? titleHeight + inset : inset;
    for (auto it = rowsAbove.rbegin(); it != rowsAbove.rend(); ++it) {
      heightAbove[it->first] = y;
      y += double(it->second) * (nodeHeight + rowGap) - rowGap + tierGap;
    }
    y += directBend(true);
    rankTop = y;
    y += double(rankRows) * (rankSize + rowGap) - rowGap;
    for (const auto &[key, rows] : rowsBelow) {
      y += tierGap;
      heightBelow[key] = y;
      y += double(rows) * (nodeHeight + rowGap) - rowGap;
    }
    frameHeight = y + inset;
    rowHeight = frameHeight + frameGap + directBend(false);
  }

  size_t columnsOf(const Tier &tier) const {
    const size_t count = tier.nodes.size();
    if (count == size_t(ranksInFrame))
      return columns; // below their ranks
    const size_t most = std::max(columns, size_t(inner / leastPitch - 0.5));
    const size_t rows = (count + most - 1) / most;
    return (count + rows - 1) / rows;
  }

  /// Room for links between ranks of a frame (above them), or of several (below).
  double directBend(bool within) const {
    double most = 0;
    for (const model::Link &link : topology.links)
      if (std::max(link.src, link.dst) < topology.ranks() &&
          (link.src / ranksInFrame == link.dst / ranksInFrame) == within)
        most = std::max(most, 0.75 * bendBetween(link.src, link.dst) - 10);
    return most;
  }

  double bendBetween(int32_t a, int32_t b) const {
    if (a / ranksInFrame != b / ranksInFrame)
      return 80;
    const auto column = [&](int32_t rank) { return rank % ranksInFrame % int64_t(columns); };
    const auto steps = std::abs(column(a) - column(b));
    return steps <= 1 ? 0 : 26 + std::min(110.0, 0.24 * double(steps) * pitch);
  }

  Box frameBox(int64_t frame) const {
    return {double(frame % perRow) * (frameWidth + frameGap), double(frame / perRow) * rowHeight,
            frameWidth, frameHeight};
  }

  void place(int32_t node, const Box &box, std::string label) {
    PlacedNode placed = nodeOf(topology, node);
    placed.box = box;
    placed.label = std::move(label);
    middle[node] = box.midX();
    layout.nodes.push_back(std::move(placed));
  }

  /// With the axis if there is room.
  std::string frameTitle(int64_t f) {
    const std::string title = groupName(topology, f, frameAxes);
    const double room = frameWidth - 12;
    if (textWidth(title, 12) <= room)
      return title;
    if (layout.note.find("Frames") == std::string::npos)
      layout.note += fmt::format("{}Frames are values of axis {}.", layout.note.empty() ? "" : " ",
                                 topology.axes[frameAxes - 1].name);
    return fit(fmt::format("{}", f), 12, room);
  }

  void placeFrame(int64_t f) {
    const Box frame = frameBox(f);
    if (frames > 1) {
      layout.frames.push_back(frame);
      const std::string title = frameTitle(f);
      layout.labels.push_back(
          {title, {frame.x + 8, frame.y + 7, textWidth(title, 12), 15}, 12, LabelBox::Kind::Title});
    }
    const double half = rankRows > 1 ? 0.5 : 0;
    const double left = frame.midX() - (double(columns) + half) * pitch / 2;
    for (int64_t i = 0; i < ranksInFrame; ++i) {
      const double aside = i / int64_t(columns) % 2 == 1 ? half : 0;
      const double x = left + (double(i % int64_t(columns)) + 0.5 + aside) * pitch;
      const double y = frame.y + rankTop + double(i / int64_t(columns)) * (rankSize + rowGap);
      const int32_t rank = int32_t(f * ranksInFrame + i);
      place(rank, {x - rankSize / 2, y, rankSize, rankSize}, fmt::format("{}", rank));
    }
    for (auto &[key, tier] : above[size_t(f)])
      placeTier(tier, frame.x + inset, inner, frame.y + heightAbove[key]);
    for (auto &[key, tier] : below[size_t(f)])
      placeTier(tier, frame.x + inset, inner, frame.y + heightBelow[key]);
  }

  /// Above or below all frames.
  void placeOuter(std::map<TierKey, Tier> &tiers, int direction) {
    const int64_t rows = (frames + perRow - 1) / perRow;
    const double width = double(std::min(perRow, frames)) * (frameWidth + frameGap) - frameGap;
    double y = direction < 0 ? 0 : double(rows - 1) * rowHeight + frameHeight;
    // Far lines are flat: the more frames there are, the more room they need to be told apart.
    const double gap = frames > 1 ? outerGap : tierGap;
    for (auto &[key, tier] : tiers) {
      const size_t most = size_t(std::max(1.0, width / leastPitch - 0.5));
      const size_t tierRows = (tier.nodes.size() + most - 1) / most;
      tier.columns = (tier.nodes.size() + tierRows - 1) / tierRows;
      const double height = double(tier.rows()) * (nodeHeight + rowGap) - rowGap;
      y += direction < 0 ? -gap - height : gap;
      placeTier(tier, 0, width, y);
      y += direction < 0 ? 0 : height;
    }
  }

  /// Under (or over) what they are linked with, as far as that is placed.
  void placeTier(Tier &tier, double x, double width, double y) {
    std::vector<std::pair<double, int32_t>> order;
    for (int32_t node : tier.nodes) {
      double sum = 0, count = 0;
      for (int32_t other : neighbors[size_t(node)])
        if (auto it = middle.find(other); it != middle.end())
          sum += it->second, ++count;
      // To a tenth: mirror images must not depend on how sums were rounded. Several rows stay in
      // their order.
      const bool sorted = count > 0 && tier.rows() == 1;
      order.push_back({sorted ? std::round(10 * sum / count) : 0, node});
    }
    std::sort(order.begin(), order.end());
    const double half = tier.rows() > 1 ? 0.5 : 0;
    const double slot = std::min(width / (double(tier.columns) + half),
                                 half > 0 && tier.columns == columns ? pitch : width);
    const double left = x + (width - slot * (double(tier.columns) + half)) / 2;
    double widest = 0;
    for (int32_t node : tier.nodes)
      widest = std::max(widest, wish(node));
    const double nodeWidth = std::min({slot - 5, widest, 180.0});
    const std::vector<std::string> labels = shortLabels(order, nodeWidth - 4);
    for (size_t i = 0; i < order.size(); ++i) {
      const double aside = i / tier.columns % 2 == 1 ? half : 0;
      const double mid = left + (double(i % tier.columns) + 0.5 + aside) * slot;
      place(order[i].second,
            {mid - nodeWidth / 2, y + double(i / tier.columns) * (nodeHeight + rowGap), nodeWidth,
             nodeHeight},
            labels[i]);
    }
  }

  /// Whole names if all of them fit. Else without what all begin with, up to a digit.
  std::vector<std::string> shortLabels(const std::vector<std::pair<double, int32_t>> &order,
                                       double width) const {
    std::vector<std::string> names;
    for (const auto &[x, node] : order)
      names.push_back(topology.nodeName(node));
    auto fits = [&](const std::string &name) { return textWidth(name, 11) <= width; };
    if (!std::all_of(names.begin(), names.end(), fits) && names.size() > 1) {
      size_t same = 0;
      while (same < names[0].size() && std::all_of(
                                           names.begin(), names.end(),
                                           [&](const std::string &name) {
                                             return same < name.size() &&
                                                    name[same] == names[0][same];
                                           }))
        ++same;
      while (same > 0 && names[0][same - 1] >= '0' && names[0][same - 1] <= '9')
        --same; // a number stays whole
      while (same > 0 && (uint8_t(names[0][same]) & 0xC0) == 0x80)
        --same; // and so does a character
      for (std::string &name : names)
        name.erase(0, same);
    }
    for (std::string &name : names) {
      // Of a name of parts, the last says most.
      if (const size_t part = name.find_last_of("./:_-"); !fits(name) && part != name.npos)
        name.erase(0, part + 1);
      // A letter or two say nothing.
      if (std::string cut = fit(name, 11, width); cut != name)
        name = cut.size() < 3 + std::string_view("…").size() ? "" : cut;
    }
    return names;
  }

  void bendWires() {
    for (PlacedWire &wire : layout.wires) {
      const PlacedNode &a = layout.nodes[size_t(wire.from)], &b = layout.nodes[size_t(wire.to)];
      const bool ranks = std::max(a.node, b.node) < topology.ranks();
      if (ranks && a.node / ranksInFrame != b.node / ranksInFrame)
        wire.bendY = bendBetween(a.node, b.node);
      else if (ranks)
        wire.bendY = -bendBetween(a.node, b.node);
      else if (a.box.y == b.box.y && std::abs(a.box.midX() - b.box.midX()) > 1.5 * a.box.width)
        wire.bendY = 30; // past the nodes between them
    }
  }

  const model::Topology &topology;
  Layout layout;
  size_t frameAxes = 0; ///< the first axes, whose values are frames
  int64_t frames = 1, ranksInFrame = 1, perRow = 1, rankRows = 1;
  std::vector<std::vector<int32_t>> neighbors;
  std::vector<Role> roles;
  std::vector<std::map<TierKey, Tier>> above, below; ///< by frame
  std::map<TierKey, Tier> outerAbove, outerBelow;
  std::map<TierKey, double> heightAbove, heightBelow; ///< in a frame
  std::map<int32_t, double> middle;
  size_t columns = 1;
  double pitch = 0, rankSize = 0, inner = 0; ///< inner: of frameWidth, for nodes
  double frameWidth = 0, frameHeight = 0, rowHeight = 0, rankTop = 0;
};

} // namespace

Layout tierLayout(const model::Topology &topology) { return Tiers(topology).build(); }

} // namespace ccl::picture
