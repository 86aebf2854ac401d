//===- Calibrate.cpp - Cost curves from measured times --------------------===//

#include "dialect/simulate/Calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace ccl::model;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Up to here everything is tried; beyond, so many places where a segment may begin.
constexpr size_t exactSizes = 32, coarsePlaces = 48, coarseFolds = 4;

/// Relative errors below this are not told apart when segments are counted.
constexpr double resolution = 0.01;

using Points = std::span<const CurvePoint>;

/// A size, its time, and what an error of a microsecond there counts.
struct Sample {
  double bytes, us, weight;
};
using Samples = std::span<const Sample>;

struct Line {
  double alpha = 0, beta = 0;
  double error = infinity; ///< weighted sum
};

double errorOf(Samples samples, double alpha, double beta) {
  double sum = 0;
  for (const Sample &s : samples)
    sum += std::abs(alpha + beta * s.bytes - s.us) * s.weight;
  return sum;
}

struct Weighted {
  double value, weight;
  size_t index;
};

/// Where half of the weight lies on either side: the minimum of sum weight * |value - x|.
const Weighted &weightedMedian(std::vector<Weighted> &items) {
  double total = 0;
  for (const Weighted &item : items)
    total += item.weight;
  // Quickselect by weight: throw away the side that the median is not on.
  size_t begin = 0, end = items.size();
  double before = 0;
  while (end - begin > 1) {
    size_t middle = begin + (end - begin) / 2;
    std::nth_element(items.begin() + long(begin), items.begin() + long(middle),
                     items.begin() + long(end), [](const Weighted &a, const Weighted &b) {
                       return a.value < b.value || (a.value == b.value && a.index < b.index);
                     });
    double left = 0;
    for (size_t i = begin; i < middle; ++i)
      left += items[i].weight;
    if (before + left >= total / 2) {
      end = middle;
    } else {
      before += left;
      begin = middle;
    }
  }
  return items[begin];
}

/// The best line through sample `pivot`, and another sample that it goes through.
Line bestThrough(Samples samples, size_t pivot, std::vector<Weighted> &scratch, size_t &other) {
  scratch.clear();
  const Sample &p = samples[pivot];
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i == pivot)
      continue;
    double run = samples[i].bytes - p.bytes;
    scratch.push_back({(samples[i].us - p.us) / run, std::abs(run) * samples[i].weight, i});
  }
  const Weighted &median = weightedMedian(scratch);
  other = median.index;
  Line line{p.us - median.value * p.bytes, median.value, 0};
  line.error = errorOf(samples, line.alpha, line.beta);
  return line;
}

/// The best without an alpha, or without a beta.
Line bestOnEdge(Samples samples, std::vector<Weighted> &scratch) {
  Line best;
  for (bool flat : {true, false}) {
    scratch.clear();
    for (size_t i = 0; i < samples.size(); ++i) {
      const Sample &s = samples[i];
      if (flat)
        scratch.push_back({s.us, s.weight, i});
      else if (s.bytes > 0)
        scratch.push_back({s.us / s.bytes, s.bytes * s.weight, i});
    }
    double value = weightedMedian(scratch).value;
    Line line{flat ? value : 0, flat ? 0 : value, 0};
    line.error = errorOf(samples, line.alpha, line.beta);
    if (line.error < best.error)
      best = line;
  }
  return best;
}

/// The best line of all. Some best line goes through two of the samples. The sum is convex, so
/// if that line has a negative alpha or beta, the best without has a 0 there.
Line fitLine(Samples samples) {
  std::vector<Weighted> scratch;
  scratch.reserve(samples.size());
  Line best;
  size_t other = 0;
  if (samples.size() <= exactSizes) {
    for (size_t pivot = 0; pivot < samples.size(); ++pivot)
      if (Line line = bestThrough(samples, pivot, scratch, other); line.error < best.error)
        best = line;
  } else {
    best = bestThrough(samples, samples.size() / 2, scratch, other);
    for (;;) {
      size_t next = 0;
      Line better = bestThrough(samples, other, scratch, next);
      if (better.error >= best.error)
        break;
      best = better, other = next;
    }
  }
  return best.alpha >= 0 && best.beta >= 0 ? best : bestOnEdge(samples, scratch);
}

/// Medians of repeated sizes, by increasing size.
std::vector<CurvePoint> distinctSizes(Points points) {
  std::vector<CurvePoint> sorted(points.begin(), points.end());
  std::sort(sorted.begin(), sorted.end(), [](const CurvePoint &a, const CurvePoint &b) {
    return std::pair(a.bytes, a.us) < std::pair(b.bytes, b.us);
  });
  std::vector<CurvePoint> distinct;
  for (size_t i = 0, j = 0; i < sorted.size(); i = j) {
    while (j < sorted.size() && sorted[j].bytes == sorted[i].bytes)
      ++j;
    size_t low = i + (j - i - 1) / 2, high = i + (j - i) / 2;
    distinct.push_back({sorted[i].bytes, (sorted[low].us + sorted[high].us) / 2});
  }
  return distinct;
}

