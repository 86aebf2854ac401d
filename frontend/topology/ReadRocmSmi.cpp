//===- ReadRocmSmi.cpp - `rocm-smi --showtopo` ------------------------------------===//
//
// Three matrices of GPUs (weight, hops, type of link) and lists of NUMA nodes. A link of
// type XGMI joins two GPUs directly if it is one hop (weight 15); how many lanes are bonded,
// and which GPU it is, is not in the text.
//===----------------------------------------------------------------------===//
#include "frontend/topology/PcieTree.h"
#include "frontend/topology/ReadSmi.h"
#include "frontend/topology/SmiMatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ccl::topology {
namespace {

constexpr size_t mostGpus = 512;

/// One of the matrices; cells as words.
struct Matrix {
  TextPlace place; ///< of the header
  std::vector<std::string> names;
  std::vector<Word> cells;
  const Word &at(size_t row, size_t column) const { return cells[row * names.size() + column]; }
};

enum Section : size_t { Weight, Hops, Type, Other };
constexpr std::string_view titlesHave = "between two GPUs";
constexpr std::array<std::string_view, 3> titles = {
    "Weight between two GPUs", "Hops between two GPUs", "Link Type between two GPUs"};

class RocmReader {
public:
  RocmReader(const Assume &assume, std::vector<Diagnostic> &diagnostics)
      : assume(assume), diagnostics(diagnostics) {}
  std::optional<Machine> read(std::string_view text);

private:
  bool readLines();
  bool readMatrix(Section section, size_t &at);
  bool readNuma(const std::vector<Word> &words);
  bool checkMatrix(Section section);
  bool checkTypes();
  void build();
  int64_t hops(size_t a, size_t b) const;
  bool error(TextPlace place, std::string text) {
    diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
    return false;
  }

