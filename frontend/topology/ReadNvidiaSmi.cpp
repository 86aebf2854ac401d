//===- ReadNvidiaSmi.cpp - `topo -m` and `nvlink -s`, alone or together -----------===//
#include "frontend/topology/PcieTree.h"
#include "frontend/topology/ReadSmi.h"
#include "frontend/topology/SmiMatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace ccl::topology {
namespace {

/// A block of `nvlink -s`, or a line of `-L`.
struct GpuText {
  std::string name;
  int64_t active = 0, inactive = 0;
  double slowest = 0, fastest = 0; ///< GB/s of active links
};

class SmiReader {
public:
  SmiReader(const Assume &assume, std::vector<Diagnostic> &diagnostics)
      : assume(assume), diagnostics(diagnostics) {}
  std::optional<Machine> read(std::string_view text);

private:
  bool readLines(const std::vector<TextLine> &lines);
  bool readGpuLine(const TextLine &line, const std::vector<Word> &words);
  bool readLinkLine(const std::vector<Word> &words);
  void readNicNames(const std::vector<Word> &words);
  void findFamily();
  void addMatrix();
  void addNvlinks(const std::vector<int32_t> &devices);
  Level levelOf(size_t a, size_t b) const;
  Level besideNvlink(size_t a, size_t b) const;
  void addGpusWithoutMatrix();
  bool error(TextPlace place, std::string text) {
    diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
    return false;
  }

  const Assume &assume;
  std::vector<Diagnostic> &diagnostics;
  Machine machine;
  std::optional<SmiMatrix> matrix;
  std::map<int64_t, GpuText> gpus;
  std::map<std::string, std::string> nicNames; ///< "NIC0" to "mlx5_0"
  int64_t current = -1;                        ///< the GPU whose links follow
  const GpuFamily *family = nullptr;
};

/// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)".
bool SmiReader::readGpuLine(const TextLine &line, const std::vector<Word> &words) {
  int64_t number = 0;
  const std::string &text = words[1].text;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || number < 0 || number > 65535)
    return error(words[1].place, fmt::format("`{}` is no number of a GPU", text));
  size_t begin = line.text.find(':') + 1;
  std::string name = line.text.substr(begin, line.text.find("(UUID", begin) - begin);
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(" \t") + 1);
  gpus[number].name = name;
  current = number;
  return true;
}

/// "Link 0: 26.562 GB/s", "Link 1: <inactive>".
bool SmiReader::readLinkLine(const std::vector<Word> &words) {
  if (current < 0)
    return error(words[0].place, "a link before any `GPU n:` line");
  GpuText &gpu = gpus[current];
  const std::string &value = words[2].text;
  double speed = 0;
  auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), speed);
  bool number = code == std::errc() && end == value.data() + value.size();
  if (!number && (value.starts_with("<") || value == "N/A")) {
    ++gpu.inactive;
    return true;
  }
  if (!number || !(speed > 0 && speed < 1e6) || words.size() < 4 || words[3].text != "GB/s")
    return error(words[2].place,
                 fmt::format("`{}` is neither a speed in GB/s nor <inactive>", value));
  gpu.slowest = gpu.active == 0 ? speed : std::min(gpu.slowest, speed);
  gpu.fastest = std::max(gpu.fastest, speed);
  ++gpu.active;
  return true;
}

/// "NIC0: mlx5_0", several in a line or one.
void SmiReader::readNicNames(const std::vector<Word> &words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    if (words[i].text.starts_with("NIC") && words[i].text.ends_with(":"))
      nicNames[words[i].text.substr(0, words[i].text.size() - 1)] = words[i + 1].text;
}

