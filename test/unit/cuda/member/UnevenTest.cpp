//===- UnevenTest.cpp - Uneven shards of ranks in several processes ----------------------===//
#include "test/unit/cuda/member/Processes.h"

#include <numeric>

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;
using ccl::model::Collective;

namespace {

/// Elements around each row that nobody touches, and what they are.
constexpr int64_t guard = 16;
constexpr int32_t untouched = -77;

struct Plans {
  explicit Plans(int64_t n)
      : all{ringAllGather({n}),       directAllGather({n}),  ringReduceScatter({n}),
            directReduceScatter({n}), pairwiseAllToAll({n}), directAllToAll({n})} {}
  std::vector<Plan> all;
};

/// counts[p][q] elements go from rank p to rank q; of a collective that is not all-to-all shard p
/// is counts[p][0] long.
using Matrix = std::vector<std::vector<int64_t>>;

std::vector<Matrix> matrices(int64_t n) {
  std::vector<Matrix> all;
  auto add = [&](auto countOf) {
    Matrix &matrix = all.emplace_back(size_t(n), std::vector<int64_t>(size_t(n)));
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = 0; q < n; ++q)
        matrix[size_t(p)][size_t(q)] = countOf(p, q);
  };
  add([](int64_t p, int64_t q) { return 1 + (p * 3 + q) % 4; });
  add([](int64_t p, int64_t q) { return p == 0 ? 0 : 300 * p + q; }); // 0 has no input
  add([&](int64_t p, int64_t q) { return p == n - 1 ? 1031 : int64_t(q == n - 1); }); // one has all
  add([&](int64_t p, int64_t q) { return q == n - 1 ? 0 : 40 * p + q; }); // the last gets nothing
  add([](int64_t p, int64_t q) { return (p + q) % 3 * 57; });             // the same both ways
  add([](int64_t p, int64_t q) { return p == q ? 5000 : 0; });            // nothing to others
  return all;
}

/// What one rank has and gets in one launch.
struct Rows {
  UnevenCounts counts;
  int64_t in = 0, out = 0;
  int64_t inOffset = 0, outOffset = 0; ///< in the larger row
  bool isInPlace = false;              ///< it may be launched so
  std::function<int32_t(int64_t)> expected;
};

int64_t sumOf(const std::vector<int64_t> &counts, int64_t end) {
  return std::accumulate(counts.begin(), counts.begin() + end, int64_t(0));
}

/// Which element of which rank is element i of packed rows.
std::pair<int64_t, int64_t> find(const std::vector<int64_t> &lengths, int64_t i) {
  int64_t rank = 0;
  for (; i >= lengths[size_t(rank)]; ++rank)
    i -= lengths[size_t(rank)];
  return {rank, i};
}

Rows rowsOf(Collective collective, const Matrix &matrix, int64_t me, int32_t seed) {
  const auto n = int64_t(matrix.size());
  Rows rows;
  std::vector<int64_t> first, fromAll;
  for (const std::vector<int64_t> &row : matrix) {
    first.push_back(row[0]);
    fromAll.push_back(row[size_t(me)]);
  }
  if (collective == Collective::AllToAll) {
    rows.counts = {matrix[size_t(me)], fromAll};
    rows.in = sumOf(rows.counts.counts, n);
    rows.out = sumOf(fromAll, n);
    rows.expected = [=](int64_t i) {
      const auto [from, at] = find(fromAll, i);
      return Ranks::value(seed, from, sumOf(matrix[size_t(from)], me) + at);
    };
    return rows;
  }
  rows.counts = {first, {}};
  rows.isInPlace = true;
  const int64_t whole = sumOf(first, n), begin = sumOf(first, me);
  if (collective == Collective::AllGather) {
    rows.in = first[size_t(me)];
    rows.out = whole;
    rows.inOffset = begin;
    rows.expected = [=](int64_t i) {
      const auto [from, at] = find(first, i);
      return Ranks::value(seed, from, at);
    };
    return rows;
  }
  rows.in = whole;
  rows.out = first[size_t(me)];
  rows.outOffset = begin;
  rows.expected = [=](int64_t i) {
    uint32_t sum = 0;
    for (int64_t r = 0; r < n; ++r)
      sum += uint32_t(Ranks::value(seed, r, begin + i));
    return int32_t(sum);
  };
  return rows;
}

