//===- Sizes.cpp - Numbers as people type them ------------------------------===//
#include "frontend/cli/Sizes.h"

#include "dialect/model/Sizes.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

using llvm::Expected;
using llvm::StringRef;

namespace ccl::cli {

// A sweep longer than this is a typing error (-i 1), not a wish.
static constexpr size_t maxSweep = 4096;

static llvm::Error bad(std::string message) { return llvm::createStringError(std::move(message)); }

Expected<int64_t> parseSize(StringRef text) {
  int64_t size = 0;
  if (std::string wrong = model::parseSize(text, size); !wrong.empty())
    return bad(std::move(wrong));
  return size;
}

std::string formatBytes(double bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return bytes == int64_t(bytes) ? fmt::format("{} {}", int64_t(bytes), units[unit])
                                 : fmt::format("{:.2f} {}", bytes, units[unit]);
}

Expected<std::vector<int64_t>> parseSizeList(StringRef text) {
  std::vector<int64_t> values;
  for (StringRef part : llvm::split(text, ',')) {
    Expected<int64_t> value = parseSize(part);
    if (!value)
      return value.takeError();
    values.push_back(*value);
  }
  return values;
}

Expected<std::vector<int64_t>> parseRanks(StringRef text) {
  std::vector<int64_t> values;
  for (StringRef part : llvm::split(text, ',')) {
    auto [first, last] = part.trim().split("..");
    int64_t lo = 0, hi = 0;
    bool range = part.contains("..");
    if (first.getAsInteger(10, lo) || (range && last.getAsInteger(10, hi)))
      return bad(
          fmt::format("'{}' is not a number of ranks: expected 4, 2,3,8 or 2..8", part.str()));
    hi = range ? hi : lo;
    if (lo < 1 || hi < lo)
      return bad(fmt::format("'{}': ranks start at 1 and ranges ascend", part.str()));
    if (uint64_t(hi - lo) + values.size() >= maxSweep)
      return bad(fmt::format("'{}': more than {} rank counts", text.str(), maxSweep));
    for (int64_t n = lo; n <= hi; ++n)
      values.push_back(n);
  }
  return values;
}

Expected<std::vector<int64_t>> parseGrid(StringRef text) {
  std::vector<int64_t> sizes;
  for (StringRef part : llvm::split(text, 'x')) {
    int64_t size = 0;
    if (part.getAsInteger(10, size) || size < 1)
      return bad(fmt::format("'{}' is not a grid: expected sizes such as 2x4", text.str()));
    sizes.push_back(size);
  }
  return sizes;
}

Expected<std::pair<std::string, int64_t>> parseBinding(StringRef text) {
  auto [name, value] = text.split('=');
  int64_t number = 0;
  if (name.empty() || value.getAsInteger(10, number) || number < 1)
    return bad(fmt::format("'{}' binds no size parameter: expected name=value", text.str()));
  name.consume_front("%");
  return std::make_pair(name.str(), number);
}

std::vector<int64_t> Sweep::counts(int64_t elementBytes, int64_t shards) const {
  if (shards == 0)
    return {0};
  std::vector<int64_t> counts = values;
  if (inBytes)
    for (int64_t &value : counts)
      value /= elementBytes * shards;
  return counts;
}

Expected<Sweep> sweepOf(int64_t begin, int64_t end, int64_t factor, int64_t step) {
  if (begin > end)
    return bad(fmt::format("the sizes end ({}) before they begin ({})", end, begin));
  if (factor < 2 && step < 1 && begin != end)
    return bad("a step factor is at least 2, a step at least 1 byte");
  Sweep sweep;
  for (int64_t size = begin; size <= end;) {
    if (sweep.values.size() == maxSweep)
      return bad(fmt::format("more than {} sizes", maxSweep));
    sweep.values.push_back(size);
    int64_t next = size;
    if (factor > 1 ? __builtin_mul_overflow(size, factor, &next)
                   : __builtin_add_overflow(size, step, &next))
      break;
    if (next == size && begin == end)
      break;
    size = next == size ? 1 : next; // 0 times anything
  }
  return sweep;
}

Expected<Sweep> parseBytes(StringRef text) {
  if (!text.contains(':')) {
    Expected<std::vector<int64_t>> values = parseSizeList(text);
    if (!values)
      return values.takeError();
    return Sweep{true, std::move(*values)};
  }
  llvm::SmallVector<StringRef, 3> parts;
  text.split(parts, ':');
  if (parts.size() > 3)
    return bad(fmt::format("'{}' is not lo:hi[:factor]", text.str()));
  int64_t numbers[3] = {0, 0, 2};
  for (auto [number, part] : llvm::zip(numbers, parts)) {
    Expected<int64_t> value = parseSize(part);
    if (!value)
      return value.takeError();
    number = *value;
  }
  auto [lo, hi, factor] = numbers;
  if (factor < 2)
    return bad(fmt::format("'{}': the factor is at least 2", text.str()));
  Expected<Sweep> sweep = sweepOf(lo, hi, factor, 0);
  if (sweep && sweep->values.back() != hi)
    sweep->values.push_back(hi);
  return sweep;
}

int64_t sizeInBytes(const model::Contract &contract, int64_t count, int64_t elementBytes) {
  return std::max(contract.inShards(), contract.outShards()) * count * elementBytes;
}

double busFactor(const model::Contract &contract) {
  double n = double(contract.ranks);
  switch (contract.collective) {
  case model::Collective::AllReduce: return 2 * (n - 1) / n;
  case model::Collective::AllGather:
  case model::Collective::ReduceScatter:
  case model::Collective::AllToAll:
  case model::Collective::AllToAllV:
  case model::Collective::Gather:
  case model::Collective::Scatter: return (n - 1) / n;
  case model::Collective::Broadcast:
  case model::Collective::Reduce:
  case model::Collective::Permute:
  case model::Collective::Barrier:
  case model::Collective::Custom: return 1;
  }
  return 1;
}

} // namespace ccl::cli
