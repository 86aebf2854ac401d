//===- Xml.h - An XML text and the places of what is in it ----------------------===//
//
// Parses with pugixml. Elements and attributes know their line and column, because the
// strings that pugixml hands out lie in a copy of the text.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Diagnostic.h"

#include <memory>
#include <optional>
#include <pugixml.hpp>
#include <string_view>

namespace ccl::interchange {

class Xml {
public:
  /// The document, or what is wrong with it: one element at the top, no text between
  /// elements. How long a text may be is for the caller to say.
  static std::optional<Xml> parse(std::string_view text, Diagnostic &error);

  pugi::xml_node root() const { return top; }
  /// Where an element begins.
  TextPlace place(pugi::xml_node node) const;
  /// Where its attribute begins; the element if it has none of this name.
  TextPlace place(pugi::xml_node node, const char *attribute) const;
  TextPlace place(pugi::xml_attribute attribute) const;
  TextPlace placeAt(size_t offset) const;

private:
  Xml() = default;
  bool check(Diagnostic &error);

  std::unique_ptr<char[]> buffer; ///< pugixml rewrites it, in place
  std::unique_ptr<pugi::xml_document> document;
  pugi::xml_node top;
  size_t size = 0;
  std::vector<size_t> lines; ///< offset of every line's beginning
};

} // namespace ccl::interchange
