//===- Program.h - The lowered programs of all ranks, without MLIR --------===//
//
// L2 as plain data: per rank its channels and agents; per agent the instructions
// in order, loops unrolled. IR, and later XML and JSON, all produce it.
//
// Channels are FIFO. A `to` end pairs with the peer's `from` end of the same tag;
// tags count per ordered pair of ranks. A channel with slots carries data, one
// slot for one transfer operand; one without carries signals.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Moves.h"

namespace ccl::model {

struct Operand {
  enum class Kind : uint8_t { Local, Peer, Channel };
  Kind kind = Kind::Local;
  int32_t buffer = -1;  ///< Local, Peer: index into Program::buffers
  int64_t chunk = 0;    ///< Local, Peer: linear chunk
  int32_t peer = -1;    ///< Peer: whose buffer
  int32_t channel = -1; ///< Channel: index into RankProgram::channels
};

struct Instruction {
  enum class Kind : uint8_t { Transfer, Signal, Wait };
  Kind kind = Kind::Transfer;
  bool reduce = false;           ///< Transfer: combine the sources
  std::vector<Operand> from, to; ///< Transfer
  int32_t count = 1;             ///< Transfer: adjacent chunks
  int32_t channel = -1;          ///< Signal, Wait
  int32_t loc = -1;
};

struct Channel {
  bool to = true; ///< this rank sends
  int32_t peer = 0;
  int32_t tag = 0;
  int32_t slots = 0; ///< 0: carries signals
  int32_t loc = -1;
  /// Of one with slots: 0 simple, 1 ll, 2 ll128, as the dialect counts them. It changes no meaning.
  int32_t protocol = 0;
};

struct Agent {
  bool proxy = false;
  int32_t id = 0;
  std::vector<Instruction> code;
};

struct RankProgram {
  std::vector<Channel> channels;
  std::vector<Agent> agents;
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<RankProgram> ranks;
};

/// Whether some channel has slots.
inline bool isStaged(const Program &program) {
  for (const RankProgram &rank : program.ranks)
    for (const Channel &channel : rank.channels)
      if (channel.slots > 0)
        return true;
  return false;
}

} // namespace ccl::model
