//===- Json.cpp -----------------------------------------------------------===//
#include "frontend/mscclpp/Json.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

namespace ccl::mscclpp {

using interchange::Diagnostic;
using interchange::TextPlace;

Diagnostic &report(std::vector<Diagnostic> &diagnostics, Diagnostic::Kind kind, TextPlace place,
                   std::string text) {
  Diagnostic &diagnostic = diagnostics.emplace_back();
  diagnostic.kind = kind;
  diagnostic.place = place;
  diagnostic.text = std::move(text);
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

JsonValue::Kind JsonValue::kind() const {
  return text ? text->nodes[size_t(node)].kind : Kind::Null;
}

std::string_view JsonValue::kindName() const {
  switch (kind()) {
  case Kind::Null: return "null";
  case Kind::Bool: return "true or false";
  case Kind::Number: return "a number";
  case Kind::String: return "a string";
  case Kind::Array: return "an array";
  case Kind::Object: return "an object";
  }
  return "null";
}

TextPlace JsonValue::place() const {
  return text ? text->placeAt(text->nodes[size_t(node)].begin) : TextPlace();
}

std::string_view JsonValue::source() const {
  if (!text)
    return {};
  const JsonText::Node &n = text->nodes[size_t(node)];
  return text->text.substr(n.begin, n.end - n.begin);
}

std::optional<bool> JsonValue::boolean() const {
  if (kind() != Kind::Bool)
    return std::nullopt;
  return source() == "true";
}

std::optional<int64_t> JsonValue::integer() const {
  if (kind() != Kind::Number)
    return std::nullopt;
  std::string_view digits = source();
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size())
    return value;
  double real = 0;
  auto [realEnd, realError] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
  // Beyond 2^53 a double is not a count any more.
  if (realError != std::errc() || realEnd != digits.data() + digits.size() ||
      std::abs(real) > 9007199254740992.0 || real != std::floor(real))
    return std::nullopt;
  return int64_t(real);
}

static std::string unescape(std::string_view quoted) {
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse(llvm::StringRef(quoted.data(), quoted.size()));
  if (!value) {
    llvm::consumeError(value.takeError());
    return {};
  }
  std::optional<llvm::StringRef> string = value->getAsString();
  return string ? string->str() : std::string();
}

std::optional<std::string> JsonValue::string() const {
  if (kind() != Kind::String)
    return std::nullopt;
  std::string_view quoted = source();
  if (quoted.find('\\') == std::string_view::npos)
    return std::string(quoted.substr(1, quoted.size() - 2));
  return unescape(quoted);
}

JsonValue JsonValue::firstChild() const {
  return text ? JsonValue(text, text->nodes[size_t(node)].firstChild) : JsonValue();
}

JsonValue JsonValue::next() const {
  return text ? JsonValue(text, text->nodes[size_t(node)].next) : JsonValue();
}

size_t JsonValue::size() const { return text ? size_t(text->nodes[size_t(node)].children) : 0; }

std::string_view JsonValue::key() const {
  return text ? text->nodes[size_t(node)].key : std::string_view();
}

TextPlace JsonValue::keyPlace() const {
  return text ? text->placeAt(text->nodes[size_t(node)].keyBegin) : TextPlace();
}

JsonValue JsonValue::find(std::string_view wanted) const {
  if (kind() != Kind::Object)
    return {};
  for (JsonValue child = firstChild(); child; child = child.next())
    if (child.key() == wanted)
      return child;
  return {};
}

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

JsonText::JsonText(std::string_view text, std::vector<Diagnostic> &diagnostics) : text(text) {
  if (text.size() > maxBytes) {
    report(diagnostics, Diagnostic::Kind::Unsupported, {},
           fmt::format("the text has {} bytes; at most {} are read", text.size(), maxBytes));
    return;
  }
  lines.push_back(0);
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n')
      lines.push_back(uint32_t(i) + 1);
  if (!isJson(diagnostics))
    return;
  scanValue();
  for (const Node &node : nodes)
    if (node.kind == JsonValue::Kind::Object && !keysAreDistinct(node, diagnostics)) {
      nodes.clear();
      return;
    }
}

TextPlace JsonText::placeAt(size_t offset) const {
  size_t line = size_t(std::upper_bound(lines.begin(), lines.end(), offset) - lines.begin());
  return {int32_t(line), int32_t(offset - lines[line - 1]) + 1};
}

namespace {

/// An array or object that is not over yet: its text with a number for each array and object
/// in it, which were checked before.
struct Container {
  struct Part {
    size_t inFlat, inText; ///< where it begins
    bool replaced = false;
  };
  std::string flat;
  size_t copied = 0; ///< up to where of the text
  std::vector<Part> parts;

  explicit Container(size_t begin) : copied(begin), parts{{0, begin}} {}

