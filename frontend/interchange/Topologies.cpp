//===- Topologies.cpp ---------------------------------------------------------===//
#include "frontend/interchange/Topologies.h"

#include "dialect/Ccl.h"
#include "frontend/cli/Source.h"
#include "frontend/interchange/Formats.h"
#include "frontend/topology/Without.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ccl::interchange {

using Kind = TopologyRefusal::Kind;

std::string TopologyInput::namesTooLittle() const {
  return label +
         " names too little for a topology: " + (missing.empty() ? "no links" : missing.front());
}

/// Of text that other tools do not write.
static std::optional<TopologyRefusal> readModule(const TopologyRequest &request,
                                                 std::unique_ptr<llvm::MemoryBuffer> file,
                                                 llvm::SourceMgr &shown, mlir::MLIRContext &context,
                                                 TopologyInput &input) {
  Imported imported = readFile(Format::Mlir, std::move(file), shown, context);
  if (!imported.module)
    return TopologyRefusal{};
  std::vector<TopologyOp> found;
  std::vector<std::string> names;
  for (TopologyOp op : imported.module->getOps<TopologyOp>()) {
    names.push_back("@" + op.getSymName().str());
    if (request.symbol.empty() || op.getSymName() == request.symbol)
      found.push_back(op);
  }
  if (found.size() != 1)
    return TopologyRefusal{Kind::Usage, names.empty()
                                            ? fmt::format("{} has no ccl.topology", input.label)
                                            : fmt::format("{} has {}: name one by `symbol`",
                                                          input.label, fmt::join(names, ", "))};
  if (std::string why = topology::checkUnused(request.options, "a ccl.topology"); !why.empty())
    return TopologyRefusal{Kind::Input, std::move(why)};
  if (request.options.rates != topology::Rates::Nominal)
    input.notes.push_back(topology::oneSpeedNote());
  input.topology = getModelTopology(found.front());
  if (std::string why = input.topology->check(); !why.empty()) {
    found.front().emitError() << why;
    return TopologyRefusal{};
  }
  return std::nullopt;
}

static std::optional<TopologyRefusal> take(topology::ReadResult result, mlir::MLIRContext &context,
                                           TopologyInput &input) {
  emitDiagnostics(result.diagnostics, input.label, context);
  if (!result.refusal.empty())
    return TopologyRefusal{Kind::Input, std::move(result.refusal)};
  if (result.failed())
    return TopologyRefusal{};
  input.topology = std::move(result.topology);
  input.what = std::move(result.what);
  input.rates = result.rates;
  input.notes = std::move(result.notes);
  input.missing = std::move(result.missing);
  return std::nullopt;
}

static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> open(const TopologyRequest &request,
                                                                const std::string &label) {
  if (request.text)
    return llvm::MemoryBuffer::getMemBufferCopy(*request.text, label);
  return cli::readSource(request.source);
}

static std::optional<TopologyRefusal> openWhole(const TopologyRequest &request,
                                                llvm::SourceMgr &shown, mlir::MLIRContext &context,
                                                TopologyInput &input) {
  const std::string &source = request.source;
  const bool isDetected = source.empty() && !request.text;
  input.label = isDetected ? "this machine" : source == "-" && !request.text ? "<stdin>" : source;
  const bool isName = !isDetected && !request.text && topology::isTopologyName(source);
  const std::string &assumed = request.options.assume.gpu;
  input.gpu = assumed.empty() && isName ? source : assumed;
  if (isDetected || isName)
    return take(topology::readTopology(isDetected ? "detect" : source, request.options), context,
                input);
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = open(request, input.label);
  if (!file)
    return TopologyRefusal{Kind::Input, fmt::format("cannot read '{}': {}", input.label,
                                                    llvm::toString(file.takeError()))};
  const llvm::StringRef text = (*file)->getBuffer();
  if (topology::detectFormat({text.data(), text.size()}) == topology::Format::Mlir)
    return readModule(request, std::move(*file), shown, context, input);
  addForDisplay(text, input.label, shown);
  return take(topology::readTopologyText({text.data(), text.size()}, input.label, request.options),
              context, input);
}

std::optional<TopologyRefusal> openTopology(const TopologyRequest &request, llvm::SourceMgr &shown,
                                            mlir::MLIRContext &context, TopologyInput &input) {
  std::optional<TopologyRefusal> refusal = openWhole(request, shown, context, input);
  if (refusal || request.without.empty())
    return refusal;
  if (!input.topology)
    return TopologyRefusal{Kind::Input, input.namesTooLittle()};
  if (std::string wrong = topology::takeOut(*input.topology, request.without); !wrong.empty())
    return TopologyRefusal{Kind::Without, std::move(wrong)};
  input.what.clear(); // it counts the whole
  input.label += fmt::format(" without {}", fmt::join(request.without, ", "));
  if (std::string wrong = input.topology->check(); !wrong.empty())
    return TopologyRefusal{Kind::Input, fmt::format("{}: {}", input.label, wrong)};
  return std::nullopt;
}

} // namespace ccl::interchange
