#include "dialect/simulate/Calibrate.h"
#include "dialect/simulate/Measurements.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

using namespace ccl::model;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// From 1 KiB to 64 MiB.
std::vector<double> sizes(int count) {
  std::vector<double> result;
  for (int i = 0; i < count; ++i)
    result.push_back(std::round(1024 * std::exp2(16.0 * i / (count - 1))));
  return result;
}

std::vector<CurvePoint> measure(const CostCurve &truth, const std::vector<double> &bytes) {
  std::vector<CurvePoint> points;
  for (double b : bytes)
    points.push_back({b, truth.us(b)});
  return points;
}

/// 10 GB/s after 20 us, 50 GB/s after 60 us, with a jump in between, and so on.
CostCurve truthOf(int segments) {
  const CostSegment all[] = {{0, 32768, 5, 1e-3},
                             {32768, 524288, 20, 1e-4},
                             {524288, 8388608, 90, 2e-5},
                             {8388608, inf, 30, 1.5e-5}};
  CostCurve curve;
  for (int i = 0; i < segments; ++i)
    curve.segments.push_back(all[i]);
  curve.segments.back().hi = inf;
  return curve;
}

double objective(const std::vector<CurvePoint> &points, double jitter,
                 const std::function<double(const CurvePoint &)> &us) {
  double least = inf, sum = 0;
  for (const CurvePoint &p : points)
    least = std::min(least, p.us);
  for (const CurvePoint &p : points)
    sum += std::abs(us(p) - p.us) / (p.us + jitter * least);
  return sum;
}

/// The least sum for points [begin, end): some best line goes through two points, or through one
/// and has no alpha or no beta.
double bestLine(const std::vector<CurvePoint> &points, size_t begin, size_t end, double jitter) {
  double least = inf, best = inf;
  for (const CurvePoint &p : points)
    least = std::min(least, p.us);
  auto consider = [&](double alpha, double beta) {
    if (alpha < -1e-9 || beta < 0)
      return;
    double sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum +=
          std::abs(alpha + beta * points[i].bytes - points[i].us) / (points[i].us + jitter * least);
    best = std::min(best, sum);
  };
  if (end - begin == 1) {
    consider(least, (points[begin].us - least) / points[begin].bytes);
    return best;
  }
  for (size_t i = begin; i < end; ++i) {
    consider(points[i].us, 0);
    consider(0, points[i].us / points[i].bytes);
    for (size_t j = i + 1; j < end; ++j) {
      double beta = (points[j].us - points[i].us) / (points[j].bytes - points[i].bytes);
      consider(points[i].us - beta * points[i].bytes, beta);
    }
  }
  return best;
}

/// The least sum of `segments` segments from `begin` on, by trying everything.
double bestSegments(const std::vector<CurvePoint> &points, size_t begin, int segments,
                    double jitter) {
  double best = inf;
  for (size_t end = begin + 1; end <= points.size(); ++end) {
    bool drops = begin > 0 && points[begin].us < points[begin - 1].us;
    if ((end - begin < 3 && !drops) || (segments == 1 && end < points.size()))
      continue;
    double rest = segments > 1 ? bestSegments(points, end, segments - 1, jitter) : 0;
    if (rest < inf)
      best = std::min(best, rest + bestLine(points, begin, end, jitter));
  }
  return best;
}

} // namespace

TEST_CASE("what has segments is found again") {
  for (int segments = 1; segments <= 4; ++segments) {
    CAPTURE(segments);
    CostCurve truth = truthOf(segments);
    std::vector<double> bytes = sizes(24);
    std::optional<Fit> result = fit(measure(truth, bytes));
    REQUIRE(result);
    CHECK(result->sizes == 24);
    REQUIRE(result->curve.segments.size() == size_t(segments));
    CHECK(result->curve.segments.front().lo == 0);
    CHECK(result->curve.segments.back().hi == inf);
    for (int i = 0; i < segments; ++i) {
      const CostSegment &found = result->curve.segments[size_t(i)],
                        &want = truth.segments[size_t(i)];
      CHECK(found.alpha == doctest::Approx(want.alpha).epsilon(1e-9));
      CHECK(found.beta == doctest::Approx(want.beta).epsilon(1e-9));
      // Between the same two sizes.
      auto side = [&](double border) {
        return std::count_if(bytes.begin(), bytes.end(), [&](double b) { return b < border; });
      };
      CHECK(side(found.lo) == side(want.lo));
      if (i > 0)
        CHECK(found.lo == result->curve.segments[size_t(i) - 1].hi);
    }
    // Beyond all measurements: the last beta.
    CHECK(result->curve.us(1e12) - result->curve.us(1e11) ==
          doctest::Approx(9e11 * truth.segments.back().beta));
  }
}

