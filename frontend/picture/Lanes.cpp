//===- Lanes.cpp ----------------------------------------------------------===//
#include "frontend/picture/Lanes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ccl::picture {
namespace {

using model::SimulateReport;
using model::Timeline;

bool byTime(const Bar &a, const Bar &b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
}

/// Bars of all agents.
class Bars {
public:
  explicit Bars(const SimulateReport &report)
      : report(report), timeline(*report.timeline), bars(report.agents.size()) {}

  std::vector<std::vector<Bar>> build() {
    findFlights();
    for (size_t a = 0; a < bars.size(); ++a)
      add(a, 0, report.agents[a].launchUs, Doing::Launch);
    for (const Timeline::Wait &wait : timeline.waits)
      if (size_t(wait.agent) < bars.size())
        add(size_t(wait.agent), wait.begin, wait.end, doing(wait.what));
    for (size_t s = 0; s < timeline.spans.size(); ++s)
      if (size_t agent = size_t(timeline.spans[s].agent); agent < bars.size())
        addSpan(agent, int64_t(s));
    for (std::vector<Bar> &list : bars)
      std::sort(list.begin(), list.end(), byTime);
    return std::move(bars);
  }

private:
  void findFlights() {
    firstFlight.assign(timeline.spans.size() + 1, 0);
    for (const Timeline::Flight &flight : timeline.flights)
      if (isSpan(flight.span))
        ++firstFlight[size_t(flight.span) + 1];
    for (size_t s = 0; s < timeline.spans.size(); ++s)
      firstFlight[s + 1] += firstFlight[s];
    flights.resize(firstFlight.back());
    std::vector<size_t> next(firstFlight.begin(), firstFlight.end() - 1);
    for (size_t f = 0; f < timeline.flights.size(); ++f)
      if (isSpan(timeline.flights[f].span))
        flights[next[size_t(timeline.flights[f].span)]++] = int64_t(f);
    firstService.assign(timeline.flights.size(), -1);
    for (size_t s = 0; s < timeline.services.size(); ++s) {
      const int64_t f = timeline.services[s].flight;
      if (f < 0 || size_t(f) >= firstService.size())
        continue;
      int64_t &first = firstService[size_t(f)];
      if (first < 0 || timeline.services[s].begin < timeline.services[size_t(first)].begin)
        first = int64_t(s);
    }
  }

  bool isSpan(int64_t span) const { return span >= 0 && size_t(span) < timeline.spans.size(); }

  void add(size_t agent, double begin, double end, Doing doing, int64_t span = -1) {
    if (end > begin)
      bars[agent].push_back(
          {begin, end, doing, false, 1, doing == Doing::Work ? end - begin : 0, span});
  }

  static Doing doing(Timeline::Wait::For what) {
    switch (what) {
    case Timeline::Wait::For::Slot: return Doing::Slot;
    case Timeline::Wait::For::Data: return Doing::Data;
    case Timeline::Wait::For::Signal: return Doing::Signal;
    case Timeline::Wait::For::Batch: return Doing::Batch;
    }
    return Doing::Slot;
  }

  /// A span without the times in which what ended last, of what it read and of what it sent,
  /// waited for links.
  void addSpan(size_t agent, int64_t index) {
    const Timeline::Span &span = timeline.spans[size_t(index)];
    struct Wait {
      double begin = 0, changed = 0, end = 0; ///< first for a change, then for others
    };
    double pullEnd = -1, pushEnd = -1;
    Wait pullWait, pushWait;
    for (size_t i = firstFlight[size_t(index)]; i < firstFlight[size_t(index) + 1]; ++i) {
      const Timeline::Flight &flight = timeline.flights[size_t(flights[i])];
      const int64_t service = firstService[size_t(flights[i])];
      if (flight.signal || service < 0)
        continue;
      const Timeline::Service &first = timeline.services[size_t(service)];
      const bool pulls = flight.dst == report.agents[agent].rank;
      if (pulls && flight.arrive > pullEnd) {
        pullEnd = flight.arrive;
        pullWait = {flight.issue, flight.issue + flight.changeUs, flight.issue + flight.queuedUs};
      } else if (!pulls && first.end > pushEnd) {
        pushEnd = first.end;
        pushWait = {flight.issue, flight.issue + flight.changeUs,
                    std::min(first.begin, flight.issue + flight.queuedUs)};
      }
    }
    double time = span.begin;
    for (auto [begin, changed, end] : {pullWait, pushWait}) {
      begin = std::clamp(begin, time, span.end), end = std::clamp(end, time, span.end);
      if (!(end > begin))
        continue;
      changed = std::clamp(changed, begin, end);
      add(agent, time, begin, Doing::Work, index);
      add(agent, begin, changed, Doing::Change, index);
      add(agent, changed, end, Doing::Link, index);
      time = end;
    }
    add(agent, time, span.end, Doing::Work, index);
  }

