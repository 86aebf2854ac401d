// Foreign programs become modules, and modules foreign programs again.
#include "frontend/interchange/FromModule.h"
#include "frontend/interchange/ToModule.h"
#include "passes/Pipelines.h"
#include "test/unit/Context.h"
#include "test/unit/interchange/RandomProgram.h"

#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace ccl;
using namespace ccl::interchange;
using namespace ccl::interchange::test;
using ccl::test::context;

namespace {

using Kind = model::Instruction::Kind;

/// All that a program says, but for the numbers of its channels and locations.
std::string text(const Foreign &foreign) {
  std::ostringstream os;
  const model::Program &program = foreign.program;
  auto place = [&](int32_t loc) {
    TextPlace at = loc >= 0 ? foreign.places.at(size_t(loc)) : TextPlace{1, 1};
    os << " @" << at.line << ":" << at.column << "\n";
  };
  for (const model::Buffer &buffer : program.buffers) {
    os << buffer.name << " " << name(buffer.role) << " " << buffer.chunks;
    place(buffer.loc);
  }
  for (const model::RankProgram &rank : program.ranks) {
    os << "rank\n";
    auto channel = [&](int32_t number) {
      const model::Channel &c = rank.channels.at(size_t(number));
      os << (c.to ? " to " : " from ") << c.peer << "/" << c.tag << "/" << c.slots;
    };
    for (const model::Agent &agent : rank.agents) {
      os << (agent.proxy ? "proxy " : "block ") << agent.id << "\n";
      for (const model::Instruction &in : agent.code) {
        os << int(in.kind) << in.reduce << " x" << in.count;
        if (in.kind != Kind::Transfer)
          channel(in.channel);
        for (const auto *side : {&in.from, &in.to}) {
          os << " |";
          for (const model::Operand &o : *side) {
            if (o.kind == model::Operand::Kind::Channel)
              channel(o.channel);
            else
              os << " " << o.buffer << "[" << o.chunk << "] of " << o.peer;
          }
        }
        place(in.loc);
      }
    }
  }
  return os.str();
}

/// Whatever a module can hold, right or wrong.
class AnyProgram {
public:
  explicit AnyProgram(uint32_t seed) : dice(seed) {}

  Foreign make() {
    Foreign foreign;
    foreign.name = "random";
    foreign.contract.reduction = model::Reduction::Sum;
    foreign.contract.ranks = pick(1, 4);
    foreign.contract.chunks = pick(2, 6);
    places = &foreign.places;
    foreign.program.buffers = {{"in", model::Role::In, foreign.contract.chunks, place()},
                               {"out", model::Role::Out, foreign.contract.chunks, place()},
                               {"t", model::Role::Scratch, pick(2, 9), place()}};
    for (int64_t r = 0; r < foreign.contract.ranks; ++r)
      foreign.program.ranks.push_back(rank(foreign));
    return foreign;
  }

private:
  int64_t pick(int64_t low, int64_t high) { // both included
    return std::uniform_int_distribution<int64_t>(low, high)(dice);
  }
  int32_t place() {
    places->push_back({int32_t(pick(1, 5000)), int32_t(pick(1, 200))});
    return int32_t(places->size() - 1);
  }

  model::RankProgram rank(const Foreign &foreign) {
    model::RankProgram made;
    for (int32_t tag = 0; tag < 6; ++tag) // from and to, with slots and without
      made.channels.push_back({tag % 2 == 0, int32_t(pick(0, foreign.contract.ranks - 1)), tag,
                               tag < 3 ? int32_t(pick(1, 8)) : 0});
    for (int32_t id = 0; id < pick(0, 3); ++id) {
      made.agents.push_back({pick(0, 1) == 1, id * 7, {}});
      for (int64_t i = pick(0, 12); i > 0; --i)
        made.agents.back().code.push_back(instruction(foreign));
    }
    return made;
  }

  model::Instruction instruction(const Foreign &foreign) {
    model::Instruction in;
    in.loc = place();
    if (pick(0, 3) == 0) {
      bool signal = pick(0, 1);
      in.kind = signal ? Kind::Signal : Kind::Wait;
      in.channel = signal ? 4 : 3;
      return in;
    }
    in.count = int32_t(pick(1, 2));
    for (int64_t i = pick(1, 3); i > 0; --i)
      in.from.push_back(operand(foreign, true));
    if (pick(0, 2) == 0)
      in.from.push_back(slot(1));
    for (int64_t i = pick(1, 2); i > 0; --i)
      in.to.push_back(operand(foreign, false));
    if (pick(0, 2) == 0)
      in.to.push_back(slot(pick(0, 1) ? 0 : 2));
    in.reduce = in.from.size() > 1;
    return in;
  }

  model::Operand operand(const Foreign &foreign, bool source) {
    int32_t buffer = int32_t(pick(source ? 0 : 1, 2));
    // Also outside: the checker tells of that.
    int64_t chunk = pick(-1, foreign.program.buffers[size_t(buffer)].chunks);
    if (pick(0, 2) == 0)
      return peer(int32_t(pick(0, foreign.contract.ranks - 1)), buffer, chunk);
    return local(buffer, chunk);
  }

  std::mt19937 dice;
  std::vector<TextPlace> *places = nullptr;
};

AlgorithmOp algorithmOf(mlir::ModuleOp module) { return *module.getOps<AlgorithmOp>().begin(); }

} // namespace

