//===- Connection.h - Messages and descriptors over a stream socket -----------===//
//
// All messages are one fixed struct, with descriptors beside its first byte. Nothing here
// blocks: a connection keeps what is half sent or half read.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/bootstrap/Descriptor.h"

#include "llvm/ADT/StringRef.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <deque>
#include <vector>

namespace ccl::bootstrap {

using Clock = std::chrono::steady_clock;

enum class Kind : uint32_t {
  Hello = 1, ///< to rank 0, with the arena and the pidfd of the sender
  Accepted,  ///< to a rank whose hello was good
  Peers,     ///< to a rank: arenas and pidfds of ranks [first, first + count) but itself
  Ready,     ///< to rank 0: has everything
  Go,        ///< to a rank: all have everything
  Failed     ///< either way: the error that ends the meeting
};

/// The fields up to `rank` lie where they are in every version of the protocol.
struct Message {
  char magic[8];
  uint32_t protocol;
  Kind kind;
  char version[32]; ///< of ccl
  int64_t rank;     ///< of the sender of a Hello
  int64_t ranks, arenaBytes, slotBytes;
  int64_t remainingMs; ///< how much longer the sender of a Hello waits
  int64_t first, count;
  int64_t category, culprit; ///< Failed: Failure and rank
  char text[640];
};
constexpr uint32_t protocolVersion = 1;
constexpr size_t stablePrefix = offsetof(Message, rank) + sizeof(int64_t);

Message makeMessage(Kind kind);
Message makeFailed(const RuntimeError &error);
/// Takes what the other side sent as it is; nothing in it can be wrong enough to do harm.
RuntimeError toError(const Message &message);
/// The same of its parts.
RuntimeError toError(int64_t category, int64_t culprit, llvm::StringRef text);
/// Someone else's bytes, on their way to a terminal.
std::string printable(llvm::StringRef from);
std::string versionOf(const Message &message);

class Connection {
public:
  /// Makes the socket non-blocking and closed on exec. A message with more than
  /// `maxDescriptors` is rubbish.
  Connection(Descriptor socket, size_t maxDescriptors);

  int get() const { return socket.get(); }
  Descriptor takeSocket() { return std::move(socket); }
  void shutDown();

  /// `descriptors` must stay open until they are sent.
  void queue(const Message &message, std::vector<int> descriptors = {});
  bool hasUnsent() const { return !unsent.empty(); }
  enum class Sent { All, Blocked, Crowded, Broken };
  /// Sends what the socket takes. Crowded: too many descriptors of this user are under way
  /// (ETOOMANYREFS); the socket looks writable, so wait a little.
  Sent flush();

  enum class Received { Whole, Partial, Closed, Rubbish };
  /// Reads at most one message. Whole: it is in `message` (only `stablePrefix` bytes of it if
  /// its protocol is another) until the next call, and its descriptors in `descriptors`.
  Received receive();
  Message message{};
  std::vector<Descriptor> descriptors;
  /// The kernel dropped descriptors: this process has no numbers left for them.
  bool lostDescriptors = false;

private:
  bool takeDescriptors(const msghdr &header);

  struct Unsent {
    Message message;
    std::vector<int> descriptors;
    size_t sent = 0;
  };
  Descriptor socket;
  size_t maxDescriptors;
  std::deque<Unsent> unsent;
  size_t have = 0; ///< bytes of `message`
};

/// poll() that goes on after signals; 0 at the deadline.
int pollUntil(std::vector<pollfd> &descriptors, Clock::time_point deadline);
int64_t millisecondsSince(Clock::time_point begin);

} // namespace ccl::bootstrap