  const SimulateReport &report;
  const Timeline &timeline;
  std::vector<std::vector<Bar>> bars;
  std::vector<size_t> firstFlight; ///< by span, into `flights`
  std::vector<int64_t> flights;
  std::vector<int64_t> firstService; ///< by flight, or -1
};

/// Equal if the bars are, up to a millionth of the whole time.
std::vector<int64_t> fingerprint(const std::vector<Bar> &bars, double us) {
  std::vector<int64_t> print;
  print.reserve(3 * bars.size());
  for (const Bar &bar : bars) {
    print.push_back(int64_t(bar.doing));
    print.push_back(std::llround(bar.begin / us * 1e6));
    print.push_back(std::llround(bar.end / us * 1e6));
  }
  return print;
}

} // namespace

char letter(Doing doing) { return "wlcsdgbu"[size_t(doing)]; }

std::string_view name(Doing doing) {
  constexpr std::array<std::string_view, doings> names = {
      "working", "link busy", "links change", "no free slot",
      "no data", "no signal", "micro-batch",  "launch"};
  return names[size_t(doing)];
}

std::string_view meaning(Doing doing) {
  constexpr std::array<std::string_view, doings> meanings = {
      "transfers, reductions and copies",
      "what is sent or read stands behind other messages",
      "the fabric makes the link that it needs",
      "the receiver has not yet taken what is in the slots",
      "what is to be received has not arrived",
      "another agent has not signalled",
      "others have not ended the micro-batch",
      "before the first instruction"};
  return meanings[size_t(doing)];
}

std::vector<Bar> linkBars(const SimulateReport &report, int32_t link) {
  std::vector<Bar> bars;
  if (!report.timeline)
    return bars;
  for (const Timeline::Service &service : report.timeline->services)
    if (service.link == link && service.end > service.begin)
      bars.push_back(
          {service.begin, service.end, Doing::Work, false, 1, service.end - service.begin, -1});
  for (const Timeline::Change &change : report.timeline->changes)
    if (change.link == link && change.end > change.begin)
      bars.push_back({change.begin, change.end, Doing::Change});
  std::sort(bars.begin(), bars.end(), byTime);
  return bars;
}

std::vector<Bar> merged(const std::vector<Bar> &bars, double least) {
  std::vector<Bar> result;
  bool open = false; // the last of `result` may grow
  for (const Bar &bar : bars) {
    if (bar.end - bar.begin >= least) {
      result.push_back(bar);
      open = false;
      continue;
    }
    if (open && bar.end - result.back().begin <= 2 * least) {
      Bar &last = result.back();
      last.mixed |= bar.doing != last.doing || bar.begin > last.end;
      last.end = std::max(last.end, bar.end);
      last.count += bar.count;
      last.workUs += bar.workUs;
      last.span = -1;
      open = last.end - last.begin < least;
      continue;
    }
    result.push_back(bar);
    open = true;
  }
  return result;
}

Lanes agentLanes(const SimulateReport &report, const std::vector<model::PathPart> &path,
                 size_t most) {
  Lanes result;
  if (!report.timeline)
    return result;
  std::vector<std::vector<Bar>> bars = Bars(report).build();
  for (size_t a = 0; a < bars.size(); ++a)
    if (!bars[a].empty()) {
      ++result.agents;
      result.lanes.push_back({{int32_t(a)}, std::move(bars[a])});
    }
  if (result.lanes.size() > most && report.us > 0) {
    std::map<std::vector<int64_t>, size_t> seen;
    std::vector<Lane> lanes;
    for (Lane &lane : result.lanes) {
      auto [it, isNew] = seen.try_emplace(fingerprint(lane.bars, report.us), lanes.size());
      if (isNew)
        lanes.push_back(std::move(lane));
      else
        lanes[it->second].agents.push_back(lane.agents[0]);
    }
    result.lanes = std::move(lanes);
  }
  if (result.lanes.size() <= most)
    return result;
  std::vector<bool> onPath(report.agents.size());
  for (const model::PathPart &part : path)
    if (part.kind == model::PathPart::Kind::Run)
      onPath[size_t(report.timeline->spans[size_t(part.index)].agent)] = true;
  auto order = [&](const Lane &lane) {
    const bool first = std::any_of(lane.agents.begin(), lane.agents.end(),
                                   [&](int32_t agent) { return onPath[size_t(agent)]; });
    return std::pair(!first, lane.agents[0]);
  };
  std::sort(result.lanes.begin(), result.lanes.end(),
            [&](const Lane &a, const Lane &b) { return order(a) < order(b); });
  for (size_t i = most; i < result.lanes.size(); ++i)
    result.hidden += int64_t(result.lanes[i].agents.size());
  result.lanes.resize(most);
  std::sort(result.lanes.begin(), result.lanes.end(),
            [](const Lane &a, const Lane &b) { return a.agents[0] < b.agents[0]; });
  return result;
}

} // namespace ccl::picture
