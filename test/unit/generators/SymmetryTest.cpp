// Proofs on one rank against proofs of all ranks, for what the generators make and for
// programs with mistakes.

#include "passes/Pipelines.h"
#include "passes/checks/CheckProofs.h"
#include "passes/synthesis/generators/Generators.h"

#include "mlir/IR/OwningOpRef.h"

#include "test/unit/Context.h"

#include <doctest/doctest.h>

#include <random>

using namespace ccl;
using model::Collective;
using test::context;

namespace {

struct Kind {
  Collective collective;
  const char *algorithm;
  const char *via = "auto";
  bool fuse = true;
};

const std::vector<Kind> &kinds() {
  static const std::vector<Kind> all = {
      {Collective::AllReduce, "ring"},
      {Collective::AllReduce, "ring", "staged", false},
      {Collective::AllReduce, "ring", "direct"},
      {Collective::AllReduce, "one_shot"},
      {Collective::AllReduce, "one_shot", "staged"},
      {Collective::AllReduce, "two_shot"},
      {Collective::AllReduce, "two_shot", "staged", false},
      {Collective::AllGather, "ring"},
      {Collective::AllGather, "ring", "staged"},
      {Collective::AllGather, "one_shot"},
      {Collective::AllGather, "bruck"},
      {Collective::ReduceScatter, "ring"},
      {Collective::ReduceScatter, "ring", "staged"},
      {Collective::ReduceScatter, "one_shot"},
      {Collective::AllToAll, "pairwise"},
      {Collective::AllToAll, "pairwise", "staged"},
      {Collective::AllToAllV, "pairwise"},
      {Collective::Permute, "one_shot"},
  };
  return all;
}

struct Lowered {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  AlgorithmOp algorithm() { return *module->getOps<AlgorithmOp>().begin(); }
};

Lowered lower(const Kind &kind, int64_t ranks, llvm::ArrayRef<int64_t> grid = {},
              int64_t slots = 2) {
  const Generator *generator = findGenerator(kind.collective, kind.algorithm);
  REQUIRE(generator);
  GeneratorRequest request;
  request.collective = kind.collective;
  request.reduction =
      model::reduces(kind.collective) ? model::Reduction::Sum : model::Reduction::None;
  request.ranks = ranks;
  request.grid.assign(grid.begin(), grid.end());
  REQUIRE(generator->refuses(request) == "");
  Lowered lowered{mlir::ModuleOp::create(mlir::UnknownLoc::get(&context()))};
  generator->generate(*lowered.module, request);
  LoweringOptions options;
  options.via = kind.via;
  options.fuse = kind.fuse;
  options.slots = slots;
  mlir::PassManager passes(&context());
  buildLoweringPipeline(passes, options);
  REQUIRE(mlir::succeeded(passes.run(*lowered.module)));
  return lowered;
}

/// What a proof says; nothing if it cannot be made.
std::optional<model::ProgramReport> prove(AlgorithmOp algorithm, BySymmetry way, bool inPlace,
                                          std::string *why = nullptr) {
  ProgramProofOptions options;
  options.symmetry = way;
  ProgramProof proof(algorithm, options);
  auto report = proof.check(inPlace);
  REQUIRE(mlir::succeeded(report));
  CHECK(proof.isSymmetric() == (way == BySymmetry::Always && report->has_value()));
  if (why)
    *why = proof.obstacle();
  return *report;
}

void compare(Lowered &lowered, int64_t ranks) {
  for (bool inPlace : {false, true}) {
    CAPTURE(inPlace);
    std::string why;
    auto one = prove(lowered.algorithm(), BySymmetry::Always, inPlace, &why);
    auto all = prove(lowered.algorithm(), BySymmetry::Never, inPlace);
    if (inPlace && !one) { // in place, what others still read is overwritten
      CHECK(!all->ok());
      continue;
    }
    CHECK(why == "");
    REQUIRE(one);
    CHECK((inPlace || one->ok()));
    CHECK(one->ok() == all->ok());
    CHECK(one->minSlots == all->minSlots);
    CHECK(one->instructions == all->instructions);
    CHECK(one->divisible == all->divisible);
    CHECK(one->unevenSafe == all->unevenSafe);
  }
}

/// One small change somewhere in a program.
void mutate(mlir::ModuleOp module, std::mt19937 &random) {
  auto pick = [&](size_t n) { return size_t(random() % n); };
  std::vector<mlir::Operation *> instructions;
  std::vector<ChannelOp> channels;
  std::vector<mlir::affine::AffineForOp> loops;
  module.walk([&](ProgramOp program) {
    program.getBody().walk([&](mlir::Operation *op) {
      if (mlir::isa<TransferOp, SignalOp, WaitOp>(op))
        instructions.push_back(op);
      if (auto channel = mlir::dyn_cast<ChannelOp>(op))
        channels.push_back(channel);
      if (auto loop = mlir::dyn_cast<mlir::affine::AffineForOp>(op))
        loops.push_back(loop);
    });
  });
  mlir::Operation *op = instructions[pick(instructions.size())];
  mlir::OpBuilder builder(op);
  switch (pick(6)) {
  case 0: op->erase(); break;
  case 1: builder.clone(*op); break;
  case 2:
    if (mlir::Operation *next = op->getNextNode();
        next && mlir::isa<TransferOp, SignalOp, WaitOp>(next))
      op->moveAfter(next);
    break;
  case 3:
    if (ChannelOp channel = channels[pick(channels.size())]; channel.getSlots() > 0)
      channel.setSlots(1 + pick(3));
    break;
  case 4:
    if (!loops.empty())
      if (auto loop = loops[pick(loops.size())]; loop.hasConstantBounds())
        loop.setConstantUpperBound(loop.getConstantUpperBound() - 1);
    break;
  default: { // an index
    auto transfer = mlir::dyn_cast<TransferOp>(op);
    if (!transfer)
      break;
    bool from = pick(2);
    auto places = from ? getFromPlaces(transfer) : getToPlaces(transfer);
    size_t number = pick(places.size());
    if (places[number].isChannel())
      break;
    mlir::AffineMap map = places[number].map;
    size_t axis = pick(map.getNumResults());
    int64_t extent = (*places[number].getBuffer().getChunkShape())[axis];
    mlir::SmallVector<mlir::AffineExpr> results(map.getResults());
    results[axis] = results[axis] + int64_t(1 + pick(2));
    if (pick(4)) // else it leaves the buffer somewhere
      results[axis] = results[axis] % extent;
    mlir::SmallVector<mlir::Attribute> maps(
        (from ? transfer.getFromMaps() : transfer.getToMaps()).getValue());
    maps[number] = mlir::AffineMapAttr::get(
        mlir::AffineMap::get(map.getNumDims(), map.getNumSymbols(), results, &context()));
    op->setAttr(from ? transfer.getFromMapsAttrName() : transfer.getToMapsAttrName(),
                builder.getArrayAttr(maps));
  }
  }
}

} // namespace

