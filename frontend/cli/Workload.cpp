//===- Workload.cpp - Inputs, the plain reference, and red zones ------------===//
#include "frontend/cli/Workload.h"

#include "frontend/cli/Formats.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ccl::cli {

using model::Collective;
using model::Contract;
using model::Reduction;

//===----------------------------------------------------------------------===//
// The definition of every collective
//===----------------------------------------------------------------------===//

static std::vector<Piece> customDefinition(const Contract &contract, int64_t rank, int64_t count) {
  int64_t chunks = contract.chunks;
  std::map<int64_t, Piece> byChunk;
  for (const Contract::Row &row : contract.rows) {
    if (row.outRank != rank)
      continue;
    Piece &piece = byChunk[row.outChunk];
    int64_t inShard = row.outChunk % chunks;
    piece.first = model::linearStart(row.outChunk, count, chunks);
    piece.length =
        model::chunkStart(inShard + 1, count, chunks) - model::chunkStart(inShard, count, chunks);
    piece.sources.push_back({row.inRank, model::linearStart(row.inChunk, count, chunks)});
  }
  std::vector<Piece> pieces;
  for (auto &[chunk, piece] : byChunk)
    pieces.push_back(std::move(piece));
  return pieces;
}

std::vector<Piece> definition(const Contract &contract, int64_t rank, const Lengths &lengths) {
  int64_t n = contract.ranks, count = lengths.count();
  auto everyRank = [&](int64_t first) {
    std::vector<Piece::Source> sources;
    for (int64_t q = 0; q < n; ++q)
      sources.push_back({q, first});
    return sources;
  };
  std::vector<Piece> pieces;
  bool isRoot = rank == contract.root;
  switch (contract.collective) {
  case Collective::AllReduce: return {{0, count, everyRank(0)}};
  case Collective::ReduceScatter:
    return {{0, lengths.shard(RowOf::Out, rank, 0), everyRank(lengths.ownShard(rank))}};
  case Collective::Reduce: return isRoot ? std::vector<Piece>{{0, count, everyRank(0)}} : pieces;
  case Collective::Broadcast: return {{0, count, {{contract.root, 0}}}};
  case Collective::Scatter:
    return {{0, lengths.shard(RowOf::Out, rank, 0), {{contract.root, lengths.ownShard(rank)}}}};
  case Collective::AllGather:
  case Collective::Gather:
    if (contract.collective == Collective::Gather && !isRoot)
      return pieces;
    for (int64_t q = 0; q < n; ++q)
      pieces.push_back(
          {lengths.start(RowOf::Out, rank, q), lengths.shard(RowOf::Out, rank, q), {{q, 0}}});
    return pieces;
  case Collective::AllToAll:
  case Collective::AllToAllV:
    for (int64_t q = 0; q < n; ++q)
      pieces.push_back({lengths.start(RowOf::Out, rank, q),
                        lengths.shard(RowOf::Out, rank, q),
                        {{q, lengths.start(RowOf::In, q, rank)}}});
    return pieces;
  case Collective::Permute:
    for (int64_t q = 0; q < int64_t(contract.targets.size()); ++q)
      if (contract.targets[q] == rank)
        pieces.push_back({0, count, {{q, 0}}});
    return pieces;
  case Collective::Custom: return customDefinition(contract, rank, count);
  case Collective::Barrier: return pieces;
  }
  return pieces;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// How input values are made: an affine start, a hash that vectorizes.
///
/// Whatever the order in which a collective combines them, every partial result is a number
/// that the type has, so that results can be compared exactly. Sums are of small integers; of
/// types with so few digits that many of them would not fit, all but `few` ranks (others for
/// every element) have 0. Products are of signs, and one rank has 2 and one 1/2. Integers wrap
/// around, which is exact in every order, too; odd factors never make it zero.
struct ValueRule {
  uint32_t seed;   ///< of the rank
  uint32_t shared; ///< the same on all ranks
  int bits;        ///< of integers
  bool product, alike;
  int64_t rank, ranks, few;

  static uint32_t mix(int64_t index, uint32_t seed) {
    uint32_t x = uint32_t(index) * 2654435761u + uint32_t(index >> 32) + seed;
    x = (x ^ (x >> 15)) * 0x85ebca6bu;
    return x ^ (x >> 13);
  }
  /// A rank for every element; for all elements the same one if they are `alike`.
  int64_t chosen(int64_t index, uint32_t which) const {
    return int64_t((uint64_t(mix(alike ? 0 : index, shared + which)) * uint64_t(ranks)) >> 32);
  }
  bool isZero(int64_t index) const {
    int64_t distance = rank - chosen(index, 0);
    return (distance < 0 ? distance + ranks : distance) >= few;
  }

  template <typename T>
  T operator()(int64_t index) const {
    const uint32_t x = mix(index, seed);
    if (product) {
      if constexpr (std::is_integral_v<T>)
        return T((x >> 20) | 1);
      T size = rank == chosen(index, 1) ? T(2) : rank == chosen(index, 2) ? T(0.5) : T(1);
      return x >> 31 ? -size : size;
    }
    if (few < ranks && isZero(index))
      return T(0);
    uint32_t value = x >> (32 - bits);
    if constexpr (std::is_signed_v<T>)
      return T(int32_t(value) - (int32_t(1) << (bits - 1)));
    else
      return T(value);
  }
};

template <typename T>
static T combine(Reduction reduction, T a, T b) {
  // Unsigned arithmetic wraps as the machine's does; signed overflow is undefined.
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (reduction) {
    case Reduction::Sum:
    case Reduction::Avg: return T(U(a) + U(b));
    case Reduction::Prod: return T(uint64_t(U(a)) * uint64_t(U(b)));
    case Reduction::Band: return T(a & b);
    case Reduction::Bor: return T(a | b);
    case Reduction::Bxor: return T(a ^ b);
    default: break;
    }
  }
  switch (reduction) {
  case Reduction::Min: return std::min(a, b);
  case Reduction::Max: return std::max(a, b);
  case Reduction::Prod: return T(a * b);
  default: return T(a + b);
  }
}

