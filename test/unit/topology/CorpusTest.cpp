// Every file of real machines from end to end: a topology with a limit that is proved, or a reason.
#include "dialect/bound/Bound.h"
#include "frontend/topology/Read.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>

#include <map>

using namespace ccl;
using namespace ccl::topology;

namespace {

struct Tally {
  size_t files = 0, bounded = 0, refused = 0, tooLittle = 0;
};

void checkLimits(const model::Topology &topology) {
  for (model::Collective collective :
       {model::Collective::AllGather, model::Collective::Broadcast}) {
    std::optional<model::BandwidthBound> bound = model::bandwidthBound(topology, collective);
    REQUIRE(bound);
    CHECK(bound->algbw > 0);
    CHECK(bound->exact);
    CHECK(verify(model::makeFabric(topology), *bound) == "");
  }
}

Tally readAll(const std::string &folder, const std::string &suffix) {
  Tally tally;
  for (const std::filesystem::path &path : test::corpusFiles(folder, suffix)) {
    CAPTURE(path.filename().string());
    ++tally.files;
    for (Rates rates : {Rates::Nominal, Rates::Effective}) {
      Options options;
      options.rates = rates;
      ReadResult result = readTopologyText(test::readWhole(path), "corpus", options);
      CHECK(result.refusal.empty());
      if (result.failed()) {
        CHECK(result.diagnostics.front().place.line > 0);
        tally.refused += rates == Rates::Nominal;
      } else if (!result.topology) {
        CHECK_FALSE(result.missing.empty());
        tally.tooLittle += rates == Rates::Nominal;
      } else if (result.topology->ranks() > 1) {
        checkLimits(*result.topology);
        tally.bounded += rates == Rates::Nominal;
      }
    }
  }
  return tally;
}

} // namespace

TEST_CASE("topology files of NCCL and RCCL have limits") {
  Tally tally = readAll("nccl-topo", ".xml");
  if (tally.files == 0)
    return;
  CHECK(tally.files == 57);
  CHECK(tally.bounded == 56);
  CHECK(tally.tooLittle == 1); // without a GPU
}

TEST_CASE("texts of nvidia-smi and rocm-smi have limits") {
  Tally tally = readAll("smi-topo", ".txt");
  if (tally.files == 0)
    return;
  CHECK(tally.files == 30);
  CHECK(tally.refused == 2);
  CHECK(tally.tooLittle == 2); // speeds of NVLinks without their ends
}
