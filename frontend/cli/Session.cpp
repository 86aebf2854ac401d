//===- Session.cpp - What all commands share --------------------------------===//
#include "frontend/cli/Session.h"

#include "frontend/cli/Output.h"

#include "dialect/Ccl.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace ccl::cli {

//===----------------------------------------------------------------------===//
// JsonLine
//===----------------------------------------------------------------------===//

std::string JsonLine::quote(std::string_view text) {
  std::string quoted;
  llvm::raw_string_ostream os(quoted);
  os << llvm::json::Value(llvm::json::fixUTF8(llvm::StringRef(text.data(), text.size())));
  return quoted;
}

void JsonLine::raw(std::string_view key, std::string_view json) {
  if (!body.empty())
    body += ',';
  body += fmt::format("{}:{}", quote(key), json);
}

void JsonLine::real(std::string_view key, double value) {
  // JSON has no infinity.
  raw(key, std::isfinite(value) ? fmt::format("{:.6g}", value) : "null");
}

void JsonLine::array(std::string_view key, const std::vector<std::string> &elements) {
  raw(key, fmt::format("[{}]", fmt::join(elements, ",")));
}

void JsonLine::print() const {
  printOut("{}\n", str());
  flushOut();
}

//===----------------------------------------------------------------------===//
// Locations, clock
//===----------------------------------------------------------------------===//

std::string locationText(mlir::Location loc) {
  std::string text;
  loc->walk([&](mlir::Location inner) {
    auto file = mlir::dyn_cast<mlir::FileLineColLoc>(inner);
    if (!file)
      return mlir::WalkResult::advance();
    text = fmt::format("{}:{}:{}", file.getFilename().str(), file.getLine(), file.getColumn());
    return mlir::WalkResult::interrupt();
  });
  return text;
}

/// Seconds since boot at which the kernel started this process, from /proc, or nothing.
static std::optional<double> processStart() {
  // Not by iterators: those throw if reading fails.
  std::ostringstream contents;
  contents << std::ifstream("/proc/self/stat").rdbuf();
  const std::string text = contents.str();
  // The second field is the program's name in brackets and may hold anything; the
  // start time is the 20th field after it.
  size_t end = text.rfind(')');
  if (end == std::string::npos)
    return std::nullopt;
  llvm::SmallVector<llvm::StringRef, 32> fields;
  llvm::StringRef(text).substr(end + 2).split(fields, ' ');
  uint64_t ticks = 0;
  if (fields.size() < 20 || fields[19].getAsInteger(10, ticks))
    return std::nullopt;
  return double(ticks) / double(sysconf(_SC_CLK_TCK));
}

double millisecondsSinceStart() {
  static const std::optional<double> start = processStart();
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return start ? (double(now.tv_sec) + double(now.tv_nsec) * 1e-9 - *start) * 1e3
               : double(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

//===----------------------------------------------------------------------===//
// Session
//===----------------------------------------------------------------------===//

/// All that tells a diagnostic from others.
static std::string wholeText(mlir::Diagnostic &diagnostic, const std::string &loc) {
  std::string text = fmt::format("{} {} {}", loc, int(diagnostic.getSeverity()), diagnostic.str());
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    text += fmt::format("\n{} {}", locationText(note.getLocation()), note.str());
  return text;
}

mlir::MLIRContext &Session::context() {
  if (theContext)
    return *theContext;
  mlir::DialectRegistry registry;
  registerDialects(registry);
  theContext =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  // Generators build ops without parsing any.
  theContext->loadDialect<CclDialect>();
  theContext->printOpOnDiagnostic(false);
  printer = std::make_unique<mlir::SourceMgrDiagnosticHandler>(sourceManager, theContext.get(),
                                                               llvm::errs());
  // The last handler is asked first: it takes notes and passes on, except for what has
  // no place in a file (generated algorithms), which would be shown as <unknown>:0.
  recorder = std::make_unique<mlir::ScopedDiagnosticHandler>(
      theContext.get(), [this](mlir::Diagnostic &diagnostic) {
        std::string loc = locationText(diagnostic.getLocation());
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && !firstProblem)
          firstProblem = Problem{diagnostic.str(), loc};
        if (!told.insert(wholeText(diagnostic, loc)).second)
          return mlir::success();
        if (!loc.empty())
          return mlir::failure();
        llvm::errs() << "ccl: "
                     << (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? "error: "
                                                                                     : "warning: ")
                     << diagnostic.str() << "\n";
        for (mlir::Diagnostic &note : diagnostic.getNotes())
          llvm::errs() << "ccl: note: " << note.str() << "\n";
        return mlir::success();
      });
  return *theContext;
}

/// The category in JSON.
static const char *categoryOf(Failure cause) {
  switch (cause) {
  case Failure::BadArgument: return "usage";
  case Failure::Unproved: return "input";
  case Failure::Machine: return "machine";
  case Failure::Timeout: return "timeout";
  case Failure::Aborted: return "aborted";
  case Failure::Mismatch: return "mismatch";
  }
  return "machine";
}

void Session::report(Failure cause, const std::string &message, const std::string &loc) {
  if (!json || (cause == Failure::Unproved && problemsAreVerdicts))
    return;
  JsonLine error, line;
  error.text("category", categoryOf(cause));
  error.text("message", message);
  error.text("loc", loc);
  line.raw("error", error.str());
  line.print();
}

int Session::fail(Failure cause, const std::string &message, const std::string &who) {
  printError("{}: error: {}\n", who, message);
  report(cause, message, "");
  return exitStatus(cause);
}

int Session::usage(const std::string &message, const std::string &who) {
  return fail(Failure::BadArgument, message, who);
}

int Session::badInput(const std::string &message) {
  if (!firstProblem)
    firstProblem = Problem{message, ""};
  return fail(Failure::Unproved, message);
}

int Session::machine(const std::string &message) { return fail(Failure::Machine, message); }

int Session::failed(llvm::Error error) {
  // All ranks tell of one failure: those that were only aborted do not know the cause.
  std::string message;
  Failure cause = Failure::Aborted;
  auto take = [&](Failure category, std::string text) {
    if (!message.empty() && (cause != Failure::Aborted || category == Failure::Aborted))
      return;
    message = std::move(text);
    cause = category;
  };
  llvm::handleAllErrors(
      std::move(error), [&](const RuntimeError &e) { take(e.category, e.message); },
      [&](const llvm::ErrorInfoBase &e) { take(Failure::Unproved, e.message()); });
  return fail(cause, message);
}

int Session::refused(bool machineFailed) {
  if (machineFailed) {
    report(Failure::Machine, firstProblem ? firstProblem->message : "", "");
    return MachineFailed;
  }
  if (!firstProblem)
    return badInput("refused without a reason");
  report(Failure::Unproved, firstProblem->message, firstProblem->loc);
  return BadInput;
}

} // namespace ccl::cli
