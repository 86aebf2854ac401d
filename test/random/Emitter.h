//===- Emitter.h - Moves in a sequence, and what each has to wait for --------------===//
#pragma once

#include "dialect/model/Moves.h"
#include "test/soak/Dice.h"

#include <array>
#include <map>
#include <set>

namespace ccl::random {

using soak::Dice;

/// Takes the moves of a sequential program and finds which must stay after which.
class Emitter {
public:
  Emitter(Dice &dice, model::Moves &moves) : dice(dice), moves(moves) {}

  /// `count` chunks from `src` to `dst`; may become several moves.
  void emit(model::MoveKind kind, model::Place src, model::Place dst, int32_t count);
  /// Puts the moves into another legal order and numbers the steps; several independent
  /// ones may be one step.
  void reorder();

private:
  void add(model::MoveKind kind, model::Place src, model::Place dst, int32_t count);
  /// What happened to one place since it was last overwritten.
  struct History {
    std::vector<size_t> copies, reductions, reads;
  };
  History &at(const model::Place &place, int32_t offset) {
    return histories[{place.rank, place.buffer, place.chunk + offset}];
  }

  Dice &dice;
  model::Moves &moves;
  std::vector<std::set<size_t>> after; ///< by move: those that come first
  std::map<std::array<int64_t, 3>, History> histories;
};

} // namespace ccl::random
