//===- RankSolver.cpp -------------------------------------------------------===//

#include "passes/lowering/RankSolver.h"

using namespace mlir;

namespace ccl {
namespace {

class Solver {
public:
  Solver(ArrayRef<StepVariable> variables, MLIRContext *context)
      : variables(variables), context(context) {
    solution.values.resize(variables.size());
  }

  std::optional<RankSolution> run(ArrayRef<AffineExpr> rank, ArrayRef<AffineExpr> me) {
    // An axis may become solvable once another axis has fixed a variable.
    auto open = llvm::to_vector(llvm::seq<unsigned>(0, rank.size()));
    while (!open.empty()) {
      auto solved = llvm::find_if(open, [&](unsigned a) { return solveAxis(rank[a], me[a]); });
      if (solved == open.end())
        return std::nullopt;
      open.erase(solved);
    }
    return solution;
  }

private:
  AffineExpr constant(int64_t value) { return getAffineConstantExpr(value, context); }

  AffineExpr substitute(AffineExpr e) {
    DenseMap<AffineExpr, AffineExpr> map;
    for (auto [variable, value] : llvm::zip_equal(variables, solution.values))
      if (value)
        map[getAffineDimExpr(variable.dim, context)] = value;
    return normalizeIndex(e.replace(map));
  }

  /// Index of the unknown that `e` is, or -1.
  int unknown(AffineExpr e) {
    for (auto [i, variable] : llvm::enumerate(variables))
      if (!solution.values[i] && e == getAffineDimExpr(variable.dim, context))
        return int(i);
    return -1;
  }
  bool hasUnknown(AffineExpr e) {
    bool found = false;
    e.walk([&](AffineExpr x) { found |= unknown(x) >= 0; });
    return found;
  }

  bool solveAxis(AffineExpr rank, AffineExpr me) {
    AffineExpr e = substitute(rank);
    if (!hasUnknown(e)) {
      solution.guards.push_back({normalizeIndex(e - me), 0, 1});
      return true;
    }
    return solveMixedRadix(e, me) || solveInvolution(e, me);
  }

  /// base + sum of c_i q_i, possibly mod N, where the smaller terms never reach the
  /// next larger coefficient: the q_i are the digits of me - base.
  bool solveMixedRadix(AffineExpr e, AffineExpr me) {
    int64_t modulus = stripModulus(e);
    LinearForm form = LinearForm::of(e), base;
    base.constant = form.constant;
    struct Digit {
      unsigned variable;
      int64_t coefficient;
      bool reflected;
    };
    SmallVector<Digit> digits;
    for (auto &[atom, factor] : form.terms) {
      int v = unknown(atom);
      if (v < 0 && hasUnknown(atom))
        return false;
      if (v < 0) {
        base.add(atom, factor);
        continue;
      }
      const StepVariable &variable = variables[v];
      int64_t c = factor * variable.step;
      base.constant += factor * variable.lower;
      if (c < 0) // count from the other end
        base.constant += c * (variable.extent - 1);
      digits.push_back({unsigned(v), std::abs(c), c < 0});
    }
    llvm::sort(digits, [](auto &a, auto &b) { return a.coefficient > b.coefficient; });
    int64_t span = 0;
    for (const Digit &digit : llvm::reverse(digits)) {
      if (digit.coefficient <= span)
        return false;
      span += digit.coefficient * (variables[digit.variable].extent - 1);
    }
    if (modulus && span >= modulus)
      return false;

    AffineExpr rest = normalizeIndex(me - base.build(context));
    if (modulus)
      rest = normalizeIndex(rest % modulus);
    for (const Digit &digit : digits) {
      const StepVariable &variable = variables[digit.variable];
      AffineExpr q = normalizeIndex(rest.floorDiv(digit.coefficient));
      rest = normalizeIndex(rest % digit.coefficient);
      solution.guards.push_back({q, 0, variable.extent});
      if (digit.reflected)
        q = constant(variable.extent - 1) - q;
      solution.values[digit.variable] = normalizeIndex(q * variable.step + variable.lower);
    }
    if (rest != constant(0))
      solution.guards.push_back({rest, 0, 1});
    return true;
  }

  /// A function of one variable only that is its own inverse, as `r xor 2^k` is.
  bool solveInvolution(AffineExpr e, AffineExpr me) {
    int only = -1;
    bool others = false;
    e.walk([&](AffineExpr x) {
      int v = unknown(x);
      if (v >= 0 && only >= 0 && v != only)
        others = true;
      if (v >= 0)
        only = v;
      else
        others |= isa<AffineDimExpr, AffineSymbolExpr>(x);
    });
    if (others || only < 0 || variables[only].step != 1)
      return false;
    const StepVariable &variable = variables[only];
    int64_t low = variable.lower, high = low + variable.extent;
    SmallVector<int64_t> inputs(variable.dim + 1);
    auto f = [&](int64_t x) {
      inputs[variable.dim] = x;
      return evaluateIndex(e, inputs, inputs.size());
    };
    for (int64_t x = low; x < high; ++x) {
      int64_t y = f(x);
      if (y < low || y >= high || f(y) != x)
        return false;
    }
    DenseMap<AffineExpr, AffineExpr> map;
    map[getAffineDimExpr(variable.dim, context)] = me;
    solution.values[only] = normalizeIndex(e.replace(map));
    solution.guards.push_back({me, low, high});
    return true;
  }

  ArrayRef<StepVariable> variables;
  MLIRContext *context;
  RankSolution solution;
};

} // namespace

std::optional<RankSolution> solveForRank(ArrayRef<AffineExpr> rank, ArrayRef<AffineExpr> me,
                                         ArrayRef<StepVariable> variables) {
  return Solver(variables, rank.front().getContext()).run(rank, me);
}

} // namespace ccl
