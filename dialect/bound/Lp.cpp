//===- Lp.cpp - Linear programs -------------------------------------------===//

#include "dialect/bound/Lp.h"

#include <ClpSimplex.hpp>

#include <algorithm>

namespace ccl::model {

static_assert(sizeof(int) == sizeof(int32_t), "CLP numbers rows and columns with int");

/// Rows and columns are collected and handed to CLP at once: it copies its matrix each time.
/// Columns with entries come after the rows they are in, so these are always handed over first.
struct Lp::Impl {
  struct Batch {
    std::vector<CoinBigIndex> starts{0};
    std::vector<int> indices;
    std::vector<double> coefficients, lower, upper, objective;

    int size() const { return int(lower.size()); }
    void add(double low, double high) {
      starts.push_back(CoinBigIndex(indices.size()));
      lower.push_back(low);
      upper.push_back(high);
    }
  };
  ClpSimplex clp;
  Batch rows, columns;
  int32_t rowCount = 0, columnCount = 0;
  bool rowsAdded = false, solved = false;

  Impl() {
    clp.setLogLevel(0);
    clp.setOptimizationDirection(-1);
    clp.setPrimalTolerance(1e-9);
    clp.setDualTolerance(1e-9);
  }

  void flushColumns() {
    if (columns.size() == 0)
      return;
    clp.addColumns(columns.size(), columns.lower.data(), columns.upper.data(),
                   columns.objective.data(), columns.starts.data(), columns.indices.data(),
                   columns.coefficients.data());
    columns = {};
  }
  void flushRows() {
    if (rows.size() == 0)
      return;
    flushColumns();
    clp.addRows(rows.size(), rows.lower.data(), rows.upper.data(), rows.starts.data(),
                rows.indices.data(), rows.coefficients.data());
    rows = {};
    rowsAdded = true;
  }
};

Lp::Lp() : impl(std::make_unique<Impl>()) {}
Lp::~Lp() = default;
Lp::Lp(Lp &&) noexcept = default;

static double finite(double bound) { return std::clamp(bound, -COIN_DBL_MAX, COIN_DBL_MAX); }

int32_t Lp::addColumn(double objective, double lower, double upper) {
  return addColumn(objective, lower, upper, {});
}

int32_t Lp::addColumn(double objective, double lower, double upper,
                      std::span<const Entry> entries) {
  if (!entries.empty())
    impl->flushRows();
  Impl::Batch &batch = impl->columns;
  for (const Entry &entry : entries) {
    batch.indices.push_back(entry.row);
    batch.coefficients.push_back(entry.coefficient);
  }
  batch.add(finite(lower), finite(upper));
  batch.objective.push_back(objective);
  return impl->columnCount++;
}

int32_t Lp::addRow(std::span<const Term> terms, double lower, double upper) {
  Impl::Batch &batch = impl->rows;
  for (const Term &term : terms) {
    batch.indices.push_back(term.column);
    batch.coefficients.push_back(term.coefficient);
  }
  batch.add(finite(lower), finite(upper));
  return impl->rowCount++;
}

Lp::Status Lp::solve(double seconds) {
  impl->flushRows();
  impl->flushColumns();
  ClpSimplex &clp = impl->clp;
  clp.setMaximumSeconds(seconds < 1e8 ? std::max(seconds, 0.01) : -1);
  // New rows leave the old duals feasible, new columns the old solution.
  if (impl->rowsAdded || !impl->solved)
    clp.dual();
  else
    clp.primal(1);
  impl->rowsAdded = false;
  impl->solved = true;
  // The basis may have become singular or have cycled: once more from nothing.
  if (clp.status() == 4 || clp.status() == 5) {
    clp.allSlackBasis(true);
    clp.primal();
  }
  switch (clp.status()) {
  case 0: return Status::Optimal;
  case 1: return Status::Infeasible;
  case 2: return Status::Unbounded;
  default: return Status::Stopped;
  }
}

double Lp::objective() const { return impl->clp.objectiveValue(); }
double Lp::value(int32_t column) const { return impl->clp.primalColumnSolution()[column]; }
double Lp::dual(int32_t row) const { return impl->clp.dualRowSolution()[row]; }

} // namespace ccl::model