/// Launches on rows that begin at these places, with room for guards around them.
void launchOn(Process &process, const Program &program, const Rows &rows, int32_t *inRow,
              int32_t *outRow, int32_t seed, std::string_view what) {
  std::fill(outRow - guard, outRow + rows.out + guard, untouched);
  for (int64_t i = 0; i < rows.in; ++i)
    inRow[i] = Ranks::value(seed, process.rank, i);
  CudaMemberLaunch launch;
  // A row without elements needs no memory.
  launch.in = rows.in > 0 ? inRow : nullptr;
  launch.out = rows.out > 0 ? outRow : nullptr;
  launch.uneven = &rows.counts;
  launch.timeout = Milliseconds(20000);
  const std::string error = process.run(program, launch);
  process.complaint.unless(error.empty(), "{} of {}: {}", what, program->plan().program, error);
  int64_t wrong = 0, outside = 0;
  for (int64_t i = 0; i < rows.out; ++i)
    wrong += outRow[i] != rows.expected(i);
  for (int64_t i = 0; i < guard; ++i)
    outside += (outRow[rows.out + i] != untouched) + (outRow[-1 - i] != untouched);
  process.complaint.unless(wrong == 0 && outside == 0,
                           "{} of {}: {} of {} elements are wrong, {} around them", what,
                           program->plan().program, wrong, rows.out, outside);
}

/// The smaller row is a part of the larger one.
void launchInPlace(Process &process, const Program &program, const Rows &rows, int32_t *whole,
                   int32_t seed, std::string_view what, bool isUneven = true) {
  const int64_t elements = std::max(rows.in, rows.out);
  std::fill(whole - guard, whole + elements + guard, untouched);
  int32_t *in = whole + rows.inOffset, *out = whole + rows.outOffset;
  for (int64_t i = 0; i < rows.in; ++i)
    in[i] = Ranks::value(seed, process.rank, i);
  CudaMemberLaunch launch;
  launch.in = rows.in > 0 ? in : nullptr;
  launch.out = rows.out > 0 ? out : nullptr;
  if (isUneven)
    launch.uneven = &rows.counts;
  else
    launch.count = std::min(rows.in, rows.out);
  launch.timeout = Milliseconds(20000);
  const std::string error = process.run(program, launch);
  process.complaint.unless(error.empty(), "{} in place of {}: {}", what, program->plan().program,
                           error);
  int64_t wrong = 0;
  for (int64_t i = 0; i < rows.out; ++i)
    wrong += out[i] != rows.expected(i);
  for (int64_t i = 0; i < guard; ++i)
    wrong += (whole[elements + i] != untouched) + (whole[-1 - i] != untouched);
  process.complaint.unless(wrong == 0, "{} in place of {}: {} of {} elements are wrong", what,
                           program->plan().program, wrong, rows.out);
}

void runAll(Process &process, const Plans &plans, bool safe, int32_t *in, int32_t *out,
            std::string_view where) {
  int32_t seed = 0;
  std::vector<Program> programs;
  for (Plan plan : plans.all) {
    plan.unevenSafe = safe;
    programs.push_back(load(std::move(plan)));
  }
  const std::vector<Matrix> all = matrices(process.ranks);
  for (int round = 0; round < 2; ++round) // new kinds, and known ones
    for (size_t m = 0; m < all.size(); ++m)
      for (const Program &program : programs) {
        const Collective collective = program->plan().contract.collective;
        const Rows rows = rowsOf(collective, all[m], process.rank, ++seed);
        const std::string what =
            fmt::format("{}, {}, counts {}, round {}", where, safe ? "packed" : "padded", m, round);
        launchOn(process, program, rows, in, out, seed, what);
        if (rows.isInPlace) {
          const Rows again = rowsOf(collective, all[m], process.rank, ++seed);
          launchInPlace(process, program, again, out, seed, what);
        }
        if (!process.complaint.text.empty())
          return;
      }
}

