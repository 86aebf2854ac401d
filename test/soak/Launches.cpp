//===- Launches.cpp -----------------------------------------------------------------===//
#include "test/soak/Launches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

namespace ccl::soak {

using cli::Lengths;

Lengths unevenLengths(const model::Contract &contract, bool inPlace,
                      llvm::function_ref<int64_t(int64_t p, int64_t q)> count) {
  const bool pairs = model::isAllToAll(contract.collective);
  std::vector<std::vector<int64_t>> rows(size_t(pairs ? contract.ranks : 1));
  for (size_t p = 0; p < rows.size(); ++p)
    for (int64_t q = 0; q < contract.ranks; ++q)
      rows[p].push_back(count(int64_t(p), q));
  for (size_t p = 0; inPlace && p < rows.size(); ++p)
    for (size_t q = 0; q < p; ++q)
      rows[p][q] = rows[q][p];
  return llvm::cantFail(cli::unevenLengths(contract, rows));
}

std::string lengthsText(const Lengths &lengths, int64_t numRanks) {
  if (!lengths.isUneven())
    return fmt::format("--count {}", lengths.count());
  // Rows, if there is a number for every pair.
  const size_t ranks = size_t(numRanks), numbers = lengths.unevenCounts().size();
  std::vector<std::string> rows;
  for (size_t first = 0; first < numbers; first += ranks) {
    auto begin = lengths.unevenCounts().begin() + ptrdiff_t(first);
    rows.push_back(fmt::format("{}", fmt::join(begin, begin + ptrdiff_t(ranks), ",")));
  }
  return fmt::format("--uneven '{}'", fmt::join(rows, ";"));
}

std::string Launch::command(std::string_view ranksAre) const {
  const Unit &unit = program->unit;
  std::string text = fmt::format("{}ccl run {} {} {} --ranks {}", unit.environment(),
                                 unit.options(), lengthsText(lengths, unit.ranks),
                                 inPlace ? "--in-place" : "--out-of-place", ranksAre);
  if (microBatches)
    text += fmt::format(" --micro-batches {}", microBatches);
  return text;
}

std::string Findings::str() const {
  return fmt::format("{} wrong elements, {} in red zones, {} of the input changed", wrong, damaged,
                     changed);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// A row with red zones in given memory.
class LaunchingRank::Row {
public:
  static constexpr int64_t zone = 512;

  Row(char *memory, int64_t shiftBytes) : begin(memory), row(memory + zone + shiftBytes) {}
  void place(int64_t newBytes) {
    bytes = newBytes;
    for (char *at = begin; at < row; ++at)
      *at = pattern(at);
    for (char *at = row + bytes; at < row + bytes + zone; ++at)
      *at = pattern(at);
  }
  char *data() const { return row; }
  /// What no result has.
  void poison() { std::memset(row, 0x7b, size_t(bytes)); }
  int64_t countDamaged(int64_t elementBytes) const {
    int64_t damaged = 0;
    for (const char *at = begin; at < row; ++at)
      damaged += *at != pattern(at);
    for (const char *at = row + bytes; at < row + bytes + zone; ++at)
      damaged += *at != pattern(at);
    return (damaged + elementBytes - 1) / elementBytes;
  }

private:
  /// It changes along the zone, so that a shifted copy of it shows, too.
  char pattern(const char *at) const { return char(0xa5 ^ ((at - begin) * 29)); }

  char *begin, *row;
  int64_t bytes = 0;
};

int64_t memoryBytes(const Launch &launch, int64_t rank) {
  const cli::Workload &work = *launch.program->workload;
  const int64_t elements =
      std::max(work.inElements(rank, launch.lengths), work.outElements(rank, launch.lengths));
  return elements * work.elementBytes() + rowMargin;
}

int64_t mostElements(const Compiled &program, int64_t rowBytes) {
  const model::Contract &contract = program.workload->contract();
  const int64_t shards = std::max({contract.inShards(), contract.outShards(), int64_t(1)});
  return std::max<int64_t>(rowBytes / (shards * program.workload->elementBytes()), 1);
}

LaunchingRank::LaunchingRank(int64_t maxBytes)
    : maxBytes((maxBytes + 63) / 64 * 64), storage(new char[size_t(2 * this->maxBytes + 64)]) {}

/// Out of place `in` is in the first row and `out` in the second; in place both are in the first.
void LaunchingRank::prepare(Member &member, const Launch &launch, const Memory &memory, Row &first,
                            Row &second, LaunchArgs &args) {
  const cli::Workload &work = *launch.program->workload;
  const int64_t rank = member.rank(), size = work.elementBytes();
  const int64_t in = work.inElements(rank, launch.lengths) * size;
  const int64_t out = work.outElements(rank, launch.lengths) * size;
  if (launch.inPlace) {
    first.place(std::max(in, out));
    args.in = first.data() + work.inOffset(rank, launch.lengths) * size;
    args.out = first.data() + work.outOffset(rank, launch.lengths) * size;
    first.poison();
  } else {
    first.place(in);
    second.place(out);
    args.in = first.data();
    args.out = second.data();
    second.poison();
  }
  work.fill(rank, launch.round, 0, work.inElements(rank, launch.lengths),
            const_cast<void *>(args.in));
}

llvm::Expected<Findings> LaunchingRank::run(Member &member, const Launch &launch,
                                            const Memory &memory) {
  const cli::Workload &work = *launch.program->workload;
  const int64_t rank = member.rank(), size = work.elementBytes();
  auto *aligned =
      reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(storage.get()) + 63) / 64 * 64);
  const int64_t shift = memory.shift * size;
  Row first(memory.in ? memory.in : aligned, shift);
  Row second(memory.out ? memory.out : aligned + maxBytes, shift);
  LaunchArgs args;
  prepare(member, launch, memory, first, second, args);
  const UnevenCounts stated =
      launch.lengths.isUneven() ? launch.lengths.stated(rank) : UnevenCounts();
  args.count = launch.lengths.count();
  args.uneven = launch.lengths.isUneven() ? &stated : nullptr;
  args.timeout = launch.timeout;
  args.microBatches = launch.microBatches;
  if (llvm::Error error = member.launch(launch.program->program, args))
    return std::move(error);

  Findings found;
  found.wrong = work.countWrong(rank, launch.round, launch.lengths, args.out);
  found.damaged = first.countDamaged(size);
  if (!launch.inPlace) {
    found.damaged += second.countDamaged(size);
    found.changed =
        work.countChanged(rank, launch.round, work.inElements(rank, launch.lengths), args.in);
  }
  return found;
}

} // namespace ccl::soak
