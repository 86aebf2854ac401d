//===- Communicator.h - Ranks that launch programs together -----------------===//
//
// Thread ranks: all ranks live in this process, each driven by a thread of its
// caller. A communicator owns channels (slots, counters) and scratch; both stay
// balanced between launches, so programs of any size may alternate on it.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "llvm/Support/Error.h"

#include <chrono>
#include <functional>
#include <memory>

namespace ccl {

/// Category of a runtime failure: decides the exit status of tools (1, 2, 3).
enum class Failure { BadArgument, Unproved, Machine, Timeout, Aborted, Mismatch };
/// 1: the input is wrong; 2: usage; 3: the machine failed.
int exitStatus(Failure category);

class RuntimeError : public llvm::ErrorInfo<RuntimeError> {
public:
  static char ID;
  RuntimeError(Failure category, std::string message)
      : category(category), message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override;
  Failure category;
  std::string message;
};

/// A plan whose code is linked into this process; immutable, shared by all ranks.
class LoadedProgram {
public:
  static llvm::Expected<std::shared_ptr<LoadedProgram>> load(Plan plan);
  virtual ~LoadedProgram() = default;
  const Plan &plan() const { return thePlan; }
  /// Null if `rank` has nothing to do.
  virtual Kernel kernel(int64_t rank) const = 0;
  /// Index into plan().kernels, -1 if `rank` has none.
  int kernelIndex(int64_t rank) const;

protected:
  explicit LoadedProgram(Plan plan) : thePlan(std::move(plan)) {}
  Plan thePlan;
};

struct LaunchArgs {
  const void *in = nullptr; ///< inShards * count elements; equal to the place in `out`
  void *out = nullptr;      ///< that the contract names for an in-place launch
  int64_t count = 0;        ///< elements of one shard
  std::chrono::milliseconds timeout{30000};
  int64_t microBatches = 0; ///< at least so many; 0: the runtime chooses
  std::string_view reason;  ///< why this program runs, for CCL_COLL_TRACE
};

struct CommunicatorOptions {
  int64_t slotBytes = 128 << 10; ///< bytes of one slot of a data channel
};

/// A block of equal size on every rank, on a cache line boundary. It lives as long as its
/// communicator. Launches take it like ordinary memory; peers may address it at any time.
struct SymmetricBuffer {
  void *local = nullptr;
  int64_t bytes = 0;
  std::vector<void *> peers; ///< every rank's block, one's own included
};

class Communicator {
public:
  static llvm::Expected<std::unique_ptr<Communicator>>
  createThreads(int64_t ranks, CommunicatorOptions options = {});
  virtual ~Communicator() = default;

  virtual int64_t ranks() const = 0;
  /// Runs `program` as `rank`; returns when this rank's part is done. Every rank must
  /// call it with the same program, count and form, from a thread of its own, in the
  /// same order. A launch that differs between ranks ends with Mismatch on each of
  /// them; after any error the communicator answers every call with it.
  virtual llvm::Error launch(int64_t rank, const std::shared_ptr<LoadedProgram> &program,
                             const LaunchArgs &args) = 0;
  /// Allocates a symmetric buffer. Collective: every rank must call it, in the same order
  /// relative to its other allocations and with the same size, else Mismatch.
  virtual llvm::Expected<SymmetricBuffer>
  allocate(int64_t rank, int64_t bytes,
           std::chrono::milliseconds timeout = std::chrono::milliseconds(30000)) = 0;
  /// Makes every present and future wait end with `reason`.
  virtual void abort(std::string reason) = 0;
};

/// Calls body(rank) on a thread for each rank (rank 0 on the caller's) and joins the
/// errors in the order of ranks; one that several ranks report alike is kept once.
llvm::Error onEveryRank(int64_t ranks, const std::function<llvm::Error(int64_t)> &body);

} // namespace ccl
