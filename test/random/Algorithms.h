//===- Algorithms.h - Random algorithms that are right by construction ------------===//
//
// A collective is cut into units: a set of contributions that certain places want the sum
// of. Every unit is summed along a random tree, over detours through scratch, and spread
// along another. What a seed gives is the same everywhere.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Moves.h"
#include "test/soak/Dice.h"

#include <optional>

namespace ccl::random {

using soak::Dice;

struct AlgorithmOptions {
  int64_t ranks = 0;                           ///< 0: 1 to 8
  std::optional<model::Collective> collective; ///< any but barrier and all_to_allv
  std::optional<bool> inOut;                   ///< one buffer for input and result
};

struct Algorithm {
  uint64_t seed = 0;
  model::Contract contract;
  model::Moves moves; ///< each in a step of its own, or in steps that are parallel
};

/// No contribution is ever counted twice, so the checker must accept it.
Algorithm randomAlgorithm(uint64_t seed, const AlgorithmOptions &options = {});

/// `algorithm` as MLIR text: one `ccl.algorithm @a<seed>`. Runs of moves whose indices are
/// affine, also mod ranks or chunks, become loops; steps become `affine.parallel`.
std::string text(const Algorithm &algorithm);

/// Changes something at random: leaves a move out, doubles one, swaps or shifts places, makes
/// a copy of a reduction or the reverse, changes a count. It may still be right afterwards.
void plantFault(Algorithm &algorithm, Dice &dice);

} // namespace ccl::random
