//===- HostGoneTest.cpp - Ranks of other hosts that go away -----------------------===//
#include "test/unit/runtime/Hosts.h"

#include <doctest/doctest.h>

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

using namespace ccl;
using namespace ccl::bootstrap;
using namespace ccl::test;
using namespace std::chrono_literals;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Sets the loopback device of this network namespace up or down.
bool setLoopback(bool up) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0)
    return false;
  request.ifr_flags = short(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

} // namespace

TEST_CASE("a killed rank is heard of by all at once, once") {
  FreeAddress address;
  Signal ready, killed;
  std::vector<Child> children;
  for (int64_t rank = 0; rank < 4; ++rank)
    children.push_back(startRank(
        hostOptions(rank, 4, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
          ready.tell();
          if (link.rank() == 2)
            std::this_thread::sleep_for(60s);
          killed.wait();
          EXPECT_EQ(inbox.next(2s), "gone 2 its connection to rank 0 was closed");
          link.send({2}, 1, "to nobody");
          return leaveTogether(link, inbox, 2);
        }));
  ready.wait(4);
  kill(children[2].pid(), SIGKILL);
  killed.tell(3);
  for (size_t rank : {0, 1, 3})
    CHECK(children[rank].text() == "fine");
  CHECK(children[2].status() == -SIGKILL);
}

TEST_CASE("without rank 0 all are gone") {
  FreeAddress address;
  Signal ready, killed;
  std::vector<Child> children;
  for (int64_t rank = 0; rank < 4; ++rank)
    children.push_back(startRank(
        hostOptions(rank, 4, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
          ready.tell();
          if (link.rank() == 0)
            std::this_thread::sleep_for(60s);
          killed.wait();
          EXPECT_EQ(inbox.next(2s), "gone 0 its connection was closed");
          for (int64_t other : othersOf(link))
            if (other != 0)
              EXPECT_EQ(inbox.next(2s),
                        fmt::format("gone {} it was reached over rank 0, which is gone: its "
                                    "connection was closed",
                                    other));
          link.send(othersOf(link), 1, "to nobody");
          EXPECT_EQ(inbox.next(100ms), "nothing");
          return "fine";
        }));
  ready.wait(4);
  kill(children[0].pid(), SIGKILL);
  killed.tell(3);
  for (size_t rank : {1, 2, 3})
    CHECK(children[rank].text() == "fine");
}

TEST_CASE("a stopped rank is silent, not gone, and goes on") {
  for (int64_t stopped : {0, 2}) {
    CAPTURE(stopped);
    FreeAddress address;
    Signal ready, halted, wentOn, all;
    std::vector<Child> children;
    for (int64_t rank = 0; rank < 4; ++rank)
      children.push_back(startRank(
          hostOptions(rank, 4, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
            std::this_thread::sleep_for(600ms); // idle, but for heartbeats
            for (int64_t other : othersOf(link))
              EXPECT(link.silence(other) < 1000ms);
            ready.tell();
            if (link.rank() == stopped) {
              // Stopped somewhere here.
              const std::string got = inbox.next(3);
              EXPECT_EQ(got, stopped == 0
                                 ? "message 1 1 while\nmessage 2 1 while\nmessage 3 1 while"
                                 : "message 0 1 while\nmessage 1 1 while\nmessage 3 1 while");
              all.tell(3);
              return leaveTogether(link, inbox);
            }
            halted.wait();
            link.send({stopped}, 1, "while");
            EXPECT_EQ(inbox.next(1500ms), "nothing");
            EXPECT(link.silence(stopped) > 1200ms);
            for (int64_t other : othersOf(link))
              if (stopped != 0 && other != stopped)
                EXPECT(link.silence(other) < 1000ms);
            wentOn.tell();
            all.wait();
            const Clock::time_point begin = Clock::now();
            while (link.silence(stopped) > 600ms)
              EXPECT(millisecondsSince(begin) < 2000);
            return leaveTogether(link, inbox);
          }));
    ready.wait(4);
    kill(children[size_t(stopped)].pid(), SIGSTOP);
    halted.tell(3);
    wentOn.wait(3);
    kill(children[size_t(stopped)].pid(), SIGCONT);
    for (Child &child : children)
      CHECK(child.text() == "fine");
  }
}

