//===- Main.cpp - random-program: what a seed gives, as MLIR text --------------------===//
#include "frontend/interchange/ToModule.h"
#include "test/random/Programs.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <cstdio>

using namespace ccl;
using namespace ccl::random;

/// "", after diagnostics, if no module can say it.
static std::string programText(const Algorithm &algorithm, const ProgramOptions &style,
                               bool fault) {
  Dice dice(algorithm.seed, style.connections);
  interchange::Foreign foreign = randomForeign(algorithm, dice, style);
  if (fault)
    plantFault(foreign.program, dice);
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = interchange::toModule(foreign, "random", context);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (module)
    module->print(os);
  return text;
}

int main(int argc, char **argv) {
  CLI::App app("Prints the random program of a seed");
  AlgorithmOptions options;
  ProgramOptions style;
  uint64_t seed = 0;
  int level = 1;
  bool fault = false;
  std::string collective;
  app.add_option("seed", seed, "the same seed gives the same program")->required();
  app.add_option("-n", options.ranks, "ranks; default: the seed decides")
      ->check(CLI::Range(int64_t(1), int64_t(64)));
  app.add_option("--collective", collective, "default: the seed decides");
  app.add_option("--level", level, "1: algorithm, 2: programs of several blocks a rank")
      ->check(CLI::Range(1, 2));
  app.add_flag("--connections", style.connections, "level 2: as MSCCL has them");
  app.add_flag("--direct", style.direct, "level 2: no slots");
  app.add_flag("--fault", fault, "with something wrong");
  CLI11_PARSE(app, argc, argv);
  if (!collective.empty() && !(options.collective = model::parseCollective(collective))) {
    fmt::print(stderr, "random-program: no collective '{}'\n", collective);
    return 2;
  }
  Algorithm algorithm = randomAlgorithm(seed, options);
  if (level == 2) {
    const std::string program = programText(algorithm, style, fault);
    fmt::print("{}", program);
    return program.empty();
  }
  Dice dice(seed, 9);
  if (fault)
    plantFault(algorithm, dice);
  fmt::print("{}", text(algorithm));
  return 0;
}
