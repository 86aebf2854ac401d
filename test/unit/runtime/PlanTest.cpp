//===- PlanTest.cpp ---------------------------------------------------------===//
#include "runtime/plan/Plan.h"

#include <doctest/doctest.h>

using namespace ccl;

TEST_CASE("element types by nccl-tests' and MLIR's names") {
  const struct {
    std::string_view name, alias;
    int64_t bytes;
  } rows[] = {{"int8", "i8", 1},    {"uint8", "u8", 1},        {"int32", "i32", 4},
              {"uint32", "u32", 4}, {"int64", "i64", 8},       {"uint64", "u64", 8},
              {"half", "f16", 2},   {"bfloat16", "bf16", 2},   {"float", "f32", 4},
              {"double", "f64", 8}, {"f8e4m3", "f8E4M3FN", 1}, {"f8e5m2", "f8E5M2", 1}};
  for (const auto &row : rows) {
    CAPTURE(row.name);
    const auto type = parseElementType(row.name);
    REQUIRE(type);
    CHECK(name(*type) == row.name);
    CHECK(sizeOf(*type) == row.bytes);
    CHECK(parseElementType(row.alias) == type);
  }
  for (std::string_view text : {"", "f", "int", "float32x", "I32"})
    CHECK_FALSE(parseElementType(text));
}
