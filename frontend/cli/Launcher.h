//===- Launcher.h - Are we one of many processes of a job? --------------------===//
#pragma once

#include <optional>
#include <string>

namespace ccl::cli {

/// A command that makes its own ranks must not run once per process of mpirun, srun or
/// torchrun: each process would run a job of its own and print OK. Says who started us
/// and as one of how many, or nothing if we are alone.
std::optional<std::string> foreignLauncher();

} // namespace ccl::cli