TEST_CASE("no segments have a smaller sum") {
  std::mt19937 random(5);
  auto uniform = [&](double low, double high) {
    return low + (high - low) * double(random()) / double(std::mt19937::max());
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<CurvePoint> points;
    double bytes = uniform(1, 1000);
    for (size_t i = 0; i < 4 + random() % 6; ++i, bytes *= uniform(1.1, 4))
      points.push_back({std::round(bytes), uniform(1, 5) + bytes * uniform(0, 2e-3)});
    double jitter = uniform(0, 10);
    for (int segments = 1; segments <= 3; ++segments) {
      double best = bestSegments(points, 0, segments, jitter);
      if (best == inf)
        continue;
      std::vector<CurvePoint> shuffled = points;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      std::optional<Fit> result =
          fit(shuffled, {.minSegments = segments, .maxSegments = segments, .jitter = jitter});
      REQUIRE(result);
      CHECK(result->curve.segments.size() == size_t(segments));
      for (const CostSegment &segment : result->curve.segments) {
        CHECK(segment.alpha >= 0);
        CHECK(segment.beta >= 0);
      }
      double sum =
          objective(points, jitter, [&](const CurvePoint &p) { return result->curve.us(p.bytes); });
      CHECK(sum == doctest::Approx(best).epsilon(1e-6));
    }
  }
}

TEST_CASE("noise and odd measurements") {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (bool odd : {false, true}) {
    CAPTURE(odd);
    double median = 0;
    std::vector<double> p95;
    for (int round = 0; round < 40; ++round) {
      CostCurve truth = truthOf(1 + round % 4);
      std::vector<CurvePoint> points = measure(truth, sizes(24));
      for (CurvePoint &p : points)
        p.us *= std::exp(0.02 * normal(random));
      if (odd)
        points[size_t(3 + random() % 18)].us *= 3;
      std::optional<Fit> result = fit(points);
      REQUIRE(result);
      FitErrors errors = errorsOf(result->curve, measure(truth, sizes(400)));
      median = std::max(median, errors.median);
      p95.push_back(errors.p95);
    }
    std::sort(p95.begin(), p95.end());
    CHECK(median < 0.03);
    // An odd time right before a jump may move the jump by a size.
    CHECK(p95[odd ? 31 : 39] < 0.08);
  }
}

TEST_CASE("an odd measurement is no regime") {
  std::vector<CurvePoint> points = measure(truthOf(1), sizes(24));
  points[12].us *= 5;
  std::optional<Fit> result = fit(points);
  REQUIRE(result);
  CHECK(result->curve.segments.size() == 1);
  CHECK(result->curve.us(1e6) == doctest::Approx(truthOf(1).us(1e6)));
  CHECK(result->crossValidation.worst == doctest::Approx(0.8));
  CHECK(result->crossValidation.median < 1e-9);
}

TEST_CASE("a faster size between slower ones is a regime") {
  std::vector<CurvePoint> points;
  for (double b = 1024; b <= 64 * 1048576; b *= 2)
    points.push_back({b, 10 + 1e-3 * b});
  points[13].us /= 2; // 8 MiB
  std::optional<Fit> result = fit(points);
  REQUIRE(result);
  REQUIRE(result->curve.segments.size() == 3);
  CHECK(result->curve.us(points[13].bytes) == doctest::Approx(points[13].us));
  CHECK(result->curve.us(points[12].bytes) == doctest::Approx(points[12].us));
  CHECK(result->curve.us(points[14].bytes) == doctest::Approx(points[14].us));
}

TEST_CASE("a continuous curve stays continuous") {
  // 5 us and 1 us/KB, from 100 kB on 55 us and 0.5 us/KB: both say 105 there.
  CostCurve truth{{{0, 1e5, 5, 1e-3}, {1e5, inf, 55, 5e-4}}};
  std::optional<Fit> result = fit(measure(truth, sizes(24)));
  REQUIRE(result);
  REQUIRE(result->curve.segments.size() == 2);
  CHECK(result->curve.segments[1].lo == doctest::Approx(1e5));
  for (double b : sizes(100))
    CHECK(result->curve.us(b) == doctest::Approx(truth.us(b)));
}

TEST_CASE("jumps lie at powers of two") {
  std::vector<CurvePoint> points;
  for (double b : {100., 300., 650., 3000., 5000., 9000.})
    points.push_back({b, b < 1024 ? 10 : 20 + b * 1e-2});
  std::optional<Fit> result = fit(points, {.minSegments = 2, .maxSegments = 2});
  REQUIRE(result);
  REQUIRE(result->curve.segments.size() == 2);
  // Of 1024 and 2048, the one that is nearer to sqrt(650 * 3000) = 1396.
  CHECK(result->curve.segments[1].lo == 1024);
  CHECK(result->curve.us(1023) == doctest::Approx(10));
  CHECK(result->curve.us(1024) == doctest::Approx(30.24));
}

