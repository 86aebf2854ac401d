//===- ConcurrentFlow.h - The work of allToAllBound -----------------------===//
//
// Every rank sends the same to every other, on any ways (arXiv 2309.13541). The dual puts a price
// on every arc, and a price per arc orbit is enough. For some prices, cheapest ways give a bound
// and, divided among all of them, a flow; what remains is to find prices and a mixture of flows
// that meet. Results are the same on every run that does not end by its time limit.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Bound.h"
#include "dialect/bound/ShortestWays.h"

#include <chrono>
#include <functional>

namespace ccl::model {

class ConcurrentFlow {
public:
  ConcurrentFlow(const Fabric &fabric, const Orbits &orbits, const BoundOptions &options);

  BandwidthBound solve();

private:
  friend class SoftDescent;
  using Clock = std::chrono::steady_clock;
  static constexpr size_t threads = 2;
  /// The largest price in integers.
  static constexpr double finest = double(int64_t(1) << 40);
  /// What is left for rounding of the part in 1e8 that counts as equal.
  static constexpr double solved = 5e-9;

  struct Source {
    int32_t rank;
    int64_t count; ///< how many ranks it stands for
  };
  struct Flow {
    std::vector<double> loads; ///< by arc orbit: of all arcs together
    double cost = 0;           ///< at the prices it was made for
  };

  size_t kinds() const { return capacity.size(); }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  bool late() const { return elapsed() >= options.seconds; }
  bool closed(double gap) const { return attained >= upper * (1 - gap); }

  /// So that all arcs cost the same when they are full.
  std::vector<double> uniformPrices() const;
  /// Prices for loads: the gradient of log(sum over arcs of exp(sharpness * use)) in some unit;
  /// `use` is the load by the capacity, in shares of the largest use, which is returned.
  double softPrices(const std::vector<double> &loads, double sharpness,
                    std::vector<double> &prices) const;
  void setPrices(const std::vector<double> &prices);
  /// Looks for the cheapest ways of sources [begin, end), and returns what all of them cost.
  /// `then`, if any, is called for each, with the number of the thread whose `work` has them.
  double runAll(size_t begin, size_t end,
                const std::function<void(size_t, const Source &)> &then = nullptr);
  /// The flow on cheapest ways of sources [begin, end).
  Flow cheapest(size_t begin, size_t end);
  /// The bound that the prices last set give, if all cheapest ways cost `cost`.
  void improveUpper(const std::vector<double> &prices, double cost);
  /// Loads of a whole flow.
  void improveLower(const std::vector<double> &loads);
  /// By prices that the duals of a linear program over the flows found so far suggest.
  void decompose();
  /// By prices that grow with the loads: see SoftDescent.cpp.
  void descend();
  BandwidthBound result();

  const Fabric &fabric;
  const Orbits &orbits;
  const BoundOptions options;
  const Clock::time_point start = Clock::now();
  std::vector<Source> sources;
  std::vector<double> capacity; ///< by arc orbit: of all arcs together
  std::vector<double> arcsIn;   ///< by arc orbit
  ShortestWays ways;
  std::vector<int64_t> integers;
  double unitPrice = 1; ///< of the integers
  std::vector<ShortestWays::Work> work;
  std::vector<std::vector<double>> arcLoads; ///< by thread
  double upper = std::numeric_limits<double>::infinity(), attained = 0;
  std::vector<double> best; ///< the prices that give `upper`
  int64_t runs = 0;
};

} // namespace ccl::model
