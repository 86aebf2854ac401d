//===- Connection.cpp -------------------------------------------------------===//
#include "runtime/bootstrap/Connection.h"

#include "runtime/Memory.h"

#include "llvm/ADT/StringExtras.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace ccl::bootstrap {
namespace {

constexpr char theMagic[8] = {'c', 'c', 'l', 'm', 'e', 'e', 't', '\n'};
/// The most that the kernel lets through with one message (SCM_MAX_FD).
constexpr size_t kernelLimit = 253;

template <size_t N>
llvm::StringRef textOf(const char (&from)[N]) {
  return {from, strnlen(from, N)};
}

} // namespace

Message makeMessage(Kind kind) {
  Message message{};
  std::memcpy(message.magic, theMagic, sizeof theMagic);
  message.protocol = protocolVersion;
  message.kind = kind;
  copyText(message.version, CCL_VERSION);
  return message;
}

Message makeFailed(const RuntimeError &error) {
  Message message = makeMessage(Kind::Failed);
  message.category = int64_t(error.category);
  message.culprit = error.culprit;
  copyText(message.text, error.message);
  return message;
}

RuntimeError toError(const Message &message) {
  return toError(message.category, message.culprit, textOf(message.text));
}

RuntimeError toError(int64_t category, int64_t culprit, llvm::StringRef text) {
  const bool known = category >= 0 && category <= int64_t(Failure::Mismatch);
  return RuntimeError(known ? Failure(category) : Failure::Machine, printable(text), culprit);
}

std::string printable(llvm::StringRef from) {
  std::string text = from.str();
  for (char &c : text)
    if (!llvm::isPrint(c) && (c & 0x80) == 0)
      c = '?';
  return text;
}

std::string versionOf(const Message &message) { return printable(textOf(message.version)); }

Connection::Connection(Descriptor socket, size_t maxDescriptors)
    : socket(std::move(socket)), maxDescriptors(maxDescriptors) {
  fcntl(get(), F_SETFL, fcntl(get(), F_GETFL) | O_NONBLOCK);
  fcntl(get(), F_SETFD, FD_CLOEXEC);
}

void Connection::shutDown() { shutdown(get(), SHUT_RDWR); }

void Connection::queue(const Message &message, std::vector<int> descriptors) {
  unsent.push_back({message, std::move(descriptors)});
}

Connection::Sent Connection::flush() {
  while (!unsent.empty()) {
    Unsent &next = unsent.front();
    iovec part{reinterpret_cast<char *>(&next.message) + next.sent, sizeof(Message) - next.sent};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(kernelLimit * sizeof(int))] = {};
    if (next.sent == 0 && !next.descriptors.empty()) {
      const size_t bytes = next.descriptors.size() * sizeof(int);
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr *list = CMSG_FIRSTHDR(&header);
      list->cmsg_level = SOL_SOCKET;
      list->cmsg_type = SCM_RIGHTS;
      list->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(list), next.descriptors.data(), bytes);
    }
    const ssize_t sent = sendmsg(get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
      return Sent::Blocked;
    if (sent < 0)
      return errno == ETOOMANYREFS ? Sent::Crowded : Sent::Broken;
    next.sent += size_t(sent);
    if (next.sent == sizeof(Message))
      unsent.pop_front();
  }
  return Sent::All;
}

/// False if there is anything but descriptors.
bool Connection::takeDescriptors(const msghdr &header) {
  bool fine = true;
  for (cmsghdr *list = CMSG_FIRSTHDR(&header); list;
       list = CMSG_NXTHDR(const_cast<msghdr *>(&header), list)) {
    if (list->cmsg_level != SOL_SOCKET || list->cmsg_type != SCM_RIGHTS) {
      fine = false;
      continue;
    }
    const size_t count = (list->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(list) + i * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
  if (header.msg_flags & MSG_CTRUNC)
    lostDescriptors = true;
  // Nobody may fill our table by sending descriptors with every byte.
  return fine && descriptors.size() <= maxDescriptors;
}

Connection::Received Connection::receive() {
  if (have == sizeof(Message)) {
    have = 0;
    descriptors.clear();
    lostDescriptors = false;
  }
  while (have < sizeof(Message)) {
    iovec part{reinterpret_cast<char *>(&message) + have, sizeof(Message) - have};
    alignas(cmsghdr) char control[CMSG_SPACE(kernelLimit * sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errno == EAGAIN ? Received::Partial : Received::Closed;
    if (!takeDescriptors(header))
      return Received::Rubbish;
    if (got == 0)
      return Received::Closed;
    have += size_t(got);
    if (std::memcmp(message.magic, theMagic, std::min(have, sizeof theMagic)) != 0)
      return Received::Rubbish;
    if (have >= stablePrefix && message.protocol != protocolVersion)
      return Received::Whole;
  }
  return Received::Whole;
}

int pollUntil(std::vector<pollfd> &descriptors, Clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
    // Rounded up: a wait of 0 ms just before the deadline would spin.
    const int64_t wait = std::clamp<int64_t>((left + 999) / 1000, 0, INT_MAX);
    const int ready = poll(descriptors.data(), nfds_t(descriptors.size()), int(wait));
    if (ready >= 0 || errno != EINTR)
      return ready;
  }
}

int64_t millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

} // namespace ccl::bootstrap
