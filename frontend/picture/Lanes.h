//===- Lanes.h - What agents and links did, as bars -----------------------===//
//
// The timeline as data. A transfer's wait for busy links lies within its span, other waits before.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/Simulate.h"

#include <array>
#include <string>
#include <vector>

namespace ccl::picture {

enum class Doing : uint8_t { Work, Link, Change, Slot, Data, Signal, Batch, Launch };
constexpr size_t doings = 8;
/// One letter, a class of the style.
char letter(Doing doing);
/// "working", "link busy", ...
std::string_view name(Doing doing);
/// What it means, in a sentence.
std::string_view meaning(Doing doing);

struct Bar {
  double begin = 0, end = 0; ///< us
  Doing doing = Doing::Work;
  bool mixed = false; ///< merged of several doings
  int32_t count = 1;  ///< merged of so many
  double workUs = 0;  ///< of it: at work
  int64_t span = -1;  ///< of the timeline; -1: none, or merged
};

struct Lane {
  std::vector<int32_t> agents; ///< index into SimulateReport::agents; the bars are the first's
  std::vector<Bar> bars;       ///< by time, never overlapping
};

struct Lanes {
  std::vector<Lane> lanes;
  int64_t agents = 0; ///< that did anything
  int64_t hidden = 0; ///< of these, neither shown nor alike to one that is
};

/// One lane an agent. If these are more than `most`, agents that did the same at the same times
/// share a lane; if still more, the first with a part in `path`, then the others in order.
Lanes agentLanes(const model::SimulateReport &report, const std::vector<model::PathPart> &path,
                 size_t most);

/// When a link worked, or the fabric changed where its port leads.
std::vector<Bar> linkBars(const model::SimulateReport &report, int32_t link);

/// Neighbors shorter than `least` become one bar, never longer than twice that if it has gaps.
/// What they worked in sum does not change.
std::vector<Bar> merged(const std::vector<Bar> &bars, double least);

} // namespace ccl::picture
