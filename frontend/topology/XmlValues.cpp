#include "frontend/topology/XmlValues.h"

#include <fmt/format.h>

#include <charconv>

namespace ccl::topology {

void XmlValues::error(TextPlace place, std::string text) {
  hasFailed = true;
  diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
}

void XmlValues::error(TextPlace place, std::string text, TextPlace other, std::string note) {
  error(place, std::move(text));
  diagnostics.back().notes.push_back({other, -1, std::move(note)});
}

template <typename T>
static std::optional<T> parse(std::string_view text, auto... how) {
  T value{};
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, how...);
  if (code != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::optional<int64_t> XmlValues::integer(pugi::xml_node node, const char *name, int64_t least,
                                          int64_t most) {
  pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute)
    return std::nullopt;
  std::optional<int64_t> value = parse<int64_t>(attribute.value(), 10);
  if (value && *value >= least && *value <= most)
    return value;
  error(xml.place(attribute), fmt::format("{}=\"{}\" of a `{}` is not an integer from {} to {}",
                                          name, attribute.value(), node.name(), least, most));
  return std::nullopt;
}

std::optional<double> XmlValues::number(pugi::xml_node node, const char *name, double least,
                                        double most) {
  pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute)
    return std::nullopt;
  std::optional<double> value = parse<double>(attribute.value(), std::chars_format::general);
  if (value && *value >= least && *value <= most)
    return value;
  error(xml.place(attribute), fmt::format("{}=\"{}\" of a `{}` is not a number from {} to {}", name,
                                          attribute.value(), node.name(), least, most));
  return std::nullopt;
}

std::optional<uint32_t> XmlValues::hexadecimal(pugi::xml_node node, const char *name) {
  pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute)
    return std::nullopt;
  std::string_view text = attribute.value();
  if (text.starts_with("0x") || text.starts_with("0X"))
    text.remove_prefix(2);
  if (std::optional<uint32_t> value = parse<uint32_t>(text, 16))
    return value;
  error(xml.place(attribute), fmt::format("{}=\"{}\" of a `{}` is not a hexadecimal number", name,
                                          attribute.value(), node.name()));
  return std::nullopt;
}

std::string_view XmlValues::required(pugi::xml_node node, const char *name) {
  pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute)
    error(xml.place(node), fmt::format("a `{}` needs the attribute `{}`", node.name(), name));
  return attribute.value();
}

} // namespace ccl::topology
