//===- Launcher.h - Are we one of many processes of a job? --------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ccl::cli {

/// A command that makes its own ranks must not run once per process of mpirun, srun or
/// torchrun: each process would run a job of its own and print OK. Says who started us
/// and as one of how many, or nothing if we are alone.
std::optional<std::string> foreignLauncher();

/// The number of this process among those that a launcher started. Nothing if there is none that
/// says so, or only one process.
std::optional<int64_t> launchedRank();

} // namespace ccl::cli