TEST_CASE("a forked child neither hides the end of its parent nor ends its links") {
  FreeAddress address;
  Signal ready, forked, childMayEnd;
  Child watcher =
      startRank(hostOptions(0, 3, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
        EXPECT_EQ(inbox.next(), "message 1 7 after the fork");
        link.send({1}, 8, "go");
        EXPECT_EQ(inbox.next(2s), "gone 1 its connection to rank 0 was closed");
        return leaveTogether(link, inbox, 1);
      });
  Child third =
      startRank(hostOptions(2, 3, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
        EXPECT_EQ(inbox.next(), "gone 1 its connection to rank 0 was closed");
        return leaveTogether(link, inbox);
      });
  Child parent([&]() -> std::string {
    auto link = llvm::cantFail(HostLink::meet(hostOptions(1, 3, address.text)));
    Inbox inbox;
    llvm::cantFail(link->start(inbox));
    const int before = countDescriptors();
    const pid_t child = fork();
    if (child == 0) {
      // All without effect, none hangs.
      std::string text = countDescriptors() == before - 2 ? "fine" : "left open";
      link->send({0}, 7, "of the child");
      link.reset();
      // Numbers that are used again must stay whole in a grandchild.
      Signal reused;
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        reused.tell();
        _exit(0);
      }
      reused.wait();
      if (text == "fine")
        forked.tell();
      childMayEnd.wait();
      _exit(0);
    }
    forked.wait();
    link->send({0}, 7, "after the fork");
    EXPECT_EQ(inbox.next(), "message 0 8 go");
    kill(getpid(), SIGKILL);
    return "";
  });
  CHECK(watcher.text() == "fine");
  CHECK(third.text() == "fine");
  childMayEnd.tell();
  CHECK(parent.status() == -SIGKILL);
}

TEST_CASE("the thread has a name, and takes no signals") {
  FreeAddress address;
  for (const std::string &text :
       runRanks(2, address.text, [&](HostLink &link, Inbox &inbox) -> std::string {
         int found = 0;
         for (int i = 0; i < 100 && found == 0; ++i, std::this_thread::sleep_for(10ms))
           for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
             if (readFile(task.path() / "comm") == "ccl-hosts\n") {
               ++found;
               const std::string status = readFile(task.path() / "status");
               const size_t at = status.find("SigBlk:\t");
               EXPECT(at != std::string::npos);
               // All but what nobody can block; glibc keeps 32 and 33 for itself.
               const uint64_t blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
               EXPECT((blocked | 1ull << 31 | 1ull << 32) == ~(1ull << 8 | 1ull << 18));
             }
         EXPECT_EQ(found, 1);
         return leaveTogether(link, inbox);
       }))
    CHECK(text == "fine");
}

TEST_CASE("who takes nothing for too long is cut off, and nobody else") {
  FreeAddress address;
  Signal ready, halted;
  std::vector<Child> children;
  for (int64_t rank = 0; rank < 4; ++rank)
    children.push_back(startRank(
        hostOptions(rank, 4, address.text), [&](HostLink &link, Inbox &inbox) -> std::string {
          ready.tell();
          if (rank == 3)
            std::this_thread::sleep_for(60s);
          halted.wait();
          const std::string much(HostLink::mostBytes, 'x');
          if (rank == 1)
            for (int i = 0; i < 6; ++i) {
              link.send({3}, 1, much);
              std::this_thread::sleep_for(100ms); // rank 0 is to take it
            }
          EXPECT_EQ(inbox.next(), "gone 3 it does not take what is sent to it: over 256 MiB wait");
          return leaveTogether(link, inbox, 2);
        }));
  ready.wait(4);
  kill(children[3].pid(), SIGSTOP);
  halted.tell(3);
  for (size_t rank : {0, 1, 2})
    CHECK(children[rank].text() == "fine");
}

namespace {

/// Checks what it hears: messages of each rank are numbered, nothing follows its end, which comes
/// once.
class Checker final : public HostLink::Listener {
public:
  explicit Checker(int64_t ranks) : next(size_t(ranks)), ended(size_t(ranks)) {}
  void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) override {
    const std::lock_guard lock(mutex);
    const bool isNext = kind == next[size_t(from)]++ && bytes == payload(from, kind);
    if (!isNext || ended[size_t(from)])
      fail(fmt::format("message {} of rank {} ({} bytes) after {} others", kind, from, bytes.size(),
                       next[size_t(from)] - 1));
  }
  void onGone(int64_t rank, const std::string &) override { end(rank); }
  void onLeft(int64_t rank) override { end(rank); }
  static std::string payload(int64_t from, uint32_t number) {
    return std::string(number % 7 == 6 ? 300000 : number % 50, char('a' + from));
  }
  /// Until so many have ended. "fine", or what was wrong.
  std::string wait(int count) {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, 10s, [&] { return numEnded >= count || !problem.empty(); }))
      return fmt::format("{} of {} have ended", numEnded, count);
    return problem.empty() ? "fine" : problem;
  }

