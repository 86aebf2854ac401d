//===- Lp.h - Linear programs ---------------------------------------------===//
//
// max c x, A x <= b, l <= x <= u; rows may be added after a solution (cutting planes), columns
// too. Solved by CLP (coinor-libclp); this file is all of it that others see.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ccl::model {

class Lp {
public:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Term {
    int32_t column;
    double coefficient;
  };
  struct Entry {
    int32_t row;
    double coefficient;
  };

  Lp();
  ~Lp();
  Lp(Lp &&) noexcept;

  /// Its number.
  int32_t addColumn(double objective, double lower = 0, double upper = infinity);
  /// A column in rows that are there already.
  int32_t addColumn(double objective, double lower, double upper, std::span<const Entry> entries);
  /// lower <= sum of terms <= upper. Its number.
  int32_t addRow(std::span<const Term> terms, double lower, double upper);

  /// Stopped: no time was left, or the solver gave up.
  enum class Status { Optimal, Infeasible, Unbounded, Stopped };
  /// Maximizes, starting from the last solution if there is one. The rest may be asked for after
  /// `Optimal` only, and is right within the solver's tolerances (1e-7): prove what matters.
  Status solve(double seconds = infinity);
  double objective() const;
  double value(int32_t column) const;
  /// The dual of a row: how much the objective grows with its bound.
  double dual(int32_t row) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace ccl::model
