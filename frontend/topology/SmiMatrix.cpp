#include "frontend/topology/SmiMatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ccl::topology {
namespace {

using interchange::Diagnostic;
using interchange::TextPlace;

constexpr size_t mostDevices = 512;
constexpr int32_t mostLinks = 64;

bool isDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<SmiCell> parseCell(std::string_view word) {
  constexpr std::pair<std::string_view, Nearness> names[] = {
      {"X", Nearness::Self},  {"PIX", Nearness::Pix}, {"PSB", Nearness::Pix},
      {"PXB", Nearness::Pxb}, {"PHB", Nearness::Phb}, {"NODE", Nearness::Node},
      {"SYS", Nearness::Sys}, {"SOC", Nearness::Sys}};
  for (auto [name, nearness] : names)
    if (word == name)
      return SmiCell{nearness, 0, {}};
  if (!word.starts_with("NV") || !isDigits(word.substr(2)))
    return std::nullopt;
  SmiCell cell{Nearness::Nvlink, 0, {}};
  auto [end, code] = std::from_chars(word.data() + 2, word.data() + word.size(), cell.nvlinks);
  if (code != std::errc() || cell.nvlinks < 1 || cell.nvlinks > mostLinks)
    return std::nullopt;
  return cell;
}

bool isDeviceName(std::string_view word) {
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '_' || c == '.' || c == '-';
         });
}

class MatrixReader {
public:
  MatrixReader(const std::vector<TextLine> &lines, size_t &at, std::vector<Diagnostic> &diagnostics)
      : lines(lines), at(at), diagnostics(diagnostics) {}
  std::optional<SmiMatrix> read();

private:
  bool readHeader();
  bool readRow(const std::vector<Word> &words);
  bool readCells(size_t row, const std::vector<Word> &words);
  bool readAffinities(size_t row, const std::vector<Word> &words);
  bool checkRows();
  bool checkEnd();
  bool checkSymmetry();
  bool error(TextPlace place, std::string text) {
    diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
    return false;
  }
  size_t columns() const { return matrix.devices.size(); }

  const std::vector<TextLine> &lines;
  size_t &at;
  std::vector<Diagnostic> &diagnostics;
  SmiMatrix matrix;
  bool hasCpu = false, hasNuma = false, hasGpuNuma = false;
  std::vector<TextPlace> rows; ///< where each device's row is; line 0: not yet
};

bool MatrixReader::readHeader() {
  std::vector<Word> words = lines[at].words();
  matrix.place = words[0].place;
  size_t i = 0;
  for (; i < words.size(); ++i) {
    const Word &word = words[i];
    bool follows = i + 1 < words.size() && words[i + 1].text == "NUMA";
    if (word.text == "CPU" || word.text == "NUMA" || (word.text == "GPU" && follows))
      break;
    if (!isDeviceName(word.text))
      return error(
          word.place,
          fmt::format("`{}` in the header of the matrix is no name of a device", word.text));
    for (const SmiDevice &device : matrix.devices)
      if (device.name == word.text)
        return error(word.place, fmt::format("two columns are named {}", word.text));
    matrix.devices.push_back({word.text, isGpuName(word.text), "", ""});
    if (columns() > mostDevices)
      return error(word.place, fmt::format("more than {} columns", mostDevices));
  }
  for (; i < words.size(); ++i) {
    hasCpu |= words[i].text == "CPU";
    hasNuma |= words[i].text == "NUMA" && words[i - 1].text != "GPU";
    hasGpuNuma |= words[i].text == "NUMA" && words[i - 1].text == "GPU";
  }
  matrix.cells.resize(columns() * columns());
  rows.resize(columns());
  return true;
}

bool MatrixReader::readCells(size_t row, const std::vector<Word> &words) {
  const std::string &name = matrix.devices[row].name;
  for (size_t column = 0; column < columns(); ++column) {
    const std::string &other = matrix.devices[column].name;
    if (column + 1 >= words.size()) {
      const Word &last = words.back();
      return error(last.place, fmt::format("the row of {} ends after {} of {} cells: there is none "
                                           "for column {}",
                                           name, column, columns(), other));
    }
    const Word &word = words[column + 1];
    std::optional<SmiCell> cell = parseCell(word.text);
    if (!cell)
      return error(word.place,
                   fmt::format("row {}, column {}: `{}` is none of X, NV# (1 to {}), PIX, PXB, "
                               "PHB, NODE, SYS",
                               name, other, word.text, mostLinks));
    bool self = cell->nearness == Nearness::Self;
    if (self != (row == column))
      return error(
          word.place,
          self ? fmt::format("row {} has X in column {}, which is another device", name, other)
               : fmt::format("row {}, column {}: `{}`, but a device is X to itself", name, other,
                             word.text));
    cell->place = word.place;
    matrix.cells[row * columns() + column] = *cell;
  }
  return true;
}

