//===- LastResort.cpp - When there is no memory left to fail with --------------===//
//
// LLVM is built without exceptions: std::bad_alloc would pass through its functions without
// unlocking or destroying anything, or end in std::terminate. So this program, not the
// library, ends at once if there is no memory, with a reason and status 3. From before the
// first constructor of any library on, since these allocate, too.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Session.h"

#include "llvm/Support/ErrorHandling.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace ccl::cli {
namespace {

pid_t firstProcess;
bool wantsJson;

void say(int descriptor, const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    const ssize_t written = write(descriptor, text, left);
    if (written <= 0)
      return;
    text += written;
    left -= size_t(written);
  }
}

/// Allocates nothing and takes no lock.
[[noreturn]] void giveUp(const char *reason, const char *more = "") {
  for (const char *part : {"ccl: error: ", reason, more, "\n"})
    say(STDERR_FILENO, part);
  // Ranks that were forked report to the first process.
  if (wantsJson && getpid() == firstProcess)
    for (const char *part :
         {R"({"error":{"category":"machine","message":")", reason, R"(","loc":""}})", "\n"})
      say(STDOUT_FILENO, part);
  _exit(MachineFailed);
}

[[noreturn]] void onNoMemory() { giveUp("out of memory"); }

void onTerminate() {
  try {
    if (std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::bad_alloc &) {
    onNoMemory();
  } catch (const std::exception &exception) {
    say(STDERR_FILENO, "ccl: internal error: ");
    say(STDERR_FILENO, exception.what());
    say(STDERR_FILENO, "\n");
  } catch (...) {
    say(STDERR_FILENO, "ccl: internal error: an unknown exception\n");
  }
  abort();
}

/// MLIR copies interface tables into memory that it never asks whether it got, and the C
/// library ends the process where it cannot note a destructor. A null pointer that is used, or
/// an abort, while the last complaint of the C library is "no memory" is that. Who calls `abort`
/// has another reason, and so has who sends the signal from outside.
void onFault(int signal, siginfo_t *info, void *) {
  constexpr uintptr_t firstPages = 1 << 16;
  const bool sent = info->si_code <= 0;
  const bool ours = signal == SIGABRT
                        ? info->si_pid == getpid()
                        : !sent && reinterpret_cast<uintptr_t>(info->si_addr) < firstPages;
  if (errno == ENOMEM && ours)
    onNoMemory();
  ::signal(signal, SIG_DFL);
  if (sent) // else the instruction faults again when this returns
    raise(signal);
}

void watchFaults() {
  if (!std::string_view(CCL_SANITIZE).empty())
    return; // they have a better handler
  struct sigaction action = {};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGABRT, &action, nullptr);
}

void install(int argc, char **argv, char **) {
  firstProcess = getpid();
  for (int i = 1; i < argc; ++i)
    wantsJson |= strcmp(argv[i], "--json") == 0;
  watchFaults();
  std::set_new_handler(onNoMemory);
  std::set_terminate(onTerminate);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { onNoMemory(); });
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { giveUp("LLVM gave up: ", reason); });
}

} // namespace
} // namespace ccl::cli

/// For this program and its libraries; the C library itself has its own.
extern "C" __attribute__((visibility("default"))) void abort() noexcept {
  errno = 0; // it may be stale, see onFault
  while (true)
    raise(SIGABRT); // onFault lets it pass
}

// The dynamic loader calls what is here before any constructor.
__attribute__((section(".preinit_array"),
               used)) static void (*const early)(int, char **, char **) = &ccl::cli::install;
