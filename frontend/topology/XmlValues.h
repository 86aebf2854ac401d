//===- XmlValues.h - Typed attributes, with messages where they are wrong ------===//
#pragma once

#include "frontend/interchange/Xml.h"
#include "frontend/topology/Machine.h"

namespace ccl::topology {

/// Reads attributes and collects what is wrong with them. After an error `failed()`.
class XmlValues {
public:
  XmlValues(const interchange::Xml &xml, std::vector<Diagnostic> &diagnostics)
      : xml(xml), diagnostics(diagnostics) {}

  /// Nothing if there is no such attribute, or if it is wrong.
  std::optional<int64_t> integer(pugi::xml_node node, const char *name, int64_t least,
                                 int64_t most);
  std::optional<double> number(pugi::xml_node node, const char *name, double least, double most);
  /// "0x060400" as 0x060400; digits that are no hexadecimal number are an error.
  std::optional<uint32_t> hexadecimal(pugi::xml_node node, const char *name);
  /// The attribute, which must be there.
  std::string_view required(pugi::xml_node node, const char *name);

  bool failed() const { return hasFailed; }
  void error(TextPlace place, std::string text);
  void error(TextPlace place, std::string text, TextPlace other, std::string note);
  const interchange::Xml &document() const { return xml; }

private:
  const interchange::Xml &xml;
  std::vector<Diagnostic> &diagnostics;
  bool hasFailed = false;
};

} // namespace ccl::topology
