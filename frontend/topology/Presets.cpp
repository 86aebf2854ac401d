//===- Presets.cpp - Machines by name ----------------------------------------------===//
//
// Every number here has its source in docs/topologies.md, which also says what is not known.
//===----------------------------------------------------------------------===//
#include "frontend/topology/Presets.h"

#include "frontend/topology/Graphs.h"
#include "frontend/topology/Join.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ccl::topology {
namespace {

using Dimensions = std::vector<int64_t>;

/// A box that joins its GPUs in some way and has NICs which neighbouring GPUs share.
struct BoxFacts {
  int64_t gpus = 8;
  const std::vector<Bond> *bonds = nullptr; ///< a mesh; else a switch
  bool meshOfAll = false;                   ///< one link between any two
  double links = 0;                         ///< of a GPU to the switch
  Speed link;
  double alpha = 0;      ///< us of such a link
  bool inSwitch = false; ///< the switch copies and adds
  int64_t nics = 8;
  int32_t pcie = 4; ///< generation of the slot between a NIC and its GPUs
  double nic = 0;   ///< GB/s
  double nicAlpha = 0;
};

Machine makeMachine(const BoxFacts &facts) {
  Machine machine;
  auto device = [&](DeviceKind kind, std::string name) {
    Device made;
    made.kind = kind;
    made.name = std::move(name);
    return machine.add(std::move(made));
  };
  for (int64_t i = 0; i < facts.gpus; ++i)
    device(DeviceKind::Gpu, fmt::format("gpu{}", i));
  if (facts.bonds) {
    for (const Bond &bond : *facts.bonds)
      machine.connect(bond.a, bond.b, facts.link * bond.links, facts.alpha);
  } else if (facts.meshOfAll) {
    for (int32_t a = 0; a < facts.gpus; ++a)
      for (int32_t b = a + 1; b < facts.gpus; ++b)
        machine.connect(a, b, facts.link, facts.alpha);
  } else {
    int32_t middle = device(DeviceKind::Switch, "nvswitch");
    machine.devices.back().multicast = machine.devices.back().reduce = facts.inSwitch;
    for (int32_t gpu = 0; gpu < facts.gpus; ++gpu)
      machine.connect(gpu, middle, facts.link * facts.links, facts.alpha);
  }
  for (int64_t i = 0; i < facts.nics; ++i) {
    int32_t nic = device(DeviceKind::Nic, fmt::format("nic{}", i));
    machine.devices.back().net = {facts.nic, facts.nic};
    machine.devices.back().latency = facts.nicAlpha;
    int64_t share = facts.gpus / facts.nics;
    for (int64_t gpu = i * share; gpu < (i + 1) * share; ++gpu)
      machine.connect(int32_t(gpu), nic, *pcieSlot(facts.pcie));
  }
  return machine;
}

BoxFacts dgx1() {
  BoxFacts facts;
  facts.bonds = &hybridMesh();
  facts.link = cudaFamily(70)->link;
  facts.alpha = 0.7;
  facts.nics = 4;
  facts.pcie = 3;
  facts.nic = 12.5;
  return facts;
}

BoxFacts ndv2() {
  BoxFacts facts = dgx1();
  facts.nics = 1;
  facts.nicAlpha = 1.3;
  return facts;
}

BoxFacts nvswitch(int64_t gpus, const GpuFamily &family, int32_t pcie, double nic) {
  BoxFacts facts;
  facts.gpus = gpus;
  facts.links = family.most;
  facts.link = family.link;
  facts.inSwitch = family.inSwitch;
  facts.nics = gpus;
  facts.pcie = pcie;
  facts.nic = nic;
  return facts;
}

BoxFacts dgx2() {
  BoxFacts facts = nvswitch(16, *cudaFamily(70), 3, 12.5);
  facts.nics = 8;
  facts.alpha = 0.35;
  facts.nicAlpha = 2.6;
  return facts;
}

BoxFacts h800() {
  BoxFacts facts = nvswitch(8, *cudaFamily(90), 5, 45.5);
  facts.links = 1;
  facts.link = {180, 180};
  return facts;
}

BoxFacts mi250() {
  BoxFacts facts;
  facts.gpus = 16;
  facts.bonds = &mi250Mesh();
  facts.link = amdFamily("gfx90a")->link;
  facts.nic = 25;
  return facts;
}

BoxFacts mi300x() {
  BoxFacts facts;
  facts.meshOfAll = true;
  facts.link = amdFamily("gfx942")->link;
  facts.pcie = 5;
  facts.nic = 50;
  return facts;
}

struct BoxPreset {
  TopologyName text;
  BoxFacts (*facts)();
  int64_t planes; ///< of the network
  std::string_view note;
};

const BoxPreset boxPresets[] = {
    {{"dgx-1-v100", "[boxes]", "8 V100 in a hybrid mesh, 4 NICs EDR"}, dgx1, 4, ""},
    {{"azure-ndv2", "[boxes]", "8 V100 in a hybrid mesh, 1 NIC EDR"}, ndv2, 1, ""},
    {{"dgx-2", "[boxes]", "16 V100 on NVSwitches, 8 NICs EDR"}, dgx2, 1, ""},
    {{"dgx-a100", "[boxes]", "8 A100 on NVSwitches, 8 NICs HDR on two planes"},
     [] { return nvswitch(8, *cudaFamily(80), 4, 25); },
     2,
     ""},
    {{"dgx-h100", "[boxes]", "8 H100 on NVSwitches with NVLS, 8 NICs NDR on 8 rails"},
     [] { return nvswitch(8, *cudaFamily(90), 5, 50); },
     8,
     ""},
    {{"dgx-h200", "[boxes]", "the same with H200"},
     [] { return nvswitch(8, *cudaFamily(90), 5, 50); },
     8,
     ""},
    {{"h800", "[boxes]", "8 GPUs of 180 on NVSwitches, 8 NICs of 45.5 on 8 rails"},
     h800,
     8,
     "180 GB/s of NVLink is the figure of an A800 testbed; an H800's own was not found"},
    {{"gb200-nvl72", "[racks]", "72 B200 on NVSwitches with NVLS, a NIC of 50 each"},
     [] { return nvswitch(72, *cudaFamily(100), 5, 50); },
     4,
     ""},
    {{"amd-mi250", "[boxes]", "16 dies in a mesh, 8 NICs HDR"}, mi250, 8, ""},
    {{"amd-mi300x", "[boxes]", "8 MI300X, each linked with each, 8 NICs of 50"}, mi300x, 8, ""},
};

std::optional<Named> makeBoxes(const BoxPreset &preset, int64_t count, Rates rates,
                               std::string &error) {
  Machine machine = makeMachine(preset.facts());
  machine.name = preset.text.name;
  Box box = makeBox(machine, rates);
  Named named;
  named.hasBothRates = machine.hasBothRates();
  if (!preset.note.empty())
    named.notes.emplace_back(preset.note);
  if (count == 1) {
    named.topology = std::move(box.topology);
    return named;
  }
  Network network;
  network.kind = Network::Kind::Planes;
  network.planes = preset.planes;
  std::optional<model::Topology> joined = joinNodes(box, count, network, error);
  if (!joined)
    return std::nullopt;
  named.topology = std::move(*joined);
  return named;
}

Named tpu(const Dimensions &size, double link) {
  Named named;
  named.topology = grid(size, true, link);
  named.notes.push_back("every dimension wraps around, as it does in slices of whole cubes");
  return named;
}
Named tpuV4(const Dimensions &size, Rates) { return tpu(size, 50); }
Named tpuV5p(const Dimensions &size, Rates) { return tpu(size, 100); }

/// GPUs at the root ports of two sockets.
Named pcieBox(int64_t gpus, int32_t generation, Speed sockets, Rates rates) {
  Machine machine;
  for (int64_t i = 0; i < gpus; ++i)
    machine.add({DeviceKind::Gpu, fmt::format("gpu{}", i)});
  int32_t cpus[2] = {machine.add({DeviceKind::Cpu, "cpu0"}),
                     machine.add({DeviceKind::Cpu, "cpu1"})};
  machine.connect(cpus[0], cpus[1], sockets);
  for (int64_t i = 0; i < gpus; ++i)
    machine.connect(int32_t(i), cpus[i * 2 / gpus], *pcieSlot(generation));
  return {makeBox(machine, rates).topology, {}, machine.hasBothRates()};
}
Named pcie3(const Dimensions &d, Rates rates) {
  return pcieBox(d[0], 3, *socketSpeed("x86_64", "GenuineIntel", 6, 0x55), rates);
}
Named pcie4(const Dimensions &d, Rates rates) {
  return pcieBox(d[0], 4, *socketSpeed("x86_64", "AuthenticAMD", 0, 0), rates);
}
Named pcie5(const Dimensions &d, Rates rates) {
  return pcieBox(d[0], 5, *socketSpeed("x86_64", "GenuineIntel", 6, 0x8f), rates);
}

Named mtia300(const Dimensions &d, Rates) {
  Named named;
  named.topology.axes = {{"gpu", d[0]}};
  named.topology.switches = {{"network"}};
  for (int64_t i = 0; i < d[0]; ++i)
    join(named.topology, i, d[0], 200);
  named.notes = {
      "published of MTIA 300's links is only 200 GB/s to the scale-out network, by NICs in "
      "its package; it is taken as one direction's, and the network as one that never "
      "blocks",
      "its scale-up links, their speed and shape, and all latencies are left out"};
  return named;
}

Named opticalRings(const Dimensions &size, Rates) {
  Named named;
  named.topology = grid(size, true, 50);
  if (size.size() == 1)
    named.topology.axes[0].name = "gpu";
  named.topology.reconfigurable = 11.5;
  named.notes.push_back("a ring in every dimension is how the fabric begins; any other rings of as "
                        "many links at each end can follow");
  return named;
}

struct GraphPreset {
  TopologyName text;
  size_t dimensions;
  int64_t least, most;
  Named (*make)(const Dimensions &, Rates);
};

const GraphPreset graphPresets[] = {
    {{"tpu-v4", "AxBxC", "a torus of TPU v4, 50 a link"}, 3, 1, 1 << 20, tpuV4},
    {{"tpu-v5p", "AxBxC", "a torus of TPU v5p, 100 a link"}, 3, 1, 1 << 20, tpuV5p},
    {{"pcie-gen3", "GPUs", "GPUs at the ports of two Intel sockets"}, 1, 2, 64, pcie3},
    {{"pcie-gen4", "GPUs", "GPUs at the ports of two AMD sockets"}, 1, 2, 64, pcie4},
    {{"pcie-gen5", "GPUs", "GPUs at the ports of two Intel sockets"}, 1, 2, 64, pcie5},
    {{"mtia-300", "chips", "MTIA 300 on their scale-out network"}, 1, 2, 1 << 18, mtia300},
    {{"optical-rings", "AxBx...", "rings of optical links that can be changed in 11.5 us"},
     9,
     2,
     1 << 20,
     opticalRings},
};

std::string written(const TopologyName &text) {
  if (text.size.starts_with('['))
    return fmt::format("{}[:{}", text.name, text.size.substr(1));
  return fmt::format("{}:{}", text.name, text.size);
}

} // namespace

