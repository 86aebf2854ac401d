#include "frontend/topology/Rates.h"

#include <doctest/doctest.h>

using namespace ccl::topology;

TEST_CASE("NVLink and xGMI: what makers say, and what NCCL and RCCL count with") {
  struct Row {
    int64_t capability;
    double nominal, effective;
    int32_t most;
  };
  // Links of one direction; the totals are those that data sheets name: 80, 150, 300, 450, 900.
  for (Row row : {Row{60, 20, 18, 4}, Row{70, 25, 20, 6}, Row{80, 25, 20, 12},
                  Row{90, 25, 20.6, 18}, Row{100, 50, 40.1, 18}, Row{103, 50, 40.1, 18}}) {
    CAPTURE(row.capability);
    const GpuFamily *family = cudaFamily(row.capability);
    REQUIRE(family);
    CHECK(family->link.nominal == row.nominal);
    CHECK(family->link.effective == row.effective);
    CHECK(family->most == row.most);
    CHECK(family->links == "NVLink");
  }
  CHECK(cudaFamily(86)->link.effective == 12);
  CHECK((cudaFamily(90)->link * 18).effective == doctest::Approx(370.8));
  CHECK_FALSE(cudaFamily(70)->inSwitch);
  CHECK(cudaFamily(90)->inSwitch);
  CHECK(cudaFamily(50) == nullptr);
  CHECK(amdFamily("gfx942")->link.effective == 48);
  CHECK((amdFamily("gfx942")->link * 7).nominal == 448);
  CHECK(amdFamily("gfx90a:sramecc+:xnack-") == amdFamily("910"));
  CHECK(amdFamily("910")->link.effective == 36);
  CHECK(amdFamily("906")->link.effective == 24);
  CHECK(amdFamily("gfx950")->link.nominal == 76.8); // 153.6 both ways
  CHECK(amdFamily("950")->link.effective == 48);
  CHECK(amdFamily("gfx1100") == nullptr);
}

TEST_CASE("PCI Express by generation") {
  // Generations 1 to 6, x16.
  double nominal[] = {4, 8, 16, 32, 64, 128}, effective[] = {3, 6, 12, 24, 48, 96};
  for (int32_t generation = 1; generation <= 6; ++generation) {
    CAPTURE(generation);
    CHECK(pcieSlot(generation)->nominal == nominal[generation - 1]);
    CHECK(pcieSlot(generation)->effective == effective[generation - 1]);
  }
  CHECK_FALSE(pcieSlot(0));
  CHECK_FALSE(pcieSlot(7));
  CHECK_FALSE(pcieLane(12));
}

TEST_CASE("between sockets") {
  CHECK(socketSpeed("x86_64", "GenuineIntel", 6, 79)->effective == 6);
  CHECK(socketSpeed("x86_64", "GenuineIntel", 6, 85)->effective == 10);
  CHECK(socketSpeed("x86_64", "GenuineIntel", 6, 143)->effective == 22);
  CHECK(socketSpeed("x86_64", "GenuineIntel", 6, 207)->effective == 40);
  CHECK(socketSpeed("x86_64", "AuthenticAMD", 175, 1)->effective == 16);
  CHECK(socketSpeed("ppc64", "", 0, 0)->effective == 32);
  CHECK(socketSpeed("arm64", "", 0, 0)->effective == 6);
  CHECK(socketSpeed("x86_64", "CentaurHauls", 7, 59)->effective == 6);
  CHECK(socketSpeed("x86_64", "  Shanghai  ", 7, 0x5b)->effective == 9);
  CHECK_FALSE(socketSpeed("x86_64", "", 0, 0)); // a guess is the reader's, and said
  CHECK_FALSE(socketSpeed("", "HygonGenuine", 24, 1));
}

TEST_CASE("a display controller of a service processor is no GPU") {
  CHECK(isComputingGpu(0x03, 0x10de));
  CHECK(isComputingGpu(0x12, 0x1002));
  CHECK_FALSE(isComputingGpu(0x02, 0x10de));
  for (uint32_t vendor : {0x1a03, 0x102b, 0x1234, 0x1b36, 0x1af4})
    CHECK_FALSE(isComputingGpu(0x03, vendor));
}

TEST_CASE("families by name and PCI device") {
  CHECK(namedFamily("NVIDIA H100 80GB HBM3") == cudaFamily(90));
  CHECK(namedFamily("NVIDIA GH200 480GB") == cudaFamily(90));
  CHECK(namedFamily("sm_100") == cudaFamily(100));
  CHECK(namedFamily("Tesla V100-SXM2-32GB") == cudaFamily(70));
  CHECK(namedFamily("NVIDIA GeForce RTX 3090") == cudaFamily(86));
  CHECK(namedFamily("NVIDIA A100-SXM4-80GB") == cudaFamily(80));
  CHECK(namedFamily("AMD Instinct MI300X VF") == amdFamily("942"));
  CHECK(namedFamily("AMD Instinct MI355X") == amdFamily("950"));
  CHECK(namedFamily("NVIDIA RTX A5000") == cudaFamily(86));
  CHECK(namedFamily("card A1000") == nullptr); // no A100
  CHECK(namedFamily("") == nullptr);
  CHECK(pciFamily(0x10de, 0x20b0) == cudaFamily(80));
  CHECK(pciFamily(0x1002, 0x740c) == amdFamily("90a"));
  CHECK(pciFamily(0x8086, 0x20b0) == nullptr);
  CHECK(parseRates("nominal") == Rates::Nominal);
  CHECK(parseRates("effective") == Rates::Effective);
  CHECK_FALSE(parseRates("Nominal"));
}
