//===- ReadNccl.h - Topology and graph files of NCCL and RCCL ---------------===//
//
// What NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE takes (`<system>`, version 1; 2 for RCCL),
// and graphs of NCCL_GRAPH_DUMP_FILE (`<graphs>`). Formats as in `graph/xml.cc`, `graph/topo.cc`
// and `graph/search.cc` of NCCL 2.30.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Xml.h"
#include "frontend/topology/Machine.h"

namespace ccl::topology {

/// Either of the two, told by the element at the top. Nothing, with an error, if the text is
/// no such file or contradicts itself; what NCCL would only ignore is a warning of the machine.
/// A file that names too little for a topology is a machine whose `missing` says so.
std::optional<Machine> readNccl(std::string_view text, const Assume &assume,
                                std::vector<Diagnostic> &diagnostics);

/// The parts; `xml` has the element at its top.
std::optional<Machine> readSystem(const interchange::Xml &xml, const Assume &assume,
                                  std::vector<Diagnostic> &diagnostics);
std::optional<Machine> readGraphs(const interchange::Xml &xml,
                                  std::vector<Diagnostic> &diagnostics);

} // namespace ccl::topology
