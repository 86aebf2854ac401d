//===- Handles.h - What a rank hands in, and the check of it ------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/bootstrap/Descriptor.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ccl::bootstrap {

/// A pidfd of this process. Error (Failure::Machine): what the machine lacks.
llvm::Expected<Descriptor> openOwnPidfd();
/// The process of a pidfd, in our pid namespace; 0 if it is not there, or /proc is not.
/// Nothing: this is no pidfd.
std::optional<pid_t> pidOf(int pidfd);
/// Whether the process has ended, waiting for `milliseconds` at most.
bool hasEnded(int pidfd, int milliseconds);

/// Why `arena` cannot be mapped for `bytes` without fear (its owner could shrink it), or "".
std::string arenaProblem(int arena, int64_t bytes);

/// Errors (Failure::Machine) if this process may not open `more` descriptors. The text names
/// RLIMIT_NOFILE, and what it must be.
llvm::Error checkDescriptorLimit(int64_t rank, int64_t ranks, int64_t more);
/// The error for when they have run out all the same.
llvm::Error noDescriptorsLeft(int64_t rank, int64_t ranks);

/// "rank 3 (process 4711)".
std::string nameRank(int64_t rank, pid_t pid);
/// "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, ..., 15 and 40 more".
std::string nameRanks(const std::vector<int64_t> &ranks);

} // namespace ccl::bootstrap
