//===- ccl-lsp-server.cpp - Language server for .mlir files with ccl ---------===//

#include "dialect/Ccl.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ccl::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
