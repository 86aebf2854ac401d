//===- Check.cpp - ccl check: prove -------------------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/Proof.h"

#include "passes/checks/CheckProofs.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace ccl::cli {

namespace {

struct CheckFlags {
  InputOptions input;
  LoweringFlags lowering;
  bool json = false;
};

} // namespace

static std::string faultJson(const Proof &proof, const model::Fault &fault,
                             mlir::Location fallback) {
  const std::vector<model::Buffer> &buffers = proof.buffers();
  JsonLine line;
  auto number = [&](const char *key, int64_t value) {
    value < 0 ? line.null(key) : line.number(key, value);
  };
  line.text("kind", model::name(fault.kind));
  number("rank", fault.rank);
  number("agent", fault.agent);
  number("instruction", fault.instruction);
  if (fault.buffer >= 0 && size_t(fault.buffer) < buffers.size())
    line.text("buffer", buffers[size_t(fault.buffer)].name);
  else
    line.null("buffer");
  number("chunk", fault.chunk);
  line.text("have", fault.have);
  line.text("want", fault.want);
  line.text("loc", locationText(locationAt(fault.loc, proof.locations(), fallback)));
  line.text("message", fault.message);
  return line.str();
}

static void printJson(const std::string &file, std::string_view verdict,
                      const std::vector<std::string> &faults, int32_t minSlots,
                      const Proof &proof) {
  JsonLine line;
  line.text("file", file);
  line.text("verdict", verdict);
  line.array("faults", faults);
  line.number("min_slots", minSlots);
  line.text("algorithm", proof.algorithm);
  line.number("ranks", proof.contract.ranks);
  line.print();
}

/// A file that does not even parse has a verdict, too: one fault, at the first error.
static void printMalformed(Session &session, const std::string &file) {
  JsonLine fault;
  fault.text("kind", "malformed");
  for (const char *key : {"rank", "agent", "instruction", "buffer", "chunk", "have", "want"})
    fault.null(key);
  fault.text("loc", session.problem()->loc);
  fault.text("message", session.problem()->message);
  Proof none;
  none.contract.ranks = 0;
  printJson(file, "malformed", {fault.str()}, 0, none);
}

static std::string plural(uint64_t count, const char *what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

static void printText(const std::string &file, std::string_view verdict, const Proof &proof) {
  std::string head =
      fmt::format("{}: {}: @{} {} on {}", file, verdict, proof.algorithm, proof.contract.str(),
                  plural(uint64_t(proof.contract.ranks), "rank"));
  if (!proof.ok()) {
    printOut("{}: {}\n", head, plural(proof.faults().size(), "fault"));
    return;
  }
  std::string text = fmt::format("{}: {}; {}", head, proof.forms(), plural(proof.numMoves, "move"));
  if (proof.minSlots > 0)
    text += fmt::format("; least slots {}", proof.minSlots);
  if (!proof.bySymmetry.empty())
    text += "; " + proof.bySymmetry;
  if (proof.report.divisible)
    text += fmt::format("; padded where {} does not divide the count", proof.contract.chunks);
  if (model::hasUnevenForm(proof.contract.collective))
    text += proof.unevenSafe ? "; uneven shards" : "; uneven shards through padding";
  if (proof.contract.isUnchecked())
    text += "; nothing is promised, so only safety is proved";
  printOut("{}\n", text);
}

static int checkInstance(Session &session, Input &input, size_t index, bool json) {
  Instance instance;
  if (int status = input.instantiate(index, instance))
    return status;
  mlir::Location fallback = instance.op().getLoc();
  Proof proof;
  if (int status = prove(session, instance, proof, /*expandAll=*/false))
    return status;
  std::string_view verdict = proof.ok() ? model::verdict({}, proof.contract)
                                        : model::verdict(proof.faults(), proof.contract);
  if (!proof.ok())
    emitFaults(proof.faults(), fallback, proof.locations());
  if (json) {
    std::vector<std::string> faults;
    if (!proof.ok())
      for (const model::Fault &fault : proof.faults())
        faults.push_back(faultJson(proof, fault, fallback));
    printJson(input.label(), verdict, faults, proof.minSlots, proof);
  } else {
    printText(input.label(), verdict, proof);
  }
  return proof.ok() ? Fine : BadInput;
}

static int check(Session &session, const CheckFlags &flags) {
  // Diagnostics become a verdict here, so only what is no matter of the file itself is
  // reported as an error object.
  auto malformed = [&](int status) {
    if (flags.json && session.problem())
      printMalformed(session, flags.input.file.empty() ? flags.input.collective : flags.input.file);
    return status;
  };
  session.json = flags.json;
  session.problemsAreVerdicts = flags.json;
  Input input;
  if (int status = input.open(session, flags.input, flags.lowering))
    return malformed(status);
  int result = Fine;
  for (size_t i = 0; i < input.size(); ++i) {
    session.clearProblem();
    int status = checkInstance(session, input, i, flags.json);
    if (status > BadInput)
      return status;
    // Refused before there was a proof: its diagnostics are the fault.
    if (status == BadInput && session.refusedOnce())
      return malformed(status);
    result = std::max(result, status);
  }
  return result;
}

Action addCheck(CLI::App &app) {
  auto flags = std::make_shared<CheckFlags>();
  flags->input.fallbackRanks = "2..8";
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  app.add_flag("--json", flags->json, "one JSON object per line and nothing else on stdout");
  app.footer("Without -n a FILE with one size parameter is proved for 2..8 ranks.");
  return [flags](Session &session) { return check(session, *flags); };
}

} // namespace ccl::cli
