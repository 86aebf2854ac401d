//===- PathMarks.cpp ------------------------------------------------------===//
#include "frontend/picture/PathMarks.h"

#include <algorithm>
#include <optional>

namespace ccl::picture {
namespace {

using Kind = model::PathPart::Kind;

class Marker {
public:
  Marker(const model::Timeline &timeline, const std::vector<model::PathPart> &path,
         const std::map<int32_t, size_t> &rowOf, double least)
      : timeline(timeline), path(path), rowOf(rowOf), least(least) {}

  PathMarks run() {
    for (size_t i = 0; i < path.size(); ++i) {
      if (path[i].kind == Kind::Run)
        outline(rowOfSpan(path[i].index), path[i].begin, path[i].end);
      else if (path[i].kind == Kind::Flight)
        follow(i);
    }
    return std::move(marks);
  }

private:
  std::optional<size_t> rowOfSpan(int64_t span) const {
    if (span < 0)
      return std::nullopt;
    auto it = rowOf.find(timeline.spans[size_t(span)].agent);
    return it == rowOf.end() ? std::nullopt : std::optional(it->second);
  }

  void outline(std::optional<size_t> row, double begin, double end) {
    if (!row || !(end > begin))
      return;
    if (!marks.outlines.empty() && marks.outlines.back().row == *row &&
        begin - marks.outlines.back().end <= least)
      marks.outlines.back().end = std::max(marks.outlines.back().end, end);
    else
      marks.outlines.push_back({begin, end, *row});
  }

  /// A message: its sender is outlined as long as it sends, then a line goes to where it is needed.
  void follow(size_t index) {
    const model::PathPart &part = path[index];
    const int64_t sender = timeline.flights[size_t(part.index)].span;
    const std::optional<size_t> from = rowOfSpan(sender);
    const double sent = sender < 0
                            ? part.begin
                            : std::clamp(timeline.spans[size_t(sender)].end, part.begin, part.end);
    outline(from, part.begin, sent);
    if (index + 1 == path.size())
      return;
    // What comes next runs where the message arrived, or is what is sent from there.
    const model::PathPart &next = path[index + 1];
    const int64_t span = next.kind == Kind::Run      ? next.index
                         : next.kind == Kind::Flight ? timeline.flights[size_t(next.index)].span
                                                     : -1;
    const std::optional<size_t> to = rowOfSpan(span);
    if (from && to && *from != *to)
      marks.steps.push_back({sent, part.end, *from, *to});
  }

  const model::Timeline &timeline;
  const std::vector<model::PathPart> &path;
  const std::map<int32_t, size_t> &rowOf;
  const double least;
  PathMarks marks;
};

} // namespace

std::vector<Bar> pathBars(const std::vector<model::PathPart> &path) {
  std::vector<Bar> bars;
  auto add = [&](double begin, double end, Doing doing) {
    if (end > begin)
      bars.push_back({begin, end, doing, false, 1, doing == Doing::Work ? end - begin : 0, -1});
  };
  for (const model::PathPart &part : path) {
    switch (part.kind) {
    case Kind::Launch: add(part.begin, part.end, Doing::Launch); break;
    case Kind::Barrier: add(part.begin, part.end, Doing::Batch); break;
    case Kind::Run: add(part.begin, part.end, Doing::Work); break;
    case Kind::Flight:
      const double queued = std::clamp(part.queuedUs, 0.0, part.end - part.begin);
      const double changed = std::clamp(part.changeUs, 0.0, queued);
      add(part.begin, part.begin + changed, Doing::Change);
      add(part.begin + changed, part.begin + queued, Doing::Link);
      add(part.begin + queued, part.end, Doing::Work);
      break;
    }
  }
  return bars;
}

PathMarks pathMarks(const model::SimulateReport &report, const std::vector<model::PathPart> &path,
                    const std::map<int32_t, size_t> &rowOf, double least) {
  if (!report.timeline)
    return {};
  return Marker(*report.timeline, path, rowOf, least).run();
}

} // namespace ccl::picture
