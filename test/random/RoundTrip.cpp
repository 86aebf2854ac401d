//===- RoundTrip.cpp ----------------------------------------------------------------===//
#include "test/random/RoundTrip.h"

#include "frontend/interchange/FromModule.h"
#include "passes/Pipelines.h"
#include "passes/checks/CheckProofs.h"

namespace ccl::random {

mlir::LogicalResult lower(mlir::ModuleOp module, llvm::StringRef via) {
  LoweringOptions options;
  options.via = via.str();
  options.slots = 2;
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(module);
  if (mlir::failed(algorithm))
    return mlir::failure();
  for (unsigned i = 0; i < algorithm->getNumArguments(); ++i)
    options.sizes[algorithm->getParameterName(i).str()] = 4;
  return runPipeline(module, buildLoweringPipeline, options);
}

Proved prove(mlir::ModuleOp module) {
  Proved result;
  mlir::FailureOr<AlgorithmOp> algorithm = findAlgorithm(module);
  if (mlir::failed(algorithm)) {
    result.error = "no algorithm";
    return result;
  }
  auto contract = getModelContract(*algorithm);
  ProgramProof proof(*algorithm);
  auto forms = algorithm->getLowered() ? proof.checkLowered() : proof.checkForms(true, true);
  if (mlir::failed(contract) || mlir::failed(forms) || !*forms) {
    result.error = "cannot be proved: " + proof.obstacle();
    return result;
  }
  result.contract = *contract;
  result.disjoint = (*forms)->disjoint;
  result.inPlace = (*forms)->inPlace;
  if (!result.disjoint && !result.inPlace)
    result.error = (*forms)->faults.empty() ? "?" : (*forms)->faults.front().message;
  return result;
}

RoundTrip writeAndRead(mlir::ModuleOp module, interchange::Format format,
                       std::optional<interchange::Runtime> runtime) {
  RoundTrip result;
  Proved proved = prove(module);
  if (!proved.error.empty()) {
    result.error = proved.error;
    return result;
  }
  LocationTable locations;
  AlgorithmOp algorithm = *findAlgorithm(module);
  std::optional<interchange::Foreign> foreign =
      interchange::fromModule(algorithm, {proved.disjoint, proved.inPlace}, locations);
  std::optional<std::string> text;
  if (foreign)
    text = interchange::writeForeign(*foreign, format, runtime, locations, algorithm.getLoc());
  if (!text) {
    result.refused = true;
    return result;
  }
  result.text = std::move(*text);
  interchange::Imported imported =
      interchange::readForeign(format, result.text, "written", *module.getContext());
  if (!imported.module)
    result.error = "what was written is not read";
  result.module = std::move(imported.module);
  return result;
}

} // namespace ccl::random
