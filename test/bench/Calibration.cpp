// How well cost curves tell times that they were not fitted to: `./dev bench calibration FILE...`.
//
// Every curve of every file (nccl-tests' output or CSV, dialect/simulate/Measurements.h) is fitted
// on 24 sizes, spread over the logarithm, and judged on the others. Prints the tables of
// docs/calibration.md. The last column is what somebody reaches who knows the other times, too: of
// all ways to cut the same 24 sizes into up to four runs, with the lines that `fit` finds for three
// values of jitter and with borders at any of four places between two sizes, the one with the least
// 95th percentile whose median is at most 5 %. Before it: of ten other choices of 24 sizes, shifted
// by tenths of their distance, how many have a median of at most 5 % and a 95th percentile of at
// most 30 %.

#include "dialect/simulate/Calibrate.h"
#include "dialect/simulate/Measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

using namespace ccl::model;

namespace {

constexpr size_t knownSizes = 24, mostLines = 4;

/// Lines of all runs of sizes, as `fit` finds them.
class Lines {
public:
  Lines(const std::vector<CurvePoint> &points, double jitter)
      : points(points), n(points.size() + 1) {
    double least = std::numeric_limits<double>::infinity();
    for (const CurvePoint &p : points)
      least = std::min(least, p.us);
    lines.resize(n * n);
    for (size_t i = 0; i < points.size(); ++i) {
      lines[i * n + i + 1].alpha = least;
      lines[i * n + i + 1].beta = (points[i].us - least) / points[i].bytes;
      for (size_t j = i + 2; j <= points.size(); ++j)
        if (auto fitted =
                fit(std::span(points).subspan(i, j - i), {.maxSegments = 1, .jitter = jitter}))
          lines[i * n + j] = fitted->curve.segments[0];
    }
  }
  CostCurve curve(const std::vector<size_t> &cuts, int place) const {
    CostCurve result;
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      CostSegment segment = lines[cuts[k] * n + cuts[k + 1]];
      segment.lo = 0, segment.hi = std::numeric_limits<double>::infinity();
      if (k > 0)
        segment.lo = result.segments.back().hi = border(cuts[k], place);
      result.segments.push_back(segment);
    }
    return result;
  }

private:
  double border(size_t first, int place) const {
    double low = points[first - 1].bytes, high = points[first].bytes;
    switch (place) {
    case 0: return high;
    case 1: return low + 1;
    case 2: return std::sqrt(low * high);
    default: {
      double power = std::exp2(std::ceil(std::log2(low + 1)));
      return power <= high ? power : std::sqrt(low * high);
    }
    }
  }

  const std::vector<CurvePoint> &points;
  size_t n;
  std::vector<CostSegment> lines;
};

void forEachCut(std::vector<size_t> &cuts, size_t end, size_t more, const auto &visit) {
  cuts.push_back(end);
  visit(cuts);
  cuts.pop_back();
  if (more == 0)
    return;
  for (size_t next = cuts.back() + 1; next < end; ++next) {
    cuts.push_back(next);
    forEachCut(cuts, end, more - 1, visit);
    cuts.pop_back();
  }
}

double bestPossible(const std::vector<CurvePoint> &known, const std::vector<CurvePoint> &rest) {
  double best = std::numeric_limits<double>::infinity();
  for (double jitter : {0., 8., 100.}) {
    Lines lines(known, jitter);
    std::vector<size_t> cuts = {0};
    forEachCut(cuts, known.size(), mostLines - 1, [&](const std::vector<size_t> &at) {
      for (int place = 0; place < 4; ++place) {
        FitErrors errors = errorsOf(lines.curve(at, place), rest);
        if (errors.median <= 0.05)
          best = std::min(best, errors.p95);
      }
    });
  }
  return best;
}

