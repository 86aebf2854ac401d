#include "frontend/picture/Lanes.h"
#include "frontend/picture/Links.h"
#include "frontend/picture/Text.h"
#include "test/unit/model/Algorithms.h"
#include "test/unit/picture/Cases.h"
#include "test/unit/picture/Drawn.h"

#include "dialect/model/Symmetry.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>

using namespace ccl::picture;
using namespace ccl::model;

namespace {

void checkAgents(const Case &c) {
  REQUIRE(c.report.ok());
  const DrawnTimeline timeline(c.input());
  size_t agents = 0;
  for (const DrawnLane &lane : timeline.lanes) {
    checkScale(lane.bars, c.report.us);
    if (lane.kind != "agent")
      continue;
    ++agents;
    const AgentUse &use = c.report.agents[size_t(lane.id)];
    std::map<std::string, double> found = sums(lane.bars);
    CAPTURE(use.rank);
    CAPTURE(use.agent);
    const double tolerance = 1e-6 * c.report.us;
    CHECK(std::abs(found["w"] - use.busyUs) < tolerance);
    CHECK(std::abs(found["l"] - (use.linkUs - use.changeUs)) < tolerance);
    CHECK(std::abs(found["c"] - use.changeUs) < tolerance);
    CHECK(std::abs(found["s"] - use.slotUs) < tolerance);
    CHECK(std::abs(found["d"] - use.dataUs) < tolerance);
    CHECK(std::abs(found["g"] - use.signalUs) < tolerance);
    CHECK(std::abs(found["b"] - use.batchUs) < tolerance);
    CHECK(std::abs(found["u"] - use.launchUs) < tolerance);
  }
  CHECK(agents == c.report.agents.size());
}

/// Two ranks: 0 writes into 1's memory and signals; 1 waits, and answers. Two agents each, one of
/// which is done early, several micro-batches.
Case signals(int64_t batches, BatchOrder order, double lane = 0) {
  Case c;
  c.topology = ring(2);
  c.program.buffers = {{"x", Role::InOut, 4}};
  for (int32_t me = 0; me < 2; ++me) {
    RankProgram rank;
    rank.channels = {
        {true, 1 - me, 0, 0}, {false, 1 - me, 0, 0}, {true, 1 - me, 1, 1}, {false, 1 - me, 1, 1}};
    Agent first, second;
    second.id = 1;
    if (me == 0)
      first.code = {transfer({local(0, 0)}, {peer(1, 0, 0)}), signal(0), wait(1)};
    else
      first.code = {wait(1), transfer({local(0, 0)}, {peer(0, 0, 0)}), signal(0)};
    second.code = me == 0 ? std::vector<Instruction>{transfer({local(0, 2)}, {channel(2)}),
                                                     transfer({local(0, 3)}, {channel(2)})}
                          : std::vector<Instruction>{transfer({channel(3)}, {local(0, 2)}),
                                                     transfer({channel(3)}, {local(0, 3)})};
    rank.agents = {first, second};
    c.program.ranks.push_back(std::move(rank));
  }
  SimulateOptions options;
  options.model = cclModel();
  options.model.syncUs = 1.5;
  options.model.laneGBps = lane;
  options.batchOrder = order;
  options.batches = batches;
  options.count = 40000;
  options.timeline = true;
  c.report = simulate(c.program, makeContract(Collective::AllReduce, 2, 4, Reduction::Sum),
                      c.topology, options);
  return c;
}

} // namespace

TEST_CASE("bars of agents are as long as what they did") {
  checkAgents(hierarchicalCase(2, 8, 2));
  checkAgents(hierarchicalCase(2, 4, 5));
  checkAgents(ringCase(8));
  checkAgents(ringCase(3));
}

