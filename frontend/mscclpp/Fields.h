//===- Fields.h - Reading the fields of JSON objects, with located errors -===//
#pragma once

#include "frontend/mscclpp/Json.h"

#include <initializer_list>

namespace ccl::mscclpp {

/// What a reader has to say. After an error it reads on, with default values, to find the
/// next one; nothing is made of the result.
class Log {
public:
  explicit Log(std::vector<interchange::Diagnostic> &diagnostics) : diagnostics(diagnostics) {}

  /// At most `maxErrors` are kept.
  interchange::Diagnostic &malformed(interchange::TextPlace place, std::string text);
  interchange::Diagnostic &unsupported(interchange::TextPlace place, std::string text);
  /// At most `maxWarnings` are kept, and one that says how many were not.
  interchange::Diagnostic &warn(interchange::TextPlace place, std::string text);
  /// A key of a draft of the format was used in place of `canonical`; told once.
  void draft(interchange::TextPlace place, std::string_view used, std::string_view canonical);

  bool failed() const { return errors > 0; }
  size_t numErrors() const { return errors; }
  std::vector<interchange::Diagnostic> takeWarnings();

  static constexpr size_t maxErrors = 8, maxWarnings = 64;
  bool tellDrafts = true;

private:
  interchange::Diagnostic &error(interchange::Diagnostic::Kind kind, interchange::TextPlace place,
                                 std::string text);

  std::vector<interchange::Diagnostic> &diagnostics;
  std::vector<interchange::Diagnostic> warnings;
  interchange::Diagnostic overflow; ///< where messages beyond the limits go
  size_t errors = 0, moreWarnings = 0;
  bool draftTold = false;
};

/// The names of a field, the current one first; the others are those of drafts.
using Names = std::initializer_list<std::string_view>;

/// An object whose fields are read.
class Fields {
public:
  /// `what` is "a thread block", for messages. An object is expected.
  Fields(Log &log, JsonValue object, std::string_view what);

  interchange::TextPlace place() const { return object.place(); }
  /// The field, or none.
  JsonValue find(Names names) const;
  /// The same; that there is none is an error.
  JsonValue require(Names names) const;
  /// A number in [min, max]; without a default the field has to be there.
  int64_t number(Names names, int64_t min, int64_t max,
                 std::optional<int64_t> orElse = std::nullopt) const;
  std::string string(Names names, std::optional<std::string> orElse = std::nullopt) const;
  bool flag(Names names, std::optional<bool> orElse = std::nullopt) const;
  /// The elements of an array; empty if there is no such field and it is not required.
  std::vector<JsonValue> elements(Names names, bool required) const;

  Log &log;
  JsonValue object;
  std::string_view what;
};

/// A number in [min, max]; `what` is "a rank", for messages.
int64_t readNumber(Log &log, JsonValue value, std::string_view what, int64_t min, int64_t max);
std::string readString(Log &log, JsonValue value, std::string_view what);
std::vector<JsonValue> readElements(Log &log, JsonValue value, std::string_view what);

} // namespace ccl::mscclpp
