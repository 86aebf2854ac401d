//===- Measurements.cpp - Measured times, from text -----------------------===//

#include "dialect/simulate/Measurements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

using namespace ccl::model;

namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (size_t i = 0; (i = text.find_first_not_of(blanks, i)) != std::string_view::npos;) {
    size_t end = std::min(text.find_first_of(blanks, i), text.size());
    result.push_back(text.substr(i, end - i));
    i = end;
  }
  return result;
}

/// All of `text` as a finite number.
std::optional<double> number(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return {};
  return value;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    if (c >= 'A' && c <= 'Z')
      c += 'a' - 'A';
  return result;
}

/// What is shown of a word in a message.
std::string shown(std::string_view text) {
  return fmt::format("'{}{}'", text.substr(0, 40), text.size() > 40 ? "..." : "");
}

/// One point, or why it is none.
struct PointOrError {
  CurvePoint point;
  std::string error;
};
PointOrError pointOf(std::string_view size, double sizeUnit, std::string_view time,
                     double timeUnit) {
  std::optional<double> bytes = number(size), us = number(time);
  if (!bytes || !isMeasured({*bytes * sizeUnit, 1}))
    return {{}, fmt::format("the size {} is not a number of 0 or more", shown(size))};
  if (!us || !isMeasured({0, *us * timeUnit}))
    return {{}, fmt::format("the time {} is not a number above 0", shown(time))};
  return {{*bytes * sizeUnit, *us * timeUnit}, ""};
}

class Reader {
public:
  explicit Reader(std::string_view text) : rest(text) {}

  /// The next line, without its end; false after the last.
  bool next(std::string_view &line) {
    if (rest.empty())
      return false;
    size_t end = std::min(rest.find('\n'), rest.size());
    line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++at;
    return true;
  }
  Measurements fail(std::string message) const { return {{}, std::move(message), at}; }

  int32_t at = 0;

private:
  std::string_view rest;
};

//===----------------------------------------------------------------------===//
// nccl-tests
//===----------------------------------------------------------------------===//

/// mpirun may tag every line, "[1,0]<stdout>:".
std::string_view withoutTag(std::string_view line) {
  line = trim(line);
  if (line.starts_with("["))
    if (size_t tag = line.find(">:"); tag != std::string_view::npos)
      return trim(line.substr(tag + 2));
  return line;
}

/// The columns that a line names, if it is the heading of a table: a comment, but copies in
/// reports often lack the sign.
std::vector<std::string_view> headingOf(std::string_view line) {
  line = withoutTag(line);
  if (line.starts_with("#"))
    line.remove_prefix(1);
  std::vector<std::string_view> columns = words(line);
  bool isHeading = columns.size() >= 4 && columns[0] == "size" &&
                   std::find(columns.begin(), columns.end(), "time") != columns.end() &&
                   std::find(columns.begin(), columns.end(), "busbw") != columns.end();
  return isHeading ? columns : std::vector<std::string_view>();
}

Measurements readNcclTests(std::string_view text) {
  Reader reader(text);
  Measurements result;
  std::vector<std::string_view> columns;
  std::vector<size_t> times; ///< the columns with times: out of place, in place
  std::string_view line;
  while (reader.next(line)) {
    if (auto heading = headingOf(line); !heading.empty()) {
      columns = std::move(heading);
      times.clear();
      for (size_t i = 0; i < columns.size(); ++i)
        if (columns[i] == "time")
          times.push_back(i);
      if (times.size() > 2)
        return reader.fail("a heading names more than two columns 'time'");
      continue;
    }
    line = withoutTag(line);
    if (columns.empty() || line.empty() || line[0] < '0' || line[0] > '9')
      continue;
    std::vector<std::string_view> fields = words(line);
    // redop and root are blank for some collectives, so columns are counted from the end.
    size_t missing = columns.size() - std::min(columns.size(), fields.size());
    if (fields.size() > columns.size() || missing > 2 || times[0] <= missing)
      return reader.fail(fmt::format("{} columns; the heading names {}: {}", fields.size(),
                                     columns.size(), fmt::join(columns, " ")));
    for (size_t i = 0; i < times.size(); ++i) {
      PointOrError read = pointOf(fields[0], 1, fields[times[i] - missing], 1);
      if (!read.error.empty())
        return reader.fail(std::move(read.error));
      if (result.curves.size() <= i)
        result.curves.push_back({i == 0 ? "out-of-place" : "in-place", {}});
      result.curves[i].points.push_back(read.point);
    }
  }
  if (result.curves.empty())
    return reader.fail("there is a heading, but no measurement below it");
  return result;
}

//===----------------------------------------------------------------------===//
// CSV
//===----------------------------------------------------------------------===//

/// The fields of a line; nothing if a quote is not closed.
std::optional<std::vector<std::string>> splitCsv(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        fields.back() += line[++i];
      else
        quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted)
    return {};
  for (std::string &field : fields)
    field = trim(field);
  return fields;
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit timeUnits[] = {{"ns", 1e-3}, {"us", 1},  {"usec", 1},
                              {"ms", 1e3},  {"s", 1e6}, {"sec", 1e6}};
constexpr Unit sizeUnits[] = {
    {"bytes", 1}, {"b", 1},      {"kb", 1e3},          {"mb", 1e6},
    {"gb", 1e9},  {"kib", 1024}, {"mib", 1024 * 1024}, {"gib", 1024.0 * 1024 * 1024}};

