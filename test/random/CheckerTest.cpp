// The checker against the plain interpreter: what is right by construction it accepts, and
// nothing that leaves a wrong number.
#include "test/random/Plain.h"
#include "test/random/Programs.h"
#include "test/random/Seeds.h"

#include "dialect/model/Check.h"

#include <doctest/doctest.h>

using namespace ccl::model;
using namespace ccl::random;

namespace {

const ProgramOptions styles[] = {{}, {.connections = true}, {.direct = true}};

template <typename T>
std::string firstFault(const T &report) {
  return report.ok() ? "" : report.faults.front().message;
}

/// Runs in several orders; "" if every one gives the right numbers.
template <typename Run>
std::string worst(int times, Run run) {
  std::string fault;
  for (int i = 0; i < times && fault.empty(); ++i)
    fault = run();
  return fault;
}

} // namespace

TEST_CASE("random algorithms are right, and those with a fault are refused") {
  int faulty = 0, harmless = 0;
  const auto all = seeds(300);
  for (uint64_t seed : all) {
    CAPTURE(seed);
    Algorithm algorithm = randomAlgorithm(seed);
    Dice dice(seed, 1);
    REQUIRE(execute(algorithm, dice) == "");
    REQUIRE(firstFault(check(algorithm.moves, algorithm.contract)) == "");
    for (int mutant = 0; mutant < 5; ++mutant) {
      CAPTURE(mutant);
      Algorithm changed = algorithm;
      plantFault(changed, dice);
      std::string fault = worst(3, [&] { return execute(changed, dice); });
      (fault.empty() ? harmless : faulty)++;
      CAPTURE(fault);
      if (!fault.empty())
        REQUIRE(firstFault(check(changed.moves, changed.contract)) != "");
    }
  }
  // Both must occur, or nothing was tested.
  if (all.size() >= 100) {
    CHECK(faulty > 300);
    CHECK(harmless > 100);
  }
}

TEST_CASE("random programs are right, and those with a fault are refused") {
  int faulty = 0, harmless = 0;
  size_t instructions = 0, mostAgents = 0;
  const auto all = seeds(200);
  for (uint64_t seed : all)
    for (const ProgramOptions &style : styles) {
      CAPTURE(seed);
      CAPTURE(&style - styles);
      Algorithm algorithm = randomAlgorithm(seed);
      const Contract &contract = algorithm.contract;
      Dice dice(seed, 2 + uint64_t(&style - styles));
      Program program = randomProgram(algorithm, dice, style);
      for (const RankProgram &rank : program.ranks) {
        mostAgents = std::max(mostAgents, rank.agents.size());
        for (const Agent &agent : rank.agents)
          instructions += agent.code.size();
      }
      REQUIRE(worst(4, [&] { return execute(program, contract, dice); }) == "");
      ProgramReport report = check(program, contract);
      REQUIRE(firstFault(report) == "");
      REQUIRE(report.minSlots <= 1);
      for (int mutant = 0; mutant < 4; ++mutant) {
        CAPTURE(mutant);
        Program changed = program;
        plantFault(changed, dice);
        std::string fault = worst(4, [&] { return execute(changed, contract, dice); });
        (fault.empty() ? harmless : faulty)++;
        CAPTURE(fault);
        if (!fault.empty())
          REQUIRE(firstFault(check(changed, contract)) != "");
      }
    }
  if (all.size() >= 100) {
    CHECK(faulty > 500);
    CHECK(harmless > 100);
    CHECK(instructions > 10000);
    CHECK(mostAgents > 2);
  }
}
