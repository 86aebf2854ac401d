//===- LargeSparse.cpp ----------------------------------------------------------------------===//
#include "test/soak/LargeSparse.h"

#include "test/soak/Dice.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace ccl::soak {
namespace {

/// A row of the larger buffer, with pages around it that nobody may touch.
class SparseRow {
public:
  explicit SparseRow(int64_t bytes) : length(size_t(bytes)) {
    whole = mmap(nullptr, length + 2 * guard, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED)
      return;
    // The end of the row is the end of a page: one byte more is a crash.
    const size_t inside = (length + 4095) / 4096 * 4096;
    if (mprotect(static_cast<char *>(whole) + guard, inside, PROT_READ | PROT_WRITE) != 0)
      return;
    row = static_cast<char *>(whole) + guard + (inside - length) / 64 * 64;
  }
  ~SparseRow() {
    if (whole != MAP_FAILED)
      munmap(whole, length + 2 * guard);
  }
  SparseRow(const SparseRow &) = delete;
  SparseRow &operator=(const SparseRow &) = delete;

  char *data() const { return row; } ///< null: no memory

private:
  static constexpr size_t guard = 1 << 20;
  size_t length;
  void *whole = MAP_FAILED;
  char *row = nullptr;
};

/// What is not zero: everywhere, at both ends, and where 31 and 32 bits end.
std::vector<int64_t> marks(int64_t bytes) {
  Dice dice(20240901);
  std::vector<int64_t> places{0, bytes - 1, bytes / 2 - 1, bytes / 2};
  for (int64_t edge : {int64_t(1) << 31, int64_t(1) << 32})
    for (int64_t place = edge - 2; place < edge + 2; ++place)
      places.push_back(place);
  for (int i = 0; i < 4000; ++i)
    places.push_back(dice.below(bytes));
  std::erase_if(places, [&](int64_t place) { return place < 0 || place >= bytes; });
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

char markAt(int64_t place) { return char(Dice(uint64_t(place)).next() | 1); }

int64_t countNonZero(const char *data, int64_t bytes) {
  int64_t i = 0, found = 0;
  for (; i + 64 <= bytes; i += 64) {
    uint64_t words[8], any = 0;
    std::memcpy(words, data + i, sizeof(words));
    for (uint64_t word : words)
      any |= word;
    for (int64_t b = 0; any && b < 64; ++b)
      found += data[i + b] != 0;
  }
  for (; i < bytes; ++i)
    found += data[i] != 0;
  return found;
}

int64_t countWrong(const char *row, int64_t bytes, const std::vector<int64_t> &places) {
  int64_t wrong = 0, checked = 0;
  for (int64_t place : places) {
    wrong += countNonZero(row + checked, place - checked);
    wrong += row[place] != markAt(place);
    checked = place + 1;
  }
  return wrong + countNonZero(row + checked, bytes - checked);
}

/// What one rank does. Its input are the bytes [begin, end) of the row.
llvm::Error runRank(Member &member, const Compiled &program, int64_t bytes, Milliseconds timeout,
                    std::atomic<int64_t> &wrong, std::atomic<int64_t> &progress) {
  SparseRow memory(bytes);
  char *row = memory.data();
  if (!row) {
    member.abort("no address space");
    return makeFailure(Failure::Machine, "no address space");
  }
  const model::Contract &contract = program.workload->contract();
  const bool gathers = contract.collective == model::Collective::AllGather;
  const int64_t count = gathers ? bytes / contract.ranks : bytes;
  int64_t begin = gathers ? member.rank() * count : 0, end = begin + count;
  if (!gathers && member.rank() != contract.root)
    end = begin;
  std::memset(row, 0x7b, size_t(begin));
  std::memset(row + end, 0x7b, size_t(bytes - end));
  const std::vector<int64_t> places = marks(bytes);
  for (int64_t place : places)
    if (place >= begin && place < end)
      row[place] = markAt(place);
  ++progress;
  LaunchArgs args;
  args.in = gathers ? row + begin : row;
  args.out = row;
  args.count = count;
  args.timeout = timeout;
  if (llvm::Error error = member.launch(program.program, args))
    return error;
  ++progress;
  wrong += countWrong(row, bytes, places);
  ++progress;
  // Another rank's memory goes when it has ended; nobody may need it any more by then.
  return llvm::Error::success();
}

} // namespace

void runSparse(const Unit &unit, Kind kind, int64_t bytes, Milliseconds timeout, Tally &tally) {
  bytes -= bytes % unit.ranks;
  llvm::Expected<Compiled> program = compileUnit(unit);
  const std::string what = fmt::format("{} in place, {} bytes, {}", unit.str(), bytes, name(kind));
  if (!program) {
    ++tally.failures;
    say(fmt::format("refused: {}: {}", llvm::toString(program.takeError()), what));
    return;
  }
  const Shared<std::atomic<int64_t>> wrong;
  const Crew crew{kind, unit.ranks, unit.slotBytes, timeout};
  const std::string failed = runCrew(
      crew,
      [&](std::unique_ptr<Member> member) {
        return runRank(*member, *program, bytes, timeout, *wrong, tally.progress);
      },
      tally.progress);
  ++tally.programs;
  ++tally.launches;
  if (*wrong > 0)
    ++tally.wrong;
  if (!failed.empty())
    ++tally.failures;
  say(fmt::format("{}: {} wrong{}", what, wrong->load(),
                  failed.empty() ? "" : "; failed: " + failed));
}

} // namespace ccl::soak
