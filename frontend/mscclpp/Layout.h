//===- Layout.h - The contract and the buffers of a plan ------------------===//
#pragma once

#include "frontend/mscclpp/Fields.h"
#include "frontend/mscclpp/Plan.h"

namespace ccl::mscclpp {

/// Where the chunks of a plan are in the buffers of the program. Thread blocks of a group
/// share the chunks of an op, so every chunk of the plan is `factor` chunks of the program.
struct Layout {
  model::Contract contract; ///< counts the program's chunks
  int64_t factor = 1;
  std::vector<model::Buffer> buffers;
  int32_t input = -1, output = -1, scratch = -1; ///< -1: there is none; equal: `inout`
  bool disjoint = true, inPlace = false;

  int32_t buffer(BufferType type) const {
    return type == BufferType::Input ? input : type == BufferType::Output ? output : scratch;
  }
  /// How many chunks of the plan a rank has.
  int64_t chunks(const Plan &plan, BufferType type, int32_t rank) const;
  /// The chunk of the program that chunk `chunk / factor` of the plan begins with, in
  /// `buffer(type)` of a rank.
  int64_t position(BufferType type, int32_t rank, int64_t chunk) const;
};

/// What the plan promises. The roles of buffers take `places` 0, 1 and 2 as their `loc`.
/// Errors go to `log`.
Layout makeLayout(const Plan &plan, Log &log);

} // namespace ccl::mscclpp
