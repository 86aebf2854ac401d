//===- Uneven.cpp -----------------------------------------------------------===//
#include "runtime/Uneven.h"

#include "runtime/Memory.h"

#include <algorithm>
#include <limits>

namespace ccl {
namespace {

using model::Collective;
using model::Role;

/// Rows of all ranks are added up, and chunk * count is computed, both in 64 bits.
int64_t limitOf(const Plan &plan) {
  int64_t ranks = plan.ranks();
  int64_t shards = isAllToAll(plan.contract.collective) ? ranks * ranks : ranks;
  return std::numeric_limits<int64_t>::max() / 16 / std::max({shards, plan.contract.chunks});
}

llvm::Error checkList(const Plan &plan, int64_t rank, const std::vector<int64_t> &counts,
                      std::string_view name, std::string_view what) {
  const int64_t ranks = plan.ranks(), limit = limitOf(plan);
  if (int64_t(counts.size()) != ranks)
    return makeFailure(Failure::BadArgument, "rank {}: `{}` has {} numbers for {} ranks", rank,
                       name, counts.size(), ranks);
  for (int64_t s = 0; s < ranks; ++s) {
    if (counts[size_t(s)] < 0)
      return makeFailure(Failure::BadArgument, "rank {}: {} {} is {}", rank, what, s,
                         counts[size_t(s)]);
    if (counts[size_t(s)] > limit)
      return makeFailure(Failure::BadArgument, "rank {}: {} {} is {}, the limit is {}", rank, what,
                         s, counts[size_t(s)], limit);
  }
  return llvm::Error::success();
}

bool isNarrow(const Plan &plan, Role role) {
  for (const BufferPlan &buffer : plan.buffers)
    if (buffer.role == role)
      return buffer.chunks == plan.contract.chunks;
  return (role == Role::In ? plan.contract.inShards() : plan.contract.outShards()) == 1;
}

void append(std::vector<ShardCopy> &copies, const ShardCopy &next) {
  if (next.length == 0 && next.pad == 0)
    return;
  if (!copies.empty() && copies.back().pad == 0 &&
      copies.back().from + copies.back().length == next.from &&
      copies.back().to + copies.back().length == next.to) {
    copies.back().length += next.length;
    copies.back().pad = next.pad;
    return;
  }
  copies.push_back(next);
}

} // namespace

llvm::Error checkUneven(const Plan &plan, int64_t rank, const UnevenCounts &counts) {
  const model::Contract &contract = plan.contract;
  if (!model::hasUnevenForm(contract.collective))
    return makeFailure(
        Failure::BadArgument,
        "rank {}: {} has no uneven form; all_gather, reduce_scatter, gather, scatter "
        "and all_to_all have",
        rank, contract.str());
  if (!isAllToAll(contract.collective)) {
    if (!counts.receives.empty())
      return makeFailure(Failure::BadArgument,
                         "rank {}: `receives` is for all_to_all only, not for {}", rank,
                         contract.str());
    return checkList(plan, rank, counts.counts, "counts", "the count of shard");
  }
  if (llvm::Error e = checkList(plan, rank, counts.counts, "counts", "the count sent to rank"))
    return e;
  if (llvm::Error e =
          checkList(plan, rank, counts.receives, "receives", "the count received from rank"))
    return e;
  const int64_t sent = counts.counts[size_t(rank)], received = counts.receives[size_t(rank)];
  if (sent != received)
    return makeFailure(Failure::BadArgument, "rank {} sends {} elements to itself, but expects {}",
                       rank, sent, received);
  return llvm::Error::success();
}

UnevenShards::UnevenShards(const Plan &plan)
    : ranks(plan.ranks()), inNarrow(isNarrow(plan, Role::In)),
      outNarrow(isNarrow(plan, Role::Out)) {
  switch (plan.contract.collective) {
  case Collective::ReduceScatter:
  case Collective::Scatter: kind = Kind::Scatters; break;
  case Collective::AllToAll:
  case Collective::AllToAllV: kind = Kind::AllToAll; break;
  default: kind = Kind::Gathers; break;
  }
  // A single shard is the whole row, too; then both mean the same.
  inNarrow &= kind == Kind::Gathers;
  outNarrow &= kind == Kind::Scatters;
}

llvm::Expected<UnevenShards> UnevenShards::make(const Plan &plan,
                                                const std::vector<UnevenCounts> &counts) {
  UnevenShards shards(plan);
  bool matrix = shards.kind == Kind::AllToAll;
  if (int64_t(counts.size()) != shards.ranks && (matrix || counts.size() != 1))
    return makeFailure(Failure::BadArgument, "counts of {} ranks, but {} take part", counts.size(),
                       shards.ranks);
  if (llvm::Error e = matrix ? shards.takeMatrix(counts) : shards.takeVector(counts))
    return e;
  const int64_t chunks = plan.contract.chunks;
  shards.thePaddedCount = plan.divisible ? roundUp(shards.theLongest, chunks) : shards.theLongest;
  return shards;
}

llvm::Error UnevenShards::takeVector(const std::vector<UnevenCounts> &counts) {
  const std::vector<int64_t> &lengths = counts.front().counts;
  for (size_t p = 1; p < counts.size(); ++p)
    for (size_t s = 0; s < lengths.size(); ++s)
      if (counts[p].counts[s] != lengths[s])
        return makeFailureOf(int64_t(p), Failure::Mismatch,
                             "rank {} says that shard {} has {} elements, rank 0 says {}", p, s,
                             counts[p].counts[s], lengths[s]);
  // First the row of all shards, then each alone.
  ranges.reserve(size_t(2 * ranks));
  for (int64_t length : lengths) {
    ranges.push_back({theTotal, length});
    theTotal += length;
    theLongest = std::max(theLongest, length);
  }
  for (int64_t length : lengths)
    ranges.push_back({0, length});
  for (int64_t r = 0; r < ranks; ++r)
    for (bool narrow : {inNarrow, outNarrow})
      rows.push_back(narrow ? &ranges[size_t(ranks + r)] : ranges.data());
  return llvm::Error::success();
}

llvm::Error UnevenShards::takeMatrix(const std::vector<UnevenCounts> &counts) {
  for (size_t p = 0; p < counts.size(); ++p)
    for (size_t q = 0; q < counts.size(); ++q)
      if (counts[p].counts[q] != counts[q].receives[p])
        return makeFailure(Failure::Mismatch,
                           "rank {} sends {} elements to rank {}, which expects {} from it", p,
                           counts[p].counts[q], q, counts[q].receives[p]);
  ranges.reserve(size_t(2 * ranks * ranks));
  for (int64_t r = 0; r < ranks; ++r)
    for (bool out : {false, true}) {
      int64_t start = 0;
      for (int64_t s = 0; s < ranks; ++s) {
        int64_t length =
            out ? counts[size_t(s)].counts[size_t(r)] : counts[size_t(r)].counts[size_t(s)];
        ranges.push_back({start, length});
        start += length;
        theLongest = std::max(theLongest, length);
      }
      if (!out)
        theTotal += start;
      rows.push_back(&ranges[ranges.size() - size_t(ranks)]);
    }
  return llvm::Error::success();
}

llvm::Error UnevenShards::checkInPlace() const {
  for (int64_t p = 0; p < ranks && kind == Kind::AllToAll; ++p)
    for (int64_t q = 0; q < p; ++q) {
      int64_t there = rows[size_t(2 * q)][p].length, back = rows[size_t(2 * p)][q].length;
      if (there != back)
        return makeFailure(
            Failure::BadArgument,
            "in place, ranks send each other equally many elements, but rank {} sends "
            "{} to rank {} and receives {}",
            q, there, p, back);
    }
  return llvm::Error::success();
}

const ShardRange *UnevenShards::whole(bool out, int64_t rank) const {
  return kind == Kind::AllToAll ? rows[size_t(2 * rank + out)] : ranges.data();
}

int64_t UnevenShards::wholeElements(bool out, int64_t rank) const {
  const ShardRange &last = whole(out, rank)[ranks - 1];
  return last.start + last.length;
}

UnevenShards::Row UnevenShards::rowOf(bool out) const {
  return {out, kind == (out ? Kind::Scatters : Kind::Gathers), out ? outNarrow : inNarrow};
}

CallerRows UnevenShards::callerRows(int64_t rank) const {
  CallerRows caller;
  for (bool out : {false, true}) {
    const ShardRange &own = whole(out, rank)[rank];
    bool narrow = rowOf(out).callerNarrow;
    (out ? caller.outElements : caller.inElements) = narrow ? own.length : wholeElements(out, rank);
    (out ? caller.outOffset : caller.inOffset) = narrow ? own.start : 0;
  }
  return caller;
}

std::vector<ShardCopy> UnevenShards::copies(const Row &row, int64_t rank, bool padded,
                                            bool larger) const {
  std::vector<ShardCopy> result;
  const ShardRange *shards = whole(row.out, rank);
  const int64_t begin = row.callerNarrow ? rank : 0, end = row.callerNarrow ? rank + 1 : ranks;
  for (int64_t s = begin; s < end; ++s) {
    int64_t caller = row.callerNarrow ? 0 : shards[s].start;
    int64_t kernel = padded ? s * thePaddedCount : shards[s].start;
    if (row.planNarrow && !larger)
      kernel = 0;
    if (row.out)
      append(result, {kernel, caller, shards[s].length, 0});
    else
      append(result,
             {caller, kernel, shards[s].length, padded ? thePaddedCount - shards[s].length : 0});
  }
  return result;
}

KernelRows UnevenShards::kernelRows(int64_t rank, bool padded) const {
  KernelRows kernel;
  for (bool out : {false, true}) {
    const Row row = rowOf(out);
    const ShardRange &own = whole(out, rank)[rank];
    const int64_t all = padded ? ranks * thePaddedCount : wholeElements(out, rank);
    kernel.wholeElements = std::max(kernel.wholeElements, all);
    int64_t elements = all, base = 0;
    if (row.planNarrow) {
      elements = padded ? thePaddedCount : own.length;
      base = padded ? rank * thePaddedCount : own.start;
    }
    (out ? kernel.outElements : kernel.inElements) = elements;
    (out ? kernel.callersOut : kernel.callersIn) = !padded && row.planNarrow == row.callerNarrow;
    (out ? kernel.outBase : kernel.inBase) = base;
  }
  return kernel;
}

} // namespace ccl
