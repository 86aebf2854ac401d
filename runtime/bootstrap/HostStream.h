//===- HostStream.h - Frames over a TCP connection ---------------------------------===//
//
// First some fixed structs (see HostProof.h), then frames: a header, the ranks that it is for, a
// body. Nothing here blocks: a stream keeps what is half sent or half read. Bodies are shared, so
// that one that goes to many is in memory once. One thread.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/Connection.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace ccl::bootstrap {

enum class FrameType : uint32_t {
  Message = 1, ///< to rank 0: for `targets`; from rank 0: of `rank`, for who gets it
  Heartbeat,   ///< to rank 0: nothing; from rank 0: who has been silent, see encodeSilent
  Left,        ///< `rank` goes in order; nothing follows from it
  Gone,        ///< from rank 0: `rank` is gone; the body says how
  Present,     ///< to rank 0, when it has proved itself: see encodePresent
  Roster,      ///< from rank 0: all have met, see encodeRoster
  Failed,      ///< from rank 0: the error that ends the meeting, see encodeFailed
  Leaving,     ///< from rank 0: it is about to go, and passes on what comes before the answer
  Noted        ///< the answer
};

/// Little-endian.
struct FrameHeader {
  uint32_t bytes; ///< of the body
  FrameType type;
  uint32_t kind; ///< of a Message: its sender's
  uint32_t rank;
  uint32_t targets; ///< so many ranks, 4 bytes each, are between header and body
  uint32_t zero;
};
static_assert(sizeof(FrameHeader) == 24);

using Body = std::shared_ptr<const std::string>;

struct Frame {
  FrameHeader header{};
  std::vector<uint32_t> targets;
  Body body;
  static Frame make(FrameType type, int64_t rank = 0, Body body = nullptr);
};

class HostStream {
public:
  /// Makes the socket non-blocking, closed on exec, and prompt.
  explicit HostStream(Descriptor socket);

  int get() const { return socket.get(); }
  void close() { socket.reset(); }
  /// Nothing more is sent; what the peer sends can be read until it closes.
  void finish();

  /// Its host has acknowledged nothing for so long, although something was sent.
  bool isDeaf(std::chrono::milliseconds time) const;

  /// Frames that are larger are rubbish. At first nothing is let in.
  void setLimits(size_t mostBytes, size_t mostTargets);

  void queueBytes(llvm::StringRef bytes);
  void queue(Frame frame);
  /// Before all of which nothing has been sent yet.
  void queueFirst(Frame frame);
  size_t unsentBytes() const { return numUnsent; }
  /// In all, so far.
  uint64_t sentBytes() const { return numSent; }
  enum class Sent { All, Blocked, Broken };
  /// Sends what the socket takes, some MiB at most.
  Sent flush();

  enum class Received { Whole, Partial, Closed, Rubbish };
  /// Reads on at `n` bytes to `to`, which are the same until it is Whole.
  Received receiveBytes(void *to, size_t n);
  /// Throws away what has come: Partial or Closed.
  Received discard();
  /// Reads at most one frame; Whole: it is in `frame` until the next call. Partial also after some
  /// MiB, so that others get their turn.
  Received receive();
  Frame frame;
  /// Why it is Closed, an errno; 0: the peer has closed it.
  int error = 0;
  /// When something was last read, or the stream was made.
  Clock::time_point lastHeard = Clock::now();

private:
  struct Unsent {
    std::string head;
    Body body;
    size_t sent = 0;
    size_t size() const { return head.size() + (body ? body->size() : 0); }
  };
  static Unsent toUnsent(Frame frame);
  Received checkHeader();

  enum class Part { Header, Targets, Body };
  Descriptor socket;
  std::deque<Unsent> unsent;
  size_t numUnsent = 0;
  uint64_t numSent = 0;
  Part part = Part::Header;
  size_t have = 0; ///< bytes of what is read now
  std::shared_ptr<std::string> incoming;
  size_t mostBytes = 0, mostTargets = 0;
};

} // namespace ccl::bootstrap
