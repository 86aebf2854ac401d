//===- ccl-opt.cpp - Runs passes over ccl modules ---------------------------===//

#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/synthesis/PlanPipeline.h"

#include "mlir/Dialect/Affine/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ccl::registerDialects(registry);
  mlir::registerTransformsPasses();
  mlir::affine::registerAffinePasses();
  ccl::registerCclPasses();
  ccl::registerPipelines();
  ccl::registerPlanPipeline();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ccl-opt: passes over collective algorithms\n", registry));
}