std::vector<Sample> weigh(Points points, double jitter) {
  double least = infinity;
  for (const CurvePoint &p : points)
    least = std::min(least, p.us);
  std::vector<Sample> samples;
  for (const CurvePoint &p : points)
    samples.push_back({p.bytes, p.us, 1 / (p.us + jitter * least)});
  return samples;
}

/// Where segments may begin, from 0 to points.size().
std::vector<size_t> placesOf(Points points) {
  std::vector<size_t> places;
  if (points.size() <= exactSizes) {
    places.resize(points.size() + 1);
    std::iota(places.begin(), places.end(), 0);
    return places;
  }
  places = logSpaced(points, coarsePlaces);
  places.push_back(points.size());
  return places;
}

/// The best segments of `points` (distinct sizes, sorted), for every number of them.
class Segmentation {
public:
  Segmentation(Points points, const FitOptions &options)
      : samples(weigh(points, options.jitter)), places(placesOf(points)) {
    for (const Sample &s : samples)
      least = std::min(least, s.us), weight += s.weight * s.us;
    size_t n = places.size();
    lines.assign(n * n, {});
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i + 1; j < n; ++j)
        lines[i * n + j] = lineOf(places[i], places[j]);
    for (size_t k = 0; k < size_t(options.maxSegments); ++k) {
      error.emplace_back(n, infinity);
      from.emplace_back(n, 0);
      for (size_t j = 1; j < n; ++j)
        for (size_t i = 0; i < j; ++i) {
          double before = k > 0 ? error[k - 1][i] : i > 0 ? infinity : 0;
          double sum = before + lines[i * n + j].error;
          if (sum < error[k][j])
            error[k][j] = sum, from[k][j] = i;
        }
    }
  }

  bool exists(size_t segments) const { return error[segments - 1].back() < infinity; }

  /// Bayesian information criterion, halved: the errors' scale counts for every size, and a
  /// segment has alpha, beta and a border.
  double criterion(size_t segments) const {
    double size = double(samples.size());
    double scale = std::max(error[segments - 1].back() / weight, resolution);
    return size * std::log(scale) + 1.5 * double(segments) * std::log(size);
  }

  CostCurve curve(size_t segments) const {
    CostCurve curve;
    size_t n = places.size();
    for (size_t k = segments, j = n - 1; k-- > 0;) {
      size_t i = from[k][j];
      const Line &line = lines[i * n + j];
      CostSegment segment{0, infinity, line.alpha, line.beta};
      if (!curve.segments.empty())
        segment.hi = curve.segments.back().lo = border(segment, curve.segments.back(), places[j]);
      curve.segments.push_back(segment);
      j = i;
    }
    std::reverse(curve.segments.begin(), curve.segments.end());
    return curve;
  }

private:
  Line lineOf(size_t begin, size_t end) const {
    size_t size = end - begin;
    bool drops = begin > 0 && samples[begin].us < samples[begin - 1].us;
    if (size < std::min<size_t>(3, samples.size()) && !drops)
      return {};
    // One size says nothing about alpha and beta: let alpha be the least time there is.
    if (size == 1) {
      const Sample &s = samples[begin];
      return s.bytes > 0 ? Line{least, (s.us - least) / s.bytes, 0} : Line{s.us, 0, 0};
    }
    return fitLine(Samples(samples).subspan(begin, size));
  }

  double border(const CostSegment &left, const CostSegment &right, size_t first) const {
    double low = samples[first - 1].bytes, high = samples[first].bytes;
    double cross = (right.alpha - left.alpha) / (left.beta - right.beta);
    if (cross > low && cross <= high)
      return cross;
    double halfway = std::sqrt(std::max(low, 1.0) * high);
    // The powers of two on either side of halfway.
    double below = std::exp2(std::floor(std::log2(halfway)));
    bool hasBelow = below > low, hasAbove = 2 * below <= high;
    if (hasBelow && (!hasAbove || halfway / below <= 2 * below / halfway))
      return below;
    return hasAbove ? 2 * below : halfway;
  }

  std::vector<Sample> samples;
  std::vector<size_t> places;
  double least = infinity;
  double weight = 0;       ///< what an error of 100 % everywhere is
  std::vector<Line> lines; ///< by first place and place after the last
  /// error[k][j]: of the samples before places[j] in k + 1 segments, the last from places[from].
  std::vector<std::vector<double>> error;
  std::vector<std::vector<size_t>> from;
};

