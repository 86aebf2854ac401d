//===- Meetings.h - Ranks that meet, in tests -----------------------------------===//
#pragma once

#include "runtime/bootstrap/Rendezvous.h"
#include "test/unit/runtime/Processes.h"

#include <optional>

namespace ccl::test {

constexpr int64_t testArenaBytes = 1 << 20;

/// A sealed memfd as a rank hands it in; its first word is `word`.
Descriptor makeArena(int64_t bytes, uint64_t word, int seals = -1);

/// How a rank fared. It crosses the pipe of a Child as text.
struct Fared {
  bool ok = false;
  Failure category = Failure::Machine;
  int64_t culprit = -1;
  int64_t leaked = 0; ///< descriptors that it had more at the end than at the beginning
  int64_t milliseconds = 0;
  std::string message; ///< of the error; of the check if all went well: "" is fine

  std::string toText() const;
  static Fared fromText(const std::string &text);
};

struct Attend {
  JoinOptions options;
  int64_t arenaBytes = testArenaBytes;
  /// In the child, before anything else.
  std::function<void()> prepare;
};

/// Meets, checks what it got and drops it.
Fared attend(const Attend &how);

/// Options of each rank at a path.
std::vector<Attend> atPath(int64_t ranks, const std::string &path,
                           Milliseconds timeout = Milliseconds(20000));
/// Each in a child; in the order of `ranks`.
std::vector<Fared> meetAll(const std::vector<Attend> &ranks);
/// The same over sockets made before the fork; `ranks` are all of 0, 1, 2, ...
std::vector<Fared> meetOverSockets(std::vector<Attend> ranks);

} // namespace ccl::test
