//===- ValuesTest.cpp - Inputs and judgement of every type and operation ----===//
//
// All-reduces by hand, in any order and with partial results stored in the element type: what
// a right program may do has nothing wrong, what lacks a rank or has one twice has.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Formats.h"
#include "frontend/cli/Workload.h"

#include "llvm/ADT/APFloat.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace ccl;
using namespace ccl::cli;
using model::Reduction;

namespace {

const llvm::fltSemantics *semanticsOf(ElementType type) {
  switch (type) {
  case ElementType::F16: return &llvm::APFloat::IEEEhalf();
  case ElementType::BF16: return &llvm::APFloat::BFloat();
  case ElementType::F8E4M3: return &llvm::APFloat::Float8E4M3FN();
  case ElementType::F8E5M2: return &llvm::APFloat::Float8E5M2();
  default: return nullptr;
  }
}

float numberOf(const llvm::fltSemantics &semantics, unsigned bits, uint32_t code) {
  llvm::APFloat value(semantics, llvm::APInt(bits, code));
  bool inexact;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value.convertToFloat();
}

uint32_t codeOf(const llvm::fltSemantics &semantics, float number) {
  llvm::APFloat value(number);
  bool inexact;
  value.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
  return uint32_t(value.bitcastToAPInt().getZExtValue());
}

const ElementType small[] = {ElementType::F16, ElementType::BF16, ElementType::F8E4M3,
                             ElementType::F8E5M2};
const ElementType wide[] = {ElementType::I8,  ElementType::U8,  ElementType::I32, ElementType::U32,
                            ElementType::I64, ElementType::U64, ElementType::F32, ElementType::F64};

template <typename T>
T combine(Reduction reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (reduction) {
    case Reduction::Band: return T(a & b);
    case Reduction::Bor: return T(a | b);
    case Reduction::Bxor: return T(a ^ b);
    case Reduction::Prod: return T(uint64_t(U(a)) * U(b));
    case Reduction::Min: return std::min(a, b);
    case Reduction::Max: return std::max(a, b);
    default: return T(uint64_t(U(a)) + U(b));
    }
  } else {
    switch (reduction) {
    case Reduction::Prod: return a * b;
    case Reduction::Min: return std::min(a, b);
    case Reduction::Max: return std::max(a, b);
    default: return a + b;
    }
  }
}

/// The result of combining the inputs of the ranks in `order`, one after the other.
template <typename T, typename Load, typename Store>
std::vector<char> reduce(const Workload &workload, Reduction reduction,
                         const std::vector<int64_t> &order, int64_t count, Load load, Store store) {
  const auto size = size_t(workload.elementBytes());
  std::vector<char> sum(size_t(count) * size), input(sum.size());
  for (size_t i = 0; i < order.size(); ++i) {
    workload.fill(order[i], 5, 0, count, (i ? input : sum).data());
    for (int64_t e = 0; i && e < count; ++e) {
      char *at = &sum[size_t(e) * size];
      store(at, combine<T>(reduction, load(at), load(&input[size_t(e) * size])));
    }
  }
  const int64_t ranks = workload.contract().ranks;
  for (int64_t e = 0; reduction == Reduction::Avg && e < count; ++e) {
    char *at = &sum[size_t(e) * size];
    if constexpr (!std::is_integral_v<T>)
      store(at, load(at) / T(ranks));
    else if constexpr (std::is_signed_v<T>)
      store(at, T(int64_t(load(at)) / ranks));
    else
      store(at, T(uint64_t(load(at)) / uint64_t(ranks)));
  }
  return sum;
}

