//===- SizesTest.cpp - Numbers as people type them --------------------------===//
#include "frontend/cli/Sizes.h"

#include <doctest/doctest.h>

using namespace ccl;
using namespace ccl::cli;

namespace {

using Numbers = std::vector<int64_t>;

int64_t size(llvm::StringRef text) {
  llvm::Expected<int64_t> value = parseSize(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return -1;
  }
  return *value;
}

Numbers ranks(llvm::StringRef text) {
  llvm::Expected<Numbers> values = parseRanks(text);
  if (!values) {
    llvm::consumeError(values.takeError());
    return {};
  }
  return *values;
}

Numbers bytes(llvm::StringRef text) {
  llvm::Expected<Sweep> sweep = parseBytes(text);
  if (!sweep) {
    llvm::consumeError(sweep.takeError());
    return {};
  }
  return sweep->values;
}

TEST_CASE("sizes have binary suffixes") {
  CHECK(size("0") == 0);
  CHECK(size("4096") == 4096);
  CHECK(size("8K") == 8192);
  CHECK(size("64m") == 64 << 20);
  CHECK(size("2GiB") == int64_t(2) << 30);
  CHECK(size("3kb") == 3072);
  CHECK(size("1T") == int64_t(1) << 40);
  for (const char *wrong :
       {"", "K", "-1", "8Q", "8KK", "1.5M", "99999999999G", "18446744073709551616"})
    CHECK_MESSAGE(size(wrong) == -1, wrong);
}

TEST_CASE("numbers of ranks are lists and ranges") {
  CHECK(ranks("4") == Numbers{4});
  CHECK(ranks("2,3,8") == Numbers{2, 3, 8});
  CHECK(ranks("2..4, 16") == Numbers{2, 3, 4, 16});
  for (const char *wrong : {"", "0", "4..2", "a", "2,,3", "1..", "..4", "1..1000000000000"})
    CHECK_MESSAGE(ranks(wrong).empty(), wrong);
}

TEST_CASE("a range of bytes ends with its end") {
  CHECK(bytes("8:64") == Numbers{8, 16, 32, 64});
  CHECK(bytes("8:100:8") == Numbers{8, 64, 100});
  CHECK(bytes("1K") == Numbers{1024});
  CHECK(bytes("0:4") == Numbers{0, 1, 2, 4});
  CHECK(bytes("8:64M:8").back() == 64 << 20);
  for (const char *wrong : {"8:4", "8:64:1", "8:64:2:2", "8:"})
    CHECK_MESSAGE(bytes(wrong).empty(), wrong);
}

TEST_CASE("nccl-tests' sweep never passes its end") {
  CHECK(llvm::cantFail(sweepOf(8, 100, 8, 0)).values == Numbers{8, 64});
  CHECK(llvm::cantFail(sweepOf(8, 20, 1, 5)).values == Numbers{8, 13, 18});
  CHECK(llvm::cantFail(sweepOf(8, 8, 1, 0)).values == Numbers{8});
  CHECK(llvm::cantFail(sweepOf(INT64_MAX - 1, INT64_MAX, 2, 0)).values == Numbers{INT64_MAX - 1});
}

TEST_CASE("sizes become shards of the larger buffer") {
  Sweep sweep{true, {8, 64, 1024}};
  CHECK(sweep.counts(4, 1) == Numbers{2, 16, 256});
  CHECK(sweep.counts(4, 4) == Numbers{0, 4, 64});
  CHECK(Sweep{false, {17}}.counts(8, 4) == Numbers{17});
  CHECK(sweep.counts(4, 0) == Numbers{0}); // a barrier has no data
}

TEST_CASE("bandwidth is counted as nccl-tests does") {
  model::Contract contract;
  contract.ranks = 4;
  contract.collective = model::Collective::AllReduce;
  CHECK(busFactor(contract) == doctest::Approx(1.5));
  CHECK(sizeInBytes(contract, 10, 4) == 40);
  contract.collective = model::Collective::AllGather;
  CHECK(busFactor(contract) == doctest::Approx(0.75));
  CHECK(sizeInBytes(contract, 10, 4) == 160);
  contract.collective = model::Collective::Broadcast;
  CHECK(busFactor(contract) == 1);
  CHECK(sizeInBytes(contract, 10, 4) == 40);
}

TEST_CASE("grids and bindings") {
  CHECK(llvm::cantFail(parseGrid("2x4")) == Numbers{2, 4});
  CHECK(llvm::errorToBool(parseGrid("2x").takeError()));
  CHECK(llvm::cantFail(parseBinding("%n=4")) == std::pair<std::string, int64_t>("n", 4));
  CHECK(llvm::errorToBool(parseBinding("n").takeError()));
}

} // namespace
