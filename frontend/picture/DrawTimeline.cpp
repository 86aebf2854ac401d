//===- DrawTimeline.cpp - Lanes of agents and links as SVG ----------------===//
//
// Names stand in an SVG of fixed width, bars in one as wide as there is room: their places are
// percentages of the whole time, so that it stretches without a script.
//===----------------------------------------------------------------------===//
#include "frontend/picture/Lanes.h"
#include "frontend/picture/Links.h"
#include "frontend/picture/Page.h"
#include "frontend/picture/PathMarks.h"
#include "frontend/picture/Text.h"

#include "dialect/simulate/SimulateTrace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace ccl::picture {
namespace {

constexpr size_t mostLanes = 40, mostLinks = 12, mostBars = 30000, mostTexts = 2000;
/// Bars are as wide as on a plot of this many pixels; on paper and screens it is about that.
constexpr double plotWidth = 1000;
/// And no narrower than this: the ticks have room on it.
constexpr double leastPlot = 560;
constexpr double nameWidth = 172, axisHeight = 26, lanePitch = 18, barHeight = 12, waitHeight = 6,
                 headingHeight = 26;

struct Row {
  std::string name, full; ///< in full: where `name` is cut
  std::string kind;       ///< "path", "agent", "link"
  std::string id;         ///< index of the agent or link
  std::vector<Bar> bars;
  double y = 0;
};

class Painter {
public:
  explicit Painter(const PageInput &input)
      : input(input), topology(*input.topology), report(*input.report) {}