/// Parts `points` at the sizes nearest to `targets` (logarithms), each the nearest not yet taken.
void part(const std::vector<CurvePoint> &points, const std::vector<double> &targets,
          std::vector<CurvePoint> &known, std::vector<CurvePoint> &rest) {
  std::vector<bool> taken(points.size());
  auto distance = [&](size_t i, double target) {
    return std::abs(std::log(std::max(points[i].bytes, 1.0)) - target);
  };
  for (double target : targets) {
    size_t nearest = points.size();
    for (size_t i = 0; i < points.size(); ++i)
      if (!taken[i] &&
          (nearest == points.size() || distance(i, target) < distance(nearest, target)))
        nearest = i;
    if (nearest < points.size())
      taken[nearest] = true;
  }
  for (size_t i = 0; i < points.size(); ++i)
    (taken[i] ? known : rest).push_back(points[i]);
}

int shiftedWithinLimits(const std::vector<CurvePoint> &points) {
  auto [low, high] = std::minmax_element(
      points.begin(), points.end(),
      [](const CurvePoint &a, const CurvePoint &b) { return a.bytes < b.bytes; });
  double from = std::log(std::max(low->bytes, 1.0)), to = std::log(std::max(high->bytes, 1.0));
  int within = 0;
  for (int shift = 0; shift < 10; ++shift) {
    std::vector<double> targets;
    for (size_t i = 0; i < knownSizes; ++i)
      targets.push_back(from + (to - from) * (double(i) + (shift + 0.5) / 10) / double(knownSizes));
    std::vector<CurvePoint> known, rest;
    part(points, targets, known, rest);
    if (std::optional<Fit> fitted = fit(known)) {
      FitErrors errors = errorsOf(fitted->curve, rest);
      within += errors.median <= 0.05 && errors.p95 <= 0.30;
    }
  }
  return within;
}

std::string percent(double part) {
  return std::isinf(part) ? "-" : fmt::format("{:.1f}", 100 * part);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "calibration: no file given; needs files of measured times\n");
    return 2;
  }
  std::string segments;
  fmt::print("| file | curve | sizes | segments | median % | 95th % | left out, median % | left "
             "out, 95th % | shifted | best 95th % |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    Measurements measurements = readMeasurements(text.str());
    if (!file || !measurements.ok()) {
      fmt::print(stderr, "{}:{}: error: {}\n", argv[i], measurements.line,
                 file ? measurements.error : "cannot be read");
      return 1;
    }
    std::string base(argv[i]);
    base = base.substr(base.rfind('/') + 1);
    for (const MeasuredCurve &curve : measurements.curves) {
      std::vector<bool> taken(curve.points.size());
      for (size_t k : logSpaced(curve.points, knownSizes))
        taken[k] = true;
      std::vector<CurvePoint> known, rest;
      for (size_t k = 0; k < curve.points.size(); ++k)
        (taken[k] ? known : rest).push_back(curve.points[k]);
      std::sort(known.begin(), known.end(),
                [](const CurvePoint &a, const CurvePoint &b) { return a.bytes < b.bytes; });
      std::string why;
      std::optional<Fit> fitted = fit(known, {}, &why);
      if (!fitted) {
        fmt::print(stderr, "{}: error: {}: {}\n", argv[i], curve.name, why);
        return 1;
      }
      FitErrors errors = errorsOf(fitted->curve, rest);
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", base, curve.name,
                 curve.points.size(), fitted->curve.segments.size(), percent(errors.median),
                 percent(errors.p95), percent(fitted->crossValidation.median),
                 percent(fitted->crossValidation.p95), shiftedWithinLimits(curve.points),
                 percent(bestPossible(known, rest)));
      std::fflush(stdout);
      segments += fmt::format("| {} | {} |", base, curve.name);
      for (const CostSegment &s : fitted->curve.segments)
        segments +=
            fmt::format("{} {:.0f} KiB: {:.1f} us{}", s.lo > 0 ? ";" : "", s.lo / 1024, s.alpha,
                        s.beta > 0 ? fmt::format(" + {:.2f} GB/s", 1e-3 / s.beta) : "");
      segments += " |\n";
    }
  }
  fmt::print("\n| file | curve | from: alpha + bytes / bandwidth |\n|---|---|---|\n{}", segments);
}
