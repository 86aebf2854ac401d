//===- CompilerFolder.cpp --------------------------------------------------------===//
#include "codegen/cuda/CompilerFolder.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace llvm;

namespace ccl {

Expected<CompilerFolder> CompilerFolder::open() {
  SmallString<128> folder;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, folder);
  sys::path::append(folder, "ccl-shim-XXXXXX");
  std::string pattern = folder.str().str();
  if (!mkdtemp(pattern.data()))
    return createStringError(
        inconvertibleErrorCode(),
        fmt::format("cannot make a folder {} for the C++ compiler: {}; TMPDIR says where", pattern,
                    std::strerror(errno)));
  CompilerFolder made(std::move(pattern));
  made.startKeeper();
  return made;
}

/// Without a shell there is no keeper: then the folder goes if we end in order.
void CompilerFolder::startKeeper() {
  // Others of its group get the signal, too. Who writes while it goes makes the first try fail.
  constexpr const char *script = "trap '' HUP INT QUIT TERM; read nothing; kill -TERM 0; "
                                 "rm -rf \"$0\" || { sleep 1; rm -rf \"$0\"; }";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  const char *arguments[] = {"/bin/sh", "-c", script, path.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  for (int output : {1, 2}) // whoever reads ours is not kept waiting
    posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, &attributes,
                                const_cast<char **>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    return;
  }
  pipe = ends[1];
  keeper = child;
}

CompilerFolder::~CompilerFolder() {
  if (path.empty())
    return;
  if (keeper > 0) {
    close(pipe);
    while (waitpid(keeper, nullptr, 0) < 0 && errno == EINTR)
      ;
  }
  // If somebody ended the keeper.
  sys::fs::remove_directories(path);
}

} // namespace ccl