  Drawing draw() {
    path = model::criticalPath(report);
    lanes = agentLanes(report, path, mostLanes);
    y = axisHeight;
    pathRow();
    agentRows();
    linkRows();
    mergeBars();
    const double height = y + 6;
    add(R"(<div class="lanes"><svg class="names" width="{}" height="{}" aria-hidden="true">)",
        fixed(nameWidth, 0), fixed(height, 0));
    for (size_t i = 0; i < headings.size(); ++i)
      name(headings[i].first, headings[i].first, headings[i].second, "heading");
    for (const Row &row : rows)
      name(row.name, row.full, row.y, "");
    add(R"(</svg><div class="scroll"><svg class="plot" width="100%" height="{}" role="img" )"
        R"(aria-label="Timeline of {}" data-us="{}">)",
        fixed(height, 0), escape(time(report.us)), exact(report.us));
    axis(height);
    for (const Row &row : rows)
      drawRow(row);
    drawPath();
    drawing.html += "</svg></div></div>\n";
    texts();
    notes();
    return std::move(drawing);
  }

private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(drawing.html), format, std::forward<Args>(args)...);
    drawing.html += '\n';
  }
  std::string at(double us) const { return fixed(100 * us / report.us, 5) + "%"; }
  static std::string exact(double us) { return fmt::format("{:.9g}", us); }

  void heading(std::string text) {
    headings.emplace_back(std::move(text), y + headingHeight - 19);
    y += headingHeight;
  }
  void addRow(Row row) {
    row.y = y;
    y += lanePitch;
    rows.push_back(std::move(row));
  }

  void pathRow() {
    if (!path.empty())
      addRow({"Critical path", "Critical path", "path", "0", pathBars(path)});
  }

  std::string agentName(const model::AgentUse &use, bool isAlone) const {
    const model::Agent *agent = nullptr;
    if (input.code && use.rank >= 0 && size_t(use.rank) < input.code->ranks.size() &&
        size_t(use.agent) < input.code->ranks[size_t(use.rank)].agents.size())
      agent = &input.code->ranks[size_t(use.rank)].agents[size_t(use.agent)];
    std::string name = report.folded ? "each rank" : fmt::format("rank {}", use.rank);
    if (agent && (!isAlone || agent->proxy))
      return fmt::format("{} {} {}", name, agent->proxy ? "proxy" : "block", agent->id);
    return isAlone ? name : fmt::format("{} agent {}", name, use.agent);
  }

  void agentRows() {
    heading(report.folded ? "Agents of each rank" : "Agents");
    bool isAlone = true;
    for (const model::AgentUse &use : report.agents)
      isAlone &= use.agent == 0;
    for (Lane &lane : lanes.lanes) {
      const model::AgentUse &use = report.agents[size_t(lane.agents[0])];
      std::string name = agentName(use, isAlone);
      if (lane.agents.size() > 1)
        name += fmt::format(" +{}", lane.agents.size() - 1);
      rowOf[lane.agents[0]] = rows.size();
      for (int32_t agent : lane.agents)
        rowOf[agent] = rows.size();
      addRow({name, name, "agent", fmt::format("{}", lane.agents[0]), std::move(lane.bars)});
    }
  }

  void linkRows() {
    std::vector<LinkClass> classes = linkClasses(topology, report);
    std::erase_if(classes, [](const LinkClass &c) { return !(c.use.busyUs > 0); });
    std::vector<Row> found;
    for (size_t i = 0; i < classes.size() && found.size() < mostLinks; ++i) {
      std::vector<Bar> bars = linkBars(report, classes[i].link);
      if (bars.empty())
        continue;
      const std::string full = linkName(topology, classes[i].link);
      const std::string more = classes[i].size > 1 ? fmt::format(" +{}", classes[i].size - 1) : "";
      const double room = nameWidth - 10 - textWidth(more, 11);
      found.push_back({fit(full, 11, room) + more, full + more, "link",
                       fmt::format("{}", classes[i].link), std::move(bars)});
    }
    if (found.empty()) {
      if (!classes.empty())
        drawing.notes.push_back("Links have no lanes: messages share them all the time.");
      return;
    }
    heading("Busiest links");
    for (Row &row : found)
      addRow(std::move(row));
  }

  /// As fine as the number of bars allows.
  void mergeBars() {
    size_t before = 0;
    for (const Row &row : rows)
      before += row.bars.size();
    double pixels = 0.125;
    std::vector<std::vector<Bar>> result(rows.size());
    for (;; pixels *= 2) {
      size_t after = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        result[r] = merged(rows[r].bars, pixels * report.us / plotWidth);
        after += result[r].size();
      }
      if (after <= mostBars || pixels > plotWidth)
        break;
    }
    size_t drawnTogether = 0, into = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      for (const Bar &bar : result[r])
        if (bar.count > 1)
          drawnTogether += size_t(bar.count), ++into;
      rows[r].bars = std::move(result[r]);
    }
    least = pixels * report.us / plotWidth;
    if (drawnTogether > 0)
      drawing.notes.push_back(
          fmt::format("{} of {} bars are shorter than {}: they are drawn together as {}, the "
                      "stronger the more of that time is work.",
                      drawnTogether, before, time(least), into));
  }

  void name(const std::string &text, const std::string &full, double top,
            std::string_view className) {
    const double size = className.empty() ? 11 : 12;
    const std::string shown = fit(text, size, nameWidth - 8);
    const double width = textWidth(shown, size);
    const double middle = top + lanePitch / 2;
    drawing.labels.push_back({shown, {0, middle - 0.6 * size, width, 1.2 * size}, size});
    add(R"(<text{} x="0" y="{}">{}{}</text>)",
        className.empty() ? "" : fmt::format(R"( class="{}")", className),
        fixed(middle + 0.36 * size, 1), escape(shown),
        shown == full ? "" : "<title>" + escape(full) + "</title>");
  }

  /// 1, 2 or 5 times a power of ten, so that no more than eight ticks fit.
  static double tickStep(double us) {
    const double power = std::pow(10, std::floor(std::log10(us / 8)));
    for (double step : {1.0, 2.0, 5.0})
      if (us / (step * power) <= 8)
        return step * power;
    return 10 * power;
  }

  void axis(double height) {
    const double step = tickStep(report.us);
    const std::string end = time(report.us);
    const double endLeft = leastPlot - textWidth(end, 11);
    tick(report.us, end, "end", endLeft, height);
    for (int i = 0; double(i) * step < report.us; ++i) {
      const std::string label = i == 0 ? "0" : time(double(i) * step, report.us);
      const double width = textWidth(label, 11);
      const double left = i == 0 ? 0 : double(i) * step / report.us * leastPlot - width / 2;
      // The end comes first: no tick is written into it.
      if (left + width + 6 < endLeft)
        tick(double(i) * step, label, i == 0 ? "start" : "middle", left, height);
    }
  }

  void tick(double us, const std::string &label, std::string_view anchor, double left,
            double height) {
    drawing.labels.push_back(
        {label, {nameWidth + left, 2, textWidth(label, 11), 14}, 11, LabelBox::Kind::Caption});
    add(R"(<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="13" text-anchor="{}">{}</text>)",
        at(us), at(us), fixed(axisHeight - 6, 0), fixed(height, 0), at(us), anchor, escape(label));
  }

  int textOf(const Bar &bar) {
    if (bar.span < 0 || !input.code)
      return -1;
    const model::Timeline::Span &span = report.timeline->spans[size_t(bar.span)];
    const model::AgentUse &use = report.agents[size_t(span.agent)];
    if (use.rank < 0 || size_t(use.rank) >= input.code->ranks.size())
      return -1;
    const model::RankProgram &rank = input.code->ranks[size_t(use.rank)];
    if (size_t(use.agent) >= rank.agents.size() || span.instruction < 0 ||
        size_t(span.instruction) >= rank.agents[size_t(use.agent)].code.size())
      return -1;
    std::string text =
        model::describe(rank, rank.agents[size_t(use.agent)].code[size_t(span.instruction)]);
    if (textNumbers.size() >= mostTexts && !textNumbers.count(text))
      return -1;
    auto [it, isNew] = textNumbers.try_emplace(text, int(textNumbers.size()));
    if (isNew)
      textList.push_back(std::move(text));
    return it->second;
  }

  void drawRow(const Row &row) {
    add(R"(<g data-lane="{}" data-id="{}"><rect class="lane" x="0" y="{}" width="100%" height="{}"/>)",
        row.kind, row.id, fixed(row.y + 1, 0), fixed(lanePitch - 2, 0));
    const double middle = row.y + lanePitch / 2;
    for (const Bar &bar : row.bars) {
      const bool isWork = bar.doing == Doing::Work || bar.mixed;
      const double height = isWork ? barHeight : waitHeight;
      std::string more;
      const char kind = bar.mixed ? 'm' : letter(bar.doing);
      if (bar.count > 1)
        more = fmt::format(R"( data-count="{}")", bar.count);
      if (bar.mixed) {
        const double part = std::clamp(bar.workUs / (bar.end - bar.begin), 0.0, 1.0);
        more += fmt::format(R"( data-work="{}" opacity="{}")", exact(bar.workUs),
                            fixed(0.25 + 0.75 * part, 2));
      }
      if (int text = textOf(bar); text >= 0)
        more += fmt::format(R"( data-t="{}")", text);
      add(R"(<rect class="{}" x="{}" width="{}" y="{}" height="{}" data-begin="{}" data-end="{}"{}/>)",
          kind, at(bar.begin), at(bar.end - bar.begin), fixed(middle - height / 2, 1),
          fixed(height, 0), exact(bar.begin), exact(bar.end), more);
    }
    drawing.html += "</g>\n";
  }

  /// Outlines around what the end waited for, and lines along its messages.
  void drawPath() {
    PathMarks marks = pathMarks(report, path, rowOf, least);
    constexpr size_t most = 4000;
    if (marks.outlines.size() > most)
      std::erase_if(marks.outlines, [&](const PathMarks::Outline &outline) {
        return outline.end - outline.begin < 8 * least;
      });
    if (marks.steps.size() > most / 4) {
      drawing.notes.push_back("The messages of the critical path are too many to be drawn.");
      marks.steps.clear();
    }
    drawing.html += "<g class=\"critical\">\n";
    for (const PathMarks::Step &step : marks.steps)
      add(R"(<line x1="{}" y1="{}" x2="{}" y2="{}"/>)", at(step.begin),
          fixed(rows[step.from].y + lanePitch / 2, 0), at(step.end),
          fixed(rows[step.to].y + lanePitch / 2, 0));
    for (const PathMarks::Outline &outline : marks.outlines)
      add(R"(<rect x="{}" width="{}" y="{}" height="{}" data-begin="{}" data-end="{}"/>)",
          at(outline.begin), at(outline.end - outline.begin),
          fixed(rows[outline.row].y + (lanePitch - barHeight) / 2 - 1, 0), fixed(barHeight + 2, 0),
          exact(outline.begin), exact(outline.end));
    drawing.html += "</g>\n";
  }

  /// Looked up by the script.
  void texts() {
    if (textList.empty())
      return;
    drawing.html += "<ol id=\"texts\" hidden=\"hidden\">\n";
    for (const std::string &text : textList)
      add("<li>{}</li>", escape(text));
    drawing.html += "</ol>\n";
  }

  void notes() {
    bool alike = false;
    for (const Lane &lane : lanes.lanes)
      alike |= lane.agents.size() > 1;
    if (report.changes > 0)
      drawing.notes.push_back(
          "Links of this fabric change: a line and a lane are those of the port "
          "that sends, named by where it led first.");
    if (report.folded)
      drawing.notes.push_back(
          fmt::format("All {} ranks do the same: the lanes are those of each.", topology.ranks()));
    if (alike)
      drawing.notes.push_back(fmt::format(
          "{} agents are shown in {} lanes: “+3” says that 3 more do the same at the same time.",
          lanes.agents - lanes.hidden, lanes.lanes.size()));
    if (lanes.hidden > 0)
      drawing.notes.push_back(fmt::format("{} of {} agents are not shown; those of the critical "
                                          "path come first.",
                                          lanes.hidden, lanes.agents));
  }

  const PageInput &input;
  const model::Topology &topology;
  const model::SimulateReport &report;
  Drawing drawing;
  std::vector<model::PathPart> path;
  Lanes lanes;
  std::vector<Row> rows;
  std::vector<std::pair<std::string, double>> headings;
  std::map<int32_t, size_t> rowOf; ///< by agent
  double y = 0, least = 0;         ///< us
  std::map<std::string, int> textNumbers;
  std::vector<std::string> textList;
};

} // namespace

Drawing drawTimeline(const PageInput &input) {
  const model::SimulateReport &report = *input.report;
  if (!report.timeline || !(report.us > 0) || !std::isfinite(report.us))
    return {};
  return Painter(input).draw();
}

} // namespace ccl::picture
