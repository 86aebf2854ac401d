//===- LastResort.cpp - When there is no memory left to fail with --------------===//
//
// LLVM is built without exceptions: std::bad_alloc would pass through its functions without
// unlocking or destroying anything, or end in std::terminate. So this program, not the
// library, ends at once if there is no memory, with a reason and status 3. From before the
// first constructor of any library on, since these allocate, too.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Session.h"

#include "llvm/Support/ErrorHandling.h"

#include <unistd.h>

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

void install(int argc, char **argv, char **) {
  firstProcess = getpid();
  for (int i = 1; i < argc; ++i)
    wantsJson |= strcmp(argv[i], "--json") == 0;
  std::set_new_handler(onNoMemory);
  std::set_terminate(onTerminate);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { onNoMemory(); });
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { giveUp("LLVM gave up: ", reason); });
}

} // namespace
} // namespace ccl::cli

// The dynamic loader calls what is here before any constructor.
__attribute__((section(".preinit_array"),
               used)) static void (*const early)(int, char **, char **) = &ccl::cli::install;
