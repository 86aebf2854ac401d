//===- DirectProgram.h - A program without data channels, safe by itself --===//
//
// What a program has to be before it is written as a plan: MSCCL++ has no channels with
// data, and its launches neither begin nor end with a barrier.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <optional>
#include <utility>

namespace ccl::mscclpp {

/// The first thing of a program that does not exist: a rank, chunk or channel. As (loc, text).
std::optional<std::pair<int32_t, std::string>> findMissing(const model::Program &program,
                                                           int64_t contractRanks);

/// Data channels become places in a new scratch buffer of the receiver (`slots` chunks times
/// the longest transfer each), written directly; a signal tells that a slot is full, one the
/// other way that it is free again. What does not fit together, an end without its partner
/// or transfers of unequal length, goes to `diagnostics`.
std::optional<model::Program>
withoutDataChannels(const model::Program &program,
                    std::vector<interchange::Diagnostic> &diagnostics);

/// Adds signals so that no rank touches the memory of a peer before the peer has begun, and,
/// if it is asked for, no rank ends before its peers have. Where the program's own signals
/// see to the first, nothing is added. Proxies take part only as what they are told by; for
/// this, they must have been told by blocks.
void guardEntry(model::Program &program);
void guardExit(model::Program &program);

} // namespace ccl::mscclpp
