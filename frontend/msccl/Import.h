//===- Import.h - From a document to a program -----------------------------------===//
//
// A block becomes an agent; the connection (sender, receiver, channel) a data channel whose
// tag is the channel. Dependences: block A waits until block B has done a step. Flags only
// grow, so only those waits of A for B matter that ask for a later step than all before;
// each becomes one signal of B, after the first step from there on that stores a flag, and
// one wait of A, on a channel of the rank with itself. The tags of these channels number the
// pairs (B, A) of a rank.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"
#include "frontend/msccl/Document.h"

namespace ccl::msccl {

/// The document as a program of `contract`. Nothing if it names places that the collective
/// does not have, or is too large: see `diagnostics`. `xml` is where it came from; null: it
/// was made, and the instructions' locs are those of the steps.
std::optional<interchange::Foreign>
importDocument(const Document &document, model::Contract contract, const Xml *xml,
               std::vector<interchange::Diagnostic> &diagnostics);

} // namespace ccl::msccl