std::optional<Dimensions> parseSize(std::string_view text, size_t dimensions, int64_t most,
                                    std::string &error) {
  Dimensions size;
  int64_t product = 1;
  if (dimensions == 0 && !text.empty()) {
    error = "it has no size";
    return std::nullopt;
  }
  for (std::string_view rest = text; !text.empty();) {
    std::string_view number = rest.substr(0, rest.find('x'));
    int64_t value = 0;
    auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (number.empty() || code != std::errc() || end != number.data() + number.size() ||
        value < 1) {
      error = number.empty() ? "a number is missing"
                             : fmt::format("`{}` is no positive number", number);
      return std::nullopt;
    }
    if (value > most / product) {
      error = fmt::format("the size is more than {}", most);
      return std::nullopt;
    }
    product *= value;
    size.push_back(value);
    if (number.size() == rest.size())
      break;
    rest.remove_prefix(number.size() + 1);
  }
  if (dimensions > 0 && size.empty())
    error = "the size is missing";
  else if (dimensions == 1 && size.size() != 1)
    error = "the size is one number";
  else if (size.size() > 24)
    error = "the size has more than 24 dimensions";
  else
    return size;
  return std::nullopt;
}

std::vector<TopologyName> presetNames() {
  std::vector<TopologyName> names;
  for (const BoxPreset &preset : boxPresets)
    names.push_back(preset.text);
  for (const GraphPreset &preset : graphPresets)
    names.push_back(preset.text);
  return names;
}

