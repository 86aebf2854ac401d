//===- SmallFloatsTest.cpp - 16- and 8-bit floats, and averages ------------===//
//
// Against LLVM's numbers in software.
//===----------------------------------------------------------------------===//
#include "test/unit/codegen/Loops.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace ccl::test {
namespace {

struct Format {
  ElementType type;
  const llvm::fltSemantics *semantics;

  float number(uint32_t code) const {
    llvm::APFloat value(*semantics, llvm::APInt(bits(), code));
    bool inexact;
    value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return value.convertToFloat();
  }
  uint32_t code(float number) const {
    llvm::APFloat value(number);
    bool inexact;
    value.convert(*semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
    return uint32_t(value.bitcastToAPInt().getZExtValue());
  }
  unsigned bits() const { return unsigned(8 * sizeOf(type)); }
  uint32_t load(const char *at) const {
    uint32_t code = 0;
    std::memcpy(&code, at, size_t(sizeOf(type)));
    return code;
  }
  void store(char *at, uint32_t code) const { std::memcpy(at, &code, size_t(sizeOf(type))); }
  bool same(uint32_t a, uint32_t b) const {
    return a == b || (std::isnan(number(a)) && std::isnan(number(b)));
  }
};

const Format half{ElementType::F16, &llvm::APFloat::IEEEhalf()};
const Format bfloat{ElementType::BF16, &llvm::APFloat::BFloat()};
const Format e4m3{ElementType::F8E4M3, &llvm::APFloat::Float8E4M3FN()};
const Format e5m2{ElementType::F8E5M2, &llvm::APFloat::Float8E5M2()};
const Format smallFormats[] = {half, bfloat, e4m3, e5m2};

/// With the conversions of this machine, and without any.
std::vector<host::Processor> processors() {
  host::Processor plain = host::hostProcessor();
  plain.convertsHalf = false;
  return {host::hostProcessor(), plain};
}

float combineFloats(Reduction reduction, float a, float b) {
  if (reduction == Reduction::Min || reduction == Reduction::Max) {
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<float>::quiet_NaN();
    return (reduction == Reduction::Min ? a < b : a > b) ? a : b;
  }
  return combine(reduction, a, b);
}

/// How many elements of a combination of `codes` (one row for each source) are wrong.
int64_t countWrong(const Format &format, Loops &loops, Reduction reduction,
                   const std::vector<std::vector<uint32_t>> &codes) {
  const size_t n = codes.front().size(), size = size_t(sizeOf(format.type));
  std::vector<std::vector<char>> memory(codes.size() + 1, std::vector<char>(n * size, 0x55));
  std::vector<void *> pointers;
  for (size_t s = 0; s < codes.size(); ++s)
    for (size_t i = 0; i < n; ++i)
      format.store(&memory[s][i * size], codes[s][i]);
  for (auto &row : memory)
    pointers.push_back(row.data());
  loops(unsigned(codes.size()), 1, pointers, int64_t(n));
  int64_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    float value = format.number(codes[0][i]);
    for (size_t s = 1; s < codes.size(); ++s)
      value = combineFloats(reduction, value, format.number(codes[s][i]));
    wrong += !format.same(format.load(&memory.back()[i * size]), format.code(value));
  }
  return wrong;
}

} // namespace

TEST_CASE("small floats: every code is kept by max with itself") {
  for (const Format &format : smallFormats)
    for (host::Processor processor : processors()) {
      CAPTURE(std::string(name(format.type)));
      CAPTURE(processor.convertsHalf);
      Loops loops(format.type, Reduction::Max, {{2, 1}}, processor);
      std::vector<uint32_t> codes;
      for (uint32_t code = 0; code < (1u << format.bits()); ++code)
        codes.push_back(code);
      CHECK(countWrong(format, loops, Reduction::Max, {codes, codes}) == 0);
    }
}

TEST_CASE("8-bit floats: every pair") {
  for (const Format &format : {e4m3, e5m2})
    for (host::Processor processor : processors())
      for (Reduction reduction : arithmetic) {
        CAPTURE(std::string(name(format.type)));
        CAPTURE(std::string(model::name(reduction)));
        CAPTURE(processor.convertsHalf);
        Loops loops(format.type, reduction, {{2, 1}}, processor);
        std::vector<uint32_t> a, b;
        for (uint32_t pair = 0; pair < 65536; ++pair) {
          a.push_back(pair & 255);
          b.push_back(pair >> 8);
        }
        CHECK(countWrong(format, loops, reduction, {a, b}) == 0);
      }
}

TEST_CASE("small floats: sources are combined in f32 and rounded once") {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  CAPTURE(seed);
  for (const Format &format : smallFormats)
    for (host::Processor processor : processors())
      for (Reduction reduction : arithmetic) {
        CAPTURE(std::string(name(format.type)));
        CAPTURE(std::string(model::name(reduction)));
        CAPTURE(processor.convertsHalf);
        Loops loops(format.type, reduction, {{2, 1}, {3, 1}, {8, 1}}, processor);
        for (size_t sources : {2, 3, 8})
          for (size_t n : {1, 17, 20000}) {
            // Any bits, and numbers of like size, whose sums round.
            std::vector<std::vector<uint32_t>> any(sources), like(sources);
            for (size_t i = 0; i < sources * n; ++i) {
              any[i % sources].push_back(random() & ((1u << format.bits()) - 1));
              like[i % sources].push_back(format.code(float(random() % 2048) / 1024 - 0.75f));
            }
            CHECK(countWrong(format, loops, reduction, any) == 0);
            CHECK(countWrong(format, loops, reduction, like) == 0);
          }
      }
  // 1 + 2^-8 + 2^-8 in bf16: rounded after every addition it would stay 1.
  Loops loops(ElementType::BF16, Reduction::Sum, {{3, 1}});
  CHECK(bfloat.number(0x3b80) == 1.0f / 256);
  std::vector<uint16_t> one{0x3f80}, tiny{0x3b80}, out{0};
  loops(3, 1, {one.data(), tiny.data(), tiny.data(), out.data()}, 1);
  CHECK(bfloat.number(out[0]) == 1 + 2.0f / 256);
}

