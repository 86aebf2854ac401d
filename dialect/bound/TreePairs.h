//===- TreePairs.h - The work of allReduceBound ---------------------------===//
//
// A byte is reduced up a tree and broadcast down another with the same root v, for a share x(v) of
// the bytes: maximize sum(x) where arcs are divided into a (broadcast) and b (reduce), a + b <= c,
// and x(S) <= a(leaving S), x(S) <= b(entering S) for every S that some rank is not in. What
// enters a switch that neither copies nor combines leaves it: without these rows the program would
// copy there; with them switches can be split off (Mader 1978, Bang-Jensen, Frank, Jackson 1995)
// and trees be packed (Edmonds 1973), so that its value is attained.
//
// Rows are generated: a violated one is one maximum flow per rank, or per orbit of ranks. Points
// between the best solution known and the program's are tried (in-out separation, Ben-Ameur and
// Neto 2007): they give better cuts or a better solution.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Lp.h"
#include "dialect/bound/TreeCuts.h"

#include <chrono>
#include <functional>

namespace ccl::model {

/// What is asked of switches that copy or combine.
enum class Switches {
  Free,     ///< may leave more than entered: no schedule has more
  Terminal, ///< get, or give, everything as ranks do: can be attained
  Forward   ///< do neither: can be attained
};

class TreePairs {
public:
  using Clock = std::chrono::steady_clock;

  TreePairs(const Fabric &fabric, const Orbits &orbits, Switches switches, double gap,
            Clock::time_point end);

  void solve();
  /// Of what is attained, with capacities as they are.
  double attained() const { return best * largest; }
  /// How: in shares of the largest capacity.
  const TreeRates &rates() const { return center; }
  /// Writes the cuts, potentials and prices of the best bound to `bound`, and returns what they
  /// prove, with capacities as they are.
  double prove(BandwidthBound &bound) const;
  int64_t flows() const { return broadcast.flows() + reduce.flows(); }

private:
  /// Of an arc's capacity: constant + sign * column.
  struct Share {
    double constant = 0, sign = 0;
    int32_t column = -1;
    bool set() const { return constant > 0 || sign != 0; }
  };

  bool late() const { return Clock::now() >= end; }
  double left() const { return std::chrono::duration<double>(end - Clock::now()).count(); }
  bool copies(int32_t node) const { return flag(fabric.copies, node); }
  bool combines(int32_t node) const { return flag(fabric.combines, node); }
  bool flag(const std::vector<bool> &flags, int32_t node) const {
    return switches != Switches::Forward && size_t(node) < flags.size() && flags[size_t(node)];
  }
  bool unbalanced(int32_t node) const {
    return fabric.isRank(node) || (copies(node) && combines(node));
  }
  bool findMirror();
  void addColumns();
  void findChanges();
  std::vector<Lp::Term> balance(size_t orbit, const std::vector<Share> &shares) const;
  void addBalance();
  void addCut(PricedCut cut);
  TreeRates halves() const;
  void startFromRanks();
  void startFromHalves();
  struct Half {
    TreeCuts &cuts;
    const std::vector<int32_t> &terminals;
    std::vector<PricedCut> found;
  };
  double bothWays(const std::function<double(Half &)> &work);
  double scale(const TreeRates &rates, double most);
  TreeRates solution() const;
  double roomFor(const TreeRates &rates);
  void keepDuals();
  double proveWith(const std::vector<double> &integers, BandwidthBound &bound) const;
  void finish();

  const Fabric &fabric;
  const Orbits &orbits;
  const Switches switches;
  const double gap;
  const Clock::time_point end;
  double largest = 1; ///< capacity; rates are in shares of it
  std::vector<int64_t> nodesIn, arcsIn;
  std::vector<int32_t> nodeOf, arcOf; ///< a member of each orbit
  /// By arc orbit, that of the arcs the other way, if that is an automorphism of the whole: then
  /// reduce is broadcast the other way round, and one half of the program is enough.
  std::vector<int32_t> mirror;
  std::vector<int32_t> broadcastTo, reduceFrom; ///< terminals
  /// By orbit of switches: the arcs of one, by orbit, 1 for in and -1 for out.
  std::vector<std::vector<std::pair<int32_t, double>>> changes;

  Lp lp;
  int32_t total = 0;
  std::vector<int32_t> rootColumn; ///< by orbit, -1 if none
  std::vector<Share> a, b;         ///< by orbit
  std::vector<int32_t> broadcastBalance, reduceBalance;
  std::vector<PricedCut> cuts;
  std::vector<int32_t> cutRow;
  TreeCuts broadcast, reduce;

  TreeRates center;                                       ///< the best solution known
  double best = 0;                                        ///< its value
  double value = std::numeric_limits<double>::infinity(); ///< of the program
  std::vector<double> cutDual, broadcastDual, reduceDual;
  size_t provenCuts = 0;
};

} // namespace ccl::model
