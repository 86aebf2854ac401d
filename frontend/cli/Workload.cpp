//===- Workload.cpp - Inputs, the plain reference, and red zones ------------===//
#include "frontend/cli/Workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <new>
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

std::vector<Piece> definition(const Contract &contract, int64_t rank, int64_t count) {
  int64_t n = contract.ranks;
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
  case Collective::ReduceScatter: return {{0, count, everyRank(rank * count)}};
  case Collective::Reduce: return isRoot ? std::vector<Piece>{{0, count, everyRank(0)}} : pieces;
  case Collective::Broadcast: return {{0, count, {{contract.root, 0}}}};
  case Collective::Scatter: return {{0, count, {{contract.root, rank * count}}}};
  case Collective::AllGather:
  case Collective::Gather:
    if (contract.collective == Collective::Gather && !isRoot)
      return pieces;
    for (int64_t q = 0; q < n; ++q)
      pieces.push_back({q * count, count, {{q, 0}}});
    return pieces;
  case Collective::AllToAll:
  case Collective::AllToAllV: // with equal shards
    for (int64_t q = 0; q < n; ++q)
      pieces.push_back({q * count, count, {{q, rank * count}}});
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

/// Calls body(T()) with a C++ type that can judge `type`; false if there is none. What is
/// only copied may be anything of the right size.
template <typename Body>
static bool visit(ElementType type, Reduction reduction, Body body) {
  switch (type) {
  case ElementType::I8: return body(int8_t()), true;
  case ElementType::U8: return body(uint8_t()), true;
  case ElementType::I32: return body(int32_t()), true;
  case ElementType::U32: return body(uint32_t()), true;
  case ElementType::I64: return body(int64_t()), true;
  case ElementType::U64: return body(uint64_t()), true;
  case ElementType::F32: return body(float()), true;
  case ElementType::F64: return body(double()), true;
  case ElementType::F16:
  case ElementType::BF16: return reduction == Reduction::None && (body(uint16_t()), true);
  case ElementType::F8E4M3:
  case ElementType::F8E5M2: return reduction == Reduction::None && (body(uint8_t()), true);
  }
  return false;
}

/// How input values are made: an affine start, a hash that vectorizes.
struct ValueRule {
  uint32_t seed;
  int bits;
  bool product; ///< only 1 and, rarely, 2: products stay powers of two

  template <typename T>
  T operator()(int64_t index) const {
    uint32_t x = uint32_t(index) * 2654435761u + uint32_t(index >> 32) + seed;
    x = (x ^ (x >> 15)) * 0x85ebca6bu;
    x ^= x >> 13;
    if (product)
      return T(x >> 29 ? 1 : 2);
    uint32_t value = x >> (32 - bits);
    if constexpr (std::is_signed_v<T>)
      return T(int32_t(value) - (int32_t(1) << (bits - 1)));
    else
      return T(value);
  }
};

static ValueRule ruleOf(int64_t rank, uint64_t round, int bits, Reduction reduction) {
  uint32_t seed = uint32_t(rank + 1) * 0x9e3779b1u ^ uint32_t(round + 1) * 0xc2b2ae35u;
  return {seed, bits, reduction == Reduction::Prod};
}

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

/// An average is scaled in an order of the program's choice: one rounding more.
template <typename T>
static bool same(Reduction reduction, T have, T want) {
  if constexpr (std::is_floating_point_v<T>)
    if (reduction == Reduction::Avg)
      return std::abs(have - want) <= std::abs(want) * std::numeric_limits<T>::epsilon();
  return have == want;
}

//===----------------------------------------------------------------------===//
// Workload
//===----------------------------------------------------------------------===//

static int mantissaBits(ElementType type, Reduction reduction) {
  int bits = 8;
  visit(type, reduction, [&](auto zero) { bits = std::numeric_limits<decltype(zero)>::digits; });
  return bits;
}

Workload::Workload(Contract contract, ElementType type, Reduction reduction)
    : theContract(std::move(contract)), type(type), reduction(reduction) {
  int sumBits = std::bit_width(uint64_t(theContract.ranks));
  valueBits = std::clamp(mantissaBits(type, reduction) - sumBits, 2, 12);
}

std::string Workload::unsupported() const {
  if (visit(type, reduction, [](auto) {}))
    return "";
  return fmt::format("there is no reference for {} of {}; -c 0 runs without a check",
                     model::name(reduction), name(type));
}

int64_t Workload::inOffset(int64_t rank, int64_t count) const {
  return theContract.inChunks() == 0
             ? 0
             : model::linearStart(theContract.inPosition(rank, 0), count, theContract.chunks);
}

int64_t Workload::outOffset(int64_t rank, int64_t count) const {
  return theContract.outChunks() == 0
             ? 0
             : model::linearStart(theContract.outPosition(rank, 0), count, theContract.chunks);
}

void Workload::fill(int64_t rank, uint64_t round, int64_t first, int64_t length, void *to) const {
  ValueRule rule = ruleOf(rank, round, valueBits, reduction);
  bool typed = visit(type, reduction, [&](auto zero) {
    using T = decltype(zero);
    T *values = static_cast<T *>(to);
    for (int64_t i = 0; i < length; ++i)
      values[i] = rule.operator()<T>(first + i);
  });
  if (!typed) // not judged, but it should not be signaling NaNs either
    std::memset(to, 0x38, length * elementBytes());
}

int64_t Workload::countChanged(int64_t rank, uint64_t round, int64_t length,
                               const void *data) const {
  ValueRule rule = ruleOf(rank, round, valueBits, reduction);
  int64_t changed = 0;
  visit(type, reduction, [&](auto zero) {
    using T = decltype(zero);
    const T *values = static_cast<const T *>(data);
    for (int64_t i = 0; i < length; ++i)
      changed += values[i] != rule.operator()<T>(i);
  });
  return changed;
}

int64_t Workload::countWrong(int64_t rank, uint64_t round, int64_t count, const void *out) const {
  constexpr int64_t blockLength = 2048; // stays in the first-level cache
  int64_t wrong = 0;
  visit(type, reduction, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> want(blockLength);
    for (const Piece &piece : definition(theContract, rank, count)) {
      for (int64_t begin = 0; begin < piece.length; begin += blockLength) {
        int64_t length = std::min(blockLength, piece.length - begin);
        const Piece::Source &head = piece.sources.front();
        fill(head.rank, round, head.first + begin, length, want.data());
        for (size_t s = 1; s < piece.sources.size(); ++s) {
          const Piece::Source &source = piece.sources[s];
          combineAll(reduction, ruleOf(source.rank, round, valueBits, reduction),
                     source.first + begin, length, want.data());
        }
        const T *have = static_cast<const T *>(out) + piece.first + begin;
        for (int64_t i = 0; i < length; ++i) {
          T expected = reduction == Reduction::Avg ? T(want[i] / T(theContract.ranks)) : want[i];
          wrong += !same(reduction, have[i], expected);
        }
      }
    }
  });
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
