//===- OwnKey.cpp - What MSCCL++'s format has no field for ----------------===//
//
// One more key of the top object, `ownKey`, holds the contract: its collective, reduction,
// root, targets or rows, and whether a plan for separate memory runs in place as well.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/OwnKey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ccl::mscclpp {

using model::Collective;
using model::Contract;
using model::Reduction;

static std::vector<int64_t> readTargets(const Fields &own, int64_t ranks) {
  std::vector<int64_t> targets;
  for (JsonValue target : own.elements({"to"}, true))
    targets.push_back(readNumber(own.log, target, "a rank", 0, ranks - 1));
  std::vector<int64_t> sorted = targets;
  std::sort(sorted.begin(), sorted.end());
  bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (int64_t(targets.size()) != ranks || twice)
    own.log.malformed(own.find({"to"}) ? own.find({"to"}).place() : own.place(),
                      fmt::format("\"to\" names each of {} ranks once", ranks));
  return targets;
}

static void readRows(const Fields &own, Contract &contract) {
  contract.customInChunks = own.number({"in"}, 0, maxChunkNumber);
  contract.customOutChunks = own.number({"out"}, 0, maxChunkNumber);
  for (JsonValue row : own.elements({"rows"}, false)) {
    std::vector<JsonValue> numbers = readElements(own.log, row, "a row");
    if (numbers.size() != 4) {
      own.log.malformed(row.place(), "a row is the rank and chunk of an output, and those of an "
                                     "input that it holds");
      return;
    }
    auto number = [&](int i, int64_t count) {
      return readNumber(own.log, numbers[size_t(i)], "a number of a row", 0,
                        std::max<int64_t>(count, 1) - 1);
    };
    contract.rows.push_back({number(0, contract.ranks), number(1, contract.customOutChunks),
                             number(2, contract.ranks), number(3, contract.customInChunks)});
  }
}

std::optional<Plan::Own> readOwnKey(Log &log, JsonValue value, int64_t ranks) {
  Fields own(log, value, "the contract");
  Plan::Own result;
  Contract &contract = result.contract;
  contract.ranks = ranks;
  std::string collective = own.string({"collective"});
  std::string reduction = own.string({"reduction"}, "none");
  if (log.failed())
    return std::nullopt;
  std::optional<Collective> parsed = model::parseCollective(collective);
  std::optional<Reduction> combined = model::parseReduction(reduction);
  if (!parsed || !combined) {
    log.malformed(value.place(), fmt::format("\"{}\" is no {} that is known here",
                                             shortened(parsed ? reduction : collective),
                                             parsed ? "reduction" : "collective"));
    return std::nullopt;
  }
  contract.collective = *parsed;
  contract.reduction = *combined;
  bool custom = contract.collective == Collective::Custom;
  if (!custom && model::reduces(contract.collective) != (*combined != Reduction::None))
    log.malformed(value.place(),
                  fmt::format("{} {} a reduction", collective,
                              model::reduces(contract.collective) ? "needs" : "has not"));
  contract.chunks = own.number({"chunks"}, 1, maxChunksOfShard, 1);
  if (model::hasRoot(contract.collective))
    contract.root = own.number({"root"}, 0, ranks - 1);
  if (contract.collective == Collective::Permute)
    contract.targets = readTargets(own, ranks);
  if (custom)
    readRows(own, contract);
  result.inPlace = own.flag({"also_in_place"}, false);
  return result;
}

/// Whether a reader without this key would not find the same.
static bool isNeeded(const Plan &plan) {
  const Contract &contract = plan.own->contract;
  if (plan.own->inPlace && plan.own->disjoint)
    return true;
  switch (contract.collective) {
  case Collective::AllReduce:
  case Collective::ReduceScatter: return contract.reduction != Reduction::Sum;
  case Collective::AllGather:
  case Collective::AllToAll: return false;
  case Collective::Permute: return contract.targets != std::vector<int64_t>{1, 0};
  case Collective::Custom:
    return !contract.rows.empty() || contract.reduction != Reduction::None ||
           contract.customInChunks != plan.gpus.front().inputChunks ||
           contract.customOutChunks != plan.gpus.front().outputChunks;
  default: return true;
  }
}

std::string writeOwnKey(const Plan &plan) {
  if (!plan.own || !isNeeded(plan))
    return {};
  const Contract &contract = plan.own->contract;
  std::string text = fmt::format("{{\"collective\": \"{}\"", model::name(contract.collective));
  if (contract.reduction != Reduction::None)
    text += fmt::format(", \"reduction\": \"{}\"", model::name(contract.reduction));
  text += fmt::format(", \"chunks\": {}", contract.chunks);
  if (model::hasRoot(contract.collective))
    text += fmt::format(", \"root\": {}", contract.root);
  if (contract.collective == Collective::Permute)
    text += fmt::format(", \"to\": [{}]", fmt::join(contract.targets, ", "));
  if (contract.collective == Collective::Custom) {
    text += fmt::format(", \"in\": {}, \"out\": {}, \"rows\": [", contract.customInChunks,
                        contract.customOutChunks);
    for (const Contract::Row &row : contract.rows)
      text += fmt::format("{}[{}, {}, {}, {}]", &row == contract.rows.data() ? "" : ", ",
                          row.outRank, row.outChunk, row.inRank, row.inChunk);
    text += "]";
  }
  if (plan.own->inPlace && plan.own->disjoint)
    text += ", \"also_in_place\": true";
  return text + "}";
}

} // namespace ccl::mscclpp
