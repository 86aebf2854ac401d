//===- Session.h - What all commands share ----------------------------------===//
//
// Exit status, error reports, the MLIR context, JSON lines. stdout belongs to
// results; errors and logs go to stderr, and with --json errors to stdout as well:
// {"error":{"category":..., "message":..., "loc":...}}.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/Settings.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ccl::cli {

/// The numbers are those of exitStatus(Failure).
enum ExitStatus : int {
  Fine = 0,
  BadInput = 1,     ///< refused, disproved, malformed
  BadUsage = 2,     ///< also a setting that cannot be parsed
  MachineFailed = 3 ///< missing device, dead peer, time-out
};

/// One JSON object on one line; keys keep their order.
class JsonLine {
public:
  void text(std::string_view key, std::string_view value) { raw(key, quote(value)); }
  void number(std::string_view key, int64_t value) { raw(key, std::to_string(value)); }
  void real(std::string_view key, double value);
  void boolean(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void null(std::string_view key) { raw(key, "null"); }
  void raw(std::string_view key, std::string_view json);
  void array(std::string_view key, const std::vector<std::string> &elements);
  std::string str() const { return "{" + body + "}"; }
  /// To stdout, with a line end.
  void print() const;

  static std::string quote(std::string_view text);

private:
  std::string body;
};

/// "file:line:col" of the innermost file location in `loc`, or "".
std::string locationText(mlir::Location loc);

/// Milliseconds since the kernel started this process (in steps of 10 ms), so that
/// loading the shared libraries counts, too.
double millisecondsSinceStart();

class Session {
public:
  explicit Session(Settings settings) : settings(std::move(settings)) {}

  Settings settings;
  bool json = false;

  /// Made on first use: no threads, only the dialects that programs use, diagnostics
  /// with source line and caret to stderr.
  mlir::MLIRContext &context();
  llvm::SourceMgr &sources() { return sourceManager; }

  /// Each reports and returns the exit status.
  int usage(const std::string &message, const std::string &who = "ccl");
  int badInput(const std::string &message);
  int machine(const std::string &message);
  /// A RuntimeError decides the status by its category (exitStatus); others are bad input.
  int failed(llvm::Error error);
  /// After diagnostics were emitted: repeats the first error in JSON. `machineFailed`: the
  /// input is not to blame.
  int refused(bool machineFailed = false);
  /// The command itself says in JSON what makes an input bad, from `problem`.
  bool problemsAreVerdicts = false;

  struct Problem {
    std::string message, loc;
  };
  /// The first error in the input since `clearProblem`; there is one after every BadInput.
  const std::optional<Problem> &problem() const { return firstProblem; }
  void clearProblem() {
    firstProblem.reset();
    told.clear();
  }

private:
  int fail(Failure cause, const std::string &message, const std::string &who = "ccl");
  /// In JSON, if that is asked for and no verdict.
  void report(Failure cause, const std::string &message, const std::string &loc);

  llvm::SourceMgr sourceManager;
  std::unique_ptr<mlir::MLIRContext> theContext;
  std::unique_ptr<mlir::SourceMgrDiagnosticHandler> printer;
  std::unique_ptr<mlir::ScopedDiagnosticHandler> recorder;
  std::optional<Problem> firstProblem;
  std::set<std::string> told; ///< diagnostics: the same one is told once for a place
};

} // namespace ccl::cli
