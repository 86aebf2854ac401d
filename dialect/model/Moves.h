//===- Moves.h - An algorithm as a packed list of moves -------------------===//
//
// What an L1 algorithm means, without loops: the moves of every rank (or of one)
// in program order. Moves with the same `step` came from one parallel step and
// claim independence. Buffers are numbered in program order.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Contract.h"

namespace ccl::model {

struct Buffer {
  std::string name; ///< as written, without `%`
  Role role = Role::InOut;
  int64_t chunks = 1; ///< linear chunks on every rank
  int32_t loc = -1;   ///< index into the producer's table of source locations
};

struct Place {
  int32_t rank;
  int32_t buffer;
  int64_t chunk;
  friend bool operator==(const Place &, const Place &) = default;
};

enum class MoveKind : uint8_t { Copy, Reduce };

/// `count` adjacent chunks go from `src` to `dst` (or are combined into it).
struct Move {
  MoveKind kind;
  Place src, dst;
  int32_t count = 1;
  int32_t step = 0;
  int32_t loc = -1; ///< index into the producer's table of source locations
};

struct Moves {
  int64_t ranks = 1;
  std::vector<Buffer> buffers;
  std::vector<Move> moves;
};

} // namespace ccl::model
