//===- Hosts.cpp ------------------------------------------------------------===//
#include "test/unit/runtime/Hosts.h"

#include <netdb.h>

#include <algorithm>
#include <cstring>

namespace ccl::test {

using namespace bootstrap;

FreeAddress::FreeAddress(const std::string &host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(host.c_str(), "0", &hints, &list) != 0)
    return;
  socket = Descriptor(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  // Who has the same option may bind and listen there nevertheless.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), list->ai_addr, list->ai_addrlen) == 0) {
    address = HostAddress::ofSocket(socket.get());
    text = address.text();
  }
  freeaddrinfo(list);
}

HostLinkOptions hostOptions(int64_t rank, int64_t ranks, const std::string &address,
                            Milliseconds timeout) {
  HostLinkOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.address = address;
  options.secret = "swordfish";
  options.host = fmt::format("host {}", rank / 2);
  options.timeout = timeout;
  return options;
}

void Inbox::add(std::string text) {
  const std::lock_guard lock(mutex);
  texts.push_back(std::move(text));
  arrived.notify_all();
}

void Inbox::onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) {
  add(fmt::format("message {} {} {}", from, kind, std::string_view(bytes)));
}
void Inbox::onGone(int64_t rank, const std::string &how) {
  add(fmt::format("gone {} {}", rank, how));
}
void Inbox::onLeft(int64_t rank) { add(fmt::format("left {}", rank)); }

std::string Inbox::next(Milliseconds patience) {
  std::unique_lock lock(mutex);
  if (!arrived.wait_for(lock, patience, [&] { return taken < texts.size(); }))
    return "nothing";
  return std::move(texts[taken++]);
}

std::string Inbox::next(int count, Milliseconds patience) {
  std::vector<std::string> got;
  for (int i = 0; i < count; ++i)
    got.push_back(next(patience));
  std::sort(got.begin(), got.end());
  return fmt::format("{}", fmt::join(got, "\n"));
}

Child startRank(const HostLinkOptions &options, const RankBody &body) {
  return Child([&] {
    auto link = HostLink::meet(options);
    if (!link)
      return llvm::toString(link.takeError());
    Inbox inbox;
    if (llvm::Error error = (*link)->start(inbox))
      return llvm::toString(std::move(error));
    std::string text = body(**link, inbox);
    link->reset();
    return text;
  });
}

std::vector<std::string> runRanks(int64_t ranks, const std::string &address, const RankBody &body) {
  std::vector<Child> children;
  for (int64_t rank = 0; rank < ranks; ++rank)
    children.push_back(startRank(hostOptions(rank, ranks, address), body));
  std::vector<std::string> texts;
  for (Child &child : children)
    texts.push_back(child.text());
  return texts;
}

std::vector<int64_t> othersOf(const HostLink &link) {
  std::vector<int64_t> others;
  for (int64_t rank = 0; rank < link.ranks(); ++rank)
    if (rank != link.rank())
      others.push_back(rank);
  return others;
}

std::string leaveTogether(HostLink &link, Inbox &inbox, int64_t others) {
  if (link.rank() != 0) {
    link.send({0}, 99, "done");
    EXPECT_EQ(inbox.next(), "message 0 99 go");
    return "fine";
  }
  for (int64_t i = 0; i < (others < 0 ? link.ranks() - 1 : others); ++i) {
    const std::string text = inbox.next();
    EXPECT(text.starts_with("message ") && text.ends_with(" 99 done"));
  }
  link.send(othersOf(link), 99, "go");
  return "fine";
}

} // namespace ccl::test
