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
  std::map<int64_t, double> links; ///< by number: GB/s; 0 is inactive

  int64_t active() const {
    return std::count_if(links.begin(), links.end(), [](auto &link) { return link.second > 0; });
  }
  /// Of active links; 0 if there is none.
  double fastest() const {
    double speed = 0;
    for (auto [number, value] : links)
      speed = std::max(speed, value);
    return speed;
  }
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
  const GpuFamily *familyInText() const;
  const GpuFamily *familyOf(int64_t number) const;
  void findFamilies();
  void addMatrix();
  void addNvlinks(const std::vector<int32_t> &devices);
  Speed linkSpeed(size_t a, size_t b) const;
  bool isSwitched();
  void tellKinds();
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
  std::vector<const GpuFamily *> families;     ///< of the matrix' devices; null: not known
};

std::optional<int64_t> numberOf(std::string_view text, int64_t most) {
  int64_t number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = end == text.data() + text.size() || *end == ':';
  return code == std::errc() && whole && number >= 0 && number <= most ? std::optional(number)
                                                                       : std::nullopt;
}

/// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)".
bool SmiReader::readGpuLine(const TextLine &line, const std::vector<Word> &words) {
  std::optional<int64_t> number = numberOf(words[1].text, 65535);
  if (!number)
    return error(words[1].place, fmt::format("`{}` is no number of a GPU", words[1].text));
  size_t begin = line.text.find(':') + 1;
  std::string name = line.text.substr(begin, line.text.find("(UUID", begin) - begin);
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(" \t") + 1);
  gpus[*number].name = name;
  current = *number;
  return true;
}

/// "Link 0: 26.562 GB/s", "Link 1: <inactive>".
bool SmiReader::readLinkLine(const std::vector<Word> &words) {
  if (current < 0)
    return error(words[0].place, "a link before any `GPU n:` line");
  std::optional<int64_t> link = numberOf(words[1].text, 1023);
  if (!link)
    return error(words[1].place, fmt::format("`{}` is no number of a link", words[1].text));
  const std::string &value = words[2].text;
  double speed = 0;
  auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), speed);
  bool number = code == std::errc() && end == value.data() + value.size();
  if (!number && (value.starts_with("<") || value == "N/A"))
    speed = 0;
  else if (!number || !(speed > 0 && speed < 1e6) || words.size() < 4 || words[3].text != "GB/s")
    return error(words[2].place,
                 fmt::format("`{}` is neither a speed in GB/s nor <inactive>", value));
  auto [it, isNew] = gpus[current].links.try_emplace(*link, speed);
  if (isNew || it->second == speed)
    return true;
  return error(words[2].place,
               fmt::format("GPU {}, link {} for the second time, and otherwise", current, *link));
}

/// "NIC0: mlx5_0", several in a line or one.
void SmiReader::readNicNames(const std::vector<Word> &words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    if (words[i].text.starts_with("NIC") && words[i].text.ends_with(":"))
      nicNames[words[i].text.substr(0, words[i].text.size() - 1)] = words[i + 1].text;
}

