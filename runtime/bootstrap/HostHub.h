//===- HostHub.h - Rank 0's part in a meeting of hosts ------------------------------===//
#pragma once

#include "runtime/bootstrap/HostMeeting.h"
#include "runtime/bootstrap/HostProof.h"

#include <memory>

namespace ccl::bootstrap {

class HostHub {
public:
  explicit HostHub(const HostLinkOptions &options);
  llvm::Expected<HostMeeting> run();

private:
  enum class Phase { Gathering, Closing, Failed };
  /// What is waited for from a caller.
  enum class Stage {
    Greeting,
    Proof,
    Present, ///< it has proved itself, and its numbers fit
    Nothing, ///< it is present
    Misfit,  ///< it has proved itself and does not fit: told as soon as the failure is put
    End      ///< all is said; it is to hang up
  };
  struct Caller {
    explicit Caller(Descriptor socket) : stream(std::move(socket)) {}
    bool isUnknown() const { return stage <= Stage::Proof && !gone; }
    HostStream stream;
    Clock::time_point since = Clock::now();
    Stage stage = Stage::Greeting;
    Greeting theirs{}, ours{};
    Digest proof{};
    HostEntry entry;
    int64_t rank = -1; ///< -1: it has not proved one, or does not fit
    bool gone = false, hasVerdict = false;
  };

  llvm::Error prepare();
  void step(Clock::time_point until);
  void acceptCallers();
  void dropOldest();
  void drop(Caller &caller, std::string_view why);
  void read(Caller &caller);
  void readFrames(Caller &caller);
  void greet(Caller &caller);
  void judge(Caller &caller);
  void refuse(Caller &caller);
  std::string whatDiffers(const Greeting &greeting) const;
  void sendVerdict(Caller &caller, Verdict verdict);
  void present(Caller &caller);
  void closed(Caller &caller);
  void write(Caller &caller);
  void tell(Caller &caller);
  void advance();
  void checkDeadline();
  void fail(Failure category, std::string text, int64_t culprit = -1);
  void fail(llvm::Error error);
  bool allSent() const;
  bool allTold() const;
  llvm::Error tellAll();
  HostMeeting makeMeeting();

  const HostLinkOptions &options;
  const Clock::time_point begin = Clock::now();
  Clock::time_point deadline;
  Phase phase = Phase::Gathering;
  Descriptor listener;
  std::string ownAddress;
  uint64_t job = 0;
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<Caller *> byRank; ///< that have proved themselves; [0] stays null
  std::vector<bool> heard;      ///< ranks that have proved themselves, if only to fail
  int64_t dropped = 0, refused = 0;
  std::unique_ptr<RuntimeError> failure;
};

} // namespace ccl::bootstrap
