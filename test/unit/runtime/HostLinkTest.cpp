//===- HostLinkTest.cpp - Ranks that talk over TCP --------------------------------===//
#include "test/unit/runtime/Hosts.h"

#include <doctest/doctest.h>

#include <map>
#include <thread>

using namespace ccl;
using namespace ccl::bootstrap;
using namespace ccl::test;
using namespace std::chrono_literals;

namespace {

void checkFine(const std::vector<std::string> &texts) {
  for (const std::string &text : texts)
    CHECK(text == "fine");
}

/// Bytes of which each message has its own.
std::string payload(int64_t from, int64_t number, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    text[i] = char('a' + (i * 7 + i / 4096 + size_t(from) * 3 + size_t(number)) % 26);
  return text;
}

} // namespace

TEST_CASE("ranks meet in any order, and know each other") {
  for (int64_t ranks : {2, 5, 16, 100})
    for (int64_t late : {int64_t(0), ranks - 1}) {
      CAPTURE(ranks);
      CAPTURE(late);
      FreeAddress address;
      auto body = [](HostLink &link, Inbox &) {
        std::string text = fmt::format("{} of {}:", link.job(), link.ranks());
        for (int64_t r = 0; r < link.ranks(); ++r)
          text += fmt::format(" {}, {}, {}", link.hostOf(r), link.addressOf(r), link.pidOf(r));
        return text;
      };
      std::map<int64_t, Child> children;
      for (int64_t rank = 0; rank < ranks; ++rank)
        if (rank != late)
          children.emplace(rank, startRank(hostOptions(rank, ranks, address.text), body));
      std::this_thread::sleep_for(200ms);
      children.emplace(late, startRank(hostOptions(late, ranks, address.text), body));
      std::string wanted = fmt::format(" of {}:", ranks);
      for (int64_t r = 0; r < ranks; ++r)
        wanted += fmt::format(" host {}, 127.0.0.1, {}", r / 2, children.at(r).pid());
      const std::string first = children.at(0).text();
      CHECK(first.ends_with(wanted));
      CHECK_FALSE(first.starts_with("0 "));
      for (int64_t r = 1; r < ranks; ++r)
        CHECK(children.at(r).text() == first);
    }
}

TEST_CASE("names and IPv6") {
  for (const char *host : {"::1", "localhost"}) {
    FreeAddress address(host[0] == ':' ? host : "127.0.0.1");
    if (address.text.empty())
      continue; // this machine has no IPv6
    std::string text = address.text;
    if (host[0] != ':')
      text = host + text.substr(text.rfind(':'));
    checkFine(runRanks(3, text, [&](HostLink &link, Inbox &inbox) -> std::string {
      EXPECT(host[0] != ':' || link.addressOf(2) == "::1");
      return leaveTogether(link, inbox);
    }));
  }
}

TEST_CASE("one rank needs nobody") {
  HostLinkOptions options;
  options.rank = 0;
  options.ranks = 1;
  options.host = "here";
  Child child([&]() -> std::string {
    const int before = countDescriptors();
    {
      auto link = llvm::cantFail(HostLink::meet(options));
      Inbox inbox;
      llvm::cantFail(link->start(inbox));
      link->send({0}, 1, "to nobody");
      EXPECT_EQ(link->hostOf(0), "here");
      EXPECT_EQ(link->silence(0).count(), 0);
      EXPECT_EQ(inbox.next(100ms), "nothing");
    }
    EXPECT_EQ(countDescriptors(), before);
    return "fine";
  });
  CHECK(child.text() == "fine");
}

TEST_CASE("messages of all sizes arrive whole, in order, from all to all") {
  FreeAddress address;
  const std::vector<size_t> sizes{1, 0, 5000, 20 << 20, 3, 1 << 20, 17};
  checkFine(runRanks(4, address.text, [&](HostLink &link, Inbox &inbox) -> std::string {
    for (size_t n = 0; n < sizes.size(); ++n)
      link.send(othersOf(link), uint32_t(n), payload(link.rank(), int64_t(n), sizes[n]));
    std::vector<size_t> seen(size_t(link.ranks()));
    for (size_t i = 0; i < 3 * sizes.size(); ++i) {
      const std::string text = inbox.next();
      EXPECT(text.starts_with("message ") && text.size() >= 12);
      const int64_t from = text[8] - '0';
      EXPECT(from >= 0 && from < 4 && from != link.rank());
      const size_t n = seen[size_t(from)]++;
      EXPECT(n < sizes.size());
      EXPECT(text == fmt::format("message {} {} {}", from, n, payload(from, int64_t(n), sizes[n])));
    }
    return leaveTogether(link, inbox);
  }));
}

