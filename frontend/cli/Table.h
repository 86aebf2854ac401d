//===- Table.h - nccl-tests' columns, or one JSON object a line --------------===//
//
// Scrapers of nccl-tests read the first 13 fields of a row: they must stay as they
// are. Whatever is added stands at the right end.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/cli/Measure.h"

#include <string>

namespace ccl::cli {

/// What all rows of one program have in common.
struct Series {
  model::Contract contract;
  ElementType type = ElementType::F32;
  std::string algorithm;
  bool checked = true;
  double jitMs = 0, startMs = 0;
};

/// Prints to stdout.
class Table {
public:
  explicit Table(bool json) : json(json) {}

  /// A line that begins with `#`; nothing in JSON.
  void comment(const std::string &text);
  /// The column titles.
  void header();
  /// One form of one size. Both forms of a size make one row; `last` completes it.
  void add(const Series &series, const Measurement &measurement, bool last);
  /// The totals of everything since the last footer.
  void footer();

  int64_t wrong() const { return allWrong; }

private:
  void addJson(const Series &series, const Measurement &measurement);
  void printRow(const Series &series, const Measurement &measurement);

  bool json;
  std::string forms[2]; ///< out of place, in place: the columns of the open row
  double busSum = 0;
  int64_t measurements = 0, tableWrong = 0, allWrong = 0;
  bool checked = false;
};

} // namespace ccl::cli