std::optional<Named> makePreset(std::string_view name, std::string_view size, Rates rates,
                                std::string &error) {
  auto refuse = [&](const TopologyName &text, std::string_view why) {
    error = fmt::format("`{}{}{}`: {}; it is written {}", name, size.empty() ? "" : ":", size, why,
                        written(text));
    return std::nullopt;
  };
  std::string why;
  for (const BoxPreset &preset : boxPresets) {
    if (name != preset.text.name)
      continue;
    std::optional<Dimensions> count = parseSize(size.empty() ? "1" : size, 1, 1 << 14, why);
    if (!count)
      return refuse(preset.text, why);
    return makeBoxes(preset, (*count)[0], rates, error);
  }
  for (const GraphPreset &preset : graphPresets) {
    if (name != preset.text.name)
      continue;
    std::optional<Dimensions> d = parseSize(size, preset.dimensions, preset.most, why);
    if (!d)
      return refuse(preset.text, why);
    if (preset.dimensions == 3 && d->size() != 3)
      return refuse(preset.text, "the size has three dimensions");
    if (preset.least > 1 && d->size() == 1 && (*d)[0] < preset.least)
      return refuse(preset.text, fmt::format("the size is at least {}", preset.least));
    Named named = preset.make(*d, rates);
    named.topology.name = preset.text.name;
    return named;
  }
  return std::nullopt;
}

