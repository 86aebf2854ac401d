//===- Hub.h - Rank 0's part in a meeting -------------------------------------===//
//
// Gathering: callers come and say hello. Exchanging: each gets what the others handed in,
// and says when it has all. Closing: all are told that all have everything. One poll loop;
// no caller can hold up another. The first thing that goes wrong ends the meeting, and all
// who can be reached are told in the same words.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/Connection.h"
#include "runtime/bootstrap/Listener.h"
#include "runtime/bootstrap/Rendezvous.h"

#include <memory>

namespace ccl::bootstrap {

class Hub {
public:
  /// `sockets` are those of ranks 1, 2, ..., or none: then it listens at options.path.
  Hub(const JoinOptions &options, Descriptor arena, int64_t arenaBytes,
      std::vector<Descriptor> sockets);
  llvm::Expected<Meeting> run();

private:
  enum class Phase { Gathering, Exchanging, Closing, Failed };
  struct Caller {
    explicit Caller(Descriptor socket) : connection(std::move(socket), 2) {}
    bool isUnknown() const { return rank < 0 && !introduced && !gone; }
    Connection connection;
    Clock::time_point since = Clock::now();
    int64_t rank = -1; ///< -1: it did not say yet
    Descriptor arena, pidfd;
    pid_t pid = 0;
    bool introduced = false, ready = false, gone = false, told = false, crowded = false;
    int64_t nextPeer = 0; ///< the first rank that it did not get yet
  };

  llvm::Error prepare();
  void step(Clock::time_point until);
  void acceptCallers();
  void welcome(Descriptor socket);
  void dropOldest();
  void drop(Caller &caller, std::string_view why);
  void read(Caller &caller);
  void handle(Caller &caller);
  void introduce(Caller &caller);
  void hear(int64_t rank);
  std::string whatDiffers(const Message &hello) const;
  void closed(Caller &caller);
  void write(Caller &caller);
  void queueNextPeers(Caller &caller);
  void advance();
  void checkDeadline();
  void fail(Failure category, std::string text, int64_t culprit = -1);
  void fail(llvm::Error error);
  llvm::Error tellAll();
  bool allTold() const;
  bool allSent() const;
  Meeting makeMeeting();

  const JoinOptions &options;
  Descriptor arena;
  int64_t arenaBytes;
  Descriptor pidfd;
  const Clock::time_point begin = Clock::now();
  Clock::time_point deadline; ///< of the most impatient
  std::unique_ptr<Listener> listener;
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<Caller *> byRank; ///< who said hello; null: did not come yet
  std::vector<bool> heard;      ///< who said anything, be it wrong
  Phase phase = Phase::Gathering;
  std::unique_ptr<RuntimeError> failure; ///< the first
  int64_t dropped = 0;
};

} // namespace ccl::bootstrap
