//===- Launches.cpp -----------------------------------------------------------===//
#include "frontend/simulation/Launches.h"

#include "dialect/model/Sizes.h"
#include "frontend/picture/Page.h"
#include "runtime/Member.h"

#include <algorithm>

namespace ccl::simulation {

std::optional<model::CostModel> makeModel(const ModelRequest &request, int64_t nodes) {
  std::optional<model::CostModel> model = model::parseCostModel(request.name, nodes);
  if (!model)
    return std::nullopt;
  for (auto [wanted, number] : {std::pair(request.launchUs, &model->launchUs),
                                {request.syncUs, &model->syncUs},
                                {request.overheadUs, &model->overheadUs},
                                {request.laneGBps, &model->laneGBps}})
    if (wanted >= 0)
      *number = wanted;
  if (request.epochUs > 0)
    model->epochUs = request.epochUs;
  return model;
}

std::optional<model::CostModel> makeModel(const ModelRequest &request,
                                          const model::Topology &topology) {
  const std::optional<model::NcclMachine> nccl = model::ncclMachineOf(topology);
  return makeModel(request, nccl ? nccl->nodes : 1);
}

int64_t defaultBatches(const model::Program &program, const model::Contract &contract,
                       int64_t count, int64_t elementBytes, int64_t wanted) {
  const int64_t longest = model::longestChunk(count, contract.chunks) * elementBytes;
  const int64_t least = std::max<int64_t>(std::min(wanted, longest / model::leastSliceBytes), 1);
  if (!model::isStaged(program))
    return least;
  return std::max(model::leastBatches(longest, MemberOptions().slotBytes), least);
}

std::string page(const Launch &launch) {
  picture::PageInput input;
  input.program = launch.name;
  input.collective = launch.contract.str();
  input.model = launch.options.model.name;
  input.topology = &launch.topology;
  input.report = &launch.report;
  input.code = &launch.program;
  if (launch.boundUs > 0)
    input.boundGBps = double(launch.report.bytes) / launch.boundUs / 1e3;
  input.certificate = launch.certificate;
  if (launch.report.usesCircuits && !launch.certificate.empty())
    input.certificate += ", of the best links that the fabric can make";
  const bool isFair = launch.options.sharing == model::Sharing::Fair;
  input.facts = {{"micro-batches", std::to_string(launch.options.batches)},
                 {"sharing", isFair ? "fair" : "first in, first out"}};
  if (launch.report.changes > 0)
    input.facts.push_back({"links changed", std::to_string(launch.report.changes)});
  return picture::page(input);
}

} // namespace ccl::simulation
