//===- CriticalPath.cpp - What the end of a simulation waited for ---------===//
#include "dialect/simulate/Simulate.h"

#include <algorithm>

namespace ccl::model {

std::vector<PathPart> criticalPath(const SimulateReport &report) {
  std::vector<PathPart> path;
  if (!report.timeline || report.timeline->spans.empty())
    return path;
  const Timeline &timeline = *report.timeline;
  auto add = [&](PathPart::Kind kind, double begin, double end, int64_t index, double queued = 0,
                 double change = 0) {
    if (end > begin)
      path.push_back({kind, begin, end, index, queued, change});
  };
  // Causes come before what they cause, so this ends. Of a timeline that no simulation made the
  // path is what there is up to a cause that does not.
  auto isBefore = [](int64_t cause, int64_t at) { return cause >= 0 && cause < at; };
  auto addFlight = [&](int64_t index) {
    const Timeline::Flight &flight = timeline.flights[size_t(index)];
    add(PathPart::Kind::Flight, flight.issue, flight.arrive, index, flight.queuedUs,
        flight.changeUs);
    return flight.span;
  };
  const int64_t flights = int64_t(timeline.flights.size());
  int64_t at = -1;
  double time = report.us;
  for (size_t i = 0; i < timeline.spans.size() && at < 0; ++i)
    if (timeline.spans[i].end == report.us)
      at = int64_t(i);
  if (at < 0) {
    auto last = std::find_if(timeline.flights.begin(), timeline.flights.end(),
                             [&](const Timeline::Flight &f) { return f.arrive == report.us; });
    if (last == timeline.flights.end())
      return path;
    at = addFlight(last - timeline.flights.begin());
    time = last->issue;
  }
  // One past the last: what a flight at the end may belong to.
  for (int64_t limit = int64_t(timeline.spans.size()); isBefore(at, limit);) {
    const Timeline::Span &span = timeline.spans[size_t(at)];
    limit = at;
    add(PathPart::Kind::Run, span.begin, time, at);
    if (span.why == Timeline::Cause::Launch) {
      add(PathPart::Kind::Launch, 0, span.begin, -1);
      break;
    }
    if (span.why == Timeline::Cause::Flight) {
      if (!isBefore(span.cause, flights))
        break;
      at = addFlight(span.cause);
      time = timeline.flights[size_t(span.cause)].issue;
      continue;
    }
    if (!isBefore(span.cause, limit))
      break;
    at = span.cause;
    time = timeline.spans[size_t(at)].end;
    add(PathPart::Kind::Barrier, time, span.begin, -1);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

} // namespace ccl::model
