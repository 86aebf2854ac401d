//===- Mutate.cpp ---------------------------------------------------------------------===//
#include "test/fuzz/Mutate.h"

#include "test/soak/Dice.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace ccl::fuzz {
namespace {

using soak::Dice;

enum class TokenKind : uint8_t { Number, Word, Other };
struct Token {
  size_t begin, end;
  TokenKind kind;
};
struct Range {
  size_t begin, end;
};

class Text {
public:
  Text(const Vocabulary &vocabulary, std::string text, Dice &dice)
      : vocabulary(vocabulary), dice(dice), text(std::move(text)) {}

  /// One change; false if there was nothing to change in this way.
  bool change();
  void insertBlock(std::string_view block);
  /// A block, or "".
  std::string_view anyBlock() {
    auto range = block();
    return range ? view(*range) : std::string_view();
  }

  const Vocabulary &vocabulary;
  Dice &dice;
  std::string text;

private:
  std::string_view view(Range r) const {
    return std::string_view(text).substr(r.begin, r.end - r.begin);
  }
  void tokenize();
  std::optional<Token> anyToken(TokenKind kind);
  std::string number();
  std::optional<Range> block();
  std::optional<Range> line();
  std::optional<Range> element(size_t at) const;
  std::optional<Range> bracketed(size_t at) const;
  bool replaceNumber();
  bool replaceWord();
  bool swapTokens();
  bool changeBlock();
  bool insertPiece();

  std::vector<Token> tokens;
};

bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

void Text::tokenize() {
  tokens.clear();
  for (size_t i = 0; i < text.size();) {
    size_t begin = i;
    TokenKind kind = TokenKind::Other;
    bool sign = text[i] == '-' && i + 1 < text.size() &&
                std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (sign || std::isdigit(static_cast<unsigned char>(text[i]))) {
      kind = TokenKind::Number;
      for (++i; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));)
        ++i;
    } else if (isWordChar(text[i])) {
      kind = TokenKind::Word;
      while (i < text.size() && isWordChar(text[i]))
        ++i;
    } else {
      ++i;
    }
    tokens.push_back({begin, i, kind});
  }
}

std::optional<Token> Text::anyToken(TokenKind kind) {
  if (tokens.empty())
    return std::nullopt;
  size_t start = size_t(dice.below(int64_t(tokens.size())));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token &token = tokens[(start + i) % tokens.size()];
    if (token.kind == kind)
      return token;
  }
  return std::nullopt;
}

std::string Text::number() {
  static const std::vector<std::string> odd = {"-1",
                                               "63",
                                               "64",
                                               "65",
                                               "255",
                                               "256",
                                               "65535",
                                               "65536",
                                               "1048576",
                                               "2147483647",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "-2147483648",
                                               "9223372036854775807",
                                               "1e9",
                                               "1.5",
                                               "-0",
                                               "00",
                                               "9223372036854775808",
                                               "0x10",
                                               "",
                                               "18446744073709551616"};
  if (dice.chance(8))
    return dice.pick(odd);
  if (dice.chance(30))
    if (auto other = anyToken(TokenKind::Number))
      return text.substr(other->begin, other->end - other->begin);
  return std::to_string(dice.below(dice.chance(70) ? 6 : 40) - (dice.chance(10) ? 2 : 0));
}

bool Text::replaceNumber() {
  auto token = anyToken(TokenKind::Number);
  if (!token)
    return false;
  text.replace(token->begin, token->end - token->begin, number());
  return true;
}

bool Text::replaceWord() {
  auto token = anyToken(TokenKind::Word);
  if (!token)
    return false;
  std::string word;
  auto other = anyToken(TokenKind::Word);
  if (other && dice.chance(40))
    word = text.substr(other->begin, other->end - other->begin);
  else
    word = dice.pick(vocabulary.words);
  text.replace(token->begin, token->end - token->begin, word);
  return true;
}

bool Text::swapTokens() {
  if (tokens.empty())
    return false;
  Token a = dice.pick(tokens), b = dice.pick(tokens);
  if (a.begin > b.begin)
    std::swap(a, b);
  if (a.end > b.begin)
    return false;
  std::string first = text.substr(a.begin, a.end - a.begin);
  std::string second = text.substr(b.begin, b.end - b.begin);
  text.replace(b.begin, b.end - b.begin, first);
  text.replace(a.begin, a.end - a.begin, second);
  return true;
}

