//===- Measurements.h - Measured times, from text -------------------------===//
//
// Two forms, told apart by what stands there:
//
// nccl-tests' output (and that of rccl-tests): a comment names the columns, `size count type redop
// root time algbw busbw #wrong`, once for out-of-place and once for in-place; times are in us.
// Each is a curve. Lines that do not begin with a number are other programs' output and skipped.
//
// CSV with a header. One column is the size in bytes: size_bytes, bytes, size, or size_kb and
// the like. One is the time, with its unit as the last word: median_ms, time_us, us, ... If there
// are several, the median is taken, else what has no statistic's name, else avg or mean, else min.
// Columns that are no size, time, rate or statistic (num_workers, collective, ...) tell curves
// apart. `#` begins a comment, fields may be quoted.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/Calibrate.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::model {

struct MeasuredCurve {
  std::string name; ///< "num_workers=8 devices_per_node=4", "out-of-place"; "" of the only one
  std::vector<CurvePoint> points;
};

struct Measurements {
  std::vector<MeasuredCurve> curves; ///< in the order in which they first appear
  /// What is wrong with the first bad line, or ""; there are no curves then.
  std::string error;
  int32_t line = 0; ///< of `error`, from 1

  bool ok() const { return error.empty(); }
};

Measurements readMeasurements(std::string_view text);

} // namespace ccl::model
