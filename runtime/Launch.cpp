//===- Launch.cpp -----------------------------------------------------------===//
#include "runtime/Launch.h"

#include "dialect/model/Sizes.h"

#include <algorithm>
#include <limits>

namespace ccl {
namespace {

using model::Collective;
using model::Role;

/// Whether some ranks have an input but no output: their part cannot run in place
/// although the root's may be launched so.
bool hasSilentRanks(Collective c) {
  return c == Collective::Reduce || c == Collective::Gather || c == Collective::Permute ||
         c == Collective::Custom;
}

/// Alignment that keeps every chunk in a slot and in scratch on a cache line, as
/// far as a slot has room for it.
int64_t strideAlignment(int64_t elementBytes, int64_t maxStride) {
  int64_t alignment = int64_t(cacheLine) / elementBytes;
  while (alignment > 1 && alignment > maxStride)
    alignment /= 2;
  return alignment;
}

llvm::Expected<Form> findForm(const Plan &plan, const RankFacts &facts, int64_t rank,
                              const LaunchArgs &args, const UnevenShards *uneven) {
  const int64_t bytes = sizeOf(plan.type);
  auto checkPointer = [&](const char *which, bool needed, const void *p) -> llvm::Error {
    if (needed && !p)
      return makeFailure(Failure::BadArgument, "rank {}: `{}` is null, but count is {}", rank,
                         which, args.count);
    if (needed && reinterpret_cast<uintptr_t>(p) % uintptr_t(bytes) != 0)
      return makeFailure(Failure::BadArgument,
                         "rank {}: `{}` is not aligned to its elements of {} "
                         "bytes",
                         rank, which, bytes);
    return llvm::Error::success();
  };
  const bool hasIn = !uneven || uneven->callerRows(rank).inElements > 0;
  const bool hasOut = !uneven || uneven->callerRows(rank).outElements > 0;
  if (llvm::Error e = checkPointer("in", facts.needsIn && hasIn, args.in))
    return e;
  if (llvm::Error e = checkPointer("out", facts.needsOut && hasOut, args.out))
    return e;
  if (!facts.needsIn || !facts.needsOut)
    return Form::Either;

  const auto in = reinterpret_cast<intptr_t>(args.in);
  const auto out = reinterpret_cast<intptr_t>(args.out);
  CallerRows rows{facts.inShards * args.count, facts.outShards * args.count,
                  facts.inPosition * args.count, facts.outPosition * args.count};
  if (uneven)
    rows = uneven->callerRows(rank);
  // Of a row without elements the pointer says nothing.
  if (rows.inElements == 0 || rows.outElements == 0)
    return Form::Either;
  if (in - out == (rows.inOffset - rows.outOffset) * bytes)
    return Form::InPlace;
  if (in < out + rows.outElements * bytes && out < in + rows.inElements * bytes)
    return makeFailure(Failure::BadArgument,
                       "rank {}: `in` and `out` overlap without being in place: `out` begins {} "
                       "bytes after `in`, in place it would begin {} bytes after it",
                       rank, out - in, (rows.outOffset - rows.inOffset) * bytes);
  return Form::Disjoint;
}

/// Shards of the plan's buffer of `role`: as many as the contract says, or, if the
/// program rests partial results in it, as many as the larger buffer has.
llvm::Error findWidth(const Plan &plan, Role role, int64_t shards, int64_t places, int64_t &width) {
  width = shards;
  for (const BufferPlan &buffer : plan.buffers) {
    if (buffer.role != role)
      continue;
    if (buffer.chunks == places * plan.contract.chunks)
      width = places;
    else if (buffer.chunks != shards * plan.contract.chunks)
      return makeFailure(Failure::BadArgument,
                         "malformed plan: buffer {} has {} chunks, {} wants {}", buffer.name,
                         buffer.chunks, plan.contract.str(), shards * plan.contract.chunks);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<RankFacts> findFacts(const Plan &plan, int64_t rank) {
  const model::Contract &contract = plan.contract;
  RankFacts facts;
  if (contract.chunks < 1)
    return makeFailure(Failure::BadArgument, "malformed plan: {} chunks a shard", contract.chunks);
  const int64_t inChunks = contract.inChunks(), outChunks = contract.outChunks();
  facts.inShards = inChunks / contract.chunks;
  facts.outShards = outChunks / contract.chunks;
  facts.places = std::max(facts.inShards, facts.outShards);
  // Where nothing is promised, the caller gets to see whatever the program leaves.
  facts.needsIn = contract.isUnchecked() && inChunks > 0;
  for (int64_t k = 0; k < inChunks && !facts.needsIn; ++k)
    facts.needsIn = contract.defines(rank, k);
  facts.needsOut = contract.isUnchecked() && outChunks > 0;
  std::vector<model::Atom> atoms;
  for (int64_t k = 0; k < outChunks && !facts.needsOut; ++k) {
    contract.expected(rank, k, atoms);
    facts.needsOut = !atoms.empty();
  }
  if (inChunks > 0)
    facts.inPosition = contract.inPosition(rank, 0) / contract.chunks;
  if (outChunks > 0)
    facts.outPosition = contract.outPosition(rank, 0) / contract.chunks;
  for (const BufferPlan &buffer : plan.buffers) {
    (buffer.role == Role::In ? facts.inRead : facts.outRead) |=
        buffer.peersRead && buffer.role != Role::Scratch;
    (buffer.role == Role::In ? facts.inWritten : facts.outWritten) |=
        buffer.peersWrite && buffer.role != Role::Scratch;
  }
  if (llvm::Error e = findWidth(plan, Role::In, facts.inShards, facts.places, facts.inWidth))
    return e;
  if (llvm::Error e = findWidth(plan, Role::Out, facts.outShards, facts.places, facts.outWidth))
    return e;

  for (size_t k = 0; k < plan.kernels.size() && facts.kernel < 0; ++k) {
    size_t index = 0;
    for (auto [begin, end] : plan.kernels[k].ranks) {
      if (rank >= begin && rank < end) {
        facts.kernel = int(k);
        facts.indexInSet = index + size_t(rank - begin);
      }
      index += size_t(end - begin);
    }
  }
  for (const KernelPlan &kernel : plan.kernels)
    for (const ChannelFamily &family : kernel.channels)
      facts.usesSlots |= family.slots > 0;
  return facts;
}

/// Slices below cost more in waits than what the overlap of stages gives, where nothing is known
/// about links.
static constexpr int64_t leastStageSlice = 4 << 10;

llvm::Expected<Cut> chooseCut(const Plan &plan, const RankFacts &facts, int64_t count,
                              int64_t slotBytes, int64_t atLeast) {
  const int64_t bytes = sizeOf(plan.type);
  const int64_t longest = model::longestChunk(count, plan.contract.chunks);
  int64_t maxStride = std::numeric_limits<int64_t>::max();
  if (facts.usesSlots) {
    maxStride = slotBytes / (std::max<int64_t>(plan.maxCount, 1) * bytes);
    if (maxStride < 1)
      return makeFailure(
          Failure::BadArgument,
          "{} moves {} chunks of {}-byte elements through one slot: that needs slots "
          "of at least {} bytes, not {} (CCL_SLOT_BYTES)",
          plan.program, plan.maxCount, bytes, plan.maxCount * bytes, slotBytes);
  }
  Cut cut;
  const int64_t alignment = strideAlignment(bytes, maxStride);
  if (longest == 0) {
    cut.microBatches = std::max<int64_t>(atLeast, 1);
    cut.stride = alignment;
    return cut;
  }
  maxStride = maxStride / alignment * alignment;
  int64_t m = (longest - 1) / maxStride + 1;
  // A number that is asked for comes before what the algorithm has in mind, not before what its
  // stages need at least.
  if (plan.microBatches > 0 && atLeast == 0)
    m = std::max(m, std::min(plan.microBatches, longest * bytes / model::leastSliceBytes));
  else if (plan.microBatches == 0 && plan.pipelineStages > 1)
    m = std::max(m, std::min<int64_t>(2 * plan.pipelineStages, longest * bytes / leastStageSlice));
  cut.microBatches = std::max(m, atLeast);
  cut.stride = roundUp((longest - 1) / cut.microBatches + 1, alignment);
  return cut;
}

llvm::Expected<LaunchShape> findUncutShape(const Plan &plan, const RankFacts &facts, int64_t rank,
                                           const LaunchArgs &args, const UnevenShards *uneven) {
  const int64_t chunks = plan.contract.chunks;
  const int64_t count = uneven ? uneven->longest() : args.count;
  if (count < 0)
    return makeFailure(Failure::BadArgument, "rank {}: count is {}", rank, count);
  if (args.microBatches < 0)
    return makeFailure(Failure::BadArgument, "rank {}: {} micro-batches", rank, args.microBatches);
  // Offsets are computed in bytes and as chunk * count, both in 64 bits.
  const int64_t limit =
      std::numeric_limits<int64_t>::max() / 16 / std::max({facts.places, chunks, int64_t(1)});
  if (count > limit)
    return makeFailure(Failure::BadArgument, "rank {}: count is {}, the limit is {}", rank, count,
                       limit);

  LaunchShape shape;
  shape.count = shape.runCount = count;
  shape.uneven = uneven;
  shape.packed = uneven && plan.unevenSafe && !plan.divisible;
  if (count > 0) {
    llvm::Expected<Form> form = findForm(plan, facts, rank, args, uneven);
    if (!form)
      return form.takeError();
    shape.form = *form;
  }
  if (!plan.disjointProved && !plan.inPlaceProved)
    return makeFailure(Failure::Unproved,
                       "{} (hash {}) is proved neither in place nor out of place", plan.program,
                       plan.hash);
  // Ranks of one launch must run the same form. The form of a rank that is Either
  // follows from the plan alone: with both proved it never reads what it lacks, so
  // out of place is right for it whatever the others do.
  if (!plan.disjointProved)
    shape.runInPlace = true;
  else if (plan.inPlaceProved && !hasSilentRanks(plan.contract.collective))
    shape.runInPlace = shape.form == Form::InPlace;
  if (plan.divisible)
    shape.runCount = roundUp(count, chunks);
  if (uneven && (shape.runInPlace || shape.form == Form::InPlace))
    if (llvm::Error e = uneven->checkInPlace()) {
      if (shape.form == Form::InPlace)
        return e;
      llvm::consumeError(std::move(e));
      shape.packed = false; // one row cannot be cut for both directions
    }
  if (uneven && !shape.packed)
    shape.runCount = uneven->paddedCount();
  return shape;
}

llvm::Expected<LaunchShape> findShape(const Plan &plan, const RankFacts &facts, int64_t rank,
                                      const LaunchArgs &args, int64_t slotBytes,
                                      const UnevenShards *uneven) {
  llvm::Expected<LaunchShape> shape = findUncutShape(plan, facts, rank, args, uneven);
  if (!shape)
    return shape;
  llvm::Expected<Cut> cut = chooseCut(plan, facts, shape->runCount, slotBytes, args.microBatches);
  if (!cut)
    return cut.takeError();
  shape->cut = *cut;
  return shape;
}

} // namespace ccl
