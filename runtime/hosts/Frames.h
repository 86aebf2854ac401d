//===- Frames.h - What processes of several hosts tell each other ---------------===//
//
// Plain structs behind each other, from processes of one build on machines alike. Whoever reads
// one looks at lengths and ranks: what is wrong is dropped, never followed.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Control.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <type_traits>

namespace ccl::hosts {

enum Kind : uint32_t {
  entered = 1, ///< Head, then for each rank Entered, and its blob
  failed,      ///< Head, Failed
  left,        ///< Head
  asks,        ///< Head: State of the receiver's ranks, to `rank`
  states,      ///< Head, then State for each rank
  mail,        ///< Head, then bytes for `rank`, from `sender`
  rejoins,     ///< Head
  proposes,    ///< Head, then ranks: to rank 0 of the world, which decides for the first one
  decides      ///< the same, from there
};

/// At the start of all.
struct Head {
  uint64_t communicator = 0; ///< ControlBlock::number
  uint64_t operation = 0;    ///< entered; left: the last one
  int32_t rank = 0, sender = 0;
  int32_t count = 0; ///< states, proposes, decides: how many follow
  int32_t reserved = 0;
};

struct Entered {
  int32_t rank = 0;
  uint32_t blobBytes = 0; ///< of what Announcement::buffers points to, if the others need that
  Announcement announcement;
};

struct Failed {
  FailureRecord record;
};

/// Of a rank, for reports; see RankState.
struct State {
  int32_t rank = 0, waitsFor = 0;
  uint64_t entered = 0, done = 0, turns = 0;
  int64_t agent = 0, instruction = 0, microBatch = 0;
};

template <typename T>
void append(std::string &frame, const T &value) {
  static_assert(std::is_trivially_copyable_v<T>);
  frame.append(reinterpret_cast<const char *>(&value), sizeof value);
}
/// Nothing: there is less left.
template <typename T>
std::optional<T> take(llvm::StringRef &frame) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (frame.size() < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(static_cast<void *>(&value), frame.data(), sizeof value);
  frame = frame.drop_front(sizeof value);
  return value;
}

} // namespace ccl::hosts
