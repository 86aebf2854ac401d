//===- Embedded.cpp ---------------------------------------------------------===//
#include "codegen/cuda/Embedded.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl {

/// A header in the middle of a file: `#pragma once` would be warned of.
static std::string inlined(std::string_view name, std::string_view text) {
  constexpr std::string_view once = "#pragma once\n";
  std::string body(text);
  if (const size_t at = body.find(once); at != std::string::npos)
    body.replace(at, once.size(), "\n");
  return fmt::format("#line 1 \"{}\"\n{}", name, body);
}

std::string selfContained(std::string_view source, CudaDialect dialect, std::string_view name) {
  std::string headers = dialect == CudaDialect::Shim ? inlined("shim.h", cudaShimText) : "";
  headers += inlined("CudaAbi.h", cudaAbiText) + inlined("ccl.cuh", cudaHeaderText);
  constexpr std::string_view include = "#include \"ccl.cuh\"\n";
  const size_t at = source.find(include);
  const std::string_view before = source.substr(0, at == source.npos ? 0 : at);
  const std::string_view after = at == source.npos ? source : source.substr(at + include.size());
  const auto lines = std::count(before.begin(), before.end(), '\n');
  return fmt::format("#line 1 \"{}\"\n{}{}#line {} \"{}\"\n{}", name, before, headers,
                     at == source.npos ? 1 : lines + 2, name, after);
}

} // namespace ccl
