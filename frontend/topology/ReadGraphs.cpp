//===- ReadGraphs.cpp - `<graphs>`: what NCCL's channels go along -----------------===//
//
// A graph file has no machine but the orders in which NCCL's channels pass the GPUs, with the
// speed of each. The links between neighbours are taken as full duplex.
//===----------------------------------------------------------------------===//
#include "frontend/topology/ReadNccl.h"
#include "frontend/topology/XmlValues.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ccl::topology {
namespace {

class GraphsReader {
public:
  GraphsReader(const interchange::Xml &xml, std::vector<Diagnostic> &diagnostics)
      : values(xml, diagnostics) {}

  std::optional<Machine> read();

private:
  void readGraph(pugi::xml_node graph);
  void readChannel(pugi::xml_node channel, double intra, double inter, bool ring);
  /// The device of a `gpu` or `net` with its `dev`.
  int32_t deviceOf(pugi::xml_node node);
  TextPlace place(pugi::xml_node node) const { return values.document().place(node); }

  Machine machine;
  XmlValues values;
  std::map<std::pair<bool, int64_t>, int32_t> devices;  ///< by (is a GPU, dev)
  std::map<std::pair<int32_t, int32_t>, double> speeds; ///< GB/s between neighbours
};

constexpr int64_t ringPattern = 4;

std::optional<Machine> GraphsReader::read() {
  pugi::xml_node top = values.document().root();
  values.integer(top, "version", 1, 2);
  // Graphs are alternatives over the same links. A ring's names every neighbour.
  pugi::xml_node chosen;
  int64_t graphs = 0;
  for (pugi::xml_node graph : top.children("graph")) {
    ++graphs;
    values.required(graph, "id");
    values.required(graph, "pattern");
    bool ring = values.integer(graph, "pattern", 0, 100).value_or(0) == ringPattern;
    if (graph.child("channel") && (!chosen || ring))
      if (!chosen || chosen.attribute("pattern").as_int() != ringPattern)
        chosen = graph;
  }
  if (graphs == 0)
    values.error(place(top), "`graphs` without a `graph`");
  if (chosen)
    readGraph(chosen);
  if (values.failed())
    return std::nullopt;
  machine.missing.push_back("the machine: a graph file only says along which links NCCL's channels "
                            "go, and how fast each is; links that no channel uses, and NVSwitches, "
                            "are not in it");
  if (machine.count(DeviceKind::Gpu) == 0)
    machine.missing.push_back("GPUs: no graph has a channel");
  else
    machine.notes.push_back(fmt::format(
        "links are those of graph {}: {} of {} GB/s", chosen.attribute("id").value(),
        counted(std::distance(chosen.children("channel").begin(), chosen.children("channel").end()),
                "channel", "channels"),
        chosen.attribute("speedintra").value()));
  return std::move(machine);
}

void GraphsReader::readGraph(pugi::xml_node graph) {
  values.required(graph, "speedintra");
  double intra = values.number(graph, "speedintra", 0, 1e6).value_or(0);
  double inter = values.number(graph, "speedinter", 0, 1e6).value_or(intra);
  bool ring = graph.attribute("pattern").as_int() == ringPattern;
  bool nets = static_cast<bool>(
      graph.find_node([](pugi::xml_node node) { return std::string_view(node.name()) == "net"; }));
  if (intra < model::leastBandwidth)
    values.error(values.document().place(graph, "speedintra"),
                 "a graph with channels needs a positive speedintra (GB/s)");
  if (nets && inter < model::leastBandwidth)
    values.error(values.document().place(graph, "speedinter"),
                 "a graph whose channels have a `net` needs a positive speedinter (GB/s)");
  if (values.failed())
    return;
  int64_t channels = 0;
  for (pugi::xml_node channel : graph.children("channel")) {
    readChannel(channel, intra, inter, ring);
    ++channels;
  }
  if (values.integer(graph, "nchannels", 0, 1 << 20).value_or(channels) != channels)
    machine.warnings.push_back(
        {Diagnostic::Kind::Warning,
         values.document().place(graph, "nchannels"),
         -1,
         fmt::format("nchannels=\"{}\", but there {} here, which count",
                     graph.attribute("nchannels").value(),
                     channels == 1 ? "is 1" : fmt::format("are {}", channels)),
         {}});
  for (const auto &[ends, speed] : speeds) {
    Device &a = machine.devices[size_t(ends.first)], &b = machine.devices[size_t(ends.second)];
    for (Device *nic : {&a, &b})
      if (nic->kind == DeviceKind::Nic)
        nic->net = {inter, inter};
    machine.connect(ends.first, ends.second, {speed, speed});
  }
}

int32_t GraphsReader::deviceOf(pugi::xml_node node) {
  bool gpu = std::string_view(node.name()) == "gpu";
  values.required(node, "dev");
  // A device of fused NICs has a dev beyond any number of NICs.
  int64_t dev = values.integer(node, "dev", 0, int64_t(1) << 40).value_or(0);
  auto [it, isNew] = devices.try_emplace({gpu, dev}, 0);
  if (!isNew)
    return it->second;
  Device device;
  device.kind = gpu ? DeviceKind::Gpu : DeviceKind::Nic;
  device.name = fmt::format("{}{}", gpu ? "gpu" : "net", dev);
  device.order = values.integer(node, "rank", -1, 1 << 24).value_or(dev);
  return it->second = machine.add(std::move(device));
}

void GraphsReader::readChannel(pugi::xml_node channel, double intra, double inter, bool ring) {
  std::vector<int32_t> order;
  bool nets = false;
  for (pugi::xml_node node : channel.children()) {
    std::string_view kind = node.name();
    if (kind != "gpu" && kind != "net") {
      values.error(place(node),
                   fmt::format("`{}` in a `channel`; `gpu` and `net` are expected", kind));
      return;
    }
    nets |= kind == "net";
    order.push_back(deviceOf(node));
  }
  auto join = [&](int32_t a, int32_t b) {
    bool net = machine.devices[size_t(a)].kind == DeviceKind::Nic ||
               machine.devices[size_t(b)].kind == DeviceKind::Nic;
    if (a != b)
      speeds[std::minmax(a, b)] += net ? inter : intra;
  };
  // One GPU between its NIC and the same NIC again: both directions of one link.
  if (order.size() == 3 && order[0] == order[2])
    order.pop_back();
  for (size_t i = 0; i + 1 < order.size(); ++i)
    join(order[i], order[i + 1]);
  // With NICs the ring goes on in another machine. Two GPUs have no second way.
  if (ring && !nets && order.size() > 2)
    join(order.back(), order.front());
}

} // namespace

std::optional<Machine> readGraphs(const interchange::Xml &xml,
                                  std::vector<Diagnostic> &diagnostics) {
  return GraphsReader(xml, diagnostics).read();
}

} // namespace ccl::topology
