//===- Hosts.h - Ranks that talk over TCP, in tests -------------------------------===//
#pragma once

#include "runtime/bootstrap/HostAddress.h"
#include "runtime/bootstrap/HostLink.h"
#include "test/unit/runtime/Processes.h"

#include <condition_variable>
#include <mutex>

namespace ccl::test {

/// An address of this host with a port that the kernel gives to nobody else: it is bound here,
/// without a listener.
class FreeAddress {
public:
  explicit FreeAddress(const std::string &host = "127.0.0.1");
  /// "127.0.0.1:40123"; "" if this host has no such address.
  std::string text;
  bootstrap::HostAddress address;

private:
  Descriptor socket;
};

bootstrap::HostLinkOptions hostOptions(int64_t rank, int64_t ranks, const std::string &address,
                                       Milliseconds timeout = Milliseconds(20000));

/// What a link says, as text: "message 1 7 text", "gone 2 how", "left 2".
class Inbox final : public bootstrap::HostLink::Listener {
public:
  void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) override;
  void onGone(int64_t rank, const std::string &how) override;
  void onLeft(int64_t rank) override;
  /// The next; "nothing" if there is none within `patience`.
  std::string next(Milliseconds patience = Milliseconds(20000));
  /// So many, sorted, joined by line ends.
  std::string next(int count, Milliseconds patience = Milliseconds(20000));

private:
  void add(std::string text);
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::string> texts;
  size_t taken = 0;
};

/// A rank in a child: meets, starts, and calls `body`, whose text is its result; or the text of the
/// error. The link goes before the text is told.
using RankBody = std::function<std::string(bootstrap::HostLink &, Inbox &)>;
Child startRank(const bootstrap::HostLinkOptions &options, const RankBody &body);
/// All ranks with one body; their texts in order.
std::vector<std::string> runRanks(int64_t ranks, const std::string &address, const RankBody &body);

/// All but this one.
std::vector<int64_t> othersOf(const bootstrap::HostLink &link);
/// Not before the others have heard all: rank 0 passes messages on. `others`: so many are there
/// besides rank 0, -1: all. "fine", or what came instead.
std::string leaveTogether(bootstrap::HostLink &link, Inbox &inbox, int64_t others = -1);

/// In a body that returns text: the line that was not so.
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return fmt::format("line {}: {}", __LINE__, #condition);                                     \
  } while (false)
#define EXPECT_EQ(a, b)                                                                            \
  do {                                                                                             \
    if (const auto &seen = (a); seen != (b))                                                       \
      return fmt::format("line {}: {} is {}", __LINE__, #a, seen);                                 \
  } while (false)

} // namespace ccl::test
