//===- SelfMessages.h - Messages of a rank to itself ---------------------------------===//
//
// The format has no connection of a gpu with itself. Lowering makes such messages of loops
// over all pairs of ranks that are one program for every rank.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <optional>

namespace ccl::msccl {

/// The same program in which messages that an agent sends to itself rest in scratch. Those
/// between two agents of a rank stay. Nothing if there is nothing to change.
std::optional<interchange::Foreign> withoutSelfMessages(const interchange::Foreign &foreign);

} // namespace ccl::msccl
