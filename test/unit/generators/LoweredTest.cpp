// What is generated, lowered: the programs keep the contract, in the forms that the
// algorithm has, and stay fit for uneven launches.

#include "passes/Pipelines.h"
#include "passes/checks/CheckProofs.h"
#include "passes/synthesis/generators/Generators.h"

#include "mlir/IR/OwningOpRef.h"

#include "test/unit/Context.h"

#include <doctest/doctest.h>

using namespace ccl;
using model::Collective;
using test::context;

TEST_CASE("lowered generators are proved") {
  for (const Generator &generator : generators())
    for (Collective collective : generator.collectives)
      for (const char *via : {"auto", "staged", "direct"})
        for (int64_t n : {1, 2, 3, 4, 5, 8, 16}) {
          GeneratorRequest request{collective, model::Reduction::Sum, n, 0, {}};
          request.root = model::hasRoot(collective) ? n / 2 : 0;
          if (!generator.refuses(request).empty())
            continue;
          INFO(generator.name.str(), " ", model::name(collective), " ", via, " on ", n, " ranks");
          mlir::OwningOpRef<mlir::ModuleOp> module =
              mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()));
          std::string name = generator.generate(*module, request).getSymName().str();
          LoweringOptions options;
          options.via = via;
          mlir::PassManager passes(&context());
          buildAlgorithmPipeline(passes, options);
          REQUIRE(mlir::succeeded(passes.run(*module)));
          auto report = checkAlgorithm(module->lookupSymbol<AlgorithmOp>(name));
          REQUIRE(mlir::succeeded(report));
          mlir::PassManager lowering(&context());
          buildLoweringPipeline(lowering, options);
          REQUIRE(mlir::succeeded(lowering.run(*module)));
          ProgramProof proof(module->lookupSymbol<AlgorithmOp>(name));
          auto forms = proof.checkForms(report->ok(), report->inPlace);
          REQUIRE(mlir::succeeded(forms));
          REQUIRE(*forms);
          CHECK(((*forms)->faults.empty() ? "" : (*forms)->faults.front().message) == "");
          CHECK((*forms)->disjoint);
          CHECK((*forms)->inPlace == report->inPlace);
          CHECK((*forms)->unevenSafe == model::hasUnevenForm(collective));
          // Whoever reads a peer says so before that peer goes on.
          CHECK_FALSE((*forms)->exitBarrier);
          CHECK_FALSE((*forms)->batchBarrier);
        }
}