  const Assume &assume;
  std::vector<Diagnostic> &diagnostics;
  std::vector<TextLine> lines;
  std::array<std::optional<Matrix>, 3> matrices;
  struct Numa {
    std::string gpu; ///< "GPU0"
    int64_t node;    ///< -1: none
    TextPlace place;
  };
  std::vector<Numa> numa;
  TextPlace firstTitle = {1, 1};
  std::string product; ///< a line that names the card, if any
  Machine machine;
};

std::optional<int64_t> parseInteger(std::string_view text) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// The header is `lines[at]`; reads to the last row.
bool RocmReader::readMatrix(Section section, size_t &at) {
  std::vector<Word> header = lines[at].words();
  Matrix matrix;
  matrix.place = header[0].place;
  for (const Word &word : header) {
    if (!isGpuName(word.text) ||
        std::find(matrix.names.begin(), matrix.names.end(), word.text) != matrix.names.end())
      return error(word.place, fmt::format("`{}` in the header of \"{}\" is no GPU, or twice there",
                                           word.text, titles[section]));
    matrix.names.push_back(word.text);
  }
  size_t n = matrix.names.size();
  if (n > mostGpus)
    return error(header[0].place, fmt::format("more than {} GPUs", mostGpus));
  if (matrices[section])
    return error(header[0].place, fmt::format("\"{}\" for the second time", titles[section]));
  for (size_t row = 0; row < n; ++row) {
    do
      ++at;
    while (at < lines.size() && lines[at].words().empty());
    if (at == lines.size())
      return error(header[0].place, fmt::format("\"{}\" ends before the row of {}", titles[section],
                                                matrix.names[row]));
    std::vector<Word> words = lines[at].words();
    if (words[0].text != matrix.names[row])
      return error(words[0].place, fmt::format("the row of {} was expected, not `{}`",
                                               matrix.names[row], words[0].text));
    if (words.size() != n + 1)
      return error(words.back().place, fmt::format("the row of {} has {} cells, the header {} GPUs",
                                                   matrix.names[row], words.size() - 1, n));
    matrix.cells.insert(matrix.cells.end(), words.begin() + 1, words.end());
  }
  ++at;
  matrices[section] = std::move(matrix);
  return checkMatrix(section);
}

bool RocmReader::checkMatrix(Section section) {
  const Matrix &matrix = *matrices[section];
  size_t n = matrix.names.size();
  for (size_t row = 0; row < n; ++row)
    for (size_t column = 0; column < n; ++column) {
      const Word &word = matrix.at(row, column);
      std::string where = fmt::format("\"{}\", row {}, column {}", titles[section],
                                      matrix.names[row], matrix.names[column]);
      if (row == column && word.text != "0")
        return error(word.place, fmt::format("{}: `{}`, but the diagonal is 0", where, word.text));
      if (row == column)
        continue;
      bool type = word.text == "XGMI" || word.text == "PCIE";
      std::optional<int64_t> number = parseInteger(word.text);
      if (section == Type ? !type : !number || *number < 0 || *number > 10000)
        return error(word.place, fmt::format("{}: `{}` is no {}", where, word.text,
                                             section == Type ? "XGMI or PCIE" : "number"));
      if (column < row && word.text != matrix.at(column, row).text) {
        error(word.place, fmt::format("{}: `{}`, but `{}` the other way: the matrix must be "
                                      "symmetric",
                                      where, word.text, matrix.at(column, row).text));
        diagnostics.back().notes.push_back({matrix.at(column, row).place, -1, "the other cell"});
        return false;
      }
    }
  return true;
}

/// "GPU[0] : (Topology) Numa Node: 0".
bool RocmReader::readNuma(const std::vector<Word> &words) {
  std::string_view gpu = words[0].text;
  gpu.remove_prefix(4);
  gpu = gpu.substr(0, gpu.find(']'));
  std::optional<int64_t> number = parseInteger(gpu), node = parseInteger(words.back().text);
  if (!number || !node)
    return error(words.back().place, fmt::format("`{}` is no NUMA node", words.back().text));
  numa.push_back({fmt::format("GPU{}", *number), *node, words[0].place});
  return true;
}

bool RocmReader::readLines() {
  size_t section = Other;
  for (size_t at = 0; at < lines.size();) {
    std::vector<Word> words = lines[at].words();
    std::string text = withSingleBlanks(words);
    if (text.find(titlesHave) != text.npos) {
      if (firstTitle == TextPlace{1, 1})
        firstTitle = words[0].place;
      section = Other; // there are titles that say nothing about ways
      for (size_t s = 0; s < titles.size(); ++s)
        if (text.find(titles[s]) != text.npos)
          section = s;
    }
    if (section != Other && !words.empty() && isGpuName(words[0].text)) {
      if (!readMatrix(Section(section), at))
        return false;
      section = Other;
      continue;
    }
    if (text.find("Numa Node:") != text.npos && text.starts_with("GPU[") && !readNuma(words))
      return false;
    if (text.find("Card Series") != text.npos || text.find("GFX Version") != text.npos)
      product += text + '\n';
    ++at;
  }
  return true;
}

bool RocmReader::checkTypes() {
  if (!matrices[Type])
    return error(firstTitle,
                 "no matrix \"Link Type between two GPUs\"; `rocm-smi --showtopo` prints it");
  const std::vector<std::string> &names = matrices[Type]->names;
  for (Section other : {Weight, Hops})
    if (matrices[other] && matrices[other]->names != names)
      return error(matrices[other]->place, fmt::format("\"{}\" and \"{}\" name different GPUs",
                                                       titles[other], titles[Type]));
  for (const Numa &one : numa)
    if (std::find(names.begin(), names.end(), one.gpu) == names.end())
      return error(one.place, fmt::format("{} has a NUMA node, but is in no matrix", one.gpu));
  return true;
}

/// Of the path between two GPUs, as far as the text tells.
int64_t RocmReader::hops(size_t a, size_t b) const {
  if (matrices[Hops])
    return *parseInteger(matrices[Hops]->at(a, b).text);
  bool direct = matrices[Type]->at(a, b).text == "XGMI";
  if (matrices[Weight] && direct)
    return std::max<int64_t>(1, *parseInteger(matrices[Weight]->at(a, b).text) / 15);
  return direct ? 1 : 2;
}

void RocmReader::build() {
  const Matrix &types = *matrices[Type];
  size_t n = types.names.size();
  const GpuFamily *family = namedFamily(assume.gpu);
  if (!family)
    family = namedFamily(product);
  std::vector<int32_t> devices;
  std::vector<int64_t> node(n, -1);
  for (size_t i = 0; i < n; ++i) {
    devices.push_back(machine.add({DeviceKind::Gpu, types.names[i], 0, int64_t(i)}));
    for (const Numa &one : numa)
      if (one.gpu == types.names[i])
        node[i] = one.node;
  }
  Speed link = family ? family->link : someXgmi;
  int64_t links = 0;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < a; ++b)
      if (types.at(a, b).text == "XGMI" && hops(a, b) == 1) {
        machine.connect(devices[a], devices[b], link);
        links += 2;
      }
  if (links > 0)
    machine.missing.push_back("how many xGMI links are bonded between two GPUs: taken as one");
  if (links > 0 && !family)
    machine.missing.push_back(fmt::format("the kind of GPU, so the speed of xGMI: taken as {} GB/s "
                                          "a link ({} effective)",
                                          link.nominal, link.effective));
  if (n > 1 && std::find(node.begin(), node.end(), -1) != node.end())
    machine.missing.push_back("NUMA nodes: GPUs of two hops over PCI Express are taken as on one "
                              "socket, those that only xGMI joins as on sockets of their own");
  auto level = [&](size_t a, size_t b) {
    if (node[a] >= 0 && node[b] >= 0)
      return node[a] == node[b] ? Level::Node : Level::System;
    if (types.at(a, b).text == "PCIE")
      return hops(a, b) <= 2 ? Level::Node : Level::System;
    return Level::Unknown;
  };
  addPcieTree(machine, devices, level, assumedPcie(assume));
  machine.missing.push_back(assumedPcieText(assume));
  machine.missing.push_back("NICs");
}

std::optional<Machine> RocmReader::read(std::string_view text) {
  lines = splitLines(text);
  if (!readLines() || !checkTypes())
    return std::nullopt;
  build();
  return std::move(machine);
}

} // namespace

bool isRocmSmi(std::string_view text) {
  for (size_t at = text.find("between"); at != text.npos; at = text.find("between", at + 1)) {
    // A title is one line, and spaced as whoever pasted it liked.
    std::string_view rest = text.substr(at, text.substr(at, 200).find('\n'));
    TextLine line;
    line.text = rest.substr(0, 200);
    if (withSingleBlanks(line.words()).starts_with("between two GPUs"))
      return true;
  }
  return false;
}

std::optional<Machine> readRocmSmi(std::string_view text, const Assume &assume,
                                   std::vector<Diagnostic> &diagnostics) {
  return RocmReader(assume, diagnostics).read(text);
}

} // namespace ccl::topology
