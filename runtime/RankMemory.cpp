//===- RankMemory.cpp -------------------------------------------------------===//
#include "runtime/RankMemory.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ccl {

using model::Role;

bool WorldMemory::isReachable(const void *address, int64_t bytes, bool read, bool written) const {
  // A system call for each read costs more than copying so much once.
  constexpr int64_t worthReading = 32 << 10;
  return (!read && !written) || world.isMapped(address) ||
         (world.canRead() && !written && bytes >= worthReading);
}

llvm::Error WorldMemory::copy(const Rows &rows) {
  if (rows.isOnePiece()) {
    std::memmove(rows.to, rows.from, size_t(rows.rows * rows.bytes));
    return llvm::Error::success();
  }
  for (int64_t r = 0; r < rows.rows; ++r) {
    char *to = rows.to + r * rows.toPitch;
    std::memmove(to, rows.from + r * rows.fromPitch, size_t(rows.bytes));
    std::memset(to + rows.bytes, 0, size_t(rows.zeros));
  }
  return llvm::Error::success();
}

void RankMemory::takeBlocks(std::vector<Block> &blocks) {
  for (Block *block : {&scratch, &inStandIn, &outStandIn})
    if (*block)
      blocks.push_back(std::exchange(*block, {}));
}

llvm::Error RankMemory::reserve(Block &block, int64_t bytes) {
  if (int64_t(block.bytes) >= bytes)
    return llvm::Error::success();
  // The old memory goes first: both at once might not fit.
  if (block)
    source.release(std::exchange(block, {}));
  llvm::Expected<Block> larger = source.allocate(size_t(bytes));
  if (!larger)
    return makeFailure(Failure::Machine, "no memory for {} bytes of scratch: {}", bytes,
                       llvm::toString(larger.takeError()));
  block = *larger;
  return llvm::Error::success();
}

llvm::Error RankMemory::copyShards(char *to, int64_t toPitch, const char *from, int64_t fromPitch,
                                   int64_t shards, int64_t shardBytes) const {
  if (shards == 0 || shardBytes == 0)
    return llvm::Error::success();
  // Padding is reduced like data: it must at least be initialized.
  return source.copy({to, toPitch, from, fromPitch, shards, shardBytes,
                      std::max<int64_t>(toPitch - shardBytes, 0)});
}

llvm::Error RankMemory::copyShards(char *to, const char *from, const std::vector<ShardCopy> &copies,
                                   int64_t elementBytes) const {
  for (const ShardCopy &copy : copies) {
    const int64_t bytes = copy.length * elementBytes, zeros = copy.pad * elementBytes;
    if (bytes + zeros == 0)
      continue;
    if (llvm::Error e = source.copy({to + copy.to * elementBytes, bytes,
                                     from + copy.from * elementBytes, bytes, 1, bytes, zeros}))
      return e;
  }
  return llvm::Error::success();
}

llvm::Expected<RankMemory::Bases> RankMemory::placeInPlace(const RankFacts &facts,
                                                           const LaunchShape &shape,
                                                           const LaunchArgs &args,
                                                           int64_t elementBytes) {
  const int64_t shard = shape.count * elementBytes, pitch = shape.runCount * elementBytes;
  auto *out = static_cast<char *>(args.out);
  const bool hasWhole = shape.form == Form::InPlace || facts.outShards == facts.places;
  const bool exact =
      !shape.isPadded() &&
      source.isReachable(hasWhole ? out - facts.outPosition * shard : out,
                         (hasWhole ? facts.places : facts.outShards) * shard,
                         facts.inRead || facts.outRead, facts.inWritten || facts.outWritten);
  char *base = nullptr;
  bool copyIn = facts.needsIn;
  if (exact && shape.form == Form::InPlace) {
    base = out - facts.outPosition * shard;
    copyIn = false;
  } else if (exact && facts.needsOut && facts.outShards == facts.places) {
    base = out; // has room for the input, so no stand-in is needed
  } else if (exact && facts.needsOut && !facts.needsIn && facts.outWidth == facts.outShards) {
    // Nothing but the places of `out` is touched here: an input does not exist.
    base = out - facts.outPosition * shard;
  } else {
    if (llvm::Error e = reserve(outStandIn, facts.places * pitch))
      return e;
    base = outStandIn.data;
    if (facts.needsOut)
      result = base + facts.outPosition * pitch;
  }
  if (copyIn)
    if (llvm::Error e =
            copyShards(base + facts.inPosition * pitch, pitch, static_cast<const char *>(args.in),
                       shard, facts.inShards, shard))
      return e;
  Bases bases{base, base};
  if (facts.inWidth == facts.inShards)
    bases.in += facts.inPosition * pitch;
  if (facts.outWidth == facts.outShards)
    bases.out += facts.outPosition * pitch;
  return bases;
}

