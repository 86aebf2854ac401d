//===- Nccl.cpp ---------------------------------------------------------------===//
#include "frontend/simulation/Nccl.h"

#include "frontend/topology/Rates.h"

#include <fmt/format.h>

namespace ccl::simulation {

std::optional<int32_t> ncclArch(std::string_view gpu, std::string &why) {
  constexpr int32_t usual = 90;
  const topology::GpuFamily *family = topology::namedFamily(gpu);
  if (!family)
    return usual;
  for (int32_t known : {60, 70, 80, 90, 100})
    if (topology::cudaFamily(known) == family)
      return known;
  if (family->links == topology::cudaFamily(usual)->links)
    return usual;
  why = fmt::format("NCCL is not for {}, and its model says nothing about RCCL", family->name);
  return std::nullopt;
}

std::vector<NcclChoice> ncclChoices(const model::NcclMachine &machine, model::Collective collective,
                                    int64_t bytes) {
  const std::optional<model::NcclEstimate> best = model::pick(machine, collective, bytes);
  std::vector<NcclChoice> choices;
  for (const model::NcclEstimate &e : model::estimates(machine, collective, bytes)) {
    const bool isTaken = best && e.algorithm == best->algorithm && e.protocol == best->protocol;
    choices.push_back({isTaken ? *best : e, isTaken});
  }
  return choices;
}

} // namespace ccl::simulation
