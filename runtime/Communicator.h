//===- Communicator.h - Ranks that launch programs together -----------------===//
//
// Thread ranks: all ranks live in this process, each driven by a thread of its
// caller. A communicator owns channels (slots, counters) and scratch; both stay
// balanced between launches, so programs of any size may alternate on it.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"

#include <chrono>
#include <functional>
#include <memory>

namespace ccl {

struct CommunicatorOptions {
  int64_t slotBytes = 128 << 10; ///< bytes of one slot of a data channel
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

} // namespace ccl