bool SmiReader::readLines(const std::vector<TextLine> &lines) {
  TextPlace hidden; // a header that something stands before
  for (size_t at = 0; at < lines.size();) {
    const TextLine &line = lines[at];
    std::vector<Word> words = line.words();
    if (isMatrixHeader(words)) {
      if (matrix)
        return error(words[0].place, "a second matrix; only one machine can be read at a time");
      matrix = readSmiMatrix(lines, at, diagnostics);
      if (!matrix)
        return false;
      continue;
    }
    ++at;
    bool isGpu = words.size() >= 2 && words[0].text == "GPU" && words[1].text.ends_with(":");
    bool isLink = words.size() >= 3 && words[0].text == "Link" && words[1].text.ends_with(":");
    if (isGpu ? !readGpuLine(line, words) : isLink && !readLinkLine(words))
      return false;
    if (!words.empty() && words[0].text.starts_with("NIC"))
      readNicNames(words);
    bool named = std::any_of(words.begin(), words.end(),
                             [](const Word &word) { return isGpuName(word.text); });
    if (named && !matrix && hidden.line == 0)
      hidden = words[0].place;
  }
  if (matrix || !gpus.empty())
    return true;
  if (hidden.line > 0)
    return error(hidden, "a line with GPUs that is neither the header of a matrix nor below one: "
                         "the header begins with GPU0, and nothing stands before a line (paste the "
                         "tool's text alone)");
  return error({}, "neither a matrix of `nvidia-smi topo -m` nor links of `nvidia-smi nvlink -s`");
}

/// The family whose links `nvlink -s` shows with this speed, if no other has it.
const GpuFamily *familyOfSpeed(double speed) {
  if (speed > 13 && speed < 15)
    return cudaFamily(86);
  if (speed > 48 && speed < 55)
    return cudaFamily(100);
  return nullptr;
}

void SmiReader::findFamily() {
  family = namedFamily(assume.gpu);
  for (auto &[number, gpu] : gpus)
    if (!family)
      family = namedFamily(gpu.name);
  for (auto &[number, gpu] : gpus)
    if (!family && gpu.active > 0)
      family = familyOfSpeed(gpu.fastest);
}

std::optional<Machine> SmiReader::read(std::string_view text) {
  if (!readLines(splitLines(text)))
    return std::nullopt;
  findFamily();
  if (!matrix) {
    addGpusWithoutMatrix();
    return std::move(machine);
  }
  addMatrix();
  return std::move(machine);
}

void SmiReader::addGpusWithoutMatrix() {
  for (auto &[number, gpu] : gpus) {
    machine.add({DeviceKind::Gpu, fmt::format("gpu{}", number), 0, number});
    machine.notes.push_back(gpu.active > 0
                                ? fmt::format("GPU {}: {}, {} active links of {} GB/s", number,
                                              gpu.name, gpu.active, gpu.slowest)
                                : fmt::format("GPU {}: {}, no active link", number, gpu.name));
  }
  machine.missing.push_back(
      "where each link leads: `nvidia-smi nvlink -s` has only speeds. Put the "
      "matrix of `nvidia-smi topo -m` into the same text");
}

/// The level of two GPUs whose cell only says NV#. Both are in one NUMA node if they say so and
/// no third device contradicts.
Level SmiReader::besideNvlink(size_t a, size_t b) const {
  bool evidence = false;
  for (size_t c = 0; c < matrix->devices.size(); ++c) {
    Nearness x = matrix->at(a, c).nearness, y = matrix->at(b, c).nearness;
    if (c == a || c == b || x == Nearness::Nvlink || y == Nearness::Nvlink)
      continue;
    if ((x == Nearness::Sys) != (y == Nearness::Sys))
      return Level::Unknown;
    evidence |= x != Nearness::Sys;
  }
  const SmiDevice &x = matrix->devices[a], &y = matrix->devices[b];
  if (evidence)
    return Level::Unknown; // the third device joins them as near as they are
  if (!x.numa.empty() && !y.numa.empty())
    return x.numa == y.numa ? Level::Node : Level::Unknown;
  if (!x.cpus.empty() && !y.cpus.empty())
    return x.cpus == y.cpus ? Level::Node : Level::Unknown;
  return x.cpus.empty() && y.cpus.empty() && x.numa.empty() && y.numa.empty() ? Level::Node
                                                                              : Level::Unknown;
}

