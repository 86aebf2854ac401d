#include "frontend/topology/ReadNccl.h"

#include <fmt/format.h>

namespace ccl::topology {

std::optional<Machine> readNccl(std::string_view text, const Assume &assume,
                                std::vector<Diagnostic> &diagnostics) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  Diagnostic error;
  std::optional<interchange::Xml> xml = interchange::Xml::parse(text, error);
  if (!xml) {
    diagnostics.push_back(std::move(error));
    return std::nullopt;
  }
  std::string_view top = xml->root().name();
  if (top == "system")
    return readSystem(*xml, assume, diagnostics);
  if (top == "graphs")
    return readGraphs(*xml, diagnostics);
  diagnostics.push_back({Diagnostic::Kind::Malformed,
                         xml->place(xml->root()),
                         -1,
                         fmt::format("the element at the top is `{}`; topology files have "
                                     "`system`, graph files `graphs`{}",
                                     top,
                                     top == "topology" ? " (hwloc's are read by --detect, if the "
                                                         "variable HWLOC_XMLFILE names one)"
                                                       : ""),
                         {}});
  return std::nullopt;
}

} // namespace ccl::topology
