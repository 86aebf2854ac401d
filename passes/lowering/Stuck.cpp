//===- Stuck.cpp ------------------------------------------------------------===//

#include "passes/lowering/Stuck.h"
#include "dialect/model/Network.h"
#include "passes/lowering/Symmetry.h"

using namespace mlir;

namespace ccl {

static bool isStuck(model::Network network) {
  std::vector<model::Fault> faults;
  network.build(faults, 1);
  return faults.empty() && network.isStuck(network.run(/*slots=*/0));
}

/// Instructions of all ranks, if those of one program execute equally many, or `limit`.
static uint64_t countInstructions(ArrayRef<ProgramOp> programs, uint64_t limit) {
  uint64_t total = 0;
  for (ProgramOp program : programs) {
    const SmallVector<int64_t> ranks = program.getRankList();
    auto count = [&](Operation *, const model::Instruction &) {
      return (total += ranks.size()) < limit;
    };
    if (failed(forEachInstruction(program, ranks.front(), count)))
      return limit;
  }
  return total;
}

bool getStuck(AlgorithmOp algorithm, const model::Contract &contract) {
  const SmallVector<ProgramOp> programs = getPrograms(algorithm);
  int64_t ranks = 0;
  for (ProgramOp program : programs)
    ranks += int64_t(program.getRankList().size());
  if (ranks != contract.ranks)
    return false;
  LocationTable locations;
  constexpr uint64_t few = 1 << 14, limit = 1 << 20; // these take some tenths of a second
  const uint64_t instructions = countInstructions(programs, limit);
  std::optional<SymmetricProgram> one;
  if (instructions >= few) {
    std::string why;
    auto found = findSymmetry(algorithm, locations, why);
    if (failed(found))
      return false;
    one = std::move(*found);
  }
  if (one) {
    const model::ShiftGroup group(one->symmetry);
    return isStuck(model::Network(one->rankZero, ranks,
                                  [&](int32_t rank) { return int32_t(group.inverse(rank)); }));
  }
  if (instructions >= limit)
    return false;
  auto all = expandPrograms(algorithm, locations);
  return succeeded(all) && isStuck(model::Network(*all));
}

} // namespace ccl