namespace {

struct NameParts {
  std::string_view base, size;
  bool separated = false;
};

/// "unwb:64"; also "unwb_64", as files are named for specs. "unwb_64.txt" is a file.
NameParts splitName(std::string_view name) {
  size_t at = name.find(':');
  if (size_t last = name.find_last_not_of("0123456789x"); at == name.npos && last != name.npos)
    for (const TopologyName &spec : specNames())
      if (name[last] == '_' && last + 1 < name.size() && name.substr(0, last) == spec.name)
        at = last;
  if (at == name.npos)
    return {name, "", false};
  return {name.substr(0, at), name.substr(at + 1), true};
}

} // namespace

bool isTopologyName(std::string_view name) {
  std::string_view base = splitName(name).base;
  auto is = [&](const TopologyName &known) { return known.name == base; };
  std::vector<TopologyName> presets = presetNames(), specs = specNames();
  return std::any_of(presets.begin(), presets.end(), is) ||
         std::any_of(specs.begin(), specs.end(), is);
}

std::optional<Named> namedTopology(std::string_view name, Rates rates, std::string &error) {
  auto [base, size, separated] = splitName(name);
  if (separated && size.empty()) {
    error = fmt::format("`{}` has a colon, but no size behind it", name);
    return std::nullopt;
  }
  if (std::optional<Named> preset = makePreset(base, size, rates, error); preset || !error.empty())
    return preset;
  std::optional<model::Topology> spec = makeSpec(base, size, error);
  if (!spec)
    return std::nullopt;
  return Named{std::move(*spec), {}, false};
}

} // namespace ccl::topology
