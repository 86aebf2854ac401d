//===- HostStream.cpp -------------------------------------------------------===//
#include "runtime/bootstrap/HostStream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ccl::bootstrap {
namespace {

/// What one stream may read or send before it is others' turn.
constexpr size_t turn = 4 << 20;

} // namespace

Frame Frame::make(FrameType type, int64_t rank, Body body) {
  Frame frame;
  frame.header.type = type;
  frame.header.rank = uint32_t(rank);
  frame.body = std::move(body);
  return frame;
}

HostStream::HostStream(Descriptor made) : socket(std::move(made)) {
  fcntl(get(), F_SETFL, fcntl(get(), F_GETFL) | O_NONBLOCK);
  fcntl(get(), F_SETFD, FD_CLOEXEC);
  // A host that crashes while nothing is sent, as at a meeting, is found after 11 s.
  const std::array<std::array<int, 3>, 5> options{{{IPPROTO_TCP, TCP_NODELAY, 1},
                                                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                                                   {IPPROTO_TCP, TCP_KEEPIDLE, 5},
                                                   {IPPROTO_TCP, TCP_KEEPINTVL, 2},
                                                   {IPPROTO_TCP, TCP_KEEPCNT, 3}}};
  for (const auto &[level, name, value] : options)
    setsockopt(get(), level, name, &value, sizeof value);
}

/// TCP_USER_TIMEOUT would also break a connection whose peer is stopped and has a full buffer: its
/// kernel answers probes of the closed window, which does not count there.
bool HostStream::isDeaf(std::chrono::milliseconds time) const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      std::chrono::milliseconds(info.tcpi_last_ack_recv) < time)
    return false;
  // Of probes one may be under way; pauses between them grow.
  return info.tcpi_unacked > 0 ? info.tcpi_retransmits > 0 : info.tcpi_probes > 1;
}

void HostStream::finish() { shutdown(get(), SHUT_WR); }

void HostStream::setLimits(size_t bytes, size_t targets) {
  mostBytes = bytes;
  mostTargets = targets;
}

//===----------------------------------------------------------------------===//
// Sending
//===----------------------------------------------------------------------===//

void HostStream::queueBytes(llvm::StringRef bytes) {
  unsent.push_back({bytes.str(), nullptr});
  numUnsent += bytes.size();
}

HostStream::Unsent HostStream::toUnsent(Frame frame) {
  frame.header.bytes = frame.body ? uint32_t(frame.body->size()) : 0;
  frame.header.targets = uint32_t(frame.targets.size());
  Unsent next;
  next.head.assign(reinterpret_cast<const char *>(&frame.header), sizeof frame.header);
  next.head.append(reinterpret_cast<const char *>(frame.targets.data()),
                   frame.targets.size() * sizeof(uint32_t));
  next.body = std::move(frame.body);
  return next;
}

void HostStream::queue(Frame frame) {
  unsent.push_back(toUnsent(std::move(frame)));
  numUnsent += unsent.back().size();
}

void HostStream::queueFirst(Frame frame) {
  Unsent next = toUnsent(std::move(frame));
  numUnsent += next.size();
  const bool isUnderWay = !unsent.empty() && unsent.front().sent > 0;
  unsent.insert(unsent.begin() + (isUnderWay ? 1 : 0), std::move(next));
}

HostStream::Sent HostStream::flush() {
  for (size_t total = 0; !unsent.empty() && total < turn;) {
    Unsent &next = unsent.front();
    std::array<iovec, 2> parts{};
    size_t numParts = 0, skip = next.sent;
    for (const std::string *text :
         {static_cast<const std::string *>(&next.head), next.body.get()}) {
      if (!text)
        continue;
      const size_t skipped = std::min(skip, text->size());
      skip -= skipped;
      if (skipped < text->size())
        parts[numParts++] = {const_cast<char *>(text->data()) + skipped,
                             std::min(text->size() - skipped, turn)};
    }
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = numParts;
    const ssize_t sent = sendmsg(get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
      return Sent::Blocked;
    if (sent < 0)
      return Sent::Broken;
    next.sent += size_t(sent);
    numUnsent -= size_t(sent);
    numSent += size_t(sent);
    total += size_t(sent);
    if (next.sent == next.size())
      unsent.pop_front();
  }
  return unsent.empty() ? Sent::All : Sent::Blocked;
}

//===----------------------------------------------------------------------===//
// Receiving
//===----------------------------------------------------------------------===//

HostStream::Received HostStream::receiveBytes(void *to, size_t n) {
  while (have < n) {
    const ssize_t got = recv(get(), static_cast<char *>(to) + have, n - have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return Received::Partial;
    if (got <= 0) {
      error = got < 0 ? errno : 0;
      return Received::Closed;
    }
    have += size_t(got);
    lastHeard = Clock::now();
    // A large body comes in many turns.
    if (have < n && n > turn && size_t(got) < n)
      return Received::Partial;
  }
  have = 0;
  return Received::Whole;
}

HostStream::Received HostStream::discard() {
  std::array<char, 1 << 14> buffer;
  const ssize_t got = recv(get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
    return Received::Partial;
  error = got < 0 ? errno : 0;
  return Received::Closed;
}

/// Nothing is believed before this: what follows is allocated by it.
HostStream::Received HostStream::checkHeader() {
  const FrameHeader &header = frame.header;
  if (header.type < FrameType::Message || header.type > FrameType::Noted || header.zero != 0 ||
      header.bytes > mostBytes || header.targets > mostTargets)
    return Received::Rubbish;
  frame.targets.resize(header.targets);
  incoming = std::make_shared<std::string>(header.bytes, '\0');
  return Received::Whole;
}

HostStream::Received HostStream::receive() {
  if (part == Part::Header) {
    Received received = receiveBytes(&frame.header, sizeof frame.header);
    if (received == Received::Whole)
      received = checkHeader();
    if (received != Received::Whole)
      return received;
    part = Part::Targets;
  }
  if (part == Part::Targets) {
    const Received received =
        receiveBytes(frame.targets.data(), frame.targets.size() * sizeof(uint32_t));
    if (received != Received::Whole)
      return received;
    part = Part::Body;
  }
  const Received received = receiveBytes(incoming->data(), incoming->size());
  if (received == Received::Whole) {
    frame.body = std::move(incoming);
    part = Part::Header;
  }
  return received;
}

} // namespace ccl::bootstrap