template <typename T>
static void combineAll(Reduction reduction, ValueRule rule, int64_t index, int64_t length,
                       T *into) {
  auto loop = [&](auto op) {
    for (int64_t i = 0; i < length; ++i)
      into[i] = op(into[i], rule.operator()<T>(index + i));
  };
  // The switch stands outside of the loop for the two that must be fast.
  if (reduction == Reduction::Sum)
    return loop([](T a, T b) { return combine(Reduction::Sum, a, b); });
  if (reduction == Reduction::Max)
    return loop([](T a, T b) { return combine(Reduction::Max, a, b); });
  loop([=](T a, T b) { return combine(reduction, a, b); });
}

/// What becomes of a sum at the end. A small float is divided in f32 and then rounded.
template <typename T>
static T average(T sum, int64_t ranks) {
  if constexpr (!std::is_integral_v<T>)
    return sum / T(ranks);
  else if constexpr (std::is_signed_v<T>)
    return T(int64_t(sum) / ranks);
  else
    return T(uint64_t(sum) / uint64_t(ranks));
}

//===----------------------------------------------------------------------===//
// Workload
//===----------------------------------------------------------------------===//

/// How often one rank's input enters one element of the result, at most.
static int64_t copiesOf(const Contract &contract) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> copies;
  int64_t most = 1;
  for (const Contract::Row &row : contract.rows)
    most = std::max(most, ++copies[{row.outRank, row.outChunk, row.inRank}]);
  return most;
}

Workload::Workload(Contract contract, ElementType type)
    : theContract(std::move(contract)), type(type), few(std::numeric_limits<int64_t>::max()) {
  int digits = 0;
  bool wraps = true;
  withFormat(type, reduces(), [&](auto format) {
    digits = format.digits;
    wraps = format.isInteger;
  });
  const Reduction reduction = theContract.reduction;
  const bool adds = reduction == Reduction::Sum || reduction == Reduction::Avg;
  // As many bits as all ranks' sums leave; what is not added may use them all.
  const int sumBits = adds ? std::bit_width(uint64_t(theContract.ranks)) : 0;
  valueBits = std::clamp(digits - sumBits, 2, 12);
  if (adds && !wraps)
    few = std::max<int64_t>((int64_t(1) << (digits - valueBits + 1)) / copiesOf(theContract), 1);
}

ValueRule Workload::rule(int64_t rank, uint64_t round) const {
  const uint32_t shared = uint32_t(round + 1) * 0xc2b2ae35u;
  // Rows of a custom contract combine different elements.
  return {uint32_t(rank + 1) * 0x9e3779b1u ^ shared,
          shared,
          valueBits,
          theContract.reduction == Reduction::Prod,
          theContract.collective == Collective::Custom,
          rank,
          theContract.ranks,
          few};
}

// A part of the larger row is always the rank's own shard.
int64_t Workload::inOffset(int64_t rank, const Lengths &lengths) const {
  bool part = theContract.inChunks() > 0 && theContract.inPosition(rank, 0) > 0;
  return part ? lengths.ownShard(rank) : 0;
}

