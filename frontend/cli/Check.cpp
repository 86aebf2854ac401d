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
  std::vector<std::string> files;
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

/// `proof`: null if it did not get so far.
static void printJson(const std::string &file, std::string_view verdict,
                      const std::vector<std::string> &faults, const Proof *proof) {
  JsonLine line;
  line.text("file", file);
  line.text("verdict", verdict);
  line.array("faults", faults);
  line.number("min_slots", proof ? proof->minSlots : 0);
  line.text("algorithm", proof ? proof->algorithm : "");
  line.number("ranks", proof ? proof->contract.ranks : 0);
  line.text("collective", proof ? model::name(proof->contract.collective) : "");
  line.text("redop", proof ? model::name(proof->contract.reduction) : "");
  std::vector<std::string> forms;
  if (proof && proof->outOfPlace)
    forms.push_back(JsonLine::quote("disjoint"));
  if (proof && proof->inPlace)
    forms.push_back(JsonLine::quote("in_place"));
  line.array("forms", forms);
  line.number("moves", proof ? int64_t(proof->numMoves) : 0);
  line.number("instructions", proof ? int64_t(proof->instructions) : 0);
  line.boolean("divisible", proof && proof->report.divisible);
  line.boolean("uneven",
               proof && model::hasUnevenForm(proof->contract.collective) && proof->unevenSafe);
  line.print();
}

/// What does not get to a proof has a verdict, too: one fault, at the first error. The exit
/// status of what `input` did; that of wrong usage, or of the machine, is nobody's verdict.
static int refused(Session &session, const Input &input, int status) {
  if (status != BadInput)
    return status;
  const std::string_view verdict = input.refusal();
  if (!session.json) {
    printOut("{}: {}\n", input.label(), verdict);
    return status;
  }
  JsonLine fault;
  // The one thing that is wrong with a program before there is a proof.
  fault.text("kind", verdict == "wrong" ? model::name(model::FaultKind::ReadOnly) : verdict);
  for (const char *key : {"rank", "agent", "instruction", "buffer", "chunk", "have", "want"})
    fault.null(key);
  fault.text("loc", session.problem()->loc);
  fault.text("message", session.problem()->message);
  printJson(input.label(), verdict, {fault.str()}, nullptr);
  return status;
}

static int checkInstance(Session &session, Input &input, size_t index) {
  Instance instance;
  if (int status = input.instantiate(index, instance))
    return refused(session, input, status);
  mlir::Location fallback = instance.op().getLoc();
  Proof proof;
  if (int status = prove(session, instance, proof, /*expandAll=*/false))
    return refused(session, input, status);
  const bool broken = breaksClaim(input.foreign(), proof), fine = proof.ok() && !broken;
  const std::string_view verdict =
      broken ? model::verdict(proof.faults(), proof.contract) : proof.verdict();
  if (!fine)
    emitFaults(proof.faults(), fallback, proof.locations());
  for (const model::Note &note : barriersElsewhere(input.foreign(), proof))
    mlir::emitWarning(locationAt(note.loc, proof.locations(), fallback)) << note.message;
  if (session.json) {
    std::vector<std::string> faults;
    if (!fine)
      for (const model::Fault &fault : proof.faults())
        faults.push_back(faultJson(proof, fault, fallback));
    printJson(input.label(), verdict, faults, &proof);
  } else if (broken) {
    printOut("{}: {}: in place, which the file says it may be launched; disjoint it holds\n",
             input.label(), verdict);
  } else {
    printOut("{}\n", verdictText(input.label(), proof));
  }
  return fine ? Fine : BadInput;
}

static int checkFile(Session &session, const CheckFlags &flags, const std::string &file) {
  Input input;
  session.json = flags.json;
  session.problemsAreVerdicts = true;
  InputOptions options = flags.input;
  options.file = file;
  if (int status = input.open(session, options, flags.lowering))
    return refused(session, input, status);
  int worst = Fine;
  for (size_t i = 0; i < input.size() && worst <= BadInput; ++i) {
    session.clearProblem();
    worst = std::max(worst, checkInstance(session, input, i));
  }
  return worst;
}

static int check(Session &session, const CheckFlags &flags) {
  if (flags.files.size() <= 1)
    return checkFile(session, flags, flags.files.empty() ? "" : flags.files.front());
  // What one file takes is given back before the next.
  int worst = Fine;
  for (const std::string &file : flags.files) {
    Session own(session.settings);
    worst = std::max(worst, checkFile(own, flags, file));
  }
  return worst;
}

Action addCheck(CLI::App &app) {
  auto flags = std::make_shared<CheckFlags>();
  flags->input.fallbackRanks = "2..8";
  addInputOptions(app, flags->input, &flags->files);
  addLoweringOptions(app, flags->lowering);
  app.add_flag("--json", flags->json, "one JSON object per line and nothing else on stdout");
  app.footer("Without -n a FILE with one size parameter is proved for 2..8 ranks. Of several FILEs "
             "each gets its line, and the exit status is the worst one.");
  return [flags](Session &session) { return check(session, *flags); };
}

} // namespace ccl::cli
