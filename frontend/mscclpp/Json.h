//===- Json.h - JSON whose values know where they stand -------------------===//
//
// LLVM's parser decides what is JSON (RFC 8259, UTF-8). It recurses, has no positions and
// large objects, so it is given every array and object for itself, and a scan of what it
// accepted makes a tree of values that point into the text. Nesting is limited; keys of an
// object are distinct.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::mscclpp {

/// Appends a message about a place; what is returned is good until the next one.
interchange::Diagnostic &report(std::vector<interchange::Diagnostic> &diagnostics,
                                interchange::Diagnostic::Kind kind, interchange::TextPlace place,
                                std::string text);

/// What a file says, in a message: it may be as long as the file.
inline std::string_view shortened(std::string_view text) { return text.substr(0, 40); }

class JsonText;

/// A value of a JsonText, or none.
class JsonValue {
public:
  enum class Kind : uint8_t { Null, Bool, Number, String, Array, Object };

  JsonValue() = default;
  explicit operator bool() const { return text != nullptr; }

  Kind kind() const;
  /// "an object", "a number", ...: for messages.
  std::string_view kindName() const;
  interchange::TextPlace place() const;
  /// The value as it is written.
  std::string_view source() const;

  std::optional<bool> boolean() const;
  /// A number without a fraction that fits: 12, 12.0 and 1.2e1 are twelve.
  std::optional<int64_t> integer() const;
  std::optional<std::string> string() const;

  /// Arrays and objects: the first child, and from there on. Others have none.
  JsonValue firstChild() const;
  JsonValue next() const;
  size_t size() const;
  /// The key of a child of an object.
  std::string_view key() const;
  interchange::TextPlace keyPlace() const;
  /// The child of an object with this key, or none.
  JsonValue find(std::string_view key) const;

  friend bool operator==(const JsonValue &, const JsonValue &) = default;

private:
  friend class JsonText;
  JsonValue(const JsonText *text, int32_t node) : text(node < 0 ? nullptr : text), node(node) {}
  const JsonText *text = nullptr;
  int32_t node = -1;
};

class JsonText {
public:
  static constexpr int maxDepth = 64;
  static constexpr size_t maxBytes = size_t(256) << 20;

  /// `text` must outlive this. What is no JSON goes to `diagnostics`; then there is no root.
  JsonText(std::string_view text, std::vector<interchange::Diagnostic> &diagnostics);
  JsonText(const JsonText &) = delete;
  JsonText &operator=(const JsonText &) = delete;

  JsonValue root() const { return {this, nodes.empty() ? -1 : 0}; }

private:
  friend class JsonValue;
  struct Node {
    JsonValue::Kind kind = JsonValue::Kind::Null;
    uint32_t begin = 0, end = 0, keyBegin = 0;
    int32_t firstChild = -1, next = -1, children = 0;
    std::string_view key;
  };

  interchange::TextPlace placeAt(size_t offset) const;
  bool isJson(std::vector<interchange::Diagnostic> &diagnostics) const;
  bool keysAreDistinct(const Node &object, std::vector<interchange::Diagnostic> &diagnostics) const;

  // The scan, of text that is known to be JSON.
  void skipSpace();
  int32_t scanValue();
  void scanChildren(int32_t node, bool object);
  void skipString();
  std::string_view scanKey();

  std::string_view text;
  size_t at = 0;
  std::vector<Node> nodes;
  std::vector<uint32_t> lines; ///< where each begins
  std::deque<std::string> unescaped;
};

} // namespace ccl::mscclpp
