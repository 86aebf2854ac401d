//===- Agreement.h - Do all ranks want the same? ----------------------------===//
//
// At the entry of a launch every rank announces what it is about to do, and
// compares once all have: before a counter moves, so a disagreement is an error on
// every rank and never a hang or a wrong result.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launch.h"

#include <optional>
#include <vector>

namespace ccl {

struct Announcement {
  std::shared_ptr<LoadedProgram> program; ///< kept alive while others compare
  int64_t count = 0;
  Form form = Form::Either;
  int64_t microBatches = 1;
};

/// Which two ranks disagree on what, in words; nothing if all agree. `all` is in the
/// order of ranks; every rank that looks finds the same sentence.
std::optional<std::string> findDisagreement(const std::vector<const Announcement *> &all);

} // namespace ccl