llvm::Expected<RankMemory::Bases>
RankMemory::placeRows(const RankFacts &facts, const LaunchShape &shape, const LaunchArgs &args,
                      const Widths &widths, llvm::function_ref<llvm::Error(char *)> copyIn) {
  Bases bases;
  if (facts.needsIn) {
    // Kernels do not write `in`: it is const for the caller, too.
    bases.in = const_cast<char *>(static_cast<const char *>(args.in));
    if (!widths.fitsIn || shape.form == Form::InPlace ||
        !source.isReachable(bases.in, widths.callersIn, facts.inRead, facts.inWritten)) {
      if (llvm::Error e = reserve(inStandIn, widths.kernelsIn))
        return e;
      bases.in = inStandIn.data;
      if (llvm::Error e = copyIn(bases.in))
        return e;
    }
  }
  bases.out = static_cast<char *>(args.out);
  if (!widths.fitsOut || !facts.needsOut ||
      !source.isReachable(bases.out, widths.callersOut, facts.outRead, facts.outWritten)) {
    // A rank without a result may still collect partial ones for others.
    if (llvm::Error e = reserve(outStandIn, widths.kernelsOut))
      return e;
    bases.out = outStandIn.data;
    result = facts.needsOut ? bases.out : nullptr;
  }
  return bases;
}

llvm::Expected<RankMemory::Bases> RankMemory::placeDisjoint(const RankFacts &facts,
                                                            const LaunchShape &shape,
                                                            const LaunchArgs &args,
                                                            int64_t elementBytes) {
  const int64_t shard = shape.count * elementBytes, pitch = shape.runCount * elementBytes;
  const int64_t inOffset = facts.inWidth != facts.inShards ? facts.inPosition * pitch : 0;
  const int64_t outOffset = facts.outWidth != facts.outShards ? facts.outPosition * pitch : 0;
  const Widths widths{facts.inShards * shard,
                      facts.outShards * shard,
                      facts.inWidth * pitch,
                      facts.outWidth * pitch,
                      !shape.isPadded() && facts.inWidth == facts.inShards,
                      !shape.isPadded() && facts.outWidth == facts.outShards};
  llvm::Expected<Bases> bases = placeRows(facts, shape, args, widths, [&](char *to) {
    return copyShards(to + inOffset, pitch, static_cast<const char *>(args.in), shard,
                      facts.inShards, shard);
  });
  if (result)
    result += outOffset;
  return bases;
}