TEST_CASE("bars of signals and of micro-batches") {
  for (int64_t batches : {1, 2, 5}) {
    checkAgents(signals(batches, BatchOrder::Agent));
    checkAgents(signals(batches, BatchOrder::Rank));
  }
  const Case c = signals(5, BatchOrder::Rank);
  double batch = 0, waited = 0;
  for (const AgentUse &use : c.report.agents)
    batch += use.batchUs, waited += use.signalUs + use.slotUs + use.dataUs;
  CHECK(batch > 0); // else nothing was shown
  CHECK(waited > 0);
}

TEST_CASE("changes of links are shown as what they are") {
  const Case c = circuitsCase(2, 4);
  checkAgents(c);
  const DrawnTimeline timeline(c.input());
  double path = 0, links = 0;
  for (const DrawnLane &lane : timeline.lanes) {
    checkScale(lane.bars, c.report.us);
    std::map<std::string, double> found = sums(lane.bars);
    path += lane.kind == "path" ? found["c"] : 0;
    links += lane.kind == "link" ? found["c"] : 0;
    if (lane.kind == "link")
      CHECK(found["w"] == doctest::Approx(c.report.links[size_t(lane.id)].busyUs).epsilon(1e-6));
  }
  double onPath = 0;
  for (const PathPart &part : criticalPath(c.report))
    onPath += part.changeUs;
  CHECK(onPath > 0);
  CHECK(path == doctest::Approx(onPath).epsilon(1e-6));
  CHECK(links > 0);
  CHECK(timeline.text("//span[i[@class='key c half']]") == "links change\n");
  CHECK(timeline.text("//ul/li").find("Links of this fabric change") != std::string::npos);
  double sum = 0, waited = 0;
  for (const AgentUse &use : c.report.agents)
    waited += use.changeUs;
  for (const pugi::xpath_node &row :
       timeline.document.select_nodes("//tr[@data-sum][.//i[@class='key c']]"))
    sum += row.node().attribute("data-sum").as_double();
  CHECK(sum == doctest::Approx(waited).epsilon(1e-6));
}

TEST_CASE("the program that is drawn is right") {
  CHECK(ccl::model::check(hierarchical(2, 8), hierarchicalContract(2, 8)).faults.empty());
  CHECK(ccl::model::check(hierarchical(3, 4), hierarchicalContract(3, 4)).faults.empty());
}

TEST_CASE("bars of links, and rows of the table, are as long as they were busy") {
  const Case c = hierarchicalCase(2, 8, 2);
  const DrawnTimeline timeline(c.input());
  size_t links = 0;
  for (const DrawnLane &lane : timeline.lanes)
    if (lane.kind == "link") {
      ++links;
      const double busy = c.report.links[size_t(lane.id)].busyUs;
      CHECK(sums(lane.bars)["w"] == doctest::Approx(busy).epsilon(1e-6));
    }
  CHECK(links == 6);
  size_t rows = 0;
  double last = c.report.us;
  for (const pugi::xpath_node &row : timeline.document.select_nodes("//tr[@data-link]")) {
    ++rows;
    const LinkUse &use = c.report.links[size_t(row.node().attribute("data-link").as_int())];
    const double busy = row.node().attribute("data-busy").as_double();
    CHECK(busy == doctest::Approx(use.busyUs).epsilon(1e-8));
    CHECK(row.node().attribute("data-bytes").as_double() == doctest::Approx(use.bytes));
    std::vector<std::string> cells;
    for (const pugi::xml_node &cell : row.node().children("td"))
      cells.push_back(cell.text().get());
    REQUIRE(cells.size() == 6);
    CHECK(cells[2] == percent(use.busyUs / c.report.us));
    CHECK(cells[3] == ccl::picture::time(use.busyUs));
    CHECK(cells[4] == bytes(use.bytes));
    CHECK(busy <= last * (1 + 1e-9)); // the busiest first
    last = busy;
    const std::string bar = row.node().select_node(".//i").node().attribute("style").value();
    CHECK(std::abs(std::stod(bar.substr(bar.find(':') + 1)) - 100 * busy / c.report.us) < 0.01);
  }
  CHECK(rows == 6);
  int64_t all = 0;
  for (const LinkClass &linkClass : linkClasses(c.topology, c.report))
    all += linkClass.size;
  CHECK(all == int64_t(c.topology.links.size()));
}

