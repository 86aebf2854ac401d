//===- Lanes.cpp ----------------------------------------------------------===//
#include "frontend/picture/Lanes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ccl::picture {
namespace {

using model::SimulateReport;
using model::Timeline;

/// Bars of all agents.
class Bars {
public:
  explicit Bars(const SimulateReport &report)
      : report(report), timeline(*report.timeline), bars(report.agents.size()),
        spans(report.agents.size()) {}

  std::vector<std::vector<Bar>> build() {
    for (size_t s = 0; s < timeline.spans.size(); ++s)
      if (size_t agent = size_t(timeline.spans[s].agent); agent < spans.size())
        spans[agent].push_back(int64_t(s));
    for (std::vector<int64_t> &list : spans)
      std::sort(list.begin(), list.end(), [&](int64_t a, int64_t b) {
        const double first = timeline.spans[size_t(a)].begin,
                     second = timeline.spans[size_t(b)].begin;
        return first != second ? first < second : a < b;
      });
    findFlights();
    findBatches();
    for (size_t a = 0; a < spans.size(); ++a)
      buildAgent(a);
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

  /// When the last agent of a rank ended a micro-batch.
  void findBatches() {
    for (const Timeline::Span &span : timeline.spans)
      if (size_t(span.agent) < report.agents.size()) {
        double &end = batchEnds[{report.agents[size_t(span.agent)].rank, span.batch}];
        end = std::max(end, span.end);
      }
  }

  void add(size_t agent, double begin, double end, Doing doing, int64_t span = -1) {
    if (end > begin)
      bars[agent].push_back(
          {begin, end, doing, false, 1, doing == Doing::Work ? end - begin : 0, span});
  }

  void buildAgent(size_t agent) {
    const model::AgentUse &use = report.agents[agent];
    double time = 0;
    int32_t batch = 0;
    for (int64_t index : spans[agent]) {
      const Timeline::Span &span = timeline.spans[size_t(index)];
      if (time < use.launchUs) {
        const double launched = std::min(use.launchUs, span.begin);
        add(agent, time, launched, Doing::Launch);
        time = launched;
      }
      if (span.batch != batch && use.batchUs > 0) {
        // The rest is waiting for something else, unless nothing else was ever waited for.
        double until = batchEnds[{use.rank, batch}];
        if (span.why == Timeline::Cause::Span && use.slotUs == 0)
          until = span.begin;
        until = std::clamp(until, time, std::max(time, span.begin));
        add(agent, time, until, Doing::Batch);
        time = until;
      }
      batch = span.batch;
      add(agent, time, span.begin, reason(span));
      addSpan(agent, index);
      time = std::max(time, span.end);
    }
    if (spans[agent].empty())
      add(agent, 0, use.launchUs, Doing::Launch);
  }

  Doing reason(const Timeline::Span &span) const {
    if (span.why != Timeline::Cause::Flight)
      return Doing::Slot;
    const bool signal = span.cause >= 0 && size_t(span.cause) < timeline.flights.size() &&
                        timeline.flights[size_t(span.cause)].signal;
    return signal ? Doing::Signal : Doing::Data;
  }

  /// A span without the times in which what ended last, of what it read and of what it sent,
  /// waited for links.
  void addSpan(size_t agent, int64_t index) {
    const Timeline::Span &span = timeline.spans[size_t(index)];
    double pullEnd = -1, pushEnd = -1;
    std::pair<double, double> pullWait, pushWait;
    for (size_t i = firstFlight[size_t(index)]; i < firstFlight[size_t(index) + 1]; ++i) {
      const Timeline::Flight &flight = timeline.flights[size_t(flights[i])];
      const int64_t service = firstService[size_t(flights[i])];
      if (flight.signal || service < 0)
        continue;
      const Timeline::Service &first = timeline.services[size_t(service)];
      const bool pulls = flight.dst == report.agents[agent].rank;
      if (pulls && flight.arrive > pullEnd) {
        pullEnd = flight.arrive;
        pullWait = {flight.issue, flight.issue + flight.queuedUs};
      } else if (!pulls && first.end > pushEnd) {
        pushEnd = first.end;
        pushWait = {flight.issue, std::min(first.begin, flight.issue + flight.queuedUs)};
      }
    }
    double time = span.begin;
    for (auto [begin, end] : {pullWait, pushWait}) {
      begin = std::clamp(begin, time, span.end), end = std::clamp(end, time, span.end);
      if (!(end > begin))
        continue;
      add(agent, time, begin, Doing::Work, index);
      add(agent, begin, end, Doing::Link, index);
      time = end;
    }
    add(agent, time, span.end, Doing::Work, index);
  }

  const SimulateReport &report;
  const Timeline &timeline;
  std::vector<std::vector<Bar>> bars;
  std::vector<std::vector<int64_t>> spans; ///< by agent, in order
  std::vector<size_t> firstFlight;         ///< by span, into `flights`
  std::vector<int64_t> flights;
  std::vector<int64_t> firstService;                       ///< by flight, or -1
  std::map<std::pair<int32_t, int32_t>, double> batchEnds; ///< by rank and micro-batch
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

char letter(Doing doing) { return "wlsdgbu"[size_t(doing)]; }

std::string_view name(Doing doing) {
  constexpr std::array<std::string_view, doings> names = {
      "working", "link busy", "no free slot", "no data", "no signal", "micro-batch", "launch"};
  return names[size_t(doing)];
}

std::string_view meaning(Doing doing) {
  constexpr std::array<std::string_view, doings> meanings = {
      "transfers, reductions and copies",
      "what is sent or read stands behind other messages",
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
  std::sort(bars.begin(), bars.end(), [](const Bar &a, const Bar &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
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
