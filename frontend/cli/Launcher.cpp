//===- Launcher.cpp - Are we one of many processes of a job? ------------------===//
#include "frontend/cli/Launcher.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <cstdlib>

namespace ccl::cli {

namespace {
struct Launcher {
  const char *who, *rank;
  const char *sizes[2]; ///< the first that is set says how many processes there are
};
} // namespace

// Launchers that set several of these are found by the first. Slurm sets SLURM_NTASKS in
// batch scripts as well, where only one process runs; a step knows its own size.
static constexpr Launcher launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE", nullptr}},
    {"an MPI launcher", "PMI_RANK", {"PMI_SIZE", nullptr}},
    {"srun", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
    {"torchrun", "RANK", {"WORLD_SIZE", nullptr}},
    {"a PMIx launcher", "PMIX_RANK", {nullptr, nullptr}},
};

namespace {
struct Found {
  const Launcher *launcher;
  const char *rank;
  long long size; ///< 0: not known
};
} // namespace

static std::optional<Found> findLauncher() {
  bool alone = false;
  for (const Launcher &launcher : launchers) {
    const char *rank = std::getenv(launcher.rank);
    if (!rank)
      continue;
    const char *text = nullptr;
    for (const char *size : launcher.sizes)
      if (size && !text)
        text = std::getenv(size);
    long long size = 0;
    bool known = text && !llvm::StringRef(text).getAsInteger(10, size);
    // torchrun's RANK is a common name: without a size it means nothing. PMIx says no
    // size, but Open MPI, asked before, does.
    if (known && size <= 1)
      alone = true;
    if (known ? size > 1 : !alone && launcher.sizes[0] == nullptr)
      return Found{&launcher, rank, known ? size : 0};
  }
  return std::nullopt;
}

std::optional<std::string> foreignLauncher() {
  const std::optional<Found> found = findLauncher();
  if (!found)
    return std::nullopt;
  return fmt::format("{} started this process as rank {}{} ({} is set)", found->launcher->who,
                     found->rank, found->size > 0 ? fmt::format(" of {}", found->size) : "",
                     found->launcher->rank);
}

std::optional<int64_t> launchedRank() {
  const std::optional<Found> found = findLauncher();
  long long rank = 0;
  if (!found || llvm::StringRef(found->rank).getAsInteger(10, rank) || rank < 0)
    return std::nullopt;
  return rank;
}

} // namespace ccl::cli