/// Behind the cells. Columns may be empty; with tabs they are told by their position then.
bool MatrixReader::readAffinities(size_t row, const std::vector<Word> &words) {
  SmiDevice &device = matrix.devices[row];
  size_t first = columns() + 1, titles = size_t(hasCpu) + size_t(hasNuma) + size_t(hasGpuNuma);
  bool full = words.size() == first + titles; // wide columns have two tabs, which is no empty one
  bool tabs = !full && words.size() > 1 && words[1].cell > 0;
  for (size_t i = first; i < words.size(); ++i) {
    const std::string &text = words[i].text;
    if (parseCell(text))
      return error(words[i].place, fmt::format("the row of {} has more cells than the header has "
                                               "columns ({})",
                                               device.name, columns()));
    size_t column = i - first;
    if (tabs)
      column = size_t(std::max(words[i].cell - words[columns()].cell - 1, 0));
    if (text == "N/A")
      continue;
    if (hasCpu && column == 0)
      device.cpus = text;
    else if (hasNuma && column == size_t(hasCpu))
      device.numa = text;
  }
  // Without tabs nobody can tell which of two is empty.
  if (!full && !tabs && hasCpu && hasNuma && words.size() == first + 1)
    device.cpus.clear();
  return true;
}

bool MatrixReader::readRow(const std::vector<Word> &words) {
  for (size_t row = 0; row < columns(); ++row) {
    if (matrix.devices[row].name != words[0].text)
      continue;
    if (rows[row].line > 0)
      return error(words[0].place, fmt::format("a second row of {}; the first is in line {}",
                                               words[0].text, rows[row].line));
    rows[row] = words[0].place;
    return readCells(row, words) && readAffinities(row, words);
  }
  return error(
      words[0].place,
      fmt::format("a row `{}` was expected to begin with the name of one of the {} columns",
                  words[0].text, columns()));
}

bool MatrixReader::checkRows() {
  for (size_t row = 0; row < columns(); ++row)
    if (rows[row].line == 0)
      return error(matrix.place, fmt::format("the matrix has a column {}, but no row of it",
                                             matrix.devices[row].name));
  return true;
}

/// No row follows the last one.
bool MatrixReader::checkEnd() {
  for (size_t next = at; next < lines.size(); ++next) {
    std::vector<Word> words = lines[next].words();
    if (words.empty())
      continue;
    if (words.size() < 2 || !isDeviceName(words[0].text) || !parseCell(words[1].text))
      break;
    return error(words[0].place, fmt::format("a row of {} behind the rows of all {} columns",
                                             words[0].text, columns()));
  }
  return true;
}

bool MatrixReader::checkSymmetry() {
  for (size_t row = 0; row < columns(); ++row)
    for (size_t column = 0; column < row; ++column) {
      const SmiCell &a = matrix.at(row, column), &b = matrix.at(column, row);
      if (a.nearness == b.nearness && a.nvlinks == b.nvlinks)
        continue;
      const std::string &x = matrix.devices[row].name, &y = matrix.devices[column].name;
      error(a.place,
            fmt::format("row {}, column {} differs from row {}, column {}: the matrix must "
                        "be symmetric",
                        x, y, y, x));
      diagnostics.back().notes.push_back({b.place, -1, "the other cell"});
      return false;
    }
  return true;
}

std::optional<SmiMatrix> MatrixReader::read() {
  if (!readHeader())
    return std::nullopt;
  size_t done = 0;
  for (++at; at < lines.size() && done < columns(); ++at) {
    std::vector<Word> words = lines[at].words();
    if (words.empty())
      continue;
    if (words[0].text == "Legend:")
      break;
    if (!readRow(words))
      return std::nullopt;
    ++done;
  }
  if (!checkRows() || !checkEnd() || !checkSymmetry())
    return std::nullopt;
  return std::move(matrix);
}

} // namespace

bool isGpuName(std::string_view word) {
  return word.starts_with("GPU") && isDigits(word.substr(3));
}

bool isMatrixHeader(const std::vector<Word> &words) {
  if (words.empty() || !isGpuName(words[0].text))
    return false;
  if (words.size() == 1)
    return true;
  // Devices have numbers in their names; words of a sentence do not.
  const std::string &next = words[1].text;
  bool isTitle = next == "CPU" || next == "NUMA" || next == "GPU";
  return !parseCell(next) && isDeviceName(next) &&
         (isTitle || next.find_first_of("0123456789") != next.npos);
}

bool skipPeerMatrix(const std::vector<TextLine> &lines, size_t &at) {
  constexpr std::string_view states[] = {"OK", "NS", "CNS", "GNS", "TNS", "DR", "U"};
  bool found = false;
  size_t end = at + 1;
  for (; end < lines.size(); ++end) {
    std::vector<Word> words = lines[end].words();
    if (words.empty())
      continue;
    if (!isGpuName(words[0].text) || words.size() == 1 || isGpuName(words[1].text))
      break; // perhaps another header
    for (const Word &word : words)
      found |= std::find(std::begin(states), std::end(states), word.text) != std::end(states);
  }
  if (found)
    at = end;
  return found;
}

std::optional<SmiMatrix> readSmiMatrix(const std::vector<TextLine> &lines, size_t &at,
                                       std::vector<Diagnostic> &diagnostics) {
  return MatrixReader(lines, at, diagnostics).read();
}

} // namespace ccl::topology
