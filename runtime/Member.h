//===- Member.h - One rank's part in a communicator --------------------------===//
//
// A communicator is a group of ranks that launch programs together. Every rank holds a
// `Member` of it. Ranks are threads of this process (createThreads) or processes of this
// machine (join); the protocol is the same, only the memory comes from elsewhere.
//
// A member is used by one thread at a time, its constructor, destructor, abort() and
// failure() excepted; different members may be used at once, also of one process. Every
// operation below that says *collective* must be called by all members in the same order;
// members that differ end with Mismatch, all of them. After any error the communicator is
// dead: every call answers with the first error, the same on every rank. `rebuild` makes a
// new one of those that are left.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Sizes.h"
#include "runtime/LoadedProgram.h"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ccl {

using Milliseconds = std::chrono::milliseconds;
constexpr Milliseconds defaultTimeout{30000};

/// How the shards of an uneven ("_v") launch are cut; see docs/semantics.md.
struct UnevenCounts {
  /// Of all_gather, reduce_scatter, gather, scatter: elements of shard s, one for each
  /// rank, the same on every rank. Of all_to_all: what this rank sends to rank s.
  std::vector<int64_t> counts;
  /// all_to_all only: what this rank receives from rank s.
  std::vector<int64_t> receives;
};

struct LaunchArgs {
  const void *in = nullptr; ///< inShards * count elements; equal to the place in `out`
  void *out = nullptr;      ///< that the contract names for an in-place launch
  int64_t count = 0;        ///< elements of one shard; ignored if `uneven`
  const UnevenCounts *uneven = nullptr;
  Milliseconds timeout = defaultTimeout;
  int64_t microBatches = 0; ///< at least so many; 0: the runtime chooses
  std::string_view reason;  ///< why this program runs, for CCL_COLL_TRACE
};

struct MemberOptions {
  int64_t slotBytes = model::usualSlotBytes; ///< bytes of one slot of a data channel
  /// Where the last operations are written when the communicator fails, see
  /// FlightRecorder::dump; "": they are not recorded.
  std::string flightRecorder{};
};

namespace rdma {
class Nic;
}

/// How a process finds the others.
struct JoinOptions {
  int64_t rank = -1, ranks = 0;
  /// Of a socket in a folder that only this user can enter; rank 0 makes both. Not used if
  /// there are `sockets`.
  std::string path;
  /// Connected stream sockets, made before fork: rank 0 has one for each other rank (index
  /// rank - 1), the others have one to rank 0. They are closed by `join`.
  std::vector<int> sockets;
  /// Of rank 0, "host:port", if ranks may be on several hosts; then `path` and `sockets` are not
  /// used. Ranks that share a host find that out by themselves.
  std::string address;
  std::string secret; ///< that all ranks of the job know, and nobody else
  std::string host;   ///< instead of what tells this host from others (CCL_HOST_ID)
  /// Opens what leads to other hosts; asked at the first launch that goes there.
  std::function<llvm::Expected<std::vector<std::unique_ptr<rdma::Nic>>>()> nics;
  Milliseconds timeout = defaultTimeout; ///< until all have met
  MemberOptions member;
};

/// A block of equal size on every rank, on a cache line boundary. It lives as long as its
/// communicator. Launches take it like ordinary memory, without a copy between processes;
/// peers may address it at any time.
struct SymmetricBuffer {
  void *local = nullptr;
  int64_t bytes = 0;
  std::vector<void *> peers; ///< every rank's block, one's own included; null: on another host
};

class Member {
public:
  /// Threads of this process: one member for each rank, in order.
  static llvm::Expected<std::vector<std::unique_ptr<Member>>>
  createThreads(int64_t ranks, MemberOptions options = {});
  /// This process as one rank; returns when all have come.
  static llvm::Expected<std::unique_ptr<Member>> join(JoinOptions options);
  virtual ~Member() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// Whether a program that reads peers' ordinary buffers directly does so without a copy
  /// (threads; processes that may read each other's memory). Equal on all ranks.
  virtual bool isDirect() const = 0;

  /// Runs `program`; returns when this rank's part is done. Collective.
  virtual llvm::Error launch(const std::shared_ptr<LoadedProgram> &program,
                             const LaunchArgs &args) = 0;
  /// Allocates a symmetric buffer. Collective; the same size everywhere.
  virtual llvm::Expected<SymmetricBuffer> allocate(int64_t bytes,
                                                   Milliseconds timeout = defaultTimeout) = 0;
  /// Everybody's words, in the order of ranks. Collective; also a barrier.
  using Words = std::array<uint64_t, 6>;
  virtual llvm::Expected<std::vector<Words>> exchange(const Words &mine,
                                                      Milliseconds timeout = defaultTimeout) = 0;

  /// A communicator of those with the same color, ordered by key, then rank; null for a
  /// negative color. Collective. The child lives on when its parent goes.
  virtual llvm::Expected<std::unique_ptr<Member>> split(int64_t color, int64_t key,
                                                        Milliseconds timeout = defaultTimeout) = 0;
  llvm::Expected<std::unique_ptr<Member>> duplicate(Milliseconds timeout = defaultTimeout) {
    return split(0, rank(), timeout);
  }
  /// After a failure: a communicator of those who ask for it within `timeout`, in the order
  /// of ranks. It waits for each that is not known to be dead; who comes later is refused.
  virtual llvm::Expected<std::unique_ptr<Member>> rebuild(Milliseconds timeout) = 0;

  /// Makes every present and future call of every rank end with `error`, unless there is a first
  /// one: what it answers.
  virtual llvm::Error fail(llvm::Error error) = 0;
  /// The same with Failure::Aborted and `reason`.
  virtual void abort(std::string reason) = 0;
  /// The error that every call answers with; nothing while there is none.
  virtual std::optional<RuntimeError> failure() const = 0;
  /// A sentence if `rank` is gone, or its process shows no sign of life. Any thread.
  virtual std::optional<std::string> notRunning(int64_t rank) const = 0;
};

/// Calls body(rank) on a thread for each rank (rank 0 on the caller's) and joins the
/// errors in the order of ranks; one that several ranks report alike is kept once.
llvm::Error onEveryRank(int64_t ranks, const std::function<llvm::Error(int64_t)> &body);

} // namespace ccl