TEST_CASE("the largest message, and one that is too large") {
  FreeAddress address;
  checkFine(runRanks(3, address.text, [&](HostLink &link, Inbox &inbox) -> std::string {
    if (link.rank() == 1) {
      link.send({2}, 1, payload(1, 1, HostLink::mostBytes));
      link.send({2}, 2, std::string(HostLink::mostBytes + 1, 'x'));
      link.send({2}, 3, "after it");
    }
    if (link.rank() == 2) {
      EXPECT(inbox.next() == "message 1 1 " + payload(1, 1, HostLink::mostBytes));
      EXPECT_EQ(inbox.next(), "message 1 3 after it");
    }
    return leaveTogether(link, inbox);
  }));
}

TEST_CASE("threads send at once; each one's order is kept") {
  FreeAddress address;
  constexpr int threads = 4, each = 500;
  checkFine(runRanks(3, address.text, [&](HostLink &link, Inbox &inbox) -> std::string {
    std::vector<std::thread> senders;
    for (int t = 0; t < threads; ++t)
      senders.emplace_back([&, t] {
        for (int i = 0; i < each; ++i)
          link.send(othersOf(link), uint32_t(t), fmt::format("{}", i));
      });
    for (std::thread &sender : senders)
      sender.join();
    std::vector<int> next(3 * threads);
    for (int i = 0; i < 2 * threads * each; ++i) {
      const std::string text = inbox.next();
      llvm::SmallVector<llvm::StringRef> words;
      llvm::StringRef(text).split(words, ' ');
      EXPECT(words.size() == 4 && words[0] == "message");
      int from = -1, thread = -1;
      EXPECT(!words[1].getAsInteger(10, from) && !words[2].getAsInteger(10, thread));
      EXPECT_EQ(words[3].str(), fmt::format("{}", next[size_t(from * threads + thread)]++));
    }
    return leaveTogether(link, inbox);
  }));
}

TEST_CASE("what came before start is handed over; answers from the link's own thread") {
  FreeAddress address;
  struct Echo final : HostLink::Listener {
    HostLink *link = nullptr;
    void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) override {
      link->send({from}, kind + 1, bytes);
    }
    void onGone(int64_t, const std::string &) override {}
    void onLeft(int64_t) override { left.tell(); }
    Signal left;
  };
  Signal sent;
  Child hub([&]() -> std::string {
    auto link = llvm::cantFail(HostLink::meet(hostOptions(0, 2, address.text)));
    sent.wait();
    std::this_thread::sleep_for(50ms);
    Echo echo;
    echo.link = link.get();
    llvm::cantFail(link->start(echo));
    echo.left.wait();
    return "fine";
  });
  Child other =
      startRank(hostOptions(1, 2, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
        link.send({0}, 1, "one");
        link.send({0}, 5, "two");
        sent.tell();
        EXPECT_EQ(inbox.next(), "message 0 2 one");
        EXPECT_EQ(inbox.next(), "message 0 6 two");
        return "fine";
      });
  checkFine({other.text(), hub.text()});
}

TEST_CASE("who leaves is heard to leave, and what was sent before comes first") {
  FreeAddress address;
  checkFine(runRanks(4, address.text, [&](HostLink &link, Inbox &inbox) -> std::string {
    if (link.rank() == 3) {
      link.send({0, 1, 2}, 1, payload(3, 1, 8 << 20));
      return "fine";
    }
    EXPECT(inbox.next() == "message 3 1 " + payload(3, 1, 8 << 20));
    EXPECT_EQ(inbox.next(), "left 3");
    link.send({3}, 1, "to nobody");
    if (link.rank() == 0)
      return "fine"; // its last words are heard, too
    EXPECT_EQ(inbox.next(), "left 0");
    link.send({0, 1, 2}, 1, "to nobody");
    EXPECT_EQ(inbox.next(300ms), "nothing");
    return "fine";
  }));
}

TEST_CASE("all leave at once, started or not, and leave no descriptors") {
  for (bool started : {true, false}) {
    FreeAddress address;
    std::vector<Child> children;
    for (int64_t rank = 0; rank < 5; ++rank)
      children.emplace_back([&]() -> std::string {
        const int before = countDescriptors();
        const Clock::time_point begin = Clock::now();
        auto link = llvm::cantFail(HostLink::meet(hostOptions(rank, 5, address.text)));
        Inbox inbox;
        if (started)
          llvm::cantFail(link->start(inbox));
        link.reset();
        EXPECT_EQ(countDescriptors(), before);
        EXPECT(millisecondsSince(begin) < 5000);
        return "fine";
      });
    for (Child &child : children)
      CHECK(child.text() == "fine");
  }
}
