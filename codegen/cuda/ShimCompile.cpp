//===- ShimCompile.cpp ------------------------------------------------------===//
#include "codegen/cuda/ShimCompile.h"

#include "codegen/cuda/CompilerFolder.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/ranges.h>

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char **environ;

using namespace llvm;

namespace ccl {

char CompilerFailed::ID;

template <typename... T>
static Error failure(fmt::format_string<T...> format, T &&...values) {
  return createStringError(inconvertibleErrorCode(),
                           fmt::format(format, std::forward<T>(values)...));
}

//===----------------------------------------------------------------------===//
// Which compiler
//===----------------------------------------------------------------------===//

Expected<ShimCompiler> ShimCompiler::find(StringRef command, StringRef sanitizer, int64_t threads) {
  ShimCompiler compiler;
  compiler.threads = threads;
  if (threads != 1 && (threads < 32 || threads > 1024 || threads % 32 != 0))
    return failure("a block of {} threads: the stand-in runs 1, or a multiple of 32 up to 1024",
                   threads);
  compiler.sanitizer = sanitizer.str();
  const std::vector<std::string> names =
      command.empty() ? std::vector<std::string>{"clang++-19", "clang++", "g++", "c++"}
                      : std::vector{command.str()};
  for (const std::string &name : names)
    // A path is taken as it is.
    if (ErrorOr<std::string> found = sys::findProgramByName(name);
        found && sys::fs::can_execute(*found)) {
      compiler.path = std::move(*found);
      break;
    }
  if (compiler.path.empty() && command.empty())
    return failure("no C++ compiler for the shim: none of {} is in PATH; install one (Debian: "
                   "clang-19 or g++), or name it in CCL_SHIM_CXX",
                   fmt::join(names, ", "));
  if (compiler.path.empty())
    return failure("CCL_SHIM_CXX={}: there is no such program", command.str());
  // It is started in another folder.
  SmallString<128> absolute(compiler.path), real;
  if (std::error_code error = sys::fs::make_absolute(absolute))
    return failure("{}: {}", compiler.path, error.message());
  compiler.path = absolute.str().str();
  // A stat says which version it is, and is a hundred times faster than to ask.
  struct stat status;
  if (sys::fs::real_path(compiler.path, real) || stat(real.c_str(), &status) != 0)
    return failure("{}: {}", compiler.path, std::strerror(errno));
  compiler.version = fmt::format("{} {} {}.{}", real.str().str(), status.st_size,
                                 status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  return compiler;
}

/// Rounding and aliasing are those of the GPU: no fused products, and the same bytes may be seen
/// as numbers of several sizes. Hidden symbols are never shared between images. The same source
/// gives the same bytes: names that the compiler makes up are not random.
std::vector<std::string> ShimCompiler::flags() const {
  std::vector<std::string> flags = {"-xc++",
                                    "-std=c++20",
                                    "-O1",
                                    "-fPIC",
                                    "-shared",
                                    "-w",
                                    "-fvisibility=hidden",
                                    "-fno-strict-aliasing",
                                    "-ffp-contract=off",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-frandom-seed=ccl"};
  if (!sanitizer.empty())
    flags.push_back("-fsanitize=" + sanitizer);
  if (threads > 1)
    flags.push_back(fmt::format("-DCCL_SHIM_THREADS={}", threads));
  return flags;
}

std::string ShimCompiler::identity() const {
  return fmt::format("shim {} {}", version, fmt::join(flags(), " "));
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

/// Our environment, with temporary files of the compiler in the folder that it works in.
static std::vector<std::string> environmentThere() {
  std::vector<std::string> variables;
  for (char *const *variable = environ; *variable; ++variable)
    if (!StringRef(*variable).starts_with("TMPDIR="))
      variables.emplace_back(*variable);
  variables.emplace_back("TMPDIR=.");
  return variables;
}

static std::vector<char *> pointers(const std::vector<std::string> &words) {
  std::vector<char *> result;
  for (const std::string &word : words)
    result.push_back(const_cast<char *>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Its processes are of the folder's group, so that none outlives the limit, or us. They work
/// in its folder, whose name sanitizers would keep in the image if files were named by it; stdout
/// and stderr go to `log` there.
static Expected<pid_t> spawn(const std::vector<std::string> &command, const CompilerFolder &folder,
                             const char *log) {
  const std::vector<std::string> variables = environmentThere();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, folder.name().c_str());
  posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // Signals as a program finds them: a caller may block or ignore some.
  sigset_t none, standard;
  sigemptyset(&none);
  sigemptyset(&standard);
  for (int number : {SIGCHLD, SIGPIPE, SIGTERM, SIGINT})
    sigaddset(&standard, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setpgroup(&attributes, folder.group());
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawn(&child, command[0].c_str(), &actions, &attributes,
                                pointers(command).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return failure("cannot start {}: {}", command[0], std::strerror(error));
  return child;
}

/// "" if it ended well, else how it ended.
static std::string await(pid_t child, pid_t group, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child)
      break;
    // Somebody may reap all children of the process: then its output tells.
    if (ended < 0 && errno != EINTR)
      return errno == ECHILD ? "" : std::strerror(errno);
    if (std::chrono::steady_clock::now() > deadline) {
      kill(-(group > 0 ? group : child), SIGKILL);
      waitpid(child, &status, 0);
      return fmt::format("ended after {} s, its limit", limit.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFSIGNALED(status))
    return fmt::format("died by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit status {}", WEXITSTATUS(status));
}

static std::string readText(const std::string &file) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(file);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

Expected<std::string> ShimCompiler::compile(StringRef source, std::chrono::seconds limit) const {
  Expected<CompilerFolder> folder = CompilerFolder::open();
  if (!folder)
    return folder.takeError();
  const char *const input = "program.cu", *const output = "program.so", *const log = "log";
  std::error_code error;
  raw_fd_ostream stream(folder->file(input), error, sys::fs::CD_CreateAlways);
  stream << source;
  stream.close();
  if (!error)
    error = stream.error();
  stream.clear_error();
  if (error)
    return failure("cannot write {}: {}", folder->file(input), error.message());
  std::vector<std::string> command = {path};
  for (std::string &flag : flags())
    command.push_back(std::move(flag));
  command.insert(command.end(), {"-o", output, input});
  Expected<pid_t> child = spawn(command, *folder, log);
  if (!child)
    return child.takeError();
  const std::string why = await(*child, folder->group(), limit);
  std::string image = readText(folder->file(output));
  if (!why.empty() || image.empty())
    return make_error<CompilerFailed>(
        fmt::format("{}: {}\n{}", path, why.empty() ? "wrote no image" : why,
                    StringRef(readText(folder->file(log))).rtrim().str()),
        inconvertibleErrorCode());
  return image;
}

} // namespace ccl
