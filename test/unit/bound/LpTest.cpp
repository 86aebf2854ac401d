#include "dialect/bound/Lp.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>

using namespace ccl::model;

namespace {
using Status = Lp::Status;

// max c x, A x <= b, x >= 0 in n = 2 by looking at all corners.
double byCorners(const std::vector<std::array<double, 3>> &rows, double c0, double c1) {
  std::vector<std::array<double, 3>> all = rows;
  all.push_back({-1, 0, 0});
  all.push_back({0, -1, 0});
  double best = -Lp::infinity;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      double det = all[i][0] * all[j][1] - all[i][1] * all[j][0];
      if (std::abs(det) < 1e-9)
        continue;
      double x = (all[i][2] * all[j][1] - all[i][1] * all[j][2]) / det;
      double y = (all[i][0] * all[j][2] - all[i][2] * all[j][0]) / det;
      bool feasible = true;
      for (const auto &row : all)
        feasible &= row[0] * x + row[1] * y <= row[2] + 1e-9;
      if (feasible)
        best = std::max(best, c0 * x + c1 * y);
    }
  return best;
}
} // namespace

TEST_CASE("lp: value, solution and duals of a program solved by hand") {
  Lp lp;
  int32_t x = lp.addColumn(3), y = lp.addColumn(5);
  int32_t first = lp.addRow(std::vector<Lp::Term>{{x, 1}}, -Lp::infinity, 4);
  int32_t second = lp.addRow(std::vector<Lp::Term>{{y, 2}}, -Lp::infinity, 12);
  int32_t third = lp.addRow(std::vector<Lp::Term>{{x, 3}, {y, 2}}, -Lp::infinity, 18);
  REQUIRE(lp.solve() == Status::Optimal);
  CHECK(lp.objective() == doctest::Approx(36));
  CHECK(lp.value(x) == doctest::Approx(2));
  CHECK(lp.value(y) == doctest::Approx(6));
  CHECK(lp.dual(first) == doctest::Approx(0));
  CHECK(lp.dual(second) == doctest::Approx(1.5));
  CHECK(lp.dual(third) == doctest::Approx(1));
}

TEST_CASE("lp: rows and columns after a solution") {
  Lp lp;
  int32_t x = lp.addColumn(1, 0, 10);
  REQUIRE(lp.solve() == Status::Optimal);
  CHECK(lp.objective() == doctest::Approx(10));
  int32_t row = lp.addRow(std::vector<Lp::Term>{{x, 1}}, -Lp::infinity, 7);
  REQUIRE(lp.solve() == Status::Optimal);
  CHECK(lp.objective() == doctest::Approx(7));
  CHECK(lp.dual(row) == doctest::Approx(1));
  int32_t y = lp.addColumn(3, 0, Lp::infinity, std::vector<Lp::Entry>{{row, 2}});
  REQUIRE(lp.solve() == Status::Optimal);
  CHECK(lp.objective() == doctest::Approx(10.5));
  CHECK(lp.value(x) == doctest::Approx(0));
  CHECK(lp.value(y) == doctest::Approx(3.5));
  CHECK(lp.dual(row) == doctest::Approx(1.5));
  // A row and a column that is in it, both before the next solution.
  int32_t other = lp.addRow(std::vector<Lp::Term>{{y, 1}}, -Lp::infinity, 2);
  int32_t z = lp.addColumn(1, 0, Lp::infinity, std::vector<Lp::Entry>{{other, 1}, {row, 1}});
  REQUIRE(lp.solve() == Status::Optimal);
  CHECK(lp.value(y) == doctest::Approx(2));
  CHECK(lp.value(x) + lp.value(z) == doctest::Approx(3));
  CHECK(lp.objective() == doctest::Approx(9));
}

TEST_CASE("lp: equalities, free columns and rows from below") {
  Lp lp;
  int32_t x = lp.addColumn(-1, -Lp::infinity), y = lp.addColumn(-2);
  int32_t sum = lp.addRow(std::vector<Lp::Term>{{x, 1}, {y, 1}}, 3, 3);
  lp.addRow(std::vector<Lp::Term>{{y, 1}, {x, -1}}, 5, Lp::infinity);
  REQUIRE(lp.solve() == Status::Optimal); // x = -1, y = 4
  CHECK(lp.objective() == doctest::Approx(-7));
  CHECK(lp.value(x) == doctest::Approx(-1));
  CHECK(lp.dual(sum) == doctest::Approx(-1.5));
}

TEST_CASE("lp: what has no solution or no end is said") {
  Lp infeasible;
  int32_t x = infeasible.addColumn(1);
  infeasible.addRow(std::vector<Lp::Term>{{x, 1}}, -Lp::infinity, -1);
  CHECK(infeasible.solve() == Status::Infeasible);
  Lp unbounded;
  int32_t y = unbounded.addColumn(1);
  unbounded.addRow(std::vector<Lp::Term>{{y, 1}}, 1, Lp::infinity);
  CHECK(unbounded.solve() == Status::Unbounded);
}

TEST_CASE("lp: random programs against all of their corners, rows one at a time") {
  std::mt19937 random(20);
  auto draw = [&](int low, int high) { return double(low + int(random() % (high - low + 1))); };
  for (int trial = 0; trial < 200; ++trial) {
    double c0 = draw(1, 9), c1 = draw(1, 9);
    std::vector<std::array<double, 3>> rows{{draw(1, 5), draw(1, 5), draw(5, 30)}};
    Lp lp;
    int32_t x = lp.addColumn(c0), y = lp.addColumn(c1);
    std::vector<int32_t> numbers;
    for (int added = 0; added < 5; ++added) {
      const auto &row = rows.back();
      numbers.push_back(
          lp.addRow(std::vector<Lp::Term>{{x, row[0]}, {y, row[1]}}, -Lp::infinity, row[2]));
      REQUIRE(lp.solve() == Status::Optimal);
      CHECK(lp.objective() == doctest::Approx(byCorners(rows, c0, c1)));
      // Duals prove it: b y = c x and A' y >= c.
      double value = 0, price0 = 0, price1 = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        double dual = lp.dual(numbers[i]);
        CHECK(dual >= -1e-9);
        value += dual * rows[i][2];
        price0 += dual * rows[i][0];
        price1 += dual * rows[i][1];
      }
      CHECK(value == doctest::Approx(lp.objective()));
      CHECK(price0 >= c0 - 1e-7);
      CHECK(price1 >= c1 - 1e-7);
      rows.push_back({draw(0, 5), draw(0, 5) + 1, draw(5, 30)});
    }
  }
}
