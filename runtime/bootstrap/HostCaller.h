//===- HostCaller.h - The other ranks' part in a meeting of hosts -------------------===//
#pragma once

#include "runtime/bootstrap/HostAddress.h"
#include "runtime/bootstrap/HostMeeting.h"
#include "runtime/bootstrap/HostProof.h"

#include <memory>
#include <optional>

namespace ccl::bootstrap {

class HostCaller {
public:
  explicit HostCaller(const HostLinkOptions &options);
  llvm::Expected<HostMeeting> run();

private:
  llvm::Error connect();
  llvm::Error talk();
  /// True: go on. False: rank 0 hung up before it knew us, try again.
  llvm::Expected<bool> greet();
  llvm::Expected<bool> prove();
  llvm::Error waitForRoster();
  llvm::Error judge(const Verdict &verdict);
  llvm::Error noAnswer() const;
  llvm::Error lost() const;
  llvm::Error noRank0() const;
  enum class Heard { Whole, Closed, TooLate };
  Heard hear(void *to, size_t n);
  bool wait(Clock::time_point until);

  const HostLinkOptions &options;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline;
  std::vector<HostAddress> addresses;
  std::unique_ptr<HostStream> stream;
  std::string where;                             ///< as it was written, and as a number
  int lastError = 0;                             ///< of connecting
  std::optional<Clock::time_point> refusedSince; ///< there was a rank 0, and now there is none
  bool wasConnected = false, accepted = false, done = false;
  Greeting ours{}, theirs{};
  HostMeeting meeting;
};

} // namespace ccl::bootstrap
