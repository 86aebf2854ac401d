//===- SelfMessages.h - Messages of a rank to itself ---------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <optional>

namespace ccl::msccl {

/// The same program in which messages that an agent sends to itself rest in scratch instead
/// of a channel, which the format does not have. Lowering makes them of loops over all pairs
/// of ranks. Messages between two agents of a rank stay. Nothing if there is nothing to change.
std::optional<interchange::Foreign> withoutSelfMessages(const interchange::Foreign &foreign);

} // namespace ccl::msccl
