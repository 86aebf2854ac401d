//===- PatternsTest.cpp - The element loops against plain C++ --------------===//
#include "test/unit/codegen/Loops.h"

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace ccl::test {
namespace {

/// One shape: what the loop must do, next to guard elements, with one destination
/// equal to a source in every second round.
template <typename T>
void checkShape(Loops &loops, Reduction reduction, unsigned sources, unsigned destinations,
                int64_t n, bool inPlace, std::mt19937_64 &random) {
  const T guard = T(77);
  std::vector<std::vector<T>> memory;
  for (unsigned i = 0; i < sources + destinations; ++i) {
    memory.push_back(randomElements<T>(random, n + 2));
    memory.back().front() = memory.back().back() = guard;
  }
  auto expected = memory;
  for (int64_t i = 1; i <= n; ++i) {
    T value = memory[0][size_t(i)];
    for (unsigned s = 1; s < sources; ++s)
      value = combine(reduction, value, memory[s][size_t(i)]);
    for (unsigned d = 0; d < destinations; ++d)
      expected[sources + d][size_t(i)] = value;
  }
  std::vector<void *> pointers;
  for (auto &row : memory)
    pointers.push_back(row.data() + 1);
  if (inPlace) { // the last source is the first destination
    pointers[sources] = pointers[sources - 1];
    for (int64_t i = 1; i <= n; ++i)
      expected[sources - 1][size_t(i)] = expected[sources][size_t(i)];
    expected[sources] = memory[sources];
  }
  loops(sources, destinations, pointers, n);
  for (size_t row = 0; row < memory.size(); ++row) {
    CAPTURE(row);
    CHECK(std::memcmp(memory[row].data(), expected[row].data(), memory[row].size() * sizeof(T)) ==
          0);
  }
}

const std::vector<std::pair<unsigned, unsigned>> reduceShapes = {
    {2, 1}, {3, 1}, {2, 2}, {5, 2}, {8, 1}};
const std::vector<std::pair<unsigned, unsigned>> copyShapes = {{1, 1}, {1, 2}, {1, 3}};

template <typename T>
void checkType(ElementType type, const std::vector<Reduction> &reductions) {
  const unsigned seed = 42;
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  CAPTURE(std::string(name(type)));
  auto checkShapes = [&](Loops &loops, Reduction reduction, const auto &shapes) {
    for (auto [sources, destinations] : shapes)
      for (int64_t n : {0, 1, 17, 4097})
        for (bool inPlace : {false, true}) {
          CAPTURE(std::string(model::name(reduction)));
          CAPTURE(sources);
          CAPTURE(destinations);
          CAPTURE(n);
          CAPTURE(inPlace);
          checkShape<T>(loops, reduction, sources, destinations, n, inPlace, random);
        }
  };
  Loops copies(type, Reduction::None, copyShapes);
  checkShapes(copies, Reduction::None, copyShapes);
  for (Reduction reduction : reductions) {
    Loops loops(type, reduction, reduceShapes);
    checkShapes(loops, reduction, reduceShapes);
  }
}

const std::vector<Reduction> all = {Reduction::Sum, Reduction::Prod, Reduction::Min,
                                    Reduction::Max, Reduction::Band, Reduction::Bor,
                                    Reduction::Bxor};

template <typename T>
void checkNan(ElementType type) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), one = T(1), two = T(2);
  for (Reduction reduction : {Reduction::Min, Reduction::Max}) {
    Loops loops(type, reduction, {{2, 1}, {3, 1}});
    for (int64_t n : {1, 3, 100}) {
      const auto size = size_t(n);
      std::vector<T> with(size, nan), a(size, one), b(size, two), out(size);
      loops(2, 1, {with.data(), a.data(), out.data()}, n);
      CHECK(std::isnan(out.front()));
      CHECK(std::isnan(out.back()));
      loops(2, 1, {a.data(), with.data(), out.data()}, n);
      CHECK(std::isnan(out.front()));
      CHECK(std::isnan(out.back()));
      loops(3, 1, {a.data(), with.data(), b.data(), out.data()}, n);
      CHECK(std::isnan(out.back()));
      loops(3, 1, {a.data(), b.data(), a.data(), out.data()}, n);
      CHECK(out.back() == (reduction == Reduction::Min ? one : two));
    }
  }
}

} // namespace

TEST_CASE("integer loops") {
  checkType<int8_t>(ElementType::I8, all);
  checkType<uint8_t>(ElementType::U8, all);
  checkType<int32_t>(ElementType::I32, all);
  checkType<uint32_t>(ElementType::U32, all);
  checkType<int64_t>(ElementType::I64, all);
  checkType<uint64_t>(ElementType::U64, all);
}

TEST_CASE("float loops, bit by bit: sums go from left to right") {
  checkType<float>(ElementType::F32, arithmetic);
  checkType<double>(ElementType::F64, arithmetic);
}