TEST_CASE("one rank proves what all ranks prove, up to 64 ranks") {
  for (const Kind &kind : kinds())
    for (int64_t ranks = 2; ranks <= 64; ranks += ranks < 20 ? 1 : 4) {
      CAPTURE(kind.algorithm);
      CAPTURE(kind.via);
      CAPTURE(ranks);
      Lowered lowered = lower(kind, ranks);
      compare(lowered, ranks);
    }
}

TEST_CASE("the same on grids of ranks") {
  for (bool fuse : {false, true})
    for (const char *via : {"auto", "direct"})
      for (auto [a, b] : {std::pair<int64_t, int64_t>{2, 2},
                          {2, 3},
                          {3, 2},
                          {3, 4},
                          {5, 3},
                          {2, 8},
                          {8, 8},
                          {1, 4},
                          {4, 1}}) {
        CAPTURE(fuse);
        CAPTURE(via);
        CAPTURE(a);
        CAPTURE(b);
        Lowered lowered = lower({Collective::AllReduce, "hierarchical", via, fuse}, a * b, {a, b});
        compare(lowered, a * b);
      }
}

TEST_CASE("the same on up to 512 ranks") {
  for (const auto &[kind, ranks] : {std::pair<Kind, int64_t>{{Collective::AllReduce, "ring"}, 512},
                                    {{Collective::AllGather, "ring"}, 257},
                                    {{Collective::ReduceScatter, "ring", "staged"}, 200},
                                    {{Collective::AllToAll, "pairwise"}, 128}}) {
    CAPTURE(ranks);
    Lowered lowered = lower(kind, ranks);
    compare(lowered, ranks);
  }
  Lowered lowered = lower({Collective::AllReduce, "hierarchical"}, 512, {16, 32});
  compare(lowered, 512);
}