TEST_CASE("repeated sizes count by their median") {
  std::vector<CurvePoint> points;
  for (double b : {1e3, 1e4, 1e5, 1e6})
    for (double factor : {1., 9., 1.02, 0.98, 7.})
      points.push_back({b, factor * (10 + b * 1e-3)});
  std::optional<Fit> result = fit(points);
  REQUIRE(result);
  CHECK(result->sizes == 4);
  REQUIRE(result->curve.segments.size() == 1);
  CHECK(result->curve.segments[0].alpha == doctest::Approx(10.2));
  CHECK(result->curve.segments[0].beta == doctest::Approx(1.02e-3));
}

TEST_CASE("few sizes") {
  std::vector<CurvePoint> points = {{4096, 12}};
  std::optional<Fit> result = fit(points);
  REQUIRE(result);
  CHECK(result->curve.segments.size() == 1);
  CHECK(result->curve.us(4096) == 12);
  points.push_back({8192, 14});
  result = fit(points, {.minSegments = 3, .maxSegments = 4});
  REQUIRE(result);
  CHECK(result->curve.segments.size() == 1);
  CHECK(result->curve.us(16384) == doctest::Approx(18));
  // A size of 0 is a measurement like others.
  result = fit(std::vector<CurvePoint>{{0, 3}, {100, 4}, {200, 5}});
  REQUIRE(result);
  CHECK(result->curve.us(0) == doctest::Approx(3));
  CHECK(CostCurve().us(1) == 0);
}

TEST_CASE("what is no measurement is refused") {
  std::string why;
  CHECK_FALSE(fit({}, {}, &why));
  CHECK(why == "there are no measurements to fit");
  for (CurvePoint bad : {CurvePoint{-1, 1}, {1, 0}, {1, -3}, {1, inf}, {inf, 1}, {NAN, 1}}) {
    why.clear();
    CHECK_FALSE(fit(std::vector<CurvePoint>{{1, 1}, bad}, {}, &why));
    CHECK(why.starts_with("measurement 1: "));
  }
}

TEST_CASE("many sizes") {
  CostCurve truth = truthOf(3);
  std::vector<CurvePoint> points = measure(truth, sizes(993));
  std::mt19937 random(3);
  for (CurvePoint &p : points)
    p.us *= 1 + 0.02 * (double(random()) / double(std::mt19937::max()) - 0.5);
  std::optional<Fit> result = fit(points);
  REQUIRE(result);
  FitErrors errors = errorsOf(result->curve, measure(truth, sizes(500)));
  CHECK(errors.median < 0.01);
  CHECK(errors.p95 < 0.05);
  CHECK(result->crossValidation.median < 0.02);
}

TEST_CASE("sizes spread over the logarithm") {
  std::vector<CurvePoint> points;
  for (int i = 64; i >= 1; --i)
    points.push_back({double(i), 1});
  std::vector<size_t> chosen = logSpaced(points, 7);
  std::vector<double> bytes;
  for (size_t i : chosen)
    bytes.push_back(points[i].bytes);
  CHECK(bytes == std::vector<double>{1, 2, 4, 8, 16, 32, 64});
  // No size twice, though small ones are nearer to each other than the spacing.
  CHECK(logSpaced(points, 24).size() == 24);
  CHECK(logSpaced(points, 100).size() == 64);
  CHECK(logSpaced(points, 1).size() == 1);
  CHECK(logSpaced({}, 3).empty());
}

// All-reduces and point-to-point transfers that were measured on A100 and H100 machines: fitted on
// 24 sizes, judged on the others.
TEST_CASE("measured curves") {
  namespace fs = std::filesystem;
  fs::path folder =
      fs::path(__FILE__).parent_path() / "../../../../shared/corpus/traces/link_profiles";
  if (!fs::is_directory(folder)) {
    MESSAGE("skipped: there is no ", folder.string());
    return;
  }
  int curves = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv")
      continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    Measurements measurements = readMeasurements(text.str());
    REQUIRE(measurements.error == "");
    for (const MeasuredCurve &curve : measurements.curves) {
      CAPTURE(entry.path().filename().string());
      CAPTURE(curve.name);
      std::vector<bool> taken(curve.points.size());
      std::vector<CurvePoint> known, rest;
      for (size_t i : logSpaced(curve.points, 24))
        taken[i] = true;
      for (size_t i = 0; i < curve.points.size(); ++i)
        (taken[i] ? known : rest).push_back(curve.points[i]);
      REQUIRE(known.size() == 24);
      std::optional<Fit> result = fit(known);
      REQUIRE(result);
      FitErrors errors = errorsOf(result->curve, rest);
      CHECK(errors.median <= 0.05);
      // Two curves are not to be had from these sizes: docs/calibration.md.
      bool isAllReduce = entry.path().filename().string().find("all_reduce") != std::string::npos;
      bool isHidden = isAllReduce && (curve.name == "num_workers=16 devices_per_node=8" ||
                                      curve.name == "num_workers=4 devices_per_node=4");
      CHECK(errors.p95 <= (isHidden ? 0.95 : 0.30));
      ++curves;
    }
  }
  CHECK(curves >= 11);
}
