//===- Calibrate.h - Cost curves from measured times ----------------------===//
//
// A measured curve, microseconds by bytes, becomes a few pieces of alpha + beta * bytes. Pieces
// need not meet: libraries change algorithm and protocol at a size, and times jump there, in the
// curves of docs/calibration.md by up to a factor of two, and downwards, too.
//
// What is minimized is the sum of |model - measured| / (measured + jitter), with alpha and beta not
// negative. Relative errors, because sizes span many orders of magnitude; not squared, so that one
// odd measurement does not count more than that it is odd; and jitter, because short launches
// differ from each other by microseconds rather than by percents. The best line of a piece comes
// from weighted medians (Wesolowsky 1981, "A new descent algorithm for the least absolute value
// regression problem"), where pieces begin from dynamic programming (Bellman and Roth 1969, "Curve
// fitting by segmented straight lines"), how many there are from the Bayesian information criterion
// for errors of Laplace's distribution (Schwarz 1978).
//===----------------------------------------------------------------------===//
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ccl::model {

/// One measurement: `bytes` took `us` microseconds.
struct CurvePoint {
  double bytes = 0, us = 0;
  friend bool operator==(const CurvePoint &, const CurvePoint &) = default;
};

/// Whether a point can be one: from 0 to 1e18 bytes, from a femtosecond to 1e18 us.
bool isMeasured(const CurvePoint &point);

/// alpha + beta * bytes microseconds for bytes in [lo, hi).
struct CostSegment {
  double lo = 0, hi = std::numeric_limits<double>::infinity();
  double alpha = 0; ///< us
  double beta = 0;  ///< us a byte; 1e-3 / beta is GB/s of 1e9 bytes
  double us(double bytes) const { return alpha + beta * bytes; }
};

/// Segments follow each other without gaps; the first begins at 0, the last does not end, so
/// that what is larger than all that was measured continues with its beta.
struct CostCurve {
  std::vector<CostSegment> segments;
  /// Where `bytes` belong; there must be segments.
  const CostSegment &segmentOf(double bytes) const;
  /// Microseconds; 0 of a curve without segments.
  double us(double bytes) const;
};

struct FitOptions {
  int minSegments = 1, maxSegments = 4;
  /// In units of the least time that was measured; at least 0.
  double jitter = 8;
};

/// Relative errors |model - measured| / measured.
struct FitErrors {
  double median = 0, p95 = 0, worst = 0, mean = 0;
};

struct Fit {
  CostCurve curve;
  /// Of each size from the others, by a curve with as many segments: what to expect between the
  /// sizes that were measured. Of more than 32 sizes: a quarter of them at a time.
  FitErrors crossValidation;
  /// Of minSegments, minSegments + 1, ... segments; the least was taken.
  std::vector<double> criterion;
  size_t sizes = 0; ///< distinct ones; of repeated measurements the median counts
};

/// Any order, any number of measurements of a size. A segment has three sizes or more, lest one
/// odd measurement be taken for a regime of its own. Fewer will do where time goes down as the
/// size goes up: noise makes launches slower, not faster.
///
/// Exact for up to 32 sizes: no such segments have a smaller sum. Beyond, segments begin at one of
/// 48 sizes spread over the logarithm of the size. Between the last size of a segment and the first
/// of the next, the border is where the two lines cross, if they do it there, else at a power of
/// two, else halfway (of the logarithm).
///
/// Nothing, and `why`, if there are no points, or one is out of range.
std::optional<Fit> fit(std::span<const CurvePoint> points, const FitOptions &options = {},
                       std::string *why = nullptr);

/// How well a curve tells `points`; all 0 if there are none.
FitErrors errorsOf(const CostCurve &curve, std::span<const CurvePoint> points);

/// The indices of `count` points whose sizes are spread evenly over the logarithm, each the
/// nearest that is not yet taken; in increasing order of size. All if there are no more.
std::vector<size_t> logSpaced(std::span<const CurvePoint> points, size_t count);

} // namespace ccl::model
