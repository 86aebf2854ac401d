//===- Pool.cpp ---------------------------------------------------------------------------===//
#include "test/soak/Pool.h"

#include "test/soak/Dice.h"

namespace ccl::soak {

static Unit rollUnit(Algorithm algorithm, int64_t ranks, Dice &dice) {
  Unit unit{algorithm, dice.pick(allTypes()), model::Reduction::None, ranks, dice.pick(allWays())};
  if (model::reduces(algorithm.collective))
    do
      unit.reduction = dice.pick(allReductions());
    while (!isSupported(unit.type, unit.reduction));
  if (algorithm.collective == model::Collective::Barrier)
    unit.type = ElementType::F32;
  if (model::hasRoot(algorithm.collective))
    unit.root = dice.below(ranks);
  unit.reversed = algorithm.collective == model::Collective::Permute && dice.chance(50);
  return unit;
}

llvm::Expected<Pool> Pool::make(int64_t ranks, uint64_t seed,
                                llvm::function_ref<int64_t(int64_t)> numPrograms, bool onHosts) {
  Pool pool;
  Dice dice(seed);
  for (int64_t n = ranks; n >= 1; --n) {
    // Each generator once, before one comes again.
    std::vector<Algorithm> algorithms = allAlgorithms();
    dice.shuffle(algorithms);
    std::vector<Compiled> &programs = pool.programs[n];
    for (size_t i = 0; int64_t(programs.size()) < numPrograms(n); ++i) {
      Unit unit = rollUnit(algorithms[i % algorithms.size()], n, dice);
      if (onHosts) {
        unit.via = "staged";
        unit.wires = true;
      }
      if (!unit.exists())
        continue;
      llvm::Expected<Compiled> compiled = compileUnit(unit);
      if (!compiled)
        return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                       "ccl run " + unit.options() + ": " +
                                           llvm::toString(compiled.takeError()));
      programs.push_back(std::move(*compiled));
    }
  }
  return pool;
}

int64_t Pool::size() const {
  int64_t size = 0;
  for (const auto &[ranks, ofRanks] : programs)
    size += int64_t(ofRanks.size());
  return size;
}

} // namespace ccl::soak
