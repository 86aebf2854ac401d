//===- Msccl.h - MSCCL XML, read and written ---------------------------------------===//
//
// docs/interchange.md has the mapping. No MLIR.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"
#include "frontend/msccl/Targets.h"

namespace ccl::msccl {

/// The program that an MSCCL XML text says, of either dialect. If it is not well-formed,
/// contradicts itself or asks for what is not there, nothing, and `diagnostics` says where
/// and what. Warnings, of what the runtimes would not take and of what is odd, are in
/// Foreign::warnings.
///
/// Whether the program is right is not asked here: what it does wrong, races and deadlocks
/// are for the proof to find.
std::optional<interchange::Foreign> readXml(std::string_view text,
                                            std::vector<interchange::Diagnostic> &diagnostics);

struct WriteOptions {
  Target target = Target::None;
};

/// The text of a program that is right (deadlocks or races would be translated into others).
/// What the format or the target cannot say is refused, with the `loc` of the instruction;
/// `diagnostics` gets that, and warnings.
std::optional<std::string> writeXml(const interchange::Foreign &foreign,
                                    const WriteOptions &options,
                                    std::vector<interchange::Diagnostic> &diagnostics);

} // namespace ccl::msccl
