//===- Convert.cpp - ccl convert: from one format to another --------------------===//
//
// What is written was proved before. Algorithms are lowered; programs of other systems stay
// as they are.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/Proof.h"
#include "frontend/cli/WriteFile.h"
#include "frontend/interchange/FromModule.h"
#include "frontend/interchange/ToModule.h"

#include "codegen/Count.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

namespace ccl::cli {

namespace {

using interchange::Foreign;
using interchange::Format;
using interchange::Runtime;

struct ConvertFlags {
  InputOptions input;
  LoweringFlags lowering;
  std::string output, runtime, format;
  bool json = false;
};

class Converter {
public:
  Converter(Session &session, const ConvertFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int findTarget();
  int proveIt();
  int toText();
  int toForeignText();
  std::optional<Foreign> program(LocationTable &locations);
  void makeLowered();
  void report();

  Session &session;
  ConvertFlags flags;
  Format format = Format::Mlir;
  std::optional<Runtime> runtime; ///< nothing: whoever reads the format
  Input input;
  Instance instance;
  Proof proof;
  std::string text;
};

} // namespace

//===----------------------------------------------------------------------===//
// What is wanted
//===----------------------------------------------------------------------===//

/// The output's suffix, --as and --for must not contradict each other.
int Converter::findTarget() {
  if (flags.output.empty())
    return session.usage("name the file to write: -o OUT; - is stdout");
  std::optional<Format> bySuffix;
  if (flags.output != "-")
    bySuffix = interchange::formatOfName(flags.output);
  std::optional<Format> found = bySuffix;
  if (!flags.format.empty()) {
    std::optional<Format> named = interchange::parseFormat(flags.format);
    if (!named)
      return session.usage(fmt::format("--as {}: the formats are mlir, xml, json", flags.format));
    if (bySuffix && *bySuffix != *named)
      return session.usage(
          fmt::format("--as {} and -o {} are two formats", flags.format, flags.output));
    found = named;
  }
  if (!flags.runtime.empty()) {
    runtime = interchange::parseRuntime(flags.runtime);
    if (!runtime)
      return session.usage(
          fmt::format("--for {}: the runtimes are msccl, rccl, azure, mscclpp", flags.runtime));
    if (found && *found != interchange::formatFor(*runtime))
      return session.usage(fmt::format("--for {} writes {}, not {}", flags.runtime,
                                       name(interchange::formatFor(*runtime)), name(*found)));
    format = interchange::formatFor(*runtime);
    return Fine;
  }
  if (!found)
    return session.usage(
        flags.output == "-"
            ? "-o -: say which format, --as mlir, xml or json, or --for whom"
            : fmt::format("-o {}: the suffix is none of .mlir, .xml, .json: say --as",
                          flags.output));
  format = *found;
  return Fine;
}

//===----------------------------------------------------------------------===//
// Converting
//===----------------------------------------------------------------------===//

int Converter::proveIt() {
  if (int status = prove(session, instance, proof, /*expandAll=*/false))
    return status;
  if (breaksClaim(input.foreign(), proof)) {
    const model::Fault &fault = proof.faults().front();
    mlir::emitWarning(locationAt(fault.loc, proof.locations(), instance.op().getLoc()))
        << "the file says that it may be launched in place, which is not written: "
        << fault.message;
  }
  if (proof.ok())
    return Fine;
  emitFaults(proof.faults(), instance.op().getLoc(), proof.locations());
  printError("{}; nothing is written\n", verdictText(input.label(), proof));
  return session.refused(); // in JSON the first fault stands for all
}

/// The programs as other formats take them. A file of another system is taken as it was read,
/// with its name and places.
std::optional<Foreign> Converter::program(LocationTable &locations) {
  if (!input.foreign() || flags.lowering.slots)
    return interchange::fromModule(instance.op(), {proof.outOfPlace, proof.inPlace}, locations);
  Foreign foreign = *input.foreign();
  foreign.disjoint &= proof.outOfPlace;
  foreign.inPlace &= proof.inPlace;
  locations = interchange::locationsOf(foreign, input.label(), session.context());
  return foreign;
}

int Converter::toForeignText() {
  LocationTable locations;
  std::optional<Foreign> foreign = program(locations);
  if (!foreign)
    return session.refused();
  std::optional<std::string> written =
      interchange::writeForeign(*foreign, format, runtime, locations, instance.op().getLoc());
  if (!written)
    return session.refused();
  text = std::move(*written);
  return Fine;
}

/// Drops the moves, of which the programs say all, and what else the module holds.
void Converter::makeLowered() {
  AlgorithmOp algorithm = instance.op();
  for (mlir::Operation &op : llvm::make_early_inc_range(instance.module->getOps())) {
    auto program = mlir::dyn_cast<ProgramOp>(op);
    if (&op != algorithm && !(program && program.getAlgorithm() == algorithm.getSymName()))
      op.erase();
  }
  algorithm.getBlock().clear();
  algorithm.removeTopologyAttr();
  algorithm->removeAttr("ccl.in_place");
  algorithm.setLowered(true);
  auto builder = mlir::OpBuilder::atBlockEnd(&algorithm.getBlock());
  auto ranks = mlir::AffineMapAttr::get(
      mlir::AffineMap::getConstantMap(proof.contract.ranks, &session.context()));
  auto programs = instance.module->getOps<ProgramOp>();
  for (auto buffer : (*programs.begin()).getBody().getOps<BufferOp>())
    builder.create<BufferOp>(buffer.getLoc(), buffer.getType(), buffer.getRole(), ranks,
                             buffer.getChunks(), mlir::ValueRange(), mlir::ValueRange(),
                             buffer.getNameAttr());
}

int Converter::toText() {
  // Programs with `in` and `out` would be taken for ones that hold out of place.
  const bool oneBuffer = !proof.given && !proof.outOfPlace;
  // Then every instruction of every rank is written out.
  if (format != Format::Mlir || oneBuffer)
    if (countInstructions(instance.op(), mostToProve + 1) > mostToProve)
      return session.machine(fmt::format("the programs of @{} have over {} instructions, too many "
                                         "to write them out",
                                         instance.algorithm, mostToProve));
  if (format != Format::Mlir)
    return toForeignText();
  if (oneBuffer) {
    LocationTable locations;
    std::optional<Foreign> foreign = program(locations);
    if (!foreign)
      return session.refused();
    auto module = interchange::toModule(*foreign, input.label(), session.context());
    if (!module)
      return session.refused();
    text = moduleText(*module);
    return Fine;
  }
  if (!proof.given)
    makeLowered();
  text = moduleText(*instance.module);
  return Fine;
}

void Converter::report() {
  if (flags.json) {
    JsonLine line;
    line.text("file", input.label());
    line.text("verdict", proof.verdict());
    line.text("algorithm", proof.algorithm);
    line.number("ranks", proof.contract.ranks);
    line.text("output", flags.output);
    line.text("format", name(format));
    line.number("bytes", int64_t(text.size()));
    if (flags.output != "-")
      line.print();
    return;
  }
  printError("{}\n", verdictText(input.label(), proof));
}

int Converter::run() {
  session.json = flags.json;
  if (int status = findTarget())
    return status;
  if (flags.json && flags.output == "-")
    return session.usage("--json and -o - both take stdout");
  // MSCCL knows nothing but channels: what reads a peer's memory could not be written.
  if (format == Format::MscclXml && flags.lowering.via.empty())
    flags.lowering.via = "staged";
  if (int status = openOne(session, "convert", flags.input, flags.lowering, input, instance))
    return status;
  for (int (Converter::*step)() : {&Converter::proveIt, &Converter::toText})
    if (int status = (this->*step)())
      return status;
  if (std::string why = writeFile(flags.output, text); !why.empty())
    return session.machine(why);
  report();
  return Fine;
}

Action addConvert(CLI::App &app) {
  auto flags = std::make_shared<ConvertFlags>();
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  app.add_option("-o,--output", flags->output, "file to write: .mlir, .xml, .json; - is stdout");
  app.add_option("--for", flags->runtime,
                 "keeps to the limits and habits of msccl, rccl, azure or mscclpp");
  app.add_option("--as", flags->format, "mlir, xml or json, where the suffix does not say it");
  app.add_flag("--json", flags->json, "what was done, or why not, as JSON on stdout");
  app.footer("What is not proved is not written. Programs for MSCCL are lowered with --via staged, "
             "others as CCL_VIA says.");
  return [flags](Session &session) { return Converter(session, *flags).run(); };
}

} // namespace ccl::cli
