//===- Plan.cpp - Names in plans -------------------------------------------===//
#include "runtime/plan/Plan.h"

#include <array>

namespace ccl {
namespace {

struct TypeRow {
  ElementType type;
  int64_t bytes;
  std::string_view name;  ///< nccl-tests'
  std::string_view alias; ///< MLIR's
};

constexpr std::array<TypeRow, 12> typeTable = {{
    {ElementType::I8, 1, "int8", "i8"},
    {ElementType::U8, 1, "uint8", "u8"},
    {ElementType::I32, 4, "int32", "i32"},
    {ElementType::U32, 4, "uint32", "u32"},
    {ElementType::I64, 8, "int64", "i64"},
    {ElementType::U64, 8, "uint64", "u64"},
    {ElementType::F16, 2, "half", "f16"},
    {ElementType::BF16, 2, "bfloat16", "bf16"},
    {ElementType::F32, 4, "float", "f32"},
    {ElementType::F64, 8, "double", "f64"},
    {ElementType::F8E4M3, 1, "f8e4m3", "f8E4M3FN"},
    {ElementType::F8E5M2, 1, "f8e5m2", "f8E5M2"},
}};

constexpr bool isInEnumOrder() {
  for (size_t i = 0; i < typeTable.size(); ++i)
    if (static_cast<size_t>(typeTable[i].type) != i)
      return false;
  return true;
}
static_assert(isInEnumOrder());

const TypeRow &row(ElementType t) { return typeTable[static_cast<size_t>(t)]; }

} // namespace

std::string agentName(int64_t number) {
  return (number % 2 ? "proxy " : "block ") + std::to_string(number / 2);
}

int64_t sizeOf(ElementType t) { return row(t).bytes; }

std::string_view name(ElementType t) { return row(t).name; }

std::optional<ElementType> parseElementType(std::string_view text) {
  for (const TypeRow &candidate : typeTable)
    if (text == candidate.name || text == candidate.alias)
      return candidate.type;
  return std::nullopt;
}

} // namespace ccl
