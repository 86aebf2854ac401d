//===- CheckSymmetric.h - Proof of a symmetric program on one rank -----------===//
//
// If all ranks execute the same, shifted, all execute instruction i together in one
// order that may happen, and rank 0 tells what every rank holds: what rank 0 receives
// from rank p is what it sends itself to the rank that sees it as p, shifted. The cost
// is that of one rank.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "dialect/model/Symmetry.h"

namespace ccl::model {

/// What `check` in Check.h says about the programs that `rankZero`, whose only rank is
/// 0, and `symmetry` describe; faults are those of rank 0. That the program is
/// symmetric is the caller's word; that the contract is, and that the order of sweeps
/// and of accesses to peers does not matter, is checked here. If it cannot be shown:
/// nothing, and `why` says why not.
std::optional<ProgramReport> checkSymmetric(const Program &rankZero, const Contract &contract,
                                            const Symmetry &symmetry,
                                            const ProgramCheckOptions &options = {},
                                            std::string *why = nullptr);

} // namespace ccl::model
