//===- Algorithms.cpp -------------------------------------------------------------===//
#include "test/random/Algorithms.h"

#include "test/random/Emitter.h"

#include <algorithm>
#include <map>

using namespace ccl::model;

namespace ccl::random {
namespace {

//===----------------------------------------------------------------------===//
// Contracts
//===----------------------------------------------------------------------===//

/// Every place wants other contributions; none twice.
void chooseRows(Dice &dice, Contract &contract) {
  contract.customInChunks = 1 + dice.below(3);
  contract.customOutChunks = 1 + dice.below(3);
  const int64_t atoms = contract.ranks * contract.customInChunks;
  const int64_t most = contract.reduction == Reduction::None ? 1 : std::min<int64_t>(atoms, 4);
  for (int64_t rank = 0; rank < contract.ranks; ++rank)
    for (int64_t k = 0; k < contract.customOutChunks; ++k) {
      std::vector<int64_t> all;
      for (int64_t a = 0; a < atoms; ++a)
        all.push_back(a);
      dice.shuffle(all);
      // The first place is never without: a contract that promises nothing is no test.
      for (int64_t i = rank + k ? dice.below(most + 1) : 1; i-- > 0;)
        contract.rows.push_back({rank, k, all[size_t(i)] / contract.customInChunks,
                                 all[size_t(i)] % contract.customInChunks});
    }
}

Contract chooseContract(Dice &dice, const AlgorithmOptions &options) {
  static const std::vector<Collective> collectives = {
      Collective::AllReduce, Collective::AllReduce,     Collective::AllReduce,
      Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast,
      Collective::Reduce,    Collective::Gather,        Collective::Scatter,
      Collective::AllToAll,  Collective::Custom,        Collective::Permute};
  static const std::vector<int64_t> sizes = {1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8};
  Contract contract;
  contract.collective = options.collective.value_or(dice.pick(collectives));
  contract.ranks = options.ranks > 0 ? options.ranks : dice.pick(sizes);
  const bool few = contract.collective == Collective::AllReduce || hasRoot(contract.collective);
  contract.chunks = 1 + dice.below(few ? 6 : 3);
  if (reduces(contract.collective) ||
      (contract.collective == Collective::Custom && dice.chance(60)))
    contract.reduction = dice.pick(std::vector{Reduction::Sum, Reduction::Sum, Reduction::Max});
  if (hasRoot(contract.collective))
    contract.root = dice.below(contract.ranks);
  if (contract.collective == Collective::Permute) {
    for (int64_t rank = 0; rank < contract.ranks; ++rank)
      contract.targets.push_back(rank);
    dice.shuffle(contract.targets);
  }
  if (contract.collective == Collective::Custom) {
    contract.chunks = 1;
    chooseRows(dice, contract);
  }
  return contract;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// `goals` want the sum of `atoms`; the same for the `width` - 1 next chunks.
struct Unit {
  std::vector<Atom> atoms, goals;
  int32_t width = 1;
};

bool isAfter(const std::vector<Atom> &next, const std::vector<Atom> &atoms, int32_t width) {
  return std::equal(
      next.begin(), next.end(), atoms.begin(), atoms.end(),
      [&](const Atom &a, const Atom &b) { return a.rank == b.rank && a.chunk == b.chunk + width; });
}

std::vector<Unit> findUnits(Dice &dice, const Contract &contract) {
  auto less = [](const Atom &a, const Atom &b) {
    return std::pair(a.rank, a.chunk) < std::pair(b.rank, b.chunk);
  };
  std::map<std::vector<std::pair<int64_t, int64_t>>, Unit> byAtoms;
  for (int64_t rank = 0; rank < contract.ranks; ++rank)
    for (int64_t k = 0; k < contract.outChunks(); ++k) {
      std::vector<Atom> atoms;
      contract.expected(rank, k, atoms);
      if (atoms.empty())
        continue;
      std::sort(atoms.begin(), atoms.end(), less);
      std::vector<std::pair<int64_t, int64_t>> key;
      for (const Atom &atom : atoms)
        key.emplace_back(atom.rank, atom.chunk);
      Unit &unit = byAtoms[key];
      unit.atoms = atoms;
      unit.goals.push_back({rank, k});
    }
  std::vector<Unit> units;
  int64_t most = 1 + dice.below(4);
  for (auto &[key, unit] : byAtoms)
    if (!units.empty() && units.back().width < most &&
        isAfter(unit.atoms, units.back().atoms, units.back().width) &&
        isAfter(unit.goals, units.back().goals, units.back().width))
      ++units.back().width;
    else
      units.push_back(unit);
  if (dice.chance(50))
    dice.shuffle(units);
  return units;
}

//===----------------------------------------------------------------------===//
// One algorithm
//===----------------------------------------------------------------------===//

class Builder {
public:
  Builder(uint64_t seed, const AlgorithmOptions &options)
      : dice(seed), emitter(dice, result.moves) {
    result.seed = seed;
    result.contract = chooseContract(dice, options);
    inOut = options.inOut.value_or(dice.chance(50));
  }
  Algorithm build();

private:
  enum class Shape : uint8_t { Star, Chain, Halves, Any };

  void addBuffers();
  void addUnit(const Unit &unit);
  /// The goals of one sum.
  void addTree(const Unit &unit, std::vector<Atom> goals, bool mayDestroy);
  /// `first`: `dst` holds nothing yet.
  void sumInto(std::vector<Atom> atoms, Place dst, bool first);
  void spread(const Unit &unit, Place from, const std::vector<Atom> &goals, bool consumed);
  Place sumInScratch(const std::vector<Atom> &atoms);
  Place detour(Place place);
  std::vector<std::vector<Atom>> split(std::vector<Atom> atoms);

  Place input(const Atom &atom) const {
    return {int32_t(atom.rank), 0,
            inOut ? result.contract.inPosition(atom.rank, atom.chunk) : atom.chunk};
  }
  Place output(const Atom &goal) const {
    return {int32_t(goal.rank), inOut ? 0 : 1,
            inOut ? result.contract.outPosition(goal.rank, goal.chunk) : goal.chunk};
  }
  /// Whether inputs of others than of `unit` lie there.
  bool holdsForeignInput(const Unit &unit, const Place &place, bool consumed) const;
  int32_t anyRank() { return int32_t(dice.below(result.contract.ranks)); }
  Place scratch(int32_t rank, bool forGood = false);

  Dice dice;
  Algorithm result;
  Emitter emitter;
  bool inOut = false;
  int32_t width = 1; ///< of the current unit
  Shape shape = Shape::Any;
  std::map<int32_t, int64_t> scratchUsed; ///< by rank
  struct Area {
    Place place;
    int32_t width;
  };
  std::vector<Area> idle, used; ///< scratch: for later units; of the current one
  struct Landing {
    Place from, to;
    int32_t width;
  };
  std::vector<Landing> landings; ///< once all inputs have been read
};

Place Builder::scratch(int32_t rank, bool forGood) {
  const int32_t buffer = inOut ? 1 : 2;
  if (!forGood && dice.chance(50))
    for (size_t i = 0; i < idle.size(); ++i)
      if (idle[i].place.rank == rank && idle[i].width >= width) {
        Area area = idle[i];
        idle.erase(idle.begin() + ptrdiff_t(i));
        used.push_back(area);
        return area.place;
      }
  Place place{rank, buffer, scratchUsed[rank]};
  scratchUsed[rank] += width;
  if (!forGood)
    used.push_back({place, width});
  return place;
}

Place Builder::detour(Place place) {
  if (!dice.chance(15))
    return place;
  Place way = scratch(anyRank());
  emitter.emit(MoveKind::Copy, place, way, width);
  return way;
}

std::vector<std::vector<Atom>> Builder::split(std::vector<Atom> atoms) {
  dice.shuffle(atoms);
  const size_t size = atoms.size();
  std::vector<std::vector<Atom>> groups;
  size_t parts = size;
  if (shape == Shape::Chain || shape == Shape::Halves)
    parts = 2;
  else if (shape == Shape::Any)
    parts = 2 + size_t(dice.below(int64_t(size) - 1));
  for (size_t begin = 0, part = 0; begin < size; ++part) {
    size_t rest = parts - part - 1, most = size - begin - rest;
    size_t take = shape == Shape::Star     ? 1
                  : shape == Shape::Chain  ? (part == 0 ? 1 : most)
                  : rest == 0              ? most
                  : shape == Shape::Halves ? size / 2
                                           : 1 + size_t(dice.below(int64_t(most)));
    groups.emplace_back(atoms.begin() + ptrdiff_t(begin), atoms.begin() + ptrdiff_t(begin + take));
    begin += take;
  }
  return groups;
}

Place Builder::sumInScratch(const std::vector<Atom> &atoms) {
  int32_t rank = dice.chance(80) ? int32_t(dice.pick(atoms).rank) : anyRank();
  Place place = scratch(rank);
  sumInto(atoms, place, true);
  return place;
}

void Builder::sumInto(std::vector<Atom> atoms, Place dst, bool first) {
  if (atoms.empty())
    return;
  std::vector<std::vector<Atom>> groups;
  if (atoms.size() == 1)
    groups.push_back(atoms);
  else
    groups = split(atoms);
  for (const std::vector<Atom> &group : groups) {
    Place src = group.size() == 1 ? input(group.front()) : sumInScratch(group);
    emitter.emit(first ? MoveKind::Copy : MoveKind::Reduce, detour(src), dst, width);
    first = false;
  }
}

bool Builder::holdsForeignInput(const Unit &unit, const Place &place, bool consumed) const {
  if (!inOut)
    return false;
  const Contract &c = result.contract;
  for (int32_t i = 0; i < width; ++i)
    for (int64_t k = 0; k < c.inChunks(); ++k) {
      if (!c.defines(place.rank, k) || c.inPosition(place.rank, k) != place.chunk + i)
        continue;
      bool own = std::any_of(unit.atoms.begin(), unit.atoms.end(), [&](const Atom &a) {
        return a.rank == place.rank && a.chunk + i == k;
      });
      if (!own || !consumed)
        return true;
    }
  return false;
}

void Builder::spread(const Unit &unit, Place from, const std::vector<Atom> &goals, bool consumed) {
  std::vector<Place> holders = {from};
  for (const Atom &goal : goals) {
    Place to = output(goal);
    if (to == from)
      continue;
    Place src = shape == Shape::Star    ? from
                : shape == Shape::Chain ? holders.back()
                                        : dice.pick(holders);
    src = detour(src);
    if (holdsForeignInput(unit, to, consumed)) {
      Place rest = scratch(to.rank, /*forGood=*/true);
      landings.push_back({rest, to, width});
      to = rest;
    }
    emitter.emit(MoveKind::Copy, src, to, width);
    holders.push_back(to);
  }
}

void Builder::addTree(const Unit &unit, std::vector<Atom> goals, bool mayDestroy) {
  shape = Shape(dice.below(4));
  dice.shuffle(goals);
  if (unit.atoms.size() == 1)
    return spread(unit, input(unit.atoms.front()), goals, false);
  Place dst = output(goals.front());
  std::vector<Atom> rest = unit.atoms;
  bool first = true;
  // Adds to an input where it lies, if nobody else needs that.
  const Atom &own = dice.pick(unit.atoms);
  if (mayDestroy && dice.chance(70)) {
    dst = input(own);
    first = false;
    rest.erase(std::find(rest.begin(), rest.end(), own));
  } else if (holdsForeignInput(unit, dst, false) || dice.chance(30)) {
    dst = scratch(anyRank());
  }
  sumInto(rest, dst, first);
  spread(unit, dst, goals, mayDestroy);
}

void Builder::addUnit(const Unit &unit) {
  width = unit.width;
  std::vector<Atom> goals = unit.goals;
  dice.shuffle(goals);
  // Rows of custom contracts may ask for one contribution in many places.
  bool alone = result.contract.collective != Collective::Custom;
  if (goals.size() == 1 || dice.chance(70)) {
    addTree(unit, goals, inOut && alone);
  } else {
    for (size_t begin = 0; begin < goals.size();) {
      size_t take = 1 + size_t(dice.below(int64_t(goals.size() - begin)));
      addTree(unit, {goals.begin() + ptrdiff_t(begin), goals.begin() + ptrdiff_t(begin + take)},
              false);
      begin += take;
    }
  }
  idle.insert(idle.end(), used.begin(), used.end());
  used.clear();
}

void Builder::addBuffers() {
  std::vector<Buffer> &buffers = result.moves.buffers;
  const Contract &c = result.contract;
  if (inOut) {
    buffers.push_back({"x", Role::InOut, c.inOutChunks()});
  } else {
    buffers.push_back({"in", Role::In, c.inChunks()});
    buffers.push_back({"out", Role::Out, c.outChunks()});
  }
  int64_t most = 0;
  for (auto [rank, chunks] : scratchUsed)
    most = std::max(most, chunks);
  if (most > 0)
    buffers.push_back({"t", Role::Scratch, most});
}

Algorithm Builder::build() {
  result.moves.ranks = result.contract.ranks;
  for (const Unit &unit : findUnits(dice, result.contract))
    addUnit(unit);
  for (const Landing &landing : landings)
    emitter.emit(MoveKind::Copy, landing.from, landing.to, landing.width);
  emitter.reorder();
  addBuffers();
  return std::move(result);
}

} // namespace

Algorithm randomAlgorithm(uint64_t seed, const AlgorithmOptions &options) {
  return Builder(seed, options).build();
}

void plantFault(Algorithm &algorithm, Dice &dice) {
  std::vector<Move> &moves = algorithm.moves.moves;
  if (moves.empty())
    return;
  size_t i = size_t(dice.below(int64_t(moves.size())));
  Move &move = moves[i];
  Place &place = dice.chance(50) ? move.src : move.dst;
  switch (dice.below(7)) {
  case 0: moves.erase(moves.begin() + ptrdiff_t(i)); break;
  case 1: moves.insert(moves.begin() + ptrdiff_t(i), Move(move)); break;
  case 2: std::swap(place, moves[size_t(dice.below(int64_t(moves.size())))].src); break;
  case 3: place.chunk = dice.below(algorithm.moves.buffers[size_t(place.buffer)].chunks); break;
  case 4: place.rank = int32_t(dice.below(algorithm.moves.ranks)); break;
  case 5:
    if (algorithm.contract.reduction != Reduction::None)
      move.kind = move.kind == MoveKind::Copy ? MoveKind::Reduce : MoveKind::Copy;
    else
      std::swap(move.src, move.dst);
    break;
  case 6: {
    Move &other = moves[size_t(dice.below(int64_t(moves.size())))];
    std::swap(move.step, other.step);
    std::swap(move, other);
    break;
  }
  }
}

} // namespace ccl::random