TEST_CASE("small floats: NaN, infinity and what is too large") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Format &format : smallFormats)
    for (host::Processor processor : processors()) {
      CAPTURE(std::string(name(format.type)));
      CAPTURE(processor.convertsHalf);
      auto of = [&](Reduction reduction, uint32_t a, uint32_t b) {
        Loops loops(format.type, reduction, {{2, 1}}, processor);
        char memory[3][4] = {};
        format.store(memory[0], a);
        format.store(memory[1], b);
        loops(2, 1, {memory[0], memory[1], memory[2]}, 1);
        return format.number(format.load(memory[2]));
      };
      const uint32_t nan = format.code(NAN), one = format.code(1);
      for (Reduction reduction : arithmetic) {
        CHECK(std::isnan(of(reduction, nan, one)));
        CHECK(std::isnan(of(reduction, one, nan)));
      }
      const bool finite = format.type == ElementType::F8E4M3; // has no infinity
      uint32_t largest = finite ? 0x7e : format.code(inf) - 1;
      const float twice = of(Reduction::Sum, largest, largest);
      CHECK((finite ? std::isnan(twice) : twice == inf));
      CHECK(of(Reduction::Sum, largest, one) == format.number(largest)); // rounds back
      if (finite)
        continue;
      const uint32_t plus = format.code(inf), minus = format.code(-inf);
      CHECK(of(Reduction::Sum, plus, one) == inf);
      CHECK(std::isnan(of(Reduction::Sum, plus, minus)));
      CHECK(of(Reduction::Min, minus, one) == -inf);
      CHECK(of(Reduction::Max, plus, one) == inf);
      CHECK(of(Reduction::Prod, largest, format.code(-2)) == -inf);
    }
}

template <typename T>
static void checkAverage(ElementType type) {
  Loops loops(type, Reduction::Avg, {{2, 1}});
  std::mt19937_64 random(5);
  for (int64_t ranks : {1, 2, 3, 7, 64, 4096})
    for (int64_t n : {0, 1, 17, 1000}) {
      std::vector<T> values = randomElements<T>(random, n + 1), out(size_t(n) + 1, T(77));
      if (n > 1) {
        values[0] = std::numeric_limits<T>::max();
        values[1] = std::numeric_limits<T>::lowest();
      }
      loops.finish(out.data(), values.data(), n, ranks);
      int64_t wrong = out[size_t(n)] != T(77);
      for (size_t i = 0; i < size_t(n); ++i) {
        T want;
        if constexpr (!std::is_integral_v<T>)
          want = values[i] / T(ranks);
        else if constexpr (std::is_signed_v<T>)
          want = T(int64_t(values[i]) / ranks);
        else
          want = T(uint64_t(values[i]) / uint64_t(ranks));
        wrong += out[i] != want;
      }
      CAPTURE(std::string(name(type)));
      CAPTURE(ranks);
      CAPTURE(n);
      CHECK(wrong == 0);
      loops.finish(values.data(), values.data(), n, ranks); // in place
      values[size_t(n)] = out[size_t(n)];
      CHECK(values == out);
    }
}

TEST_CASE("averages: sums, divided once at the end") {
  checkAverage<int8_t>(ElementType::I8);
  checkAverage<uint8_t>(ElementType::U8);
  checkAverage<int32_t>(ElementType::I32);
  checkAverage<uint32_t>(ElementType::U32);
  checkAverage<int64_t>(ElementType::I64);
  checkAverage<uint64_t>(ElementType::U64);
  checkAverage<float>(ElementType::F32);
  checkAverage<double>(ElementType::F64);
  for (const Format &format : smallFormats)
    for (host::Processor processor : processors()) {
      Loops loops(format.type, Reduction::Avg, {{2, 1}}, processor);
      const size_t n = 1u << format.bits(), size = size_t(sizeOf(format.type));
      for (int64_t ranks : {1, 3, 8}) {
        std::vector<char> from(n * size), to(n * size);
        for (size_t i = 0; i < n; ++i)
          format.store(&from[i * size], uint32_t(i));
        loops.finish(to.data(), from.data(), int64_t(n), ranks);
        int64_t wrong = 0;
        for (size_t i = 0; i < n; ++i)
          wrong += !format.same(format.load(&to[i * size]),
                                format.code(format.number(uint32_t(i)) / float(ranks)));
        CAPTURE(std::string(name(format.type)));
        CAPTURE(ranks);
        CHECK(wrong == 0);
      }
    }
  // The loop is that of a sum.
  Loops loops(ElementType::I32, Reduction::Avg, {{2, 1}});
  int32_t a[] = {7, -7}, b[] = {4, -4}, out[2];
  loops(2, 1, {a, b, out}, 2);
  loops.finish(out, out, 2, 2);
  CHECK(out[0] == 5);
  CHECK(out[1] == -5);
}

} // namespace ccl::test
