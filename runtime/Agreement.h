//===- Agreement.h - Do all ranks want the same? ----------------------------===//
//
// At the entry of an operation every rank announces what it is about to do, and
// compares once all have: before a counter moves, so a disagreement is an error on
// every rank and never a hang or a wrong result.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Control.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl {

std::string_view name(Form form);
std::string_view name(Operation operation);

/// 64 bits that differ between texts which differ; never 0.
uint64_t fingerprint(std::string_view text);
/// What every announcement of the program says alike.
Announcement describe(const Plan &plan);

/// Which two ranks disagree on what, in words; nothing if all agree. `all` is in the
/// order of ranks; every rank that looks finds the same sentence.
std::optional<std::string> findDisagreement(const std::vector<const Announcement *> &all);

} // namespace ccl
