//===- ReadSmi.h - What nvidia-smi and rocm-smi print ----------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

#include <string_view>

namespace ccl::topology {

/// `nvidia-smi topo -m` (also -mp), `nvidia-smi nvlink -s`, or both in one text, with
/// `nvidia-smi -L` if the kind of GPU is to be known. Anything before and after is skipped.
std::optional<Machine> readNvidiaSmi(std::string_view text, const Assume &assume,
                                     std::vector<Diagnostic> &diagnostics);

/// Whether a text has a title of `rocm-smi --showtopo`.
bool isRocmSmi(std::string_view text);
/// `rocm-smi --showtopo`.
std::optional<Machine> readRocmSmi(std::string_view text, const Assume &assume,
                                   std::vector<Diagnostic> &diagnostics);

} // namespace ccl::topology
