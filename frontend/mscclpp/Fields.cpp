//===- Fields.cpp ---------------------------------------------------------===//
#include "frontend/mscclpp/Fields.h"

#include <fmt/format.h>

#include <utility>

namespace ccl::mscclpp {

using interchange::Diagnostic;
using interchange::TextPlace;

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

Diagnostic &Log::error(Diagnostic::Kind kind, TextPlace place, std::string text) {
  if (++errors > maxErrors)
    return overflow = Diagnostic();
  return report(diagnostics, kind, place, std::move(text));
}

Diagnostic &Log::malformed(TextPlace place, std::string text) {
  return error(Diagnostic::Kind::Malformed, place, std::move(text));
}

Diagnostic &Log::unsupported(TextPlace place, std::string text) {
  return error(Diagnostic::Kind::Unsupported, place, std::move(text));
}

Diagnostic &Log::warn(TextPlace place, std::string text) {
  if (warnings.size() >= maxWarnings) {
    ++moreWarnings;
    return overflow = Diagnostic();
  }
  return report(warnings, Diagnostic::Kind::Warning, place, std::move(text));
}

void Log::draft(TextPlace place, std::string_view used, std::string_view canonical) {
  if (draftTold || !tellDrafts)
    return;
  draftTold = true;
  warn(place, fmt::format("\"{}\" is the spelling of a draft; MSCCL++ reads \"{}\" and refuses "
                          "this plan",
                          used, canonical));
}

std::vector<Diagnostic> Log::takeWarnings() {
  if (moreWarnings > 0)
    report(warnings, Diagnostic::Kind::Warning, {},
           fmt::format("{} more warnings are not shown", moreWarnings));
  moreWarnings = 0;
  return std::exchange(warnings, {});
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

int64_t readNumber(Log &log, JsonValue value, std::string_view what, int64_t min, int64_t max) {
  if (value.kind() != JsonValue::Kind::Number) {
    log.malformed(value.place(), fmt::format("{} is a number, not {}", what, value.kindName()));
    return min;
  }
  std::optional<int64_t> number = value.integer();
  if (!number || *number < min || *number > max) {
    log.malformed(value.place(), fmt::format("{} is {}, and has to be a whole number from {} to {}",
                                             what, shortened(value.source()), min, max));
    return min;
  }
  return *number;
}

std::string readString(Log &log, JsonValue value, std::string_view what) {
  std::optional<std::string> text = value.string();
  if (!text)
    log.malformed(value.place(), fmt::format("{} is a string, not {}", what, value.kindName()));
  return text.value_or(std::string());
}

std::vector<JsonValue> readElements(Log &log, JsonValue value, std::string_view what) {
  std::vector<JsonValue> elements;
  if (value.kind() != JsonValue::Kind::Array) {
    log.malformed(value.place(), fmt::format("{} is an array, not {}", what, value.kindName()));
    return elements;
  }
  elements.reserve(value.size());
  for (JsonValue child = value.firstChild(); child; child = child.next())
    elements.push_back(child);
  return elements;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

Fields::Fields(Log &log, JsonValue object, std::string_view what)
    : log(log), object(object), what(what) {
  if (object && object.kind() != JsonValue::Kind::Object)
    log.malformed(object.place(), fmt::format("{} is an object, not {}", what, object.kindName()));
}

JsonValue Fields::find(Names names) const {
  for (std::string_view name : names)
    if (JsonValue value = object.find(name)) {
      if (name != *names.begin())
        log.draft(value.keyPlace(), name, *names.begin());
      return value;
    }
  return {};
}

JsonValue Fields::require(Names names) const {
  JsonValue value = find(names);
  if (!value && object.kind() == JsonValue::Kind::Object)
    log.malformed(object.place(), fmt::format("{} has no \"{}\"", what, *names.begin()));
  return value;
}

int64_t Fields::number(Names names, int64_t min, int64_t max, std::optional<int64_t> orElse) const {
  JsonValue value = orElse ? find(names) : require(names);
  if (!value)
    return orElse.value_or(min);
  return readNumber(log, value, fmt::format("\"{}\"", *names.begin()), min, max);
}

std::string Fields::string(Names names, std::optional<std::string> orElse) const {
  JsonValue value = orElse ? find(names) : require(names);
  if (!value)
    return orElse.value_or(std::string());
  return readString(log, value, fmt::format("\"{}\"", *names.begin()));
}

bool Fields::flag(Names names, std::optional<bool> orElse) const {
  JsonValue value = orElse ? find(names) : require(names);
  if (!value)
    return orElse.value_or(false);
  std::optional<bool> flag = value.boolean();
  if (!flag)
    log.malformed(value.place(),
                  fmt::format("\"{}\" is true or false, not {}", *names.begin(), value.kindName()));
  return flag.value_or(false);
}

std::vector<JsonValue> Fields::elements(Names names, bool required) const {
  JsonValue value = required ? require(names) : find(names);
  if (!value)
    return {};
  return readElements(log, value, fmt::format("\"{}\"", *names.begin()));
}

} // namespace ccl::mscclpp
