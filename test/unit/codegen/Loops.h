//===- Loops.h - Element loops, to be called with plain memory -------------===//
#pragma once

#include "codegen/host/Patterns.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <random>

namespace ccl::test {

using model::Reduction;

/// The functions of one (type, reduction); they are internal in a kernel's module.
class Loops {
public:
  Loops(ElementType type, Reduction reduction,
        const std::vector<std::pair<unsigned, unsigned>> &shapes,
        host::Processor processor = host::hostProcessor()) {
    llvm::LLVMContext context;
    llvm::Module module("patterns", context);
    host::Patterns patterns(module, type, reduction, processor);
    for (auto [sources, destinations] : shapes)
      patterns.get(sources, destinations)->setLinkage(llvm::Function::ExternalLinkage);
    patterns.emitFinish("finish");
    code =
        std::make_unique<Linked>(llvm::cantFail(compileToObject(module, {type, reduction}, &ir)));
  }

  void operator()(unsigned sources, unsigned destinations, std::vector<void *> p, int64_t n) {
    std::string name = (sources > 1 ? "reduce_" : "copy_") + std::to_string(sources) + "_" +
                       std::to_string(destinations);
    REQUIRE(p.size() == sources + destinations);
    using V = void *;
    switch (p.size()) {
    case 2: return code->get<void (*)(V, V, int64_t)>(name)(p[0], p[1], n);
    case 3: return code->get<void (*)(V, V, V, int64_t)>(name)(p[0], p[1], p[2], n);
    case 4: return code->get<void (*)(V, V, V, V, int64_t)>(name)(p[0], p[1], p[2], p[3], n);
    case 7:
      return code->get<void (*)(V, V, V, V, V, V, V, int64_t)>(name)(p[0], p[1], p[2], p[3], p[4],
                                                                     p[5], p[6], n);
    case 9:
      return code->get<void (*)(V, V, V, V, V, V, V, V, V, int64_t)>(name)(
          p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], n);
    default: FAIL("no call for so many pointers");
    }
  }

  void finish(void *to, const void *from, int64_t n, int64_t ranks) {
    code->get<FinishFunction>("finish")(to, from, n, ranks);
  }

  std::string ir;

private:
  std::unique_ptr<Linked> code;
};

template <typename T>
T combine(Reduction reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>; // wraps
    switch (reduction) {
    case Reduction::Sum: return T(U(a) + U(b));
    case Reduction::Prod: return T(U(uint64_t(U(a)) * uint64_t(U(b))));
    case Reduction::Band: return T(a & b);
    case Reduction::Bor: return T(a | b);
    case Reduction::Bxor: return T(a ^ b);
    default: break;
    }
  }
  switch (reduction) {
  case Reduction::Sum: return T(a + b);
  case Reduction::Prod: return T(a * b);
  case Reduction::Min: return std::min(a, b);
  default: return std::max(a, b);
  }
}

template <typename T>
std::vector<T> randomElements(std::mt19937_64 &random, int64_t n) {
  std::vector<T> elements(static_cast<size_t>(n));
  for (T &element : elements)
    if constexpr (std::is_integral_v<T>)
      element = T(random());
    else
      element = T(int64_t(random() % 2001) - 1000) / T(8);
  return elements;
}

inline const std::vector<Reduction> arithmetic = {Reduction::Sum, Reduction::Prod, Reduction::Min,
                                                  Reduction::Max};

} // namespace ccl::test