int64_t Workload::outOffset(int64_t rank, const Lengths &lengths) const {
  bool part = theContract.outChunks() > 0 && theContract.outPosition(rank, 0) > 0;
  return part ? lengths.ownShard(rank) : 0;
}

void Workload::fill(int64_t rank, uint64_t round, int64_t first, int64_t length, void *to) const {
  const ValueRule values = rule(rank, round);
  withFormat(type, reduces(), [&](auto format) {
    using Format = decltype(format);
    auto *stored = static_cast<typename Format::Stored *>(to);
    for (int64_t i = 0; i < length; ++i)
      stored[i] = format.store(values.operator()<typename Format::Number>(first + i));
  });
}

int64_t Workload::countChanged(int64_t rank, uint64_t round, int64_t length,
                               const void *data) const {
  const ValueRule values = rule(rank, round);
  int64_t changed = 0;
  withFormat(type, reduces(), [&](auto format) {
    using Format = decltype(format);
    const auto *stored = static_cast<const typename Format::Stored *>(data);
    for (int64_t i = 0; i < length; ++i)
      changed += stored[i] != format.store(values.operator()<typename Format::Number>(i));
  });
  return changed;
}

int64_t Workload::countWrong(int64_t rank, uint64_t round, const Lengths &lengths,
                             const void *out) const {
  int64_t wrong = 0;
  withFormat(type, reduces(), [&](auto format) {
    for (const Piece &piece : definition(theContract, rank, lengths))
      wrong += countWrongIn<decltype(format)>(piece, round, out);
  });
  return wrong;
}

template <typename Format>
int64_t Workload::countWrongIn(const Piece &piece, uint64_t round, const void *out) const {
  using Number = typename Format::Number;
  constexpr int64_t blockLength = 2048; // stays in the first-level cache
  std::vector<Number> want(blockLength);
  int64_t wrong = 0;
  for (int64_t begin = 0; begin < piece.length; begin += blockLength) {
    const int64_t length = std::min(blockLength, piece.length - begin);
    const Piece::Source &head = piece.sources.front();
    const ValueRule first = rule(head.rank, round);
    for (int64_t i = 0; i < length; ++i)
      want[size_t(i)] = first.operator()<Number>(head.first + begin + i);
    for (size_t s = 1; s < piece.sources.size(); ++s) {
      const Piece::Source &source = piece.sources[s];
      combineAll(theContract.reduction, rule(source.rank, round), source.first + begin, length,
                 want.data());
    }
    if (theContract.reduction == Reduction::Avg)
      for (int64_t i = 0; i < length; ++i)
        want[size_t(i)] = average(want[size_t(i)], theContract.ranks);
    const auto *have = static_cast<const typename Format::Stored *>(out) + piece.first + begin;
    for (int64_t i = 0; i < length; ++i)
      wrong += have[i] != Format::store(want[size_t(i)]);
  }
  return wrong;
}

//===----------------------------------------------------------------------===//
// GuardedBuffer
//===----------------------------------------------------------------------===//

// The pattern changes along the zone, so that a shifted copy of it shows, too.
static char guardByte(int64_t i) { return char(0xa5 ^ (i * 29)); }

GuardedBuffer::GuardedBuffer(int64_t maxBytes) {
  int64_t whole = (maxBytes + 2 * guardBytes + 4095) / 4096 * 4096;
  memory.reset(static_cast<char *>(std::aligned_alloc(4096, whole)));
  if (!memory)
    throw std::bad_alloc();
}

char *GuardedBuffer::data() const { return memory.get() + guardBytes; }

char *GuardedBuffer::place(int64_t newBytes) {
  bytes = newBytes;
  for (int64_t i = 0; i < guardBytes; ++i) {
    memory.get()[i] = guardByte(i);
    data()[bytes + i] = guardByte(i);
  }
  return data();
}

void GuardedBuffer::poison() { std::memset(data(), 0x7b, bytes); }

int64_t GuardedBuffer::countDamaged(int64_t elementBytes) const {
  int64_t damaged = 0;
  for (const char *zone : {memory.get(), data() + bytes})
    for (int64_t i = 0; i < guardBytes; i += elementBytes) {
      bool intact = true;
      for (int64_t b = i; b < i + elementBytes; ++b)
        intact &= zone[b] == guardByte(b);
      damaged += !intact;
    }
  return damaged;
}

} // namespace ccl::cli
