//===- Lengths.cpp ----------------------------------------------------------===//
#include "frontend/cli/Lengths.h"

#include "frontend/cli/Sizes.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::cli {

using model::Collective;

Lengths Lengths::uneven(const model::Contract &contract, std::vector<int64_t> counts) {
  Lengths lengths(*std::max_element(counts.begin(), counts.end()));
  lengths.ranks = contract.ranks;
  lengths.pairs = isAllToAll(contract.collective);
  lengths.inIsOne =
      contract.collective == Collective::AllGather || contract.collective == Collective::Gather;
  lengths.outIsOne = contract.collective == Collective::ReduceScatter ||
                     contract.collective == Collective::Scatter;
  lengths.counts = std::move(counts);
  return lengths;
}

int64_t Lengths::shard(RowOf row, int64_t rank, int64_t shard) const {
  if (!isUneven())
    return theCount;
  if (pairs)
    return counts[size_t(row == RowOf::In ? rank * ranks + shard : shard * ranks + rank)];
  bool isOne = row == RowOf::In ? inIsOne : outIsOne;
  return counts[size_t(isOne ? rank : shard)];
}

int64_t Lengths::start(RowOf row, int64_t rank, int64_t number) const {
  if (!isUneven())
    return number * theCount;
  int64_t start = 0;
  for (int64_t s = 0; s < number; ++s)
    start += shard(row, rank, s);
  return start;
}

int64_t Lengths::ownShard(int64_t rank) const {
  if (!isUneven())
    return rank * theCount;
  int64_t start = 0;
  for (int64_t s = 0; s < rank; ++s)
    start += counts[size_t(s)];
  return start;
}

bool Lengths::isSymmetric() const {
  for (int64_t p = 0; p < ranks && pairs; ++p)
    for (int64_t q = 0; q < p; ++q)
      if (counts[size_t(p * ranks + q)] != counts[size_t(q * ranks + p)])
        return false;
  return true;
}

UnevenCounts Lengths::stated(int64_t rank) const {
  UnevenCounts stated;
  for (int64_t s = 0; s < ranks; ++s) {
    stated.counts.push_back(pairs ? shard(RowOf::In, rank, s) : counts[size_t(s)]);
    if (pairs)
      stated.receives.push_back(shard(RowOf::Out, rank, s));
  }
  return stated;
}

llvm::Expected<std::vector<std::vector<int64_t>>> parseUneven(llvm::StringRef text) {
  std::vector<std::vector<int64_t>> lists;
  for (llvm::StringRef part : llvm::split(text, ';')) {
    llvm::Expected<std::vector<int64_t>> list = parseSizeList(part.trim());
    if (!list)
      return list.takeError();
    lists.push_back(std::move(*list));
  }
  return lists;
}

llvm::Expected<Lengths> unevenLengths(const model::Contract &contract,
                                      const std::vector<std::vector<int64_t>> &lists,
                                      Surplus surplus) {
  auto refuse = [](std::string text) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), text.c_str());
  };
  const size_t ranks = size_t(contract.ranks);
  if (!model::hasUnevenForm(contract.collective))
    return refuse(fmt::format("{} has no uneven form: all_gather, reduce_scatter, gather, scatter "
                              "and all_to_all have",
                              contract.str()));
  bool pairs = isAllToAll(contract.collective);
  if (lists.size() == 1) {
    std::vector<int64_t> counts(pairs ? ranks * ranks : ranks);
    if (surplus == Surplus::Refuse && lists[0].size() > counts.size())
      return refuse(fmt::format("there are {} counts, but {} has {} {}", lists[0].size(),
                                contract.str(), counts.size(),
                                pairs ? "pairs of ranks" : "shards"));
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = lists[0][i % lists[0].size()];
    return Lengths::uneven(contract, std::move(counts));
  }
  if (!pairs)
    return refuse(fmt::format("{} takes one list, not {}: rows are for all_to_all", contract.str(),
                              lists.size()));
  std::vector<int64_t> counts;
  for (const std::vector<int64_t> &row : lists) {
    if (lists.size() != ranks || row.size() != ranks)
      return refuse(fmt::format("{} ranks need {} rows of {} numbers, not {} rows, one of them "
                                "of {}",
                                ranks, ranks, ranks, lists.size(), row.size()));
    counts.insert(counts.end(), row.begin(), row.end());
  }
  return Lengths::uneven(contract, std::move(counts));
}

} // namespace ccl::cli