llvm::Expected<RankMemory::Bases> RankMemory::placeUneven(const RankFacts &facts,
                                                          const LaunchShape &shape,
                                                          const LaunchArgs &args, int64_t rank,
                                                          int64_t elementBytes) {
  const bool padded = !shape.packed;
  const CallerRows caller = shape.uneven->callerRows(rank);
  const KernelRows rows = shape.uneven->kernelRows(rank, padded);
  const auto *in = static_cast<const char *>(args.in);
  auto *out = static_cast<char *>(args.out);
  resultElements = caller.outElements;
  if (!shape.runInPlace) {
    const Widths bytes{caller.inElements * elementBytes,
                       caller.outElements * elementBytes,
                       rows.inElements * elementBytes,
                       rows.outElements * elementBytes,
                       rows.callersIn,
                       rows.callersOut};
    llvm::Expected<Bases> bases = placeRows(facts, shape, args, bytes, [&](char *to) {
      return copyShards(to, in, shape.uneven->copyIn(rank, padded, /*larger=*/false), elementBytes);
    });
    if (result)
      resultCopies = shape.uneven->copyOut(rank, padded, /*larger=*/false);
    return bases;
  }
  char *whole = out - caller.outOffset * elementBytes;
  if (shape.form != Form::InPlace || !shape.packed ||
      !source.isReachable(whole, rows.wholeElements * elementBytes, facts.inRead || facts.outRead,
                          facts.inWritten || facts.outWritten)) {
    if (llvm::Error e = reserve(outStandIn, rows.wholeElements * elementBytes))
      return e;
    whole = outStandIn.data;
    if (facts.needsIn)
      if (llvm::Error e = copyShards(whole, in, shape.uneven->copyIn(rank, padded, /*larger=*/true),
                                     elementBytes))
        return e;
    if (facts.needsOut) {
      result = whole;
      resultCopies = shape.uneven->copyOut(rank, padded, /*larger=*/true);
    }
  }
  return Bases{whole + rows.inBase * elementBytes, whole + rows.outBase * elementBytes};
}

llvm::Error RankMemory::placeScratch(const Plan &plan, const LaunchShape &shape,
                                     std::vector<void *> &pointers) {
  const int64_t chunkBytes = shape.cut.stride * sizeOf(plan.type);
  int64_t total = 0;
  for (const BufferPlan &buffer : plan.buffers) {
    if (buffer.role != Role::Scratch)
      continue;
    int64_t size = 0;
    if (__builtin_mul_overflow(buffer.chunks, chunkBytes, &size) ||
        size > std::numeric_limits<int64_t>::max() / 2 / shape.instances - total)
      return makeFailure(Failure::Machine, "no memory for {} scratch chunks of {} elements",
                         buffer.chunks, shape.cut.stride);
    total += roundUp(size, int64_t(cacheLine));
  }
  if (llvm::Error e = reserve(scratch, total * shape.instances))
    return e;
  instanceBytes = total;
  char *next = scratch.data;
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].role == Role::Scratch) {
      pointers[b] = next;
      next += roundUp(plan.buffers[b].chunks * chunkBytes, int64_t(cacheLine));
    }
  return llvm::Error::success();
}

llvm::Error RankMemory::place(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
                              const LaunchArgs &args, int64_t rank, std::vector<void *> &pointers) {
  result = nullptr;
  const int64_t bytes = sizeOf(plan.type);
  llvm::Expected<Bases> bases = shape.uneven       ? placeUneven(facts, shape, args, rank, bytes)
                                : shape.runInPlace ? placeInPlace(facts, shape, args, bytes)
                                                   : placeDisjoint(facts, shape, args, bytes);
  if (!bases)
    return bases.takeError();
  pointers.assign(plan.buffers.size(), nullptr);
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].role != Role::Scratch)
      pointers[b] = plan.buffers[b].role == Role::In ? bases->in : bases->out;
  return placeScratch(plan, shape, pointers);
}

llvm::Error RankMemory::finish(const Plan &plan, const RankFacts &facts, const LaunchShape &shape,
                               const LaunchArgs &args, FinishRow finish) const {
  if (!facts.needsOut)
    return llvm::Error::success();
  const int64_t bytes = sizeOf(plan.type);
  const int64_t shard = shape.count * bytes, pitch = shape.runCount * bytes;
  auto *out = static_cast<char *>(args.out);
  if (shape.uneven) {
    if (result)
      if (llvm::Error e = copyShards(out, result, resultCopies, bytes))
        return e;
    return finish ? finish(out, out, resultElements) : llvm::Error::success();
  }
  if (!finish)
    return result ? copyShards(out, shard, result, pitch, facts.outShards, shard)
                  : llvm::Error::success();
  const char *from = result ? result : out;
  const int64_t step = result ? pitch : shard;
  for (int64_t s = 0; s < facts.outShards; ++s)
    if (llvm::Error e = finish(out + s * shard, from + s * step, shape.count))
      return e;
  return llvm::Error::success();
}

} // namespace ccl