/// Room for the longest row of any of them.
int64_t mostElements(int64_t n) { return 5000 * n + 300 * n * n + 2 * guard; }

} // namespace

TEST_CASE("uneven shards of 2, 3 and 5 processes, some without input or output") {
  for (const int64_t n : {2, 3, 5}) {
    CAPTURE(n);
    const Plans plans(n);
    Processes(n, [&plans](Process &process) {
      const auto most = size_t(mostElements(process.ranks));
      Buffer in(shim(), process.device(), most), out(shim(), process.device(), most);
      auto sharedIn = process.member->allocate(int64_t(most) * 4);
      auto sharedOut = process.member->allocate(int64_t(most) * 4);
      process.complaint.unless(bool(sharedIn) && bool(sharedOut), "cannot allocate");
      if (!sharedIn || !sharedOut) {
        llvm::consumeError(sharedIn.takeError());
        return llvm::consumeError(sharedOut.takeError());
      }
      for (const bool safe : {true, false}) {
        runAll(process, plans, safe, in.data() + guard, out.data() + guard, "ordinary memory");
        runAll(process, plans, safe, static_cast<int32_t *>(sharedIn->local) + guard,
               static_cast<int32_t *>(sharedOut->local) + guard, "symmetric memory");
      }
    }).check();
  }
}

TEST_CASE("in place on symmetric memory, where every rank has another part") {
  const int64_t n = 3, count = 501;
  const Plans plans(n);
  Processes(n, [&](Process &process) {
    auto shared = process.member->allocate((count * n + 2 * guard) * 4);
    if (!shared)
      return process.complaint.unless(false, "{}", llvm::toString(shared.takeError()));
    int32_t *whole = static_cast<int32_t *>(shared->local) + guard;
    int32_t seed = 0;
    const Matrix even(size_t(n), std::vector<int64_t>(size_t(n), count));
    for (const Plan &plan : plans.all) {
      const Program program = load(plan);
      for (int round = 0; round < 3; ++round) {
        const Rows rows = rowsOf(plan.contract.collective, even, process.rank, ++seed);
        if (rows.isInPlace)
          launchInPlace(process, program, rows, whole, seed, "even counts",
                        /*isUneven=*/round == 2);
      }
    }
  }).check();
}

TEST_CASE("processes that count differently hear of it") {
  const int64_t n = 3;
  const Plans plans(n);
  for (size_t p = 0; p < plans.all.size(); ++p) {
    CAPTURE(plans.all[p].program);
    Processes processes(n, [&](Process &process) {
      Plan plan = plans.all[p];
      plan.unevenSafe = true;
      const Program program = load(std::move(plan));
      Matrix matrix = matrices(n)[0];
      if (process.rank == 1)
        matrix[0][0] = matrix[0][1] = matrix[0][2] = 9; // also what it expects of rank 0
      const Rows rows = rowsOf(program->plan().contract.collective, matrix, process.rank, 1);
      Buffer in(shim(), process.device(), 100), out(shim(), process.device(), 100);
      CudaMemberLaunch launch;
      launch.in = in.data();
      launch.out = out.data();
      launch.uneven = &rows.counts;
      launch.timeout = Milliseconds(20000);
      process.complaint.text = process.run(program, launch);
      process.member.reset();
    });
    const std::vector<std::string> texts = processes.texts();
    const std::string expected =
        plans.all[p].contract.collective == Collective::AllToAll
            ? "rank 0 sends 2 elements to rank 1, which expects 9 from it"
            : fmt::format("ranks 0 and 1 disagree on the counts of {} (hash 0123abcd): 1,4,3 and "
                          "9,4,3",
                          plans.all[p].program);
    for (const std::string &text : texts)
      CHECK(text == expected);
  }
}