std::vector<std::string> nameWords(const std::string &column) {
  std::vector<std::string> result(1);
  for (char c : lower(column)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      result.back() += c;
    else if (!result.back().empty())
      result.emplace_back();
  }
  if (result.back().empty())
    result.pop_back();
  return result;
}

template <size_t n>
std::optional<double> unitOf(const Unit (&units)[n], const std::string &word) {
  for (const Unit &unit : units)
    if (unit.name == word)
      return unit.factor;
  return {};
}

struct Columns {
  size_t size = SIZE_MAX, time = SIZE_MAX;
  double sizeUnit = 1, timeUnit = 1;
  std::vector<size_t> keys;
};

/// How well a name says that this is *the* time; 0 best.
int timeRank(const std::vector<std::string> &name) {
  auto has = [&](std::string_view word) {
    return std::find(name.begin(), name.end(), word) != name.end();
  };
  if (has("median") || has("p50"))
    return 0;
  if (has("avg") || has("mean") || has("average"))
    return 2;
  if (has("min"))
    return 3;
  for (std::string_view spread : {"max", "std", "stddev", "p90", "p95", "p99", "var", "variance"})
    if (has(spread))
      return 4;
  return 1;
}

/// "busbw", "bandwidth_GBps", "GB/s", and counts of elements.
bool isRateName(const std::vector<std::string> &name) {
  for (const std::string &word : name)
    for (std::string_view rate :
         {"algbw", "busbw", "bw", "bandwidth", "gbps", "mbps", "throughput", "count"})
      if (word == rate)
        return true;
  return name.size() >= 2 && name.back() == "s" && unitOf(sizeUnits, name[name.size() - 2]);
}

/// Finds the columns; `error` says what is missing.
Columns findColumns(const std::vector<std::string> &header, std::string &error) {
  Columns columns;
  int best = 4;
  for (size_t i = 0; i < header.size(); ++i) {
    std::vector<std::string> name = nameWords(header[i]);
    if (name.empty())
      continue;
    bool isSize = name[0] == "size" || name[0] == "bytes" || name[0] == "message";
    bool isRate = isRateName(name);
    std::optional<double> timeUnit = unitOf(timeUnits, name.back());
    if (isSize && columns.size == SIZE_MAX) {
      columns.size = i;
      columns.sizeUnit = unitOf(sizeUnits, name.back()).value_or(1);
    } else if (timeUnit && !isRate) {
      if (int rank = timeRank(name); rank < best)
        best = rank, columns.time = i, columns.timeUnit = *timeUnit;
    } else if (!isRate && timeRank(name) == 1) {
      columns.keys.push_back(i);
    }
  }
  if (columns.size == SIZE_MAX)
    error = fmt::format("no column is a size, as 'size_bytes' or 'bytes' would be; there are: {}",
                        fmt::join(header, ", "));
  else if (columns.time == SIZE_MAX)
    error = fmt::format("no column is a time with its unit, as 'median_ms' or 'time_us' would be; "
                        "there are: {}",
                        fmt::join(header, ", "));
  return columns;
}

Measurements readCsv(std::string_view text) {
  Reader reader(text);
  Measurements result;
  std::vector<std::string> header;
  Columns columns;
  std::map<std::vector<std::string>, size_t> curveOf;
  std::string_view line;
  while (reader.next(line)) {
    line = trim(line);
    if (reader.at == 1 && line.starts_with("\xef\xbb\xbf")) // byte order mark
      line.remove_prefix(3);
    if (line.empty() || line[0] == '#')
      continue;
    std::optional<std::vector<std::string>> fields = splitCsv(line);
    if (!fields)
      return reader.fail("a quote is not closed");
    if (header.empty()) {
      std::string error;
      header = std::move(*fields);
      columns = findColumns(header, error);
      if (!error.empty())
        return reader.fail(std::move(error));
      continue;
    }
    if (fields->size() != header.size())
      return reader.fail(
          fmt::format("{} fields; the header has {}", fields->size(), header.size()));
    PointOrError read = pointOf((*fields)[columns.size], columns.sizeUnit, (*fields)[columns.time],
                                columns.timeUnit);
    if (!read.error.empty())
      return reader.fail(std::move(read.error));
    std::vector<std::string> key;
    for (size_t column : columns.keys)
      key.push_back((*fields)[column]);
    auto [curve, isNew] = curveOf.try_emplace(key, result.curves.size());
    if (isNew) {
      std::string name;
      for (size_t i = 0; i < key.size(); ++i)
        name += fmt::format("{}{}={}", i ? " " : "", header[columns.keys[i]], key[i]);
      result.curves.push_back({std::move(name), {}});
    }
    result.curves[curve->second].points.push_back(read.point);
  }
  if (header.empty())
    return reader.fail("there is nothing in it: no header, no measurements");
  if (result.curves.empty())
    return reader.fail("there is a header, but no measurement below it");
  return result;
}

} // namespace

Measurements ccl::model::readMeasurements(std::string_view text) {
  Reader reader(text);
  std::string_view line;
  while (reader.next(line))
    if (!headingOf(line).empty())
      return readNcclTests(text);
  return readCsv(text);
}
