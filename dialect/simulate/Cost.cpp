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

CostModel ncclCostModel(NcclProtocol protocol, bool tree, int64_t nodes, int32_t arch) {
  const NcclAlgorithm algorithm = tree ? NcclAlgorithm::Tree : NcclAlgorithm::Ring;
  const NcclLatency latency = latencyOf(algorithm, protocol);
  CostModel model;
  for (const Named &named : ncclModels)
    if (named.protocol == protocol && named.tree == tree)
      model.name = named.name;
  model.launchUs = latency.call;
  model.latencies = {latency.nvlink, latency.pci, latency.net};
  model.efficiency = efficiencyOf(algorithm, protocol, nodes);
  if (protocol == NcclProtocol::LL)
    model.mostGBps = mostOfLL(arch, nodes);
  return model;
}

std::optional<CostModel> parseCostModel(std::string_view text, int64_t nodes, int32_t arch) {
  for (const CostModel &model : {cclModel(), tacclModel(), tacosModel(), tecclModel()})
    if (model.name == text)
      return model;
  for (const Named &named : ncclModels)
    if (named.name == text)
      return ncclCostModel(named.protocol, named.tree, nodes, arch);
  return std::nullopt;
}

std::string costModelNames() {
  std::string names = "ccl, taccl, tacos, teccl";
  for (const Named &named : ncclModels)
    names.append(", ").append(named.name);
  return names;
}

} // namespace ccl::model
