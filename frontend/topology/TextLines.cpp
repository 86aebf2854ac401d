#include "frontend/topology/TextLines.h"

#include <algorithm>

namespace ccl::topology {

/// Bytes of the escape sequence that begins here: ESC [ parameters letter, or ESC and one more.
static size_t escapeLength(std::string_view text) {
  if (text.size() < 2)
    return text.size();
  if (text[1] != '[')
    return 2;
  for (size_t i = 2; i < text.size(); ++i)
    if (text[i] >= '@' && text[i] <= '~')
      return i + 1;
  return text.size();
}

interchange::TextPlace TextLine::place(size_t at) const {
  if (columns.empty())
    return {number, int32_t(at + 1)};
  return {number, at < columns.size() ? columns[at] : columns.back() + 1};
}

std::vector<TextLine> splitLines(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  std::vector<TextLine> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view raw = text.substr(begin, end - begin);
    TextLine line;
    line.number = int32_t(lines.size() + 1);
    if (raw.find_first_of("\x1b\r\xc2") == raw.npos) {
      line.text = raw;
      lines.push_back(std::move(line));
      begin = end + 1;
      continue;
    }
    for (size_t i = 0; i < raw.size();) {
      if (raw[i] == '\x1b') {
        i += escapeLength(raw.substr(i));
        continue;
      }
      // No-break spaces come with text that is copied from web pages.
      bool noBreak = raw.substr(i).starts_with("\xc2\xa0");
      if (raw[i] != '\r') {
        line.text += noBreak ? ' ' : raw[i];
        line.columns.push_back(int32_t(i + 1));
      }
      i += noBreak ? 2 : 1;
    }
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

std::vector<Word> TextLine::words() const {
  std::vector<Word> words;
  int32_t cell = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\t' || text[i] == ' ') {
      cell += text[i] == '\t';
      ++i;
      continue;
    }
    size_t end = std::min(text.find_first_of(" \t", i), text.size());
    words.push_back({text.substr(i, end - i), place(i), cell});
    i = end;
  }
  return words;
}

std::string withSingleBlanks(const std::vector<Word> &words) {
  std::string text;
  for (const Word &word : words)
    text += (text.empty() ? "" : " ") + word.text;
  return text;
}

} // namespace ccl::topology