  void copyTo(std::string_view text, size_t end) {
    flat += text.substr(copied, end - copied);
    copied = end;
  }
  void replaceTo(size_t end) {
    parts.push_back({flat.size(), copied, true});
    flat += " 0 "; // apart from what stands beside it
    copied = end;
    parts.push_back({flat.size(), end});
  }
  size_t offsetInText(size_t offset) const {
    auto part = std::upper_bound(parts.begin(), parts.end(), offset,
                                 [](size_t at, const Part &p) { return at < p.inFlat; });
    --part;
    return part->inText + (part->replaced ? 0 : offset - part->inFlat);
  }
};

} // namespace

/// LLVM's opinion of a text: nothing, or where it is wrong, and how.
static std::optional<std::pair<size_t, std::string>> findJsonError(std::string_view text) {
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  if (value)
    return std::nullopt;
  // "[line:column, byte=offset]: message"
  std::string message = llvm::toString(value.takeError());
  size_t offset = 0;
  if (size_t byte = message.find("byte="); byte != std::string::npos)
    std::from_chars(message.data() + byte + 5, message.data() + message.size(), offset);
  if (size_t end = message.find("]: "); end != std::string::npos)
    message.erase(0, end + 3);
  return std::pair(offset, std::move(message));
}

// LLVM's tree has some kilobytes for every object, and the parser recurses: so every array and
// object is parsed for itself.
bool JsonText::isJson(std::vector<Diagnostic> &diagnostics) const {
  std::vector<Container> open;
  open.emplace_back(0);
  auto isFine = [&]() {
    auto error = findJsonError(open.back().flat);
    if (!error)
      return true;
    size_t offset = std::min(open.back().offsetInText(error->first), text.size());
    report(diagnostics, Diagnostic::Kind::Malformed, placeAt(offset),
           fmt::format("this is not JSON: {}", error->second));
    return false;
  };
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (open.size() > size_t(maxDepth)) {
        report(diagnostics, Diagnostic::Kind::Malformed, placeAt(i),
               fmt::format("arrays and objects are nested more than {} deep", maxDepth));
        return false;
      }
      open.back().copyTo(text, i);
      open.emplace_back(i);
    } else if ((c == ']' || c == '}') && open.size() > 1) {
      open.back().copyTo(text, i + 1);
      if (!isFine())
        return false;
      open.pop_back();
      open.back().replaceTo(i + 1);
    }
  }
  open.back().copyTo(text, text.size());
  return isFine();
}

bool JsonText::keysAreDistinct(const Node &object, std::vector<Diagnostic> &diagnostics) const {
  std::vector<const Node *> children;
  for (int32_t child = object.firstChild; child >= 0; child = nodes[size_t(child)].next)
    children.push_back(&nodes[size_t(child)]);
  std::sort(children.begin(), children.end(), [](const Node *a, const Node *b) {
    return std::tie(a->key, a->keyBegin) < std::tie(b->key, b->keyBegin);
  });
  auto twice = std::adjacent_find(children.begin(), children.end(),
                                  [](const Node *a, const Node *b) { return a->key == b->key; });
  if (twice == children.end())
    return true;
  report(diagnostics, Diagnostic::Kind::Malformed, placeAt(twice[1]->keyBegin),
         fmt::format("the key \"{}\" is there twice", shortened(twice[1]->key)))
      .notes.push_back({placeAt(twice[0]->keyBegin), -1, "the other one"});
  return false;
}

//===----------------------------------------------------------------------===//
// The scan
//===----------------------------------------------------------------------===//

void JsonText::skipSpace() {
  while (at < text.size() &&
         (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
    ++at;
}

void JsonText::skipString() {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  ++at;
}

std::string_view JsonText::scanKey() {
  size_t begin = at;
  skipString();
  std::string_view quoted = text.substr(begin, at - begin);
  if (quoted.find('\\') == std::string_view::npos)
    return quoted.substr(1, quoted.size() - 2);
  return unescaped.emplace_back(unescape(quoted));
}

int32_t JsonText::scanValue() {
  skipSpace();
  int32_t number = int32_t(nodes.size());
  nodes.emplace_back();
  size_t begin = at;
  JsonValue::Kind kind = JsonValue::Kind::Null;
  switch (at < text.size() ? text[at] : 'n') {
  case '{':
  case '[':
    kind = text[at] == '{' ? JsonValue::Kind::Object : JsonValue::Kind::Array;
    scanChildren(number, kind == JsonValue::Kind::Object);
    break;
  case '"':
    kind = JsonValue::Kind::String;
    skipString();
    break;
  case 't':
    kind = JsonValue::Kind::Bool;
    at += 4;
    break;
  case 'f':
    kind = JsonValue::Kind::Bool;
    at += 5;
    break;
  case 'n': at += 4; break;
  default:
    kind = JsonValue::Kind::Number;
    while (at < text.size() &&
           std::string_view("+-.eE0123456789").find(text[at]) != std::string_view::npos)
      ++at;
  }
  Node &node = nodes[size_t(number)];
  node.kind = kind;
  node.begin = uint32_t(begin);
  node.end = uint32_t(std::min(at, text.size()));
  return number;
}

// As deep as the text is nested, which is limited.
void JsonText::scanChildren(int32_t parent, bool object) {
  char close = object ? '}' : ']';
  ++at;
  int32_t last = -1;
  for (skipSpace(); at < text.size() && text[at] != close; skipSpace()) {
    if (text[at] == ',') {
      ++at;
      continue;
    }
    std::string_view key;
    size_t keyBegin = at;
    if (object) {
      key = scanKey();
      skipSpace();
      ++at; // the colon
    }
    int32_t child = scanValue();
    nodes[size_t(child)].key = key;
    nodes[size_t(child)].keyBegin = uint32_t(keyBegin);
    (last < 0 ? nodes[size_t(parent)].firstChild : nodes[size_t(last)].next) = child;
    ++nodes[size_t(parent)].children;
    last = child;
  }
  ++at;
}

} // namespace ccl::mscclpp