TEST_CASE("a program and its places are the same after a way through a module") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Foreign foreign = AnyProgram(seed).make();
    auto module = toModule(foreign, "some.xml", context());
    REQUIRE(module);
    CHECK(algorithmOf(*module).getLowered());
    LocationTable locations;
    auto back = fromModule(algorithmOf(*module), {true, true}, locations);
    REQUIRE(back);
    CHECK(text(*back) == text(foreign));
    CHECK(back->contract.str() == foreign.contract.str());
    CHECK(back->contract.ranks == foreign.contract.ranks);
    CHECK(back->contract.chunks == foreign.contract.chunks);
    CHECK(locations.size() == back->places.size());

    // Printed and parsed again, too, but for the places.
    std::string printed;
    llvm::raw_string_ostream(printed) << *module;
    auto parsed = mlir::parseSourceString<mlir::ModuleOp>(printed, &context());
    REQUIRE(parsed);
    auto again = fromModule(algorithmOf(*parsed), {true, true}, locations);
    REQUIRE(again);
    Foreign bare = *back;
    for (TextPlace &place : bare.places)
      place = {1, 1};
    for (TextPlace &place : again->places)
      place = {1, 1};
    CHECK(text(*again) == text(bare));
  }
}

TEST_CASE("contracts keep all that they say") {
  Foreign foreign =
      emptyProgram("contract", model::Collective::Custom, 2, 1, 2, model::Reduction::Max);
  foreign.contract.rows = {{0, 1, 1, 0}, {1, 0, 0, 0}};
  auto check = [&] {
    auto module = toModule(foreign, "c.json", context());
    REQUIRE(module);
    auto contract = getModelContract(algorithmOf(*module));
    REQUIRE(mlir::succeeded(contract));
    CHECK(contract->str() == foreign.contract.str());
    CHECK(contract->root == foreign.contract.root);
    CHECK(contract->targets == foreign.contract.targets);
    REQUIRE(contract->rows.size() == foreign.contract.rows.size());
    for (size_t i = 0; i < contract->rows.size(); ++i)
      CHECK(contract->rows[i].inRank == foreign.contract.rows[i].inRank);
    CHECK(contract->inChunks() == foreign.contract.inChunks());
    CHECK(contract->outChunks() == foreign.contract.outChunks());
  };
  check();
  foreign.contract = model::Contract();
  foreign.contract.ranks = 2;
  foreign.program.buffers[1].chunks = 1;
  foreign.contract.collective = model::Collective::Permute;
  foreign.contract.targets = {1, 0};
  check();
  foreign.contract.targets.clear();
  foreign.contract.collective = model::Collective::Broadcast;
  foreign.contract.root = 1;
  check();
}

TEST_CASE("what no op can hold is refused at its place") {
  Foreign foreign = AnyProgram(1).make();
  foreign.program.ranks[0].agents = {{false, 3, {}}};
  model::Instruction in = transfer({local(0, 0)}, {local(1, 0)}, 1000);
  in.loc = int32_t(foreign.places.size());
  foreign.places.push_back({42, 7});
  foreign.program.ranks[0].agents[0].code = {in};
  std::string said;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream(said) << diagnostic.getLocation() << " " << diagnostic.str();
    return mlir::success();
  });
  CHECK(!toModule(foreign, "big.xml", context()));
  CHECK(said.find("big.xml\":42:7") != std::string::npos);
  CHECK(said.find("moves 1000 chunks") != std::string::npos);
}

TEST_CASE("what holds in place only gets one buffer, where the contract puts the places") {
  const char *gather = R"(
    ccl.algorithm @g implements #ccl.contract<all_gather> lowered {
      %out = ccl.buffer out ranks(2) chunks(2)
      %in = ccl.buffer in ranks(2) chunks(1)
      %t = ccl.buffer scratch ranks(2) chunks(1)
    }
    ccl.program @g.p(%me) of @g ranks(0 to 2) {
      %out = ccl.buffer out chunks(2)
      %in = ccl.buffer in chunks(1)
      %t = ccl.buffer scratch chunks(1)
      %peer = ccl.peer %in at 1 - %me
      ccl.block 0 {
        ccl.transfer from %peer[0] to %out[1 - %me], %t[0]
      }
    })";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(gather, &context());
  REQUIRE(module);
  LocationTable locations;
  auto foreign = fromModule(algorithmOf(*module), {false, true}, locations);
  REQUIRE(foreign);
  REQUIRE(foreign->program.buffers.size() == 2);
  CHECK(foreign->program.buffers[0].role == model::Role::InOut);
  CHECK(foreign->program.buffers[0].chunks == 2);
  CHECK(foreign->program.buffers[1].role == model::Role::Scratch);
  for (int64_t rank : {0, 1}) {
    const model::Instruction &in = foreign->program.ranks[size_t(rank)].agents[0].code[0];
    CHECK(in.from[0].buffer == 0);
    CHECK(in.from[0].chunk == 1 - rank); // shard 1 - rank of the peer's `out`
    CHECK(in.to[0].buffer == 0);
    CHECK(in.to[0].chunk == 1 - rank);
    CHECK(in.to[1].buffer == 1);
  }
  // It is proved like any other.
  CHECK(toModule(*foreign, "g.mlir", context()));
}

TEST_CASE("names become symbols") {
  CHECK(legalSymbol("ring_4") == "ring_4");
  CHECK(legalSymbol("Allreduce (ring) 4+4") == "Allreduce__ring__4_4");
  CHECK(legalSymbol("4ranks") == "_4ranks");
  CHECK(legalSymbol("a.b$c") == "a.b$c");
  CHECK(legalSymbol("") == "program");
  CHECK(legalSymbol("\xff\xfe") == "program");
  CHECK(legalSymbol(std::string(300, 'x')).size() == 64);
}