FitErrors summary(std::vector<double> errors) {
  FitErrors result;
  if (errors.empty())
    return result;
  std::sort(errors.begin(), errors.end());
  result.median = errors[(errors.size() - 1) / 2];
  result.p95 = errors[size_t(std::ceil(0.95 * double(errors.size()))) - 1];
  result.worst = errors.back();
  result.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / double(errors.size());
  return result;
}

double relativeError(const CostCurve &curve, const CurvePoint &point) {
  return std::abs(curve.us(point.bytes) - point.us) / point.us;
}

FitErrors crossValidate(Points points, const FitOptions &options, size_t segments) {
  size_t folds = points.size() <= exactSizes ? points.size() : coarseFolds;
  std::vector<double> errors;
  std::vector<CurvePoint> kept;
  for (size_t fold = 0; fold < folds; ++fold) {
    kept.clear();
    for (size_t i = 0; i < points.size(); ++i)
      if (i % folds != fold)
        kept.push_back(points[i]);
    Segmentation segmentation(kept, options);
    size_t most = segments;
    while (!segmentation.exists(most))
      --most;
    CostCurve curve = segmentation.curve(most);
    for (size_t i = fold; i < points.size(); i += folds)
      errors.push_back(relativeError(curve, points[i]));
  }
  return summary(std::move(errors));
}

} // namespace

bool ccl::model::isMeasured(const CurvePoint &point) {
  return point.bytes >= 0 && point.bytes <= 1e18 && point.us >= 1e-9 && point.us <= 1e18;
}

const CostSegment &CostCurve::segmentOf(double bytes) const {
  auto after = std::upper_bound(segments.begin(), segments.end(), bytes,
                                [](double b, const CostSegment &s) { return b < s.lo; });
  return after == segments.begin() ? *after : *std::prev(after);
}

double CostCurve::us(double bytes) const {
  bytes = std::max(bytes, 0.0);
  return segments.empty() ? 0 : segmentOf(bytes).us(bytes);
}

std::optional<Fit> ccl::model::fit(Points points, const FitOptions &given, std::string *why) {
  auto fail = [&](std::string message) -> std::optional<Fit> {
    if (why)
      *why = std::move(message);
    return {};
  };
  if (points.empty())
    return fail("there are no measurements to fit");
  for (size_t i = 0; i < points.size(); ++i)
    if (!isMeasured(points[i]))
      return fail(fmt::format("measurement {}: {} bytes in {} us; needs 0 to 1e18 bytes and a time "
                              "above 0",
                              i, points[i].bytes, points[i].us));
  FitOptions options = given;
  options.jitter = std::max(options.jitter, 0.0);
  options.minSegments = std::max(options.minSegments, 1);
  options.maxSegments = std::max(options.maxSegments, options.minSegments);
  std::vector<CurvePoint> distinct = distinctSizes(points);

  Fit result;
  result.sizes = distinct.size();
  Segmentation segmentation(distinct, options);
  size_t best = 0;
  double least = infinity;
  for (size_t k = size_t(options.minSegments); k <= size_t(options.maxSegments); ++k) {
    if (!segmentation.exists(k))
      break;
    result.criterion.push_back(segmentation.criterion(k));
    if (result.criterion.back() < least)
      least = result.criterion.back(), best = k;
  }
  // Too few sizes for so many segments.
  for (size_t k = size_t(options.minSegments); best == 0; --k)
    if (segmentation.exists(k))
      best = k;
  result.curve = segmentation.curve(best);
  if (distinct.size() > 1)
    result.crossValidation = crossValidate(distinct, options, best);
  return result;
}

FitErrors ccl::model::errorsOf(const CostCurve &curve, Points points) {
  std::vector<double> errors;
  for (const CurvePoint &point : points)
    errors.push_back(relativeError(curve, point));
  return summary(std::move(errors));
}

std::vector<size_t> ccl::model::logSpaced(Points points, size_t count) {
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(points[a].bytes, a) < std::pair(points[b].bytes, b);
  });
  if (count >= points.size())
    return order;
  auto key = [&](size_t i) { return std::log(std::max(points[order[i]].bytes, 1.0)); };
  std::vector<bool> taken(points.size());
  for (size_t c = 0; c < count; ++c) {
    double part = count == 1 ? 0.0 : double(c) / double(count - 1);
    double target = key(0) + part * (key(points.size() - 1) - key(0));
    size_t nearest = points.size();
    for (size_t i = 0; i < points.size(); ++i)
      if (!taken[i] &&
          (nearest == points.size() || std::abs(key(i) - target) < std::abs(key(nearest) - target)))
        nearest = i;
    taken[nearest] = true;
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < points.size(); ++i)
    if (taken[i])
      chosen.push_back(order[i]);
  return chosen;
}