/// From a `<name` to the end of that element.
std::optional<Range> Text::element(size_t at) const {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '<' && i + 1 < text.size())
      depth += text[i + 1] == '/' ? -1 : 1;
    if (text[i] == '>') {
      bool empty = i > 0 && text[i - 1] == '/';
      depth -= empty;
      if (depth <= 0)
        return Range{at, i + 1};
    }
  }
  return std::nullopt;
}

/// From an opening bracket to its closing one, with a comma or a colon's key that belongs to it.
std::optional<Range> Text::bracketed(size_t at) const {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    depth += text[i] == '{' || text[i] == '[';
    depth -= text[i] == '}' || text[i] == ']';
    if (depth == 0) {
      size_t end = i + 1;
      return Range{at, end < text.size() && text[end] == ',' ? end + 1 : end};
    }
  }
  return std::nullopt;
}

std::optional<Range> Text::line() {
  if (text.empty())
    return std::nullopt;
  size_t at = size_t(dice.below(int64_t(text.size())));
  size_t begin = text.rfind('\n', at), end = text.find('\n', at);
  begin = begin == text.npos || begin == at ? at : begin + 1;
  return Range{begin, end == text.npos ? text.size() : end + 1};
}

std::optional<Range> Text::block() {
  const bool isXml = vocabulary.language == Language::Xml;
  if (text.empty())
    return std::nullopt;
  if (vocabulary.language == Language::Mlir && dice.chance(60))
    return line();
  size_t start = size_t(dice.below(int64_t(text.size())));
  for (size_t i = 0; i < text.size(); ++i) {
    size_t at = (start + i) % text.size();
    bool opens = isXml ? text[at] == '<' && at + 1 < text.size() && isWordChar(text[at + 1])
                       : text[at] == '{' || text[at] == '[';
    if (opens)
      return isXml ? element(at) : bracketed(at);
  }
  return line();
}

void Text::insertBlock(std::string_view piece) {
  if (piece.empty())
    return;
  auto target = block();
  size_t at = target ? (dice.chance(50) ? target->begin : target->end) : text.size();
  text.insert(at, piece);
}

bool Text::changeBlock() {
  auto range = block();
  if (!range)
    return false;
  std::string copy(view(*range));
  switch (dice.below(4)) {
  case 0: text.erase(range->begin, copy.size()); break;
  case 1: text.insert(range->end, copy); break;
  case 2: insertBlock(copy); break;
  case 3: // moves it
    text.erase(range->begin, copy.size());
    insertBlock(copy);
    break;
  }
  return true;
}

bool Text::insertPiece() {
  if (tokens.empty() || vocabulary.pieces.empty())
    return false;
  std::string piece(dice.pick(vocabulary.pieces));
  for (size_t at; (at = piece.find('#')) != piece.npos;) // a number stands there
    piece.replace(at, 1, number());
  // Pieces begin with what stands before them: there they fit.
  size_t from = size_t(dice.below(int64_t(text.size())));
  size_t at = text.find(piece.front(), from);
  if (at == text.npos)
    at = text.find(piece.front());
  if (at == text.npos)
    return false;
  text.replace(at, 1, piece);
  return true;
}

bool Text::change() {
  tokenize();
  switch (dice.below(10)) {
  case 0:
  case 1:
  case 2: return replaceNumber();
  case 3:
  case 4: return replaceWord();
  case 5: return swapTokens();
  case 6:
  case 7: return changeBlock();
  default: return insertPiece();
  }
}

size_t put(const std::string &text, uint8_t *out, size_t maxSize) {
  size_t size = std::min(text.size(), maxSize);
  std::memcpy(out, text.data(), size);
  return size;
}

} // namespace

size_t mutate(const Vocabulary &vocabulary, uint8_t *data, size_t size, size_t maxSize,
              unsigned seed) {
  Dice dice(seed);
  if (size == 0 || dice.chance(15))
    return LLVMFuzzerMutate(data, size, maxSize);
  Text text(vocabulary, std::string(reinterpret_cast<const char *>(data), size), dice);
  bool changed = false;
  for (int64_t times = 1 + dice.below(3); times-- > 0;)
    changed |= text.change();
  if (!changed)
    return LLVMFuzzerMutate(data, size, maxSize);
  return put(text.text, data, maxSize);
}

size_t crossOver(const Vocabulary &vocabulary, std::string_view a, std::string_view b, uint8_t *out,
                 size_t maxSize, unsigned seed) {
  Dice dice(seed);
  Text other(vocabulary, std::string(b), dice);
  Text text(vocabulary, std::string(a), dice);
  text.insertBlock(other.anyBlock());
  return put(text.text, out, maxSize);
}

} // namespace ccl::fuzz