TEST_CASE("copies do not look at the elements") {
  checkType<uint16_t>(ElementType::F16, {});
  checkType<uint16_t>(ElementType::BF16, {});
  checkType<uint8_t>(ElementType::F8E4M3, {});
}

TEST_CASE("a copy to where the source is writes nothing there") {
  Loops loops(ElementType::I32, Reduction::None, {{1, 1}, {1, 2}, {1, 3}});
  constexpr int64_t n = 1000;
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  void *source = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(source != MAP_FAILED);
  REQUIRE(size_t(n) * 4 <= page);
  std::iota(static_cast<int32_t *>(source), static_cast<int32_t *>(source) + n, 5);
  REQUIRE(mprotect(source, page, PROT_READ) == 0);
  std::vector<int32_t> a(n), b(n);
  const std::vector<std::vector<void *>> all = {{source, source},
                                                {source, source, source},
                                                {source, source, a.data()},
                                                {source, b.data(), source, source}};
  for (const std::vector<void *> &pointers : all)
    loops(1, unsigned(pointers.size() - 1), pointers, n);
  for (const std::vector<int32_t> &copy : {a, b})
    CHECK(std::memcmp(copy.data(), source, size_t(n) * 4) == 0);
  munmap(source, page);
}

TEST_CASE("min and max of floats: NaN wins from either side") {
  checkNan<float>(ElementType::F32);
  checkNan<double>(ElementType::F64);
}

TEST_CASE("combinations without code are named") {
  llvm::LLVMContext context;
  llvm::Module module("none", context);
  auto why = [&](ElementType type, Reduction reduction) {
    return host::Patterns(module, type, reduction).whyNotReducible();
  };
  CHECK(why(ElementType::F32, Reduction::Sum) == "");
  CHECK(why(ElementType::F16, Reduction::Sum) == "");
  CHECK(why(ElementType::F8E4M3, Reduction::Avg) == "");
  CHECK(why(ElementType::F16, Reduction::Band).find("'band' of 'half'") != std::string::npos);
  CHECK(why(ElementType::F8E5M2, Reduction::Bor).find("'bor' of 'f8e5m2'") != std::string::npos);
  CHECK(why(ElementType::F64, Reduction::Bxor).find("'bxor' of 'double'") != std::string::npos);
  CHECK(why(ElementType::I32, Reduction::None) != "");
}

TEST_CASE("sanitizer passes reach every access") {
  llvm::LLVMContext context;
  for (std::string sanitizer : {"address", "thread"}) {
    llvm::Module module("sanitized", context);
    host::Patterns patterns(module, ElementType::F32, Reduction::Sum);
    patterns.get(2, 1)->setLinkage(llvm::Function::ExternalLinkage);
    patterns.get(1, 1)->setLinkage(llvm::Function::ExternalLinkage);
    std::string ir;
    llvm::cantFail(compileToObject(module, {ElementType::F32, Reduction::Sum, sanitizer}, &ir));
    bool thread = sanitizer == "thread";
    CHECK(ir.find(thread ? "call void @__tsan_read4" : "call void @__asan_report_load4") !=
          std::string::npos);
    CHECK(ir.find(thread ? "call void @__tsan_write4" : "call void @__asan_report_store4") !=
          std::string::npos);
    CHECK(ir.find(thread ? "@__tsan_memcpy" : "@__asan_memcpy") != std::string::npos);
    CHECK(ir.find("x float>") == std::string::npos);
  }
  llvm::Module module("unknown", context);
  llvm::Expected<std::string> object =
      compileToObject(module, {ElementType::F32, Reduction::Sum, "memory"});
  REQUIRE_FALSE(bool(object));
  CHECK(llvm::toString(object.takeError()).find("'memory'") != std::string::npos);
}

TEST_CASE("vectors are as wide as the machine's") {
  std::string key = hostTargetKey();
  int width = key.find("+avx512bw") != std::string::npos ? 16
              : key.find("+avx,") != std::string::npos   ? 8
                                                         : 4;
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16,
                           ElementType::F8E4M3, ElementType::F8E5M2}) {
    CAPTURE(std::string(name(type)));
    Loops loops(type, Reduction::Sum, {{3, 1}, {3, 2}});
    CHECK(loops.ir.find("fadd <" + std::to_string(width) + " x float>") != std::string::npos);
    CHECK(loops.ir.find("fdiv <" + std::to_string(width) + " x float>") != std::string::npos);
    CHECK(loops.ir.find("vector.memcheck") == std::string::npos);
  }
  Loops bytes(ElementType::U8, Reduction::Avg, {{2, 1}});
  CHECK(bytes.ir.find("fdiv <" + std::to_string(width) + " x float>") != std::string::npos);
}

} // namespace ccl::test