TEST_CASE("fuzz: mutants have one verdict, from one rank and from all") {
  constexpr uint32_t seed = 20252;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<std::pair<Lowered, int64_t>> right;
  for (const Kind &kind : kinds())
    for (int64_t ranks : {3, 4, 7})
      right.emplace_back(lower(kind, ranks), ranks);
  for (bool fuse : {false, true})
    for (const char *via : {"staged", "direct"})
      right.emplace_back(lower({Collective::AllReduce, "hierarchical", via, fuse}, 6, {2, 3}), 6);
  int accepted = 0, refused = 0, undecided = 0;
  for (auto &[lowered, ranks] : right)
    for (int round = 0; round < 60; ++round) {
      Lowered mutant{lowered.module->clone()};
      mutate(*mutant.module, random);
      std::string text;
      llvm::raw_string_ostream(text) << *mutant.module;
      CAPTURE(text);
      CAPTURE(round);
      auto one = prove(mutant.algorithm(), BySymmetry::Always, round % 2);
      if (!one) {
        ++undecided;
        continue;
      }
      auto all = prove(mutant.algorithm(), BySymmetry::Never, round % 2);
      auto contract = getModelContract(mutant.algorithm());
      REQUIRE(model::verdict(one->faults, *contract) == model::verdict(all->faults, *contract));
      REQUIRE(one->minSlots == all->minSlots);
      REQUIRE(one->unevenSafe == all->unevenSafe);
      ++(one->ok() ? accepted : refused);
    }
  CHECK(accepted > 200);
  CHECK(refused > 800);
  MESSAGE(accepted, " right, ", refused, " wrong, ", undecided, " not decided by one rank");
}

TEST_CASE("what differs from rank to rank is proved on all") {
  std::string why;
  Lowered tree = lower({Collective::AllReduce, "binomial"}, 8);
  CHECK(!prove(tree.algorithm(), BySymmetry::Always, false, &why));
  CHECK(why == "there is no single program for all ranks");
  Lowered doubling = lower({Collective::AllReduce, "recursive_doubling"}, 8);
  CHECK(!prove(doubling.algorithm(), BySymmetry::Always, false, &why));
  CHECK(prove(doubling.algorithm(), BySymmetry::Never, false)->ok());
}

TEST_CASE("thousands of ranks") {
  for (const Kind &kind : kinds()) {
    CAPTURE(kind.algorithm);
    CAPTURE(kind.via);
    Lowered large = lower(kind, 4096);
    ProgramProof proof(large.algorithm());
    auto report = proof.check(false);
    REQUIRE(mlir::succeeded(report));
    CHECK(proof.obstacle() == "");
    REQUIRE(*report);
    CHECK((*report)->ok());
    // A permute is so little that all ranks are proved.
    if (kind.collective != Collective::Permute)
      CHECK(proof.remark() == "proved on one rank of 4096 by symmetry");
  }
}

TEST_CASE("what is too large for either way is not proved, and says so") {
  Lowered ring = lower({Collective::AllReduce, "ring"}, 64);
  ProgramProofOptions options;
  options.symmetry = BySymmetry::Never;
  options.maxInstructions = 1000;
  ProgramProof proof(ring.algorithm(), options);
  auto report = proof.check(false);
  REQUIRE(mlir::succeeded(report));
  CHECK(!*report);
  CHECK(proof.obstacle() == "over 1000 instructions, and one rank is not to stand for all");
}
