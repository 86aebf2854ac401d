//===- TextLines.h - Lines and words of a tool's output --------------------------===//
#pragma once

#include "frontend/interchange/Diagnostic.h"

#include <string>
#include <string_view>
#include <vector>

namespace ccl::topology {

struct Word {
  std::string text;
  interchange::TextPlace place;
  int32_t cell = 0; ///< how many tabs are before it
};

/// A line without what terminals are told (ANSI sequences) and carriage returns.
struct TextLine {
  std::string text;
  /// Of every character, in the line as it was; empty if the line is as it was.
  std::vector<int32_t> columns;
  int32_t number = 0; ///< from 1
  interchange::TextPlace place(size_t at) const;
  /// Split at blanks and tabs.
  std::vector<Word> words() const;
};

std::vector<TextLine> splitLines(std::string_view text);

/// The words with one blank between them.
std::string withSingleBlanks(const std::vector<Word> &words);

} // namespace ccl::topology
