#include "frontend/topology/Read.h"

#include "frontend/topology/Detect.h"
#include "frontend/topology/EdgeList.h"
#include "frontend/topology/ReadNccl.h"
#include "frontend/topology/ReadSmi.h"
#include "frontend/topology/TextLines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ccl::topology {
namespace {

constexpr size_t mostBytes = size_t(256) << 20, mostXmlBytes = size_t(64) << 20;

void fail(ReadResult &result, std::string text, TextPlace place = {}) {
  result.diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
  result.topology.reset();
}

std::optional<std::string> readFile(const std::string &path, std::string &error) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return std::nullopt;
  }
  std::string text;
  char buffer[1 << 16];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > mostBytes)
      break;
  }
  bool failed = std::ferror(file) != 0;
  int code = errno;
  std::fclose(file);
  if (failed)
    error = fmt::format("{}: {}", path, std::strerror(code));
  else if (text.size() > mostBytes)
    error = fmt::format("{}: more than {} MiB", path, mostBytes >> 20);
  else
    return text;
  return std::nullopt;
}

std::string allNames() {
  std::string text;
  for (const auto &names : {presetNames(), specNames()})
    for (const TopologyName &known : names)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", known.name);
  return text;
}

std::optional<Network> networkOf(const Options &options, std::string &error) {
  if (options.join.empty())
    return Network{};
  if (!options.join.starts_with("graph:"))
    return parseNetwork(options.join, error);
  std::string path = options.join.substr(6);
  std::optional<std::string> text = readFile(path, error);
  if (!text)
    return std::nullopt;
  std::vector<Diagnostic> diagnostics;
  std::optional<model::Topology> graph = readEdgeList(*text, diagnostics);
  if (!graph) {
    const Diagnostic &first = diagnostics.front();
    error = fmt::format("{}:{}:{}: {}", path, first.place.line, first.place.column, first.text);
    return std::nullopt;
  }
  Network network;
  network.kind = Network::Kind::Graph;
  network.graph = std::move(*graph);
  return network;
}

void joinBox(ReadResult &result, Box box, const Options &options) {
  result.nics = box.nics;
  if (options.nodes == 1) {
    result.topology = std::move(box.topology);
    return;
  }
  std::string error;
  std::optional<Network> network = networkOf(options, error);
  if (network)
    result.topology = joinNodes(box, options.nodes, *network, error);
  if (!result.topology)
    fail(result, error);
}

ReadResult fromName(const std::string &name, const Options &options) {
  ReadResult result;
  std::string error;
  std::optional<Named> named = namedTopology(name, options.rates, error);
  if (!named) {
    fail(result, error);
    return result;
  }
  result.what = fmt::format("{}: {} ranks, {} switches, {} links", name, named->topology.ranks(),
                            named->topology.switches.size(), named->topology.links.size());
  result.notes = std::move(named->notes);
  if (options.nodes != 1)
    fail(result, fmt::format("`{}` is a topology of its own; say its number of boxes behind the "
                             "colon instead of joining {} copies",
                             name, options.nodes));
  else
    result.topology = std::move(named->topology);
  return result;
}

} // namespace

std::string_view name(Format format) {
  switch (format) {
  case Format::NcclXml: return "NCCL or RCCL topology XML";
  case Format::NvidiaSmi: return "nvidia-smi text";
  case Format::RocmSmi: return "rocm-smi text";
  case Format::EdgeList: break;
  }
  return "edge list";
}

std::optional<Format> detectFormat(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos)
    return std::nullopt;
  if (text[first] == '<')
    return Format::NcclXml;
  if (isRocmSmi(text))
    return Format::RocmSmi;
  if (text.find("GPU") != text.npos)
    return Format::NvidiaSmi;
  // The first words that are no comment.
  for (TextLine &line : splitLines(text.substr(0, 1 << 16))) {
    line.text.resize(std::min(line.text.find('#'), line.text.size()));
    std::vector<Word> words = line.words();
    if (words.empty())
      continue;
    bool numbers = std::all_of(words.begin(), words.end(), [](const Word &word) {
      return std::isdigit(static_cast<unsigned char>(word.text[0])) != 0 || word.text[0] == '-';
    });
    return numbers ? std::optional(Format::EdgeList) : std::nullopt;
  }
  return std::nullopt;
}

bool ReadResult::failed() const {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic &diagnostic) { return diagnostic.isError(); });
}

ReadResult finish(Machine machine, const Options &options) {
  ReadResult result;
  result.what = machine.summary();
  result.notes = std::move(machine.notes);
  result.missing = std::move(machine.missing);
  result.diagnostics = std::move(machine.warnings);
  if (machine.count(DeviceKind::Gpu) == 0) {
    if (result.missing.empty())
      result.missing.push_back("GPUs");
    return result;
  }
  Box box = makeBox(machine, options.rates);
  if (std::string problem = box.topology.check(); !problem.empty()) {
    result.missing.push_back(fmt::format("links: {}", problem));
    return result;
  }
  joinBox(result, std::move(box), options);
  return result;
}

ReadResult readTopologyText(std::string_view text, std::string_view name, const Options &options) {
  std::optional<Format> format = detectFormat(text);
  ReadResult result;
  if (!format) {
    fail(result,
         "neither NCCL's topology XML, nor text of nvidia-smi topo -m, nvidia-smi nvlink -s "
         "or rocm-smi --showtopo, nor an edge list (`N V E`, then `src dst capacity`)",
         {1, 1});
    return result;
  }
  if (*format == Format::NcclXml && text.size() > mostXmlBytes) {
    fail(result, fmt::format("more than {} MiB of XML", mostXmlBytes >> 20));
    return result;
  }
  std::optional<Machine> machine;
  switch (*format) {
  case Format::NcclXml: machine = readNccl(text, options.assume, result.diagnostics); break;
  case Format::NvidiaSmi: machine = readNvidiaSmi(text, options.assume, result.diagnostics); break;
  case Format::RocmSmi: machine = readRocmSmi(text, options.assume, result.diagnostics); break;
  case Format::EdgeList: {
    std::optional<model::Topology> list = readEdgeList(text, result.diagnostics);
    if (!list)
      return result;
    list->name = name;
    result.what = fmt::format("edge list: {} ranks, {} switches, {} links", list->ranks(),
                              list->switches.size(), list->links.size());
    joinBox(result, {std::move(*list), {}}, options);
    return result;
  }
  }
  if (!machine)
    return result;
  if (machine->name.empty())
    machine->name = name;
  result = finish(std::move(*machine), options);
  result.what = fmt::format("{}: {}", topology::name(*format), result.what);
  return result;
}

ReadResult readTopology(const std::string &nameOrPath, const Options &options) {
  if (nameOrPath == "detect")
    return finish(detect(), options);
  if (isTopologyName(nameOrPath))
    return fromName(nameOrPath, options);
  ReadResult result;
  std::string error;
  std::optional<std::string> text = readFile(nameOrPath, error);
  if (!text) {
    fail(result, fmt::format("{}; nor is it the name of a topology: {}", error, allNames()));
    return result;
  }
  size_t slash = nameOrPath.rfind('/');
  std::string_view base = nameOrPath;
  base.remove_prefix(slash == nameOrPath.npos ? 0 : slash + 1);
  return readTopologyText(*text, base.substr(0, base.rfind('.')), options);
}

} // namespace ccl::topology
