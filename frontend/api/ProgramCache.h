//===- ProgramCache.h - Programs that collectives run, once a process ------------------===//
//
// Thread ranks ask for the same program at the same time: the first compiles, the others
// wait for it. Failures are not kept.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/api/Compiler.h"

namespace ccl {
inline namespace jit {

/// `options.algorithm` names a generator of `collective`.
Result<std::shared_ptr<const Program::Impl>> cachedProgram(Collective collective,
                                                           const ProgramOptions &options);

} // namespace jit
} // namespace ccl