Level SmiReader::levelOf(size_t a, size_t b) const {
  switch (matrix->at(a, b).nearness) {
  case Nearness::Pix: return Level::Bridge;
  case Nearness::Pxb: return Level::Bridges;
  case Nearness::Phb: return Level::Host;
  case Nearness::Node: return Level::Node;
  case Nearness::Sys: return Level::System;
  case Nearness::Self:
  case Nearness::Nvlink: break;
  }
  return besideNvlink(a, b);
}

void SmiReader::addNvlinks(const std::vector<int32_t> &devices) {
  int64_t most = 0, cells = 0;
  std::vector<int64_t> sum(devices.size()), widest(devices.size());
  for (size_t a = 0; a < devices.size(); ++a) {
    for (size_t b = 0; b < devices.size(); ++b) {
      int64_t links = matrix->at(a, b).nvlinks;
      sum[a] += links;
      widest[a] = std::max(widest[a], links);
      cells += links > 0;
    }
    most = std::max(most, sum[a]);
  }
  if (cells == 0)
    return;
  Speed link = family ? family->link : someNvlink;
  if (!family)
    machine.missing.push_back(
        fmt::format("the kind of GPU, so the speed of NVLink: taken as {} GB/s "
                    "a link ({} effective), which holds for NVLink 2 to 4; "
                    "NVLink 5 has 50, an RTX 3090 has 14",
                    link.nominal, link.effective));
  // A cell with a switch in between counts all links of a GPU. There cannot be more than it has.
  int64_t limit = family && family->most > 0 ? family->most : 18;
  if (most <= limit) {
    for (size_t a = 0; a < devices.size(); ++a)
      for (size_t b = 0; b < devices.size(); ++b)
        if (int64_t links = matrix->at(a, b).nvlinks)
          machine.cable(devices[a], devices[b], link * double(links));
    return;
  }
  bool nvls = family && family->inSwitch;
  int32_t middle = machine.add({DeviceKind::Switch, "nvswitch", 0, 0, {}, 0, nvls, nvls});
  for (size_t a = 0; a < devices.size(); ++a)
    if (widest[a] > 0)
      machine.connect(devices[a], middle, link * double(widest[a]));
  machine.notes.push_back(
      fmt::format("NVLinks go to an NVSwitch: {} to all peers together are more "
                  "than a GPU has ({})",
                  most, limit));
}

void SmiReader::addMatrix() {
  std::vector<int32_t> devices;
  int64_t nics = 0;
  for (const SmiDevice &named : matrix->devices) {
    Device device;
    device.kind = named.gpu ? DeviceKind::Gpu : DeviceKind::Nic;
    device.name = named.name;
    if (named.gpu)
      std::from_chars(named.name.data() + 3, named.name.data() + named.name.size(), device.order);
    else if (auto it = nicNames.find(named.name); it != nicNames.end())
      device.name = it->second;
    device.net = {named.gpu ? 0 : assume.nic, named.gpu ? 0 : assume.nic};
    nics += !named.gpu;
    devices.push_back(machine.add(std::move(device)));
  }
  addNvlinks(devices);
  if (addPcieTree(
          machine, devices, [&](size_t a, size_t b) { return levelOf(a, b); }, assumedPcie(assume)))
    machine.warnings.push_back({Diagnostic::Kind::Warning,
                                matrix->place,
                                -1,
                                "devices below one bridge are at different distances from a third "
                                "one; the nearer distance counts",
                                {}});
  machine.missing.push_back(assumedPcieText(assume));
  if (nics > 0)
    machine.missing.push_back(missingNetSpeed(nics, assume));
}

} // namespace

std::optional<Machine> readNvidiaSmi(std::string_view text, const Assume &assume,
                                     std::vector<Diagnostic> &diagnostics) {
  return SmiReader(assume, diagnostics).read(text);
}

} // namespace ccl::topology