TEST_CASE("sums of the table of agents") {
  const Case c = hierarchicalCase(2, 8, 2);
  const DrawnTimeline timeline(c.input());
  double sum = 0;
  for (const pugi::xpath_node &row : timeline.document.select_nodes("//tr[@data-sum]"))
    sum += row.node().attribute("data-sum").as_double();
  CHECK(sum == doctest::Approx(c.report.us * double(c.report.agents.size())).epsilon(1e-6));
}

TEST_CASE("the critical path leads from the beginning to the end") {
  const Case c = hierarchicalCase(2, 8, 2);
  const DrawnTimeline timeline(c.input());
  REQUIRE(timeline.lanes[0].kind == "path");
  double last = 0;
  for (const Drawn &bar : timeline.lanes[0].bars) {
    CHECK(bar.begin == doctest::Approx(last).epsilon(1e-6));
    last = bar.end;
  }
  CHECK(last == doctest::Approx(c.report.us).epsilon(1e-6));
  CHECK(timeline.outline.size() > 10);
  for (const Drawn &bar : timeline.outline)
    checkScale({bar}, c.report.us);
}

TEST_CASE("labels of the timeline do not overlap") {
  auto check = [](const Case &c) {
    const PageInput input = c.input();
    const Drawing drawing = drawTimeline(input);
    CHECK(drawing.labels.size() > 4);
    for (size_t i = 0; i < drawing.labels.size(); ++i)
      for (size_t j = i + 1; j < drawing.labels.size(); ++j)
        if (drawing.labels[i].box.meets(drawing.labels[j].box))
          FAIL_CHECK(drawing.labels[i].text << " over " << drawing.labels[j].text);
  };
  check(hierarchicalCase(2, 8, 2));
  check(hierarchicalCase(4, 8, 1));
  check(ringCase(2));
  // Ticks at all magnitudes.
  for (double us :
       {1e-3, 0.7, 0.99, 7.9, 8.0, 81.0, 99.0, 1234.5, 9999.0, 10001.0, 5.43e6, 1.1e9}) {
    Case c = ringCase(2);
    const double scale = us / c.report.us;
    for (Timeline::Span &span : c.report.timeline->spans)
      span.begin *= scale, span.end *= scale;
    for (Timeline::Wait &wait : c.report.timeline->waits)
      wait.begin *= scale, wait.end *= scale;
    for (Timeline::Flight &flight : c.report.timeline->flights)
      flight.issue *= scale, flight.arrive *= scale, flight.queuedUs *= scale,
          flight.changeUs *= scale;
    for (Timeline::Service &service : c.report.timeline->services)
      service.begin *= scale, service.end *= scale;
    c.report.us *= scale;
    check(c);
  }
}

TEST_CASE("what did the same shares a lane if there are many") {
  const Case c = hierarchicalCase(4, 8, 1);
  REQUIRE(c.report.agents.size() == 64);
  const DrawnTimeline timeline(c.input());
  size_t lanes = 0;
  for (const DrawnLane &lane : timeline.lanes)
    lanes += lane.kind == "agent";
  CHECK(lanes <= 40);
  CHECK(timeline.text("//li").find("64 agents are shown in") != std::string::npos);
}

TEST_CASE("agents that are left out are counted") {
  // 100 agents, each at another time.
  SimulateReport report;
  report.us = 1000;
  report.timeline.emplace();
  for (int32_t a = 0; a < 100; ++a) {
    report.agents.push_back({a, 0});
    report.timeline->spans.push_back({a, 0, 0, Timeline::Cause::Launch, -1, double(a), 900.0 + a});
  }
  const Lanes lanes = agentLanes(report, {}, 30);
  CHECK(lanes.lanes.size() == 30);
  CHECK(lanes.agents == 100);
  CHECK(lanes.hidden == 70);
  // The one on the path is shown.
  const Lanes path = agentLanes(report, {{PathPart::Kind::Run, 0, 1000, 77}}, 30);
  CHECK(path.lanes.back().agents == std::vector<int32_t>{77});
  const Topology topology = ring(100);
  PageInput input;
  input.topology = &topology, input.report = &report;
  CHECK(DrawnTimeline(input).text("//li").find("60 of 100 agents are not shown") !=
        std::string::npos);
}

