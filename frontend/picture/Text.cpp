//===- Text.cpp -----------------------------------------------------------===//
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ccl::picture {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

/// Bytes of the character that `text` begins with, 0 if it is no UTF-8.
size_t characterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80)
    return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length)
    return 0;
  uint32_t value = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  const bool noCharacter = value > 0x10FFFF || value == 0xFFFE || value == 0xFFFF;
  return overlong || surrogate || noCharacter ? 0 : length;
}

/// In parts of the size of the font; measured on DejaVu Sans, which is wide.
double characterWidth(std::string_view character) {
  const char c = character[0];
  if (character.size() > 1)
    return character == "…" || character == "→" || character == "µ" ? 1 : 1.1;
  if (c >= '0' && c <= '9')
    return 0.64;
  if (c == 'm' || c == 'M' || c == 'W' || c == '@' || c == '%')
    return 1;
  if (c >= 'A' && c <= 'Z')
    return 0.77;
  if (c == 'w')
    return 0.82;
  if (std::string_view("ijl.,:;|' ").find(c) != std::string_view::npos)
    return 0.34;
  return 0.64;
}

struct Unit {
  double from; ///< the least value that is said in it
  double size;
  std::string_view name;
};

/// Four digits in the largest unit that begins at no more than `like`.
template <size_t N>
std::string inUnits(double value, const std::array<Unit, N> &units, double like) {
  if (!std::isfinite(value))
    value = 0;
  size_t u = 0;
  while (u + 1 < N && std::isfinite(like) && std::abs(like) >= units[u + 1].from)
    ++u;
  const double scaled = value / units[u].size;
  const int before = std::abs(scaled) >= 1 ? int(std::log10(std::abs(scaled))) + 1 : 1;
  return fmt::format("{} {}", fixed(scaled, std::max(0, 4 - before)), units[u].name);
}

} // namespace

std::string escape(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = characterLength(text);
    const char c = text[0];
    if (length == 0 || (uint8_t(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
      result += replacement;
    else if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value))
    return "0";
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string time(double us) { return time(us, us); }

std::string time(double us, double like) {
  constexpr std::array<Unit, 3> units = {{{1, 1, "µs"}, {1e4, 1e3, "ms"}, {1e7, 1e6, "s"}}};
  return inUnits(us, units, like);
}

std::string bytes(double bytes) {
  constexpr double k = 1024, m = k * k, g = k * m, t = k * g;
  constexpr std::array<Unit, 5> units = {
      {{1, 1, "B"}, {k, k, "KiB"}, {m, m, "MiB"}, {g, g, "GiB"}, {t, t, "TiB"}}};
  return inUnits(bytes, units, bytes);
}

std::string rate(double gbps) { return inUnits(gbps, std::array<Unit, 1>{{{1, 1, "GB/s"}}}, gbps); }

std::string percent(double share) {
  return fixed(100 * share, std::abs(share) < 0.9995 ? 1 : 0) + " %";
}

double textWidth(std::string_view text, double size) {
  double width = 0;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(characterLength(text), 1);
    width += characterWidth(text.substr(0, length));
    text.remove_prefix(length);
  }
  return width * size;
}

std::string fit(std::string_view text, double size, double width) {
  if (textWidth(text, size) <= width)
    return std::string(text);
  const double room = width - textWidth("…", size);
  double used = 0;
  size_t end = 0;
  while (end < text.size()) {
    const size_t length = std::max<size_t>(characterLength(text.substr(end)), 1);
    used += size * characterWidth(text.substr(end, length));
    if (used > room)
      break;
    end += length;
  }
  return end == 0 ? "" : std::string(text.substr(0, end)) + "…";
}

int heatStep(double share) {
  if (!(share > 0))
    return 0;
  return int(std::clamp(std::ceil(share * heatSteps - 1e-9), 1.0, double(heatSteps)));
}

} // namespace ccl::picture
