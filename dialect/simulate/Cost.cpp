//===- Cost.cpp -----------------------------------------------------------===//
#include "dialect/simulate/Cost.h"

#include <algorithm>
#include <array>

namespace ccl::model {
namespace {

struct Named {
  std::string_view name;
  NcclProtocol protocol;
  bool tree;
};
constexpr std::array<Named, 8> ncclModels = {{
    {"nccl", NcclProtocol::Simple, false},
    {"nccl:ll", NcclProtocol::LL, false},
    {"nccl:ll128", NcclProtocol::LL128, false},
    {"nccl:simple", NcclProtocol::Simple, false},
    {"nccl-tree", NcclProtocol::Simple, true},
    {"nccl-tree:ll", NcclProtocol::LL, true},
    {"nccl-tree:ll128", NcclProtocol::LL128, true},
    {"nccl-tree:simple", NcclProtocol::Simple, true},
}};

/// By protocol: base latency, and latency of a hop.
struct ProtocolLatency {
  double base;
  CostModel::Latencies hop;
};
constexpr std::array<ProtocolLatency, 3> ringLatencies = {
    {{6.6, {0.6, 1.0, 2.7}}, {14, {1.9, 2.5, 4}}, {8.4, {3.4, 5.7, 14}}}};
constexpr std::array<ProtocolLatency, 3> treeLatencies = {
    {{6.8, {0.6, 1.0, 5}}, {14, {1.25, 1.9, 8.5}}, {8.4, {4, 4, 14}}}};

} // namespace

CostModel cclModel() { return CostModel(); }

CostModel tacclModel() {
  CostModel model;
  model.name = "taccl";
  model.alphaOccupies = model.storesAndForwards = true;
  return model;
}

CostModel tacosModel() {
  CostModel model = tacclModel();
  model.name = "tacos";
  model.sharesResources = false;
  return model;
}

CostModel tecclModel(double epochUs) {
  CostModel model;
  model.name = "teccl";
  model.epochs = true;
  model.epochUs = epochUs;
  return model;
}

CostModel ncclCostModel(NcclProtocol protocol, bool tree, int64_t nodes) {
  const ProtocolLatency &latency = (tree ? treeLatencies : ringLatencies)[size_t(protocol)];
  CostModel model;
  for (const Named &named : ncclModels)
    if (named.protocol == protocol && named.tree == tree)
      model.name = named.name;
  model.launchUs = latency.base;
  model.latencies = latency.hop;
  switch (protocol) {
  case NcclProtocol::LL:
    // Half of what is sent are flags; the tree model divides by 3.8.
    model.efficiency = tree ? 1 / 3.8 : 0.5;
    model.mostGBps = nodes <= 1 ? 141 : nodes == 2 ? 45 : 35;
    break;
  case NcclProtocol::LL128:
    model.efficiency = !tree ? 0.92 : nodes <= 1 ? 7.0 / 9 : 120.0 / 128;
    break;
  case NcclProtocol::Simple: model.efficiency = tree ? 0.92 * 0.85 : 1; break;
  }
  return model;
}

std::optional<CostModel> parseCostModel(std::string_view text, int64_t nodes) {
  for (const CostModel &model : {cclModel(), tacclModel(), tacosModel(), tecclModel()})
    if (model.name == text)
      return model;
  for (const Named &named : ncclModels)
    if (named.name == text)
      return ncclCostModel(named.protocol, named.tree, nodes);
  return std::nullopt;
}

std::string costModelNames() {
  std::string names = "ccl, taccl, tacos, teccl";
  for (const Named &named : ncclModels)
    names.append(", ").append(named.name);
  return names;
}

} // namespace ccl::model
