#include "frontend/interchange/Xml.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::interchange {

static constexpr int depthLimit = 64;

std::optional<Xml> Xml::parse(std::string_view text, Diagnostic &error) {
  error = {};
  error.kind = Diagnostic::Kind::Malformed;
  Xml xml;
  xml.size = text.size();
  xml.lines.push_back(0);
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    xml.lines.push_back(at + 1);
  if (size_t at = text.find('\0'); at != text.npos) {
    error.place = xml.placeAt(at);
    error.text = "a character with the code 0";
    return std::nullopt;
  }
  xml.buffer = std::make_unique_for_overwrite<char[]>(text.size());
  std::copy(text.begin(), text.end(), xml.buffer.get());
  xml.document = std::make_unique<pugi::xml_document>();
  // Fragments and CDATA are kept only to be refused below: left out they would be skipped.
  pugi::xml_parse_result result = xml.document->load_buffer_inplace(
      xml.buffer.get(), text.size(), pugi::parse_fragment | pugi::parse_cdata | pugi::parse_escapes,
      pugi::encoding_utf8);
  if (!result) {
    error.place = xml.placeAt(size_t(std::max<ptrdiff_t>(result.offset, 0)));
    error.text = fmt::format("not well-formed XML: {}", result.description());
    return std::nullopt;
  }
  if (!xml.check(error))
    return std::nullopt;
  return xml;
}

bool Xml::check(Diagnostic &error) {
  // Not recursive: how deep elements are nested is up to the text.
  int depth = 0;
  for (pugi::xml_node node = document->first_child(); node;) {
    if (node.type() != pugi::node_element) {
      std::string_view text = node.value();
      size_t blanks = std::min(text.find_first_not_of(" \t\r\n"), text.size());
      error.place = placeAt(size_t(text.data() - buffer.get()) + blanks);
      error.text = depth == 0 && top ? "text after the end of the document"
                                     : "text between elements; only elements are expected here";
      return false;
    }
    if (depth == 0 && top) {
      error.place = place(node);
      error.text = fmt::format("a second element at the top, `{}`; `{}` must be the only one",
                               node.name(), top.name());
      error.notes.push_back({place(top), -1, "the first one"});
      return false;
    }
    if (depth == 0)
      top = node;
    if (pugi::xml_node child = node.first_child()) {
      if (++depth > depthLimit) {
        error.place = place(child);
        error.text = fmt::format("elements are nested more than {} deep", depthLimit);
        return false;
      }
      node = child;
      continue;
    }
    for (; depth > 0 && !node.next_sibling(); --depth)
      node = node.parent();
    node = node.next_sibling();
  }
  if (top)
    return true;
  error.place = placeAt(size);
  error.text = "there is no element";
  return false;
}

TextPlace Xml::placeAt(size_t offset) const {
  offset = std::min(offset, size);
  auto it = std::upper_bound(lines.begin(), lines.end(), offset);
  size_t line = size_t(it - lines.begin()); // from 1, as the first line begins at 0
  return {int32_t(line), int32_t(offset - lines[line - 1] + 1)};
}

TextPlace Xml::place(pugi::xml_node node) const {
  return placeAt(size_t(std::max<ptrdiff_t>(node.name() - buffer.get() - 1, 0)));
}

TextPlace Xml::place(pugi::xml_attribute attribute) const {
  return placeAt(size_t(attribute.name() - buffer.get()));
}

TextPlace Xml::place(pugi::xml_node node, const char *name) const {
  pugi::xml_attribute attribute = node.attribute(name);
  return attribute ? place(attribute) : place(node);
}

} // namespace ccl::interchange
