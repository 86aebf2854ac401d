//===- Order.h - When trees send what --------------------------------------===//
//
// List scheduling of the arcs of a forest. A rank has an agent for every link that leaves it, which
// sends one thing after the other as soon as it is there; farther links are first come, first
// served. Agents will send in the order found: nothing else tells them when, so that only schedules
// in which no agent waits for a better moment are looked at.
//
// First, of what is ready the earliest piece goes, and of these what has the longest way still to
// go; if what goes up has a number of slots, one branch of its tree after the other. What goes down
// is there when all is there that its agent has sent down before: signals do not overtake. Then the
// schedule is run backwards in time, what ended last first, and forwards again, what had the
// longest way back first, and so on (justification: Li and Willis, EJOR 56, 1992); the best is
// kept.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Forest.h"

#include <chrono>

namespace ccl::solver {

/// A tree's arc at `rank`: from its parent, or in an up tree to it.
struct Hop {
  int32_t tree, rank;
  double start; ///< microseconds
  double end;   ///< when all of it is there
};

/// What a message costs besides bytes over bandwidth (simulate/Cost.h).
struct MessageCost {
  double overheadUs = 0;          ///< of a message, on every link
  double syncUs = 0;              ///< until who waits for it knows that it is there
  bool alphaOccupies = false;     ///< latency is time in which links are busy
  bool storesAndForwards = false; ///< a link begins when the one before has ended
  double epochUs = 0;             ///< links begin, and are busy for, multiples of it; 0: any time
  double efficiency = 1;          ///< of bandwidths
};

struct OrderProblem {
  double megabytes = 1; ///< of a chunk
  /// By tree: the up tree, of the same root, that has to be over before this one begins, or -1.
  /// Empty: none.
  std::vector<int32_t> after;
  /// Agents that share a link; each sends the trees of its own.
  int32_t lanes = 1;
  MessageCost cost;
  /// By tree: which of equal pieces it carries. Earlier ones come first. Empty: all 0.
  std::vector<int32_t> piece;
  /// Slots of the channel between two agents, for what goes up; 0: as many as it takes. Two fewer
  /// are filled, so that agents that take and send at once do not wait for them; more are filled
  /// where nothing could go on.
  int32_t slots = 0;
  /// Runs through time, at most, and at least one. Fewer if they gain nothing any more, or there
  /// are too many hops.
  int32_t passes = 25;
  /// After that no run begins but the first.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  /// Something does not fit the forest: else "". The forest is one that `measure` takes.
  std::string check(const Forest &forest) const;
};

/// All hops, by start, those of one start by tree and rank. `check` has found nothing.
std::vector<Hop> order(const Network &network, const Forest &forest, const OrderProblem &problem);

/// Anything that cannot be: a hop that is missing, or before what it needs, an agent that sends two
/// things at once, a limit that is busier than there is time. Else "".
std::string verify(const Network &network, const Forest &forest, const OrderProblem &problem,
                   const std::vector<Hop> &hops);

/// When the last one is there.
double finish(const std::vector<Hop> &hops);

} // namespace ccl::solver
