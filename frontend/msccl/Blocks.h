//===- Blocks.h - Steps of a rank in blocks that wait for each other ------------------===//
//
// Agents of a program run in order; their steps are dealt to blocks by the connections that
// they use, and blocks run at the same time. What two steps of different blocks must keep
// in order is the accesses to one place that conflict: these become dependences.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/msccl/Expand.h"

namespace ccl::msccl {

struct BlockOptions {
  int32_t stepsPerBlock = 0; ///< more local steps begin a block of their own; 0: no limit
  bool packs = false;        ///< as few blocks as possible
  /// All steps of an agent stay in order, and those of others behind what they waited for.
  bool keepsOrder = false;
};

struct BlocksResult {
  std::vector<Block> blocks;
  std::vector<std::vector<int32_t>> lanes; ///< of every block
  /// Conflicting steps of two agents are ordered by nothing within the rank, but may be by
  /// what other ranks send: then only `keepsOrder` keeps that.
  bool hasUnordered = false;
  /// The loc of an instruction that waits for a signal that is not sent, if there is one.
  std::optional<int32_t> stuck;
};

BlocksResult makeBlocks(const std::vector<std::vector<Op>> &agents, const Layout &layout,
                        const Lanes &lanes, int32_t rank, const model::RankProgram &program,
                        const BlockOptions &options);

} // namespace ccl::msccl
