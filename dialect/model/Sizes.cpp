//===- Sizes.cpp ------------------------------------------------------------===//
#include "dialect/model/Sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <limits>

namespace ccl::model {

static bool isBlank(char c) { return std::isspace(static_cast<unsigned char>(c)); }

static std::string_view trim(std::string_view text) {
  while (!text.empty() && isBlank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isBlank(text.back()))
    text.remove_suffix(1);
  return text;
}

/// How far the unit shifts to the left; -1: there is none of that name.
static int shiftOf(std::string_view unit) {
  std::string upper;
  for (char c : unit)
    upper += char(std::toupper(static_cast<unsigned char>(c)));
  if (upper.ends_with("IB"))
    upper.resize(upper.size() - 2);
  else if (upper.ends_with("B"))
    upper.resize(upper.size() - 1);
  if (upper.empty())
    return 0;
  const size_t found = std::string_view("KMGT").find(upper[0]);
  return upper.size() == 1 && found != std::string_view::npos ? 10 * (int(found) + 1) : -1;
}

std::string parseSize(std::string_view text, int64_t &size) {
  const std::string_view trimmed = trim(text);
  uint64_t value = 0;
  const char *end = trimmed.data() + trimmed.size();
  const auto [unit, error] = std::from_chars(trimmed.data(), end, value);
  if (error == std::errc::result_out_of_range)
    return fmt::format("'{}' is too large", text);
  if (error != std::errc())
    return fmt::format("'{}' is not a size: expected a number such as 4096, 8K, 64M", text);
  const int shift = shiftOf({unit, size_t(end - unit)});
  if (shift < 0)
    return fmt::format("'{}' is not a size: the suffixes are K, M, G and T", text);
  if (value > uint64_t(std::numeric_limits<int64_t>::max()) >> shift)
    return fmt::format("'{}' is too large", text);
  size = int64_t(value << shift);
  return "";
}

} // namespace ccl::model
