//===- Star.h - Sockets between ranks that are forked ---------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/bootstrap/Descriptor.h"

#include <cstdint>
#include <vector>

namespace ccl::bootstrap {

/// A connected pair of sockets for every rank but 0, made before the ranks are forked.
class Star {
public:
  Star() = default;
  /// Errors (Failure::Machine): what the machine lacks.
  static llvm::Expected<Star> make(int64_t ranks);
  /// The ends of one rank as JoinOptions wants them, now the caller's. All others are closed:
  /// a copy of another rank's end would hide that its process is gone.
  std::vector<int> keep(int64_t rank);

private:
  std::vector<Descriptor> hub, spokes; ///< by rank - 1: the ends of rank 0, and its own
};

} // namespace ccl::bootstrap