template <typename T, typename Load, typename Store>
void checkJudge(ElementType type, Reduction reduction, int64_t ranks, Load load, Store store) {
  CAPTURE(std::string(name(type)));
  CAPTURE(std::string(model::name(reduction)));
  CAPTURE(ranks);
  model::Contract contract;
  contract.reduction = reduction;
  contract.ranks = ranks;
  const Workload workload(contract, type);
  const int64_t count = 400;
  auto countWrong = [&](const std::vector<int64_t> &order) {
    std::vector<char> result = reduce<T>(workload, reduction, order, count, load, store);
    return workload.countWrong(ranks - 1, 5, count, result.data());
  };
  std::mt19937 random(3);
  std::vector<int64_t> order;
  for (int64_t r = 0; r < ranks; ++r)
    order.push_back(r);
  CHECK(countWrong(order) == 0);
  std::shuffle(order.begin(), order.end(), random);
  CHECK(countWrong(order) == 0);
  // An extreme of many bytes is there without any one rank.
  const bool isExtreme = reduction == Reduction::Min || reduction == Reduction::Max ||
                         reduction == Reduction::Band || reduction == Reduction::Bor;
  if (ranks == 1 || (isExtreme && ranks > 3))
    return;
  std::vector<int64_t> less(order.begin() + 1, order.end()), more = order;
  // An average may be too small to show it in integers.
  if (reduction == Reduction::Avg && std::is_integral_v<T> && ranks > 3)
    return;
  CHECK(countWrong(less) > 0);
  more.push_back(order.front());
  if (!isExtreme)
    CHECK(countWrong(more) > 0);
}

TEST_CASE("small floats are stored as LLVM stores them") {
  std::mt19937 random(11);
  for (ElementType type : small)
    withFormat(type, /*reduces=*/true, [&](auto format) {
      CAPTURE(std::string(name(type)));
      const llvm::fltSemantics &semantics = *semanticsOf(type);
      const unsigned bits = unsigned(8 * sizeOf(type));
      int64_t wrong = 0;
      auto check = [&](float number) {
        uint32_t have = format.store(number), want = codeOf(semantics, number);
        wrong += have != want && !(std::isnan(numberOf(semantics, bits, have)) &&
                                   std::isnan(numberOf(semantics, bits, want)));
      };
      for (uint32_t code = 0; code < (1u << bits); ++code) {
        float number = numberOf(semantics, bits, code);
        float next = numberOf(semantics, bits, (code + 1) & ((1u << bits) - 1));
        float between = number + (next - number) / 2; // a tie
        for (float f : {number, between, std::nextafter(between, -INFINITY),
                        std::nextafter(between, INFINITY)})
          check(f);
      }
      for (int i = 0; i < 100000; ++i)
        check(std::bit_cast<float>(uint32_t(random())));
      CHECK(wrong == 0);
    });
}

TEST_CASE("results of every type and operation are judged exactly") {
  const std::vector<Reduction> arithmetic = {Reduction::Sum, Reduction::Prod, Reduction::Min,
                                             Reduction::Max, Reduction::Avg};
  const std::vector<Reduction> bitwise = {Reduction::Band, Reduction::Bor, Reduction::Bxor};
  for (int64_t ranks : {1, 2, 3, 8, 16, 64, 200}) {
    for (ElementType type : small)
      for (Reduction reduction : arithmetic) {
        const llvm::fltSemantics &semantics = *semanticsOf(type);
        const auto size = size_t(sizeOf(type));
        checkJudge<float>(
            type, reduction, ranks,
            [&](const char *at) {
              uint32_t code = 0;
              std::memcpy(&code, at, size);
              return numberOf(semantics, unsigned(8 * size), code);
            },
            [&](char *at, float number) {
              uint32_t code = codeOf(semantics, number);
              std::memcpy(at, &code, size);
            });
      }
    for (ElementType type : wide)
      withFormat(type, true, [&](auto format) {
        using T = typename decltype(format)::Number;
        auto load = [](const char *at) {
          T value;
          std::memcpy(&value, at, sizeof(T));
          return value;
        };
        auto store = [](char *at, T value) { std::memcpy(at, &value, sizeof(T)); };
        for (Reduction reduction : arithmetic)
          checkJudge<T>(type, reduction, ranks, load, store);
        if constexpr (std::is_integral_v<T>)
          for (Reduction reduction : bitwise)
            checkJudge<T>(type, reduction, ranks, load, store);
      });
  }
}

} // namespace