TEST_CASE("a folded simulation says so") {
  Case c = ringCase(8);
  c.report.folded = true;
  c.report.agents.resize(1);
  std::erase_if(c.report.timeline->spans,
                [](const Timeline::Span &span) { return span.agent > 0; });
  c.report.timeline->flights.clear();
  for (Timeline::Span &span : c.report.timeline->spans)
    span.why = Timeline::Cause::Launch, span.cause = -1;
  const DrawnTimeline timeline(c.input());
  CHECK(timeline.text("//li").find("All 8 ranks do the same") != std::string::npos);
  CHECK(timeline.text("//svg[@class='names']/text").find("each rank") != std::string::npos);
}

TEST_CASE("a million spans are drawn together") {
  SimulateReport report;
  report.timeline.emplace();
  constexpr int64_t agents = 20, each = 50000;
  double time = 0;
  std::array<double, agents> work = {};
  for (int32_t a = 0; a < agents; ++a)
    report.agents.push_back({a, 0});
  for (int64_t i = 0; i < each; ++i)
    for (int32_t a = 0; a < agents; ++a) {
      const double begin = double(i) + 0.013 * a, length = 0.2 + 0.001 * double((i * 7 + a) % 400);
      const bool isFirst = i == 0;
      report.timeline->spans.push_back(
          {a, 0, 0, isFirst ? Timeline::Cause::Launch : Timeline::Cause::Span,
           isFirst ? -1 : (i - 1) * agents + a, begin, begin + length});
      work[size_t(a)] += length;
      time = std::max(time, begin + length);
    }
  report.us = time;
  const Topology topology = ring(agents);
  PageInput input;
  input.program = "many", input.topology = &topology, input.report = &report;
  const DrawnTimeline timeline(input);
  CHECK(timeline.size < (8 << 20));
  CHECK(timeline.text("//li").find("are drawn together") != std::string::npos);
  size_t lanes = 0;
  for (const DrawnLane &lane : timeline.lanes) {
    if (lane.kind != "agent")
      continue;
    ++lanes;
    double sum = 0;
    int64_t count = 0;
    for (const Drawn &bar : lane.bars) {
      sum += bar.work >= 0 ? bar.work : bar.kind == "w" ? bar.end - bar.begin : 0;
      count += bar.count;
    }
    CHECK(sum == doctest::Approx(work[size_t(lane.id)]).epsilon(1e-6));
    CHECK(count >= each);
    checkScale(lane.bars, report.us);
  }
  CHECK(lanes == agents);
}

TEST_CASE("merging keeps what is long and the sums") {
  std::vector<Bar> bars;
  auto add = [&](double begin, double end, Doing doing) {
    bars.push_back({begin, end, doing, false, 1, doing == Doing::Work ? end - begin : 0, 7});
  };
  add(0, 10, Doing::Work), add(10, 10.5, Doing::Data), add(10.5, 11, Doing::Work);
  add(11, 11.25, Doing::Data), add(20, 20.5, Doing::Data), add(20.5, 21, Doing::Data);
  const std::vector<Bar> result = merged(bars, 1);
  REQUIRE(result.size() == 4);
  CHECK((result[0].begin == 0 && result[0].end == 10 && !result[0].mixed && result[0].span == 7));
  CHECK((result[1].begin == 10 && result[1].end == 11 && result[1].mixed));
  CHECK((result[1].count == 2 && result[1].workUs == 0.5 && result[1].span == -1));
  CHECK((result[2].count == 1 && result[2].end == 11.25));
  CHECK((result[3].count == 2 && !result[3].mixed && result[3].doing == Doing::Data));
}
