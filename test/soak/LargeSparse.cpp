//===- LargeSparse.cpp ----------------------------------------------------------------------===//
#include "test/soak/LargeSparse.h"

#include "runtime/cuda/CudaGroup.h"
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

/// What a rank has of the row when it begins: its input, the bytes [begin, end), is zero but for
/// marks; the rest is what no result has.
struct Input {
  Input(const model::Contract &contract, int64_t rank, int64_t bytes)
      : gathers(contract.collective == model::Collective::AllGather), bytes(bytes),
        count(gathers ? bytes / contract.ranks : bytes), begin(gathers ? rank * count : 0),
        end(gathers || rank == contract.root ? begin + count : begin) {}

  /// `row` is zero.
  void fill(char *row) const {
    std::memset(row, 0x7b, size_t(begin));
    std::memset(row + end, 0x7b, size_t(bytes - end));
    for (int64_t place : marks(bytes))
      if (place >= begin && place < end)
        row[place] = markAt(place);
  }
  const char *in(const char *row) const { return gathers ? row + begin : row; }

  bool gathers;
  int64_t bytes, count, begin, end;
};

/// What one rank does.
llvm::Error runRank(Member &member, const Compiled &program, int64_t bytes, Milliseconds timeout,
                    std::atomic<int64_t> &wrong, std::atomic<int64_t> &progress) {
  SparseRow memory(bytes);
  char *row = memory.data();
  if (!row) {
    member.abort("no address space");
    return makeFailure(Failure::Machine, "no address space");
  }
  const Input input(program.workload->contract(), member.rank(), bytes);
  input.fill(row);
  ++progress;
  LaunchArgs args;
  args.in = input.in(row);
  args.out = row;
  args.count = input.count;
  args.timeout = timeout;
  if (llvm::Error error = member.launch(program.program, args))
    return error;
  ++progress;
  wrong += countWrong(row, bytes, marks(bytes));
  ++progress;
  // Another rank's memory goes when it has ended; nobody may need it any more by then.
  return llvm::Error::success();
}

/// What all ranks do on the stand-in, whose memory is that of this process.
llvm::Error runOnShim(const Unit &unit, Plan plan, int64_t bytes, Milliseconds timeout,
                      std::atomic<int64_t> &wrong, std::atomic<int64_t> &progress) {
  auto driver = cuda::Driver::get("shim");
  if (!driver)
    return driver.takeError();
  const std::vector<Input> inputs{{plan.contract, 0, bytes}, {plan.contract, 1, bytes}};
  auto program = cuda::LoadedCudaProgram::load(**driver, std::move(plan));
  if (!program)
    return program.takeError();
  auto group = cuda::CudaGroup::create(**driver, unit.ranks, {0});
  if (!group)
    return group.takeError();
  auto scope = cuda::ContextScope::enter(**driver, (*group)->context(0));
  if (!scope)
    return scope.takeError();
  std::vector<cuda::DeviceMemory> rows;
  std::vector<cuda::CudaLaunchArgs> args;
  for (const Input &input : inputs) {
    auto memory = cuda::allocate(**driver, size_t(bytes));
    if (!memory)
      return memory.takeError();
    auto *row = reinterpret_cast<char *>(memory->get());
    input.fill(row);
    ++progress;
    args.push_back({input.in(row), row});
    rows.push_back(std::move(*memory));
  }
  cuda::CudaLaunchOptions options;
  options.count = inputs.front().count;
  options.timeout = timeout;
  if (llvm::Error error = (*group)->launch(*program, args, options))
    return error;
  if (llvm::Error error = (*group)->synchronize())
    return error;
  for (const cuda::DeviceMemory &row : rows) {
    ++progress;
    wrong += countWrong(reinterpret_cast<const char *>(row.get()), bytes, marks(bytes));
  }
  return llvm::Error::success();
}

/// Says and counts what was found.
void conclude(const std::string &what, int64_t wrong, const std::string &failed, Tally &tally) {
  ++tally.programs;
  ++tally.launches;
  tally.wrong += wrong > 0;
  tally.failures += !failed.empty();
  say(fmt::format("{}: {} wrong{}", what, wrong, failed.empty() ? "" : "; failed: " + failed));
}

} // namespace

void runSparseOnShim(const Unit &unit, int64_t bytes, Milliseconds timeout, Tally &tally) {
  bytes -= bytes % unit.ranks;
  const std::string what = fmt::format("{} in place, {} bytes", unit.str(), bytes);
  llvm::Expected<Plan> plan = compilePlan(unit);
  if (!plan) {
    ++tally.failures;
    say(fmt::format("refused: {}: {}", llvm::toString(plan.takeError()), what));
    return;
  }
  const Shared<std::atomic<int64_t>> wrong;
  const std::string failed =
      runApart([&] { return runOnShim(unit, *plan, bytes, timeout, *wrong, tally.progress); },
               tally.progress, 4 * timeout);
  conclude(what, *wrong, failed, tally);
}

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
  conclude(what, *wrong, failed, tally);
}

} // namespace ccl::soak
