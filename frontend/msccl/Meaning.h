//===- Meaning.h - The collective that a file is for, both ways ------------------===//
//
// The format names a collective, but not its root, and of custom ones nothing at all.
// Roots are inferred where that is safe; what cannot be said otherwise is in attributes of
// our own, which the runtimes do not look at: `root`, `ccl_coll`, `ccl_to`, `ccl_rows`.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Contract.h"
#include "frontend/msccl/Targets.h"

namespace ccl::msccl {

/// Errors go to `diagnostics`.
std::optional<model::Contract> readContract(const Document &document, const Xml &xml,
                                            std::vector<interchange::Diagnostic> &diagnostics);

/// Sets `coll`, `chunksPerLoop` and what else of `document` follows from the contract. What
/// runtimes of this kind cannot run goes to `diagnostics`; false: it cannot be written at all.
/// `limits` may be null.
bool writeContract(const model::Contract &contract, const Limits *limits, Document &document,
                   std::vector<interchange::Diagnostic> &diagnostics);

} // namespace ccl::msccl