bool SmiReader::readLines(const std::vector<TextLine> &lines) {
  TextPlace hidden, peers; // a header that something stands before; a matrix of `topo -p2p`
  for (size_t at = 0; at < lines.size();) {
    const TextLine &line = lines[at];
    std::vector<Word> words = line.words();
    if (isMatrixHeader(words) && skipPeerMatrix(lines, at)) {
      peers = words[0].place;
      continue;
    }
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
  if (peers.line > 0)
    return error(peers,
                 "this matrix is that of `nvidia-smi topo -p2p`, who may reach whom; how is in "
                 "that of `nvidia-smi topo -m`");
  if (hidden.line > 0)
    return error(hidden, "a line with GPUs that is neither the header of a matrix nor below one: "
                         "the header begins with GPU0, and nothing stands before a line (paste the "
                         "tool's text alone)");
  return error({1, 1},
               "neither a matrix of `nvidia-smi topo -m` nor links of `nvidia-smi nvlink -s`");
}

/// The family whose links `nvlink -s` shows with this speed (GB/s, raw), if no other has it.
const GpuFamily *familyOfSpeed(double speed) {
  struct Row {
    double from, to;
    int64_t capability;
  };
  for (Row row : {Row{13, 15, 86}, Row{19, 21, 60}, Row{26, 27, 90}, Row{48, 55, 100}})
    if (speed > row.from && speed < row.to)
      return cudaFamily(row.capability);
  return nullptr;
}

/// Of all GPUs that the text tells the kind of; null if they differ.
const GpuFamily *SmiReader::familyInText() const {
  const GpuFamily *only = nullptr;
  for (auto &[number, gpu] : gpus)
    if (const GpuFamily *family = familyOf(number)) {
      if (only && only != family)
        return nullptr;
      only = family;
    }
  return only;
}

const GpuFamily *SmiReader::familyOf(int64_t number) const {
  if (const GpuFamily *told = namedFamily(assume.gpu))
    return told;
  auto gpu = gpus.find(number);
  if (gpu == gpus.end())
    return nullptr;
  const GpuFamily *family = namedFamily(gpu->second.name);
  return family ? family : familyOfSpeed(gpu->second.fastest());
}

void SmiReader::findFamilies() {
  const GpuFamily *others = assume.gpu.empty() ? familyInText() : namedFamily(assume.gpu);
  for (const SmiDevice &device : matrix->devices) {
    std::optional<int64_t> number;
    if (device.gpu)
      number = numberOf(std::string_view(device.name).substr(3), 65535);
    const GpuFamily *family = number ? familyOf(*number) : nullptr;
    families.push_back(family ? family : others);
  }
}

std::optional<Machine> SmiReader::read(std::string_view text) {
  if (!readLines(splitLines(text)))
    return std::nullopt;
  if (!matrix) {
    addGpusWithoutMatrix();
    return std::move(machine);
  }
  findFamilies();
  addMatrix();
  return std::move(machine);
}

void SmiReader::addGpusWithoutMatrix() {
  for (auto &[number, gpu] : gpus) {
    machine.add({DeviceKind::Gpu, fmt::format("gpu{}", number), 0, number});
    int64_t active = gpu.active();
    std::string links =
        active > 0 ? fmt::format("{} of {} GB/s", counted(active, "active link", "active links"),
                                 gpu.fastest())
                   : "no active link";
    machine.notes.push_back(fmt::format("GPU {}: {}, {}", number, gpu.name, links));
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

/// NVLink between two devices: as the slower of both.
Speed SmiReader::linkSpeed(size_t a, size_t b) const {
  Speed x = families[a] ? families[a]->link : someNvlink;
  Speed y = families[b] ? families[b]->link : someNvlink;
  return x.nominal < y.nominal ? x : y;
}

/// Whether cells count the ways over a switch, which a row has more of than a GPU has links.
bool SmiReader::isSwitched() {
  for (size_t a = 0; a < families.size(); ++a) {
    int64_t most = families[a] && families[a]->most > 0 ? families[a]->most : 18, sum = 0;
    for (size_t b = 0; b < families.size(); ++b)
      sum += matrix->at(a, b).nvlinks;
    if (sum > most) {
      machine.notes.push_back(
          fmt::format("NVLinks go to an NVSwitch: {} to all peers together are more "
                      "than a GPU has ({})",
                      sum, most));
      return true;
    }
  }
  return false;
}

void SmiReader::tellKinds() {
  bool all = true, same = true;
  for (size_t a = 0; a < families.size(); ++a)
    if (matrix->devices[a].gpu) {
      all &= families[a] != nullptr;
      same &= families[a] == families[0]; // the first column is a GPU
    }
  if (!all)
    machine.missing.push_back(
        fmt::format("the kind of GPU, so the speed of NVLink: taken as {} GB/s "
                    "a link ({} effective), which holds for NVLink 2 to 4; "
                    "NVLink 5 has 50, an RTX 3090 has 14",
                    someNvlink.nominal, someNvlink.effective));
  if (!same)
    machine.notes.push_back("GPUs are of several kinds: NVLinks between two are as the slower's");
}

void SmiReader::addNvlinks(const std::vector<int32_t> &devices) {
  size_t n = devices.size();
  std::vector<int64_t> widest(n);
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < n; ++b)
      widest[a] = std::max<int64_t>(widest[a], matrix->at(a, b).nvlinks);
  if (std::all_of(widest.begin(), widest.end(), [](int64_t links) { return links == 0; }))
    return;
  tellKinds();
  if (!isSwitched()) {
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (int64_t links = matrix->at(a, b).nvlinks)
          machine.cable(devices[a], devices[b], linkSpeed(a, b) * double(links));
    return;
  }
  bool nvls = std::all_of(families.begin(), families.end(),
                          [](const GpuFamily *family) { return family && family->inSwitch; });
  int32_t middle = machine.add({DeviceKind::Switch, "nvswitch", 0, 0, {}, 0, nvls, nvls});
  for (size_t a = 0; a < n; ++a)
    if (widest[a] > 0)
      machine.connect(devices[a], middle, linkSpeed(a, a) * double(widest[a]));
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
