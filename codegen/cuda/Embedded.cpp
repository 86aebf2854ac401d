//===- Embedded.cpp ---------------------------------------------------------===//
#include "codegen/cuda/Embedded.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ccl {
namespace {

/// Headers one after the other, each once and behind those that it includes.
class Text {
public:
  /// Whether there is one of that name.
  bool append(std::string_view name);
  std::string all;

private:
  std::vector<std::string_view> done;
};

} // namespace

bool Text::append(std::string_view name) {
  const auto header =
      llvm::find_if(cudaHeaders, [&](const EmbeddedHeader &header) { return header.name == name; });
  if (header == cudaHeaders.end())
    return false;
  if (llvm::is_contained(done, name))
    return true;
  done.push_back(header->name);
  std::string body;
  llvm::StringRef rest(header->text);
  while (!rest.empty()) {
    auto [line, behind] = rest.split('\n');
    rest = behind;
    llvm::StringRef included = line;
    if (included.consume_front("#include \"") && included.consume_back("\"") && append(included))
      line = "";
    // In the middle of a file it would be warned of.
    if (line == "#pragma once")
      line = "";
    body += line.str() + "\n";
  }
  all += fmt::format("#line 1 \"{}\"\n{}", name, body);
  return true;
}

std::string selfContained(std::string_view source, CudaDialect dialect, std::string_view name) {
  Text headers;
  if (dialect == CudaDialect::Shim)
    headers.append("shim.h");
  headers.append("CudaAbi.h");
  headers.append("ccl.cuh");
  constexpr std::string_view include = "#include \"ccl.cuh\"\n";
  const size_t at = source.find(include);
  const std::string_view before = source.substr(0, at == source.npos ? 0 : at);
  const std::string_view after = at == source.npos ? source : source.substr(at + include.size());
  const auto lines = std::count(before.begin(), before.end(), '\n');
  return fmt::format("#line 1 \"{}\"\n{}{}#line {} \"{}\"\n{}", name, before, headers.all,
                     at == source.npos ? 1 : lines + 2, name, after);
}

} // namespace ccl
