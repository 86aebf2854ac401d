//===- Pairwise.cpp --------------------------------------------------------------===//
//
// Greedy, after AETG (Cohen et al. 1997, section 3): a unit starts with a pair that is still
// missing; the other values are chosen, in random order, so that each adds the most missing
// pairs; the best of some candidates is taken.
//===----------------------------------------------------------------------===//
#include "test/soak/Pairwise.h"

#include "test/soak/Dice.h"

#include <array>
#include <functional>
#include <map>

namespace ccl::soak {
namespace {

using model::Collective;
using model::Reduction;

enum Axis {
  AlgorithmAxis,
  TypeAxis,
  ReductionAxis,
  RanksAxis,
  ViaAxis,
  SlotsAxis,
  ProtocolAxis,
  DevicesAxis,
  numAxes
};
/// The index of a value on every axis; -1: open.
using Choice = std::array<int, numAxes>;

class Space {
public:
  explicit Space(const UnitFilter &filter);

  int size(int axis) const {
    const size_t sizes[numAxes] = {algorithms.size(), allTypes().size(), reductions.size(),
                                   ranks.size(),      allWays().size(),  2,
                                   protocols.size(),  devices.size()};
    return int(sizes[axis]);
  }
  Unit unit(const Choice &choice) const;
  bool exists(const Choice &choice) const;

  std::vector<Choice> all; ///< that exist

private:
  std::vector<Algorithm> algorithms;
  std::vector<Reduction> reductions;
  std::vector<int64_t> ranks;
  std::vector<std::string> protocols;
  std::vector<int64_t> devices;
};

Space::Space(const UnitFilter &filter)
    : reductions(allReductions()), ranks(filter.rankCounts()), protocols(filter.protocolNames()),
      devices(filter.deviceCounts()) {
  reductions.insert(reductions.begin(), Reduction::None);
  for (const Algorithm &algorithm : allAlgorithms())
    if (filter.takes(algorithm))
      algorithms.push_back(algorithm);
  Choice choice{};
  std::function<void(int)> visit = [&](int axis) {
    if (axis == numAxes) {
      if (exists(choice))
        all.push_back(choice);
      return;
    }
    for (choice[size_t(axis)] = 0; choice[size_t(axis)] < size(axis); ++choice[size_t(axis)])
      visit(axis + 1);
  };
  visit(0);
}

Unit Space::unit(const Choice &choice) const {
  Unit unit{algorithms[size_t(choice[AlgorithmAxis])], allTypes()[size_t(choice[TypeAxis])],
            reductions[size_t(choice[ReductionAxis])], ranks[size_t(choice[RanksAxis])]};
  unit.via = allWays()[size_t(choice[ViaAxis])];
  unit.slotBytes = choice[SlotsAxis] ? smallSlotBytes : 0;
  unit.protocol = protocols[size_t(choice[ProtocolAxis])];
  unit.devices = devices[size_t(choice[DevicesAxis])];
  const int64_t number = choice[TypeAxis] + choice[ViaAxis] + choice[RanksAxis];
  if (model::hasRoot(unit.algorithm.collective))
    unit.root = number % unit.ranks;
  unit.reversed = unit.algorithm.collective == Collective::Permute && number % 2;
  return unit;
}

bool Space::exists(const Choice &choice) const {
  const Unit made = unit(choice);
  return made.exists() && isSupported(made.type, made.reduction);
}

/// Which pairs of values are still missing.
class Pairs {
public:
  explicit Pairs(const Space &space) {
    for (int a = 0; a < numAxes; ++a)
      for (int b = a + 1; b < numAxes; ++b)
        missing[index(a, b)].assign(size_t(space.size(a) * space.size(b)), false);
    for (int a = 0; a < numAxes; ++a)
      sizes[size_t(a)] = space.size(a);
    for (const Choice &choice : space.all)
      mark(choice, true);
    total = count;
  }

  /// How many missing pairs a choice has.
  int gain(const Choice &choice) const {
    int found = 0;
    for (int a = 0; a < numAxes; ++a)
      for (int b = a + 1; b < numAxes; ++b)
        found += missing[index(a, b)][place(a, b, choice)];
    return found;
  }
  void cover(const Choice &choice) { mark(choice, false); }

  int64_t total = 0, count = 0; ///< of pairs, of missing pairs

private:
  static size_t index(int a, int b) { return size_t(a * numAxes + b); }
  size_t place(int a, int b, const Choice &choice) const {
    return size_t(choice[size_t(a)] * sizes[size_t(b)] + choice[size_t(b)]);
  }
  void mark(const Choice &choice, bool value) {
    for (int a = 0; a < numAxes; ++a)
      for (int b = a + 1; b < numAxes; ++b) {
        auto bit = missing[index(a, b)][place(a, b, choice)];
        count += int(value) - int(bit);
        bit = value;
      }
  }

  std::array<std::vector<bool>, numAxes * numAxes> missing;
  std::array<int, numAxes> sizes{};
};

/// Changes one axis after the other to where most missing pairs are.
Choice improve(const Space &space, const Pairs &pairs, Choice choice, Dice &dice) {
  std::vector<int> axes;
  for (int axis = 0; axis < numAxes; ++axis)
    axes.push_back(axis);
  dice.shuffle(axes);
  for (int axis : axes) {
    Choice best = choice;
    int bestGain = pairs.gain(choice), ties = 1;
    for (int value = 0; value < space.size(axis); ++value) {
      Choice other = choice;
      other[size_t(axis)] = value;
      const int gain = pairs.gain(other);
      if (gain < bestGain || !space.exists(other))
        continue;
      ties = gain > bestGain ? 1 : ties + 1;
      if (gain > bestGain || dice.below(ties) == 0)
        best = other;
      bestGain = gain;
    }
    choice = best;
  }
  return choice;
}

} // namespace

Sample samplePairwise(int64_t size, uint64_t seed, const UnitFilter &filter) {
  const Space space(filter);
  Pairs pairs(space);
  Dice dice(seed);
  Sample sample;
  sample.pairs = pairs.total;
  while (pairs.count > 0 && (size <= 0 || int64_t(sample.units.size()) < size)) {
    Choice best{};
    int bestGain = 0;
    // Towards the end few choices have anything new: then all are looked at.
    for (int candidate = 0; candidate < 20; ++candidate) {
      Choice choice = improve(space, pairs, dice.pick(space.all), dice);
      if (int gain = pairs.gain(choice); gain > bestGain) {
        bestGain = gain;
        best = choice;
      }
    }
    for (size_t i = 0; bestGain == 0; ++i) {
      best = space.all[i];
      bestGain = pairs.gain(best);
    }
    pairs.cover(best);
    sample.units.push_back(space.unit(best));
  }
  sample.covered = pairs.total - pairs.count;
  return sample;
}

} // namespace ccl::soak
