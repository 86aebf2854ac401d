//===- NicSettingsTest.cpp - Which NICs the environment chooses ----------------------===//
#include "runtime/rdma/NicSettings.h"
#include "test/unit/rdma/Wires.h"

using namespace ccl;
using namespace ccl::rdma;

static llvm::Expected<std::vector<NicOptions>> choose(std::vector<const char *> environment) {
  environment.push_back(nullptr);
  llvm::Expected<Settings> settings = Settings::fromEnvironment(environment.data());
  if (!settings)
    return settings.takeError();
  return chooseNics(*settings);
}

static std::string errorOf(std::vector<const char *> environment) {
  auto chosen = choose(std::move(environment));
  return chosen ? "" : llvm::toString(chosen.takeError());
}

TEST_CASE("rdma settings: a list of NICs, with what holds for all of them") {
  const auto plain = llvm::cantFail(choose({"CCL_NICS=mlx5_0"}));
  REQUIRE(plain.size() == 1);
  CHECK(plain[0].device == "mlx5_0");
  CHECK(plain[0].gidIndex == -1);
  CHECK(plain[0].mtu == 0);
  CHECK(plain[0].timeout == NicOptions().timeout);
  CHECK(plain[0].retries == NicOptions().retries);
  const auto chosen =
      llvm::cantFail(choose({"CCL_NICS=mlx5_0:2, mlx5_1,mlx5_0:1", "CCL_GID_INDEX=3",
                             "CCL_PKEY_INDEX=4", "CCL_TRAFFIC_CLASS=104", "CCL_SERVICE_LEVEL=5",
                             "CCL_IB_TIMEOUT=20", "CCL_IB_RETRIES=7", "CCL_RDMA_MTU=1024"}));
  REQUIRE(chosen.size() == 3);
  CHECK(chosen[0].device == "mlx5_0:2");
  CHECK(chosen[1].device == "mlx5_1");
  CHECK(chosen[2].device == "mlx5_0:1");
  for (const NicOptions &options : chosen) {
    CHECK(options.gidIndex == 3);
    CHECK(options.pkeyIndex == 4);
    CHECK(options.trafficClass == 104);
    CHECK(options.serviceLevel == 5);
    CHECK(options.timeout == 20);
    CHECK(options.retries == 7);
    CHECK(options.mtu == 1024);
  }
}

TEST_CASE("rdma settings: what is wrong is named") {
  for (const char *wrong : {"CCL_NICS=,", "CCL_NICS=mlx5_0,", "CCL_NICS=mlx5_0:", "CCL_NICS=:1",
                            "CCL_NICS=mlx5_0:0", "CCL_NICS=mlx5_0:one", "CCL_NICS=a:1:2"})
    CHECK(errorOf({wrong}) ==
          std::string(wrong) + ": expected devices, or devices and ports, as in mlx5_0,mlx5_1:2");
  CHECK(errorOf({"CCL_NICS=a,b,a"}) == "CCL_NICS=a,b,a: a is there twice");
  CHECK(errorOf({"CCL_RDMA_MTU=1000"}) ==
        "CCL_RDMA_MTU=1000: expected power of two from 256 to 4096");
  CHECK(errorOf({"CCL_IB_RETRIES=8"}) == "CCL_IB_RETRIES=8: expected whole number from 0 to 7");
  CHECK(contains(errorOf({"CCL_VERBS_LIBRARY=/nowhere/x.so"}), "cannot load libibverbs: /nowhere"));
}
