//===- Foreign.h - A program in another system's format, read or to be written ---===//
//
// What readers of MSCCL XML and MSCCL++ plans make of a file, and what writers take:
// an L2 program (model/Program) with its contract and the places in the text that it
// came from. No MLIR here; ToModule.h and FromModule.h go on from there.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Program.h"
#include "frontend/interchange/Diagnostic.h"

#include <string>
#include <vector>

namespace ccl::interchange {

/// How many chunks the buffers of all ranks may have, and how many all instructions together
/// may move: a proof takes a microsecond and 200 bytes for each, and a short text must not take
/// long. Who writes more instructions may have more.
constexpr int64_t mostChunks(int64_t instructions) {
  return (int64_t(1) << 20) + 64 * instructions;
}

/// One program of all ranks.
///
/// Buffers: a file for launches in place only has one `inout` (as wide as
/// Contract::inOutChunks; places of `in` and `out` lie at Contract::inPosition and
/// outPosition); all others have `in` and `out`. Scratch is one buffer, as wide as on the
/// rank that has most of it.
///
/// What these formats wait for without a channel of their own (dependences between
/// thread blocks, semaphores, barriers, flags of packets) are channels without slots. A
/// channel from a rank to itself joins two of its agents.
struct Foreign {
  std::string name; ///< as the file says; need not be an identifier
  model::Contract contract;
  model::Program program;
  /// May be launched with separate memory, in place. Only one if the buffer is `inout`.
  bool disjoint = true, inPlace = false;
  std::vector<TextPlace> places; ///< by the `loc` of buffers and instructions
  std::vector<Diagnostic> warnings;
};

} // namespace ccl::interchange
