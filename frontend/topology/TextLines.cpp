#include "frontend/topology/TextLines.h"

#include <algorithm>

namespace ccl::topology {

/// Bytes of the escape sequence whose ESC is the `lead` bytes here: ESC [ parameters letter; ESC ]
/// a title or link up to BEL or ESC \; or ESC and one more.
static size_t escapeLength(std::string_view text, size_t lead) {
  size_t i = lead + 1;
  if (text.size() <= lead || (text[lead] != '[' && text[lead] != ']'))
    return std::min(i, text.size());
  if (text[lead] == ']') {
    for (; i < text.size() && text[i] != '\a'; ++i)
      if (text.substr(i).starts_with("\x1b\\"))
        return i + 2;
    return std::min(i + 1, text.size());
  }
  for (; i < text.size(); ++i)
    if (text[i] >= '@' && text[i] <= '~')
      return i + 1;
  return text.size();
}

/// The same of a color whose ESC was lost when somebody pasted it: "[4m", "[0m".
static size_t lostEscapeLength(std::string_view text) {
  size_t end = text.find_first_not_of("0123456789;", 1);
  return text[0] == '[' && end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

/// Bytes at the beginning of a text that only terminals mind, or 0.
static size_t invisibleLength(std::string_view text) {
  if (text[0] == '\r')
    return 1;
  if (text[0] == '\x1b')
    return escapeLength(text, 1);
  if (text.starts_with("^[[")) // as `cat -v` shows it
    return escapeLength(text, 2);
  return lostEscapeLength(text);
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
    if (raw.find_first_of("\x1b\r\xc2[") == raw.npos) {
      line.text = raw;
      lines.push_back(std::move(line));
      begin = end + 1;
      continue;
    }
    for (size_t i = 0; i < raw.size();) {
      if (size_t invisible = invisibleLength(raw.substr(i))) {
        i += invisible;
        continue;
      }
      // No-break spaces come with text that is copied from web pages.
      bool noBreak = raw.substr(i).starts_with("\xc2\xa0");
      line.text += noBreak ? ' ' : raw[i];
      line.columns.push_back(int32_t(i + 1));
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
