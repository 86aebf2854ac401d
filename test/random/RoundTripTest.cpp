// Random programs written as MSCCL XML and as MSCCL++ plans, read back, proved and run.
#include "test/random/RoundTrip.h"
#include "frontend/interchange/ToModule.h"
#include "test/random/Programs.h"
#include "test/random/Runs.h"
#include "test/random/Seeds.h"
#include "test/unit/Context.h"
#include "test/unit/Examples.h"

#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

using namespace ccl;
using namespace ccl::random;
using interchange::Format;
using interchange::Runtime;

namespace {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

/// Keeps what is said, so that a failing test can tell.
class Said {
public:
  Said()
      : handler(&test::context(), [this](mlir::Diagnostic &diagnostic) {
          errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          text += diagnostic.str() + "\n";
          return mlir::success();
        }) {}
  std::string text;
  int errors = 0;

private:
  mlir::ScopedDiagnosticHandler handler;
};

ElementType typeOf(uint64_t seed) {
  const ElementType types[] = {ElementType::F32, ElementType::I32, ElementType::F64,
                               ElementType::BF16, ElementType::U8};
  return types[seed % std::size(types)];
}

/// The runtimes of MSCCL, whose limits are kept, and none take turns.
std::optional<Runtime> xmlRuntime(uint64_t seed) {
  const std::optional<Runtime> runtimes[] = {std::nullopt, Runtime::Msccl, Runtime::Rccl,
                                             Runtime::Azure};
  return runtimes[seed % std::size(runtimes)];
}

struct Counts {
  int written = 0, refused = 0;
};

/// `module` is lowered.
void checkTrip(mlir::ModuleOp module, Format format, std::optional<Runtime> runtime, uint64_t seed,
               Counts &counts) {
  CAPTURE(interchange::name(format));
  CAPTURE((runtime ? interchange::name(*runtime) : "any runtime"));
  Said said;
  Proved before = prove(module);
  REQUIRE(before.error == "");
  RoundTrip trip = writeAndRead(module, format, runtime);
  CAPTURE(said.text);
  if (trip.refused) {
    REQUIRE(said.errors > 0);
    if (!runtime)
      MESSAGE("seed " << seed << ", refused as " << interchange::name(format) << ": " << said.text);
    ++counts.refused;
    return;
  }
  CAPTURE(trip.text);
  REQUIRE(trip.error == "");
  ++counts.written;
  Proved after = prove(*trip.module);
  REQUIRE(after.error == "");
  CHECK(after.contract.str() == before.contract.str());
  CHECK(after.contract.ranks == before.contract.ranks);
  CHECK(after.contract.chunks == before.contract.chunks);
  // What held holds.
  CHECK((after.disjoint || !before.disjoint));
  CHECK((after.inPlace || !before.inPlace));
  RunReport report = run(*trip.module, typeOf(seed), "auto");
  REQUIRE(report.error == "");
  CHECK(report.launches > 0);
  CHECK(report.wrong == 0);
}

/// XML within the limits of a runtime, and if they are too low without.
void checkXml(mlir::ModuleOp module, uint64_t seed, Counts &counts) {
  Counts limited;
  if (std::optional<Runtime> runtime = xmlRuntime(seed))
    checkTrip(module, Format::MscclXml, runtime, seed, limited);
  if (limited.written == 0)
    checkTrip(module, Format::MscclXml, std::nullopt, seed, counts);
  counts.written += limited.written;
}

Module parse(const std::string &source) {
  return mlir::parseSourceString<mlir::ModuleOp>(source, mlir::ParserConfig(&test::context()));
}

} // namespace

TEST_CASE("random algorithms keep proof and result as XML and as JSON") {
  Counts xml, json;
  for (uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    std::string source = text(randomAlgorithm(seed));
    CAPTURE(source);
    {
      Module module = parse(source);
      REQUIRE(bool(module));
      RunReport report = run(*module, typeOf(seed), "auto");
      REQUIRE(report.error == "");
      CHECK(report.wrong == 0);
    }
    Module staged = parse(source);
    REQUIRE(mlir::succeeded(lower(*staged, "staged")));
    checkXml(*staged, seed, xml);
    Module any = parse(source);
    REQUIRE(mlir::succeeded(lower(*any, "auto")));
    checkTrip(*any, Format::MscclppJson, std::nullopt, seed, json);
  }
  MESSAGE("xml: " << xml.written << " written, " << xml.refused << " refused; json: "
                  << json.written << " written, " << json.refused << " refused");
  CHECK(xml.refused == 0);
  CHECK(json.refused == 0);
}

TEST_CASE("examples keep proof and result as XML and as JSON") {
  Counts xml, json;
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  for (const auto &entry : std::filesystem::directory_iterator(root / "examples")) {
    if (entry.path().extension() != ".mlir")
      continue;
    CAPTURE(entry.path().filename().string());
    std::string source = test::example(entry.path().filename().string());
    for (uint64_t turn = 0; turn < 4; ++turn) {
      Module staged = parse(source);
      REQUIRE(bool(staged));
      REQUIRE(mlir::succeeded(lower(*staged, "staged")));
      checkXml(*staged, turn, xml);
    }
    Module any = parse(source);
    REQUIRE(mlir::succeeded(lower(*any, "auto")));
    checkTrip(*any, Format::MscclppJson, std::nullopt, 0, json);
  }
  CHECK(xml.refused == 0);
  CHECK(json.refused == 0);
  CHECK(json.written > 5);
}

TEST_CASE("random programs of several blocks keep proof and result as XML and as JSON") {
  Counts xml, json;
  for (uint64_t seed : seeds(60))
    for (bool connections : {true, false}) {
      CAPTURE(seed);
      CAPTURE(connections);
      Algorithm algorithm = randomAlgorithm(seed);
      Dice dice(seed, connections);
      Module module = interchange::toModule(
          randomForeign(algorithm, dice, {.connections = connections}), "random", test::context());
      REQUIRE(bool(module));
      {
        Module copy(module->clone());
        RunReport report = run(*copy, typeOf(seed), "auto");
        REQUIRE(report.error == "");
        CHECK(report.wrong == 0);
      }
      if (connections)
        checkXml(*module, seed, xml);
      checkTrip(*module, Format::MscclppJson, std::nullopt, seed, json);
    }
  MESSAGE("xml: " << xml.written << " written, " << xml.refused << " refused; json: "
                  << json.written << " written, " << json.refused << " refused");
  CHECK(xml.written > 0);
  CHECK(json.written > 0);
}
