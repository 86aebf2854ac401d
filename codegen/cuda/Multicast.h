//===- Multicast.h - Transfers that a switch can do ----------------------------===//
#pragma once

#include "dialect/Ccl.h"
#include "runtime/plan/Plan.h"

#include <optional>

namespace ccl::cuda {

/// Which sides of a transfer are one place of all ranks: the same chunk of the same buffer.
struct MulticastSides {
  bool from = false;
  bool to = false; ///< or of all but this one, whose own is the only source

  bool any() const { return from || to; }
};

/// On all ranks of the transfer's program and in all iterations, of `ranks` ranks. Neither side if
/// that is too much to look at.
MulticastSides multicastSides(TransferOp transfer, int64_t ranks);

/// How `multimem.ld_reduce` combines elements.
struct SwitchLoad {
  std::string instruction; ///< what follows ".global.": "add.v4.f32"
  int bytes;               ///< of one: 4, 8 or 16
};
/// Nothing if switches do not do that.
std::optional<SwitchLoad> switchLoad(ElementType type, model::Reduction reduction);

} // namespace ccl::cuda
