//===- Diagnostic.h - What is wrong with a text, and where -----------------------===//
//
// The messages of everything that reads or writes other systems' files.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccl::interchange {

/// A place in a text; both count from 1. 0: the file as a whole.
struct TextPlace {
  int32_t line = 0, column = 0;
  friend bool operator==(const TextPlace &, const TextPlace &) = default;
};

/// A message about a text, or about a program that is to be written.
struct Diagnostic {
  enum class Kind : uint8_t {
    Warning,    ///< it works here, but not in the systems the format is for; or is odd
    Malformed,  ///< not a text of this format, or it contradicts itself
    Unsupported ///< means something that has no counterpart on the other side
  };
  Kind kind = Kind::Malformed;
  TextPlace place;  ///< readers: where
  int32_t loc = -1; ///< writers: which instruction or buffer, as its `loc`; -1: the program
  std::string text; ///< one sentence; says what to do, if that is known
  struct Note {
    TextPlace place;
    int32_t loc = -1;
    std::string text;
  };
  std::vector<Note> notes;

  bool isError() const { return kind != Kind::Warning; }
};

} // namespace ccl::interchange
