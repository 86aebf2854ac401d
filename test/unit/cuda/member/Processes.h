//===- Processes.h - Ranks as processes with a GPU each ------------------------------===//
#pragma once

#include "runtime/cuda/CudaMember.h"
#include "test/unit/cuda/group/Ranks.h"
#include "test/unit/runtime/Processes.h"

namespace ccl::test {

/// What was not as it should be, first of all; for processes that cannot use doctest.
class Complaint {
public:
  template <typename... T>
  void unless(bool fine, fmt::format_string<T...> format, T &&...values) {
    if (!fine && text.empty())
      text = fmt::format(format, std::forward<T>(values)...);
  }
  std::string text;
};

/// One rank in its process; GPU rank % 3.
struct Process {
  int64_t rank, ranks;
  std::unique_ptr<cuda::CudaMember> member;
  Complaint complaint{};

  int device() const { return int(rank % 3); }
  /// Queues it, waits, and what went wrong.
  std::string run(const Program &program, const cuda::CudaMemberLaunch &launch);
  /// Fills `in` with this rank's elements of `seed`, `out` with nobody's.
  void fill(int32_t *in, int64_t inElements, int32_t *out, int64_t outElements, int32_t seed) const;
  int64_t wrongSums(const int32_t *out, int32_t seed, int64_t count) const;
  int64_t wrongGathers(const int32_t *out, int32_t seed, int64_t count) const;
  /// Whether an output is that of the program, and if not says so.
  void expect(bool isSum, const int32_t *out, int32_t seed, int64_t count, std::string_view what);
};

using Body = std::function<void(Process &process)>;

/// Runs `body` in a process for each rank, each with a communicator of all. Nothing of it is left
/// in a process that ends in order: it says so if something is. By rank: the complaint.
class Processes {
public:
  Processes(int64_t ranks, const Body &body, cuda::CudaGroupOptions options = {});
  std::vector<Child> children;
  /// By rank: its complaint, and how its process ended if not in order. Waits for all.
  std::vector<std::string> texts();
  /// All ranks have nothing to say.
  void check();
};

/// Mapped memory of GPUs in this process.
int64_t countMappings();

} // namespace ccl::test