private:
  void end(int64_t rank) {
    const std::lock_guard lock(mutex);
    if (ended[size_t(rank)])
      fail(fmt::format("rank {} ended twice", rank));
    ended[size_t(rank)] = true;
    ++numEnded;
    changed.notify_all();
  }
  void fail(std::string what) {
    problem = std::move(what);
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<uint32_t> next;
  std::vector<bool> ended;
  int numEnded = 0;
  std::string problem;
};

/// Talks to all until `end`, with one thread.
void talk(HostLink &link, std::mt19937 &random, Clock::time_point end) {
  for (uint32_t number = 0; Clock::now() < end; ++number) {
    link.send(othersOf(link), number, Checker::payload(link.rank(), number));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
  }
}

} // namespace

TEST_CASE("random ends: messages stay in order, and each end is heard once") {
  const uint32_t seed = std::random_device()();
  CAPTURE(seed);
  for (uint32_t round = 0; round < 20; ++round) {
    CAPTURE(round);
    std::mt19937 random(seed + round);
    FreeAddress address;
    const int64_t ranks = 2 + random() % 7;
    const bool killsRank0 = random() % 3 == 0;
    std::vector<Child> children;
    std::vector<bool> isKilled;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const bool killed = rank == 0 ? killsRank0 : random() % 2;
      const Milliseconds time(rank == 0 && !killed ? 0 : 20 + random() % 100);
      isKilled.push_back(killed);
      children.emplace_back([&, rank, killed, time, own = random()]() -> std::string {
        std::mt19937 draw(own);
        Checker checker(ranks);
        auto link = HostLink::meet(hostOptions(rank, ranks, address.text));
        if (!link)
          return llvm::toString(link.takeError());
        llvm::cantFail((*link)->start(checker));
        talk(**link, draw, Clock::now() + time);
        if (killed)
          kill(getpid(), SIGKILL);
        // Who passes messages on stays; without it all end.
        return checker.wait(rank == 0 || killsRank0 ? int(ranks - 1) : 0);
      });
    }
    for (size_t rank = 0; rank < children.size(); ++rank)
      CHECK(children[rank].text() == (isKilled[rank] ? "" : "fine"));
  }
}

// The two that take long, at once.
TEST_CASE("a crashed host is gone after a while; a stopped process that is sent to is not") {
  FreeAddress address;
  Signal ready, halted, wentOn, resumed;
  std::vector<Child> children;
  const std::string much(16 << 20, 'x'); // more than a socket takes
  for (int64_t rank = 0; rank < 3; ++rank)
    children.push_back(startRank(hostOptions(rank, 3, address.text),
                                 [&](HostLink &link, Inbox &inbox) -> std::string {
                                   ready.tell();
                                   if (rank == 2) {
                                     EXPECT(inbox.next(30s) == "message 0 1 " + much);
                                     return leaveTogether(link, inbox);
                                   }
                                   halted.wait();
                                   if (rank == 0)
                                     link.send({2}, 1, much);
                                   const std::string text = inbox.next(HostLink::longSilence + 4s);
                                   const Milliseconds silence = link.silence(2);
                                   wentOn.tell(); // whatever it was
                                   resumed.wait();
                                   EXPECT_EQ(text, "nothing");
                                   EXPECT(silence > HostLink::longSilence);
                                   return leaveTogether(link, inbox);
                                 }));
  ready.wait(3);
  kill(children[2].pid(), SIGSTOP);
  halted.tell(2);

  // Needs a network of its own. Nothing gets through there any more, as if each were alone.
  Child crashed([&]() -> std::string {
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
      return "fine";
    EXPECT(setLoopback(true));
    FreeAddress inside;
    Signal met, cut;
    std::vector<Child> ranks;
    for (int64_t rank = 0; rank < 2; ++rank)
      ranks.push_back(startRank(
          hostOptions(rank, 2, inside.text), [&](HostLink &link, Inbox &inbox) -> std::string {
            met.tell();
            cut.wait();
            const Clock::time_point begin = Clock::now();
            EXPECT_EQ(inbox.next(16s),
                      fmt::format("gone {} its host has not answered for 10 s", 1 - link.rank()));
            EXPECT(millisecondsSince(begin) > 9000);
            return "fine";
          }));
    met.wait(2);
    EXPECT(setLoopback(false));
    cut.tell(2);
    for (Child &rank : ranks)
      EXPECT_EQ(rank.text(), "fine");
    return "fine";
  });

  wentOn.wait(2);
  kill(children[2].pid(), SIGCONT);
  resumed.tell(2);
  for (Child &child : children)
    CHECK(child.text() == "fine");
  CHECK(crashed.text() == "fine");
}
