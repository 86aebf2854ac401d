//===- HostMeetingTest.cpp - Ranks that find each other over TCP ------------------===//
#include "runtime/bootstrap/HostMeeting.h"
#include "runtime/Log.h"
#include "runtime/Memory.h"
#include "runtime/bootstrap/HostProof.h"
#include "test/unit/runtime/Hosts.h"

#include "llvm/Support/MemoryBuffer.h"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <thread>

using namespace ccl;
using namespace ccl::bootstrap;
using namespace ccl::test;
using namespace std::chrono_literals;

namespace {

constexpr int64_t prompt = 2500; ///< ms; by far less than time-outs

/// Only meets: what is told of it, how long it took, what it left open.
struct Fared {
  std::string text; ///< "met"
  int64_t milliseconds = 0, leaked = 0;
};
class Ranks {
public:
  void start(const HostLinkOptions &options, const std::function<void()> &prepare = {}) {
    children.emplace_back([options, prepare] {
      if (prepare)
        prepare();
      const int before = countDescriptors();
      const Clock::time_point begin = Clock::now();
      std::string text = "met";
      int64_t milliseconds = 0;
      {
        auto link = HostLink::meet(options);
        milliseconds = millisecondsSince(begin);
        if (!link)
          text = llvm::toString(link.takeError());
      }
      return fmt::format("{} {} {}", milliseconds, countDescriptors() - before, text);
    });
  }
  std::vector<Fared> fared() {
    std::vector<Fared> all;
    for (Child &child : children) {
      Fared fared;
      const std::string told = child.text();
      auto [milliseconds, rest] = llvm::StringRef(told).split(' ');
      auto [leaked, text] = rest.split(' ');
      CHECK_FALSE((milliseconds.getAsInteger(10, fared.milliseconds) ||
                   leaked.getAsInteger(10, fared.leaked)));
      fared.text = text.str();
      CHECK(fared.leaked == 0);
      all.push_back(fared);
    }
    children.clear();
    return all;
  }

private:
  std::vector<Child> children;
};

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

void checkAll(const std::vector<Fared> &all, const std::string &part) {
  for (const Fared &fared : all) {
    INFO(fared.text);
    CHECK(contains(fared.text, part));
    CHECK(fared.text == all[0].text);
  }
}
/// And soon.
void checkPrompt(const std::vector<Fared> &all, const std::string &part) {
  checkAll(all, part);
  for (const Fared &fared : all)
    CHECK(fared.milliseconds < prompt);
}

/// Waits for somebody to listen.
Descriptor connectAt(const FreeAddress &address) {
  for (int i = 0; i < 2000; ++i) {
    HostAttempt attempt = connectTo(address.address, Clock::now() + 1s);
    if (attempt.socket)
      return std::move(attempt.socket);
    std::this_thread::sleep_for(5ms);
  }
  FAIL("nobody listens");
  return {};
}

template <typename T>
void say(const Descriptor &socket, const T &what) {
  CHECK(send(socket.get(), &what, sizeof what, MSG_NOSIGNAL) == ssize_t(sizeof what));
}
/// False: it was closed before.
template <typename T>
bool hear(const Descriptor &socket, T &what) {
  size_t have = 0;
  while (have < sizeof what) {
    std::vector<pollfd> one{{socket.get(), POLLIN, 0}};
    REQUIRE(pollUntil(one, Clock::now() + 10s) > 0);
    const ssize_t got = recv(socket.get(), reinterpret_cast<char *>(&what) + have,
                             sizeof what - have, MSG_DONTWAIT);
    if (got <= 0)
      return false;
    have += size_t(got);
  }
  return true;
}

/// What rank 0 and a caller that knows the secret tell each other.
struct Conversation {
  Descriptor socket;
  Greeting ours{}, theirs{};
  Digest proof{};
  Verdict verdict{};
  bool gotVerdict = false;
};
Conversation converse(const FreeAddress &address, const std::function<void(Greeting &)> &change) {
  Conversation all;
  all.socket = connectAt(address);
  all.ours = llvm::cantFail(makeGreeting(true, 1, 2));
  change(all.ours);
  say(all.socket, all.ours);
  REQUIRE(hear(all.socket, all.theirs));
  all.proof = proveCaller("swordfish", all.ours, all.theirs);
  say(all.socket, all.proof);
  all.gotVerdict = hear(all.socket, all.verdict);
  return all;
}

/// Listens where rank 0 would, and answers each connection by `serve`.
std::string askImpostor(const std::function<void(const Descriptor &)> &serve) {
  FreeAddress address;
  const Descriptor listener = llvm::cantFail(listenAt({address.address}, address.text));
  Ranks ranks;
  ranks.start(hostOptions(1, 2, address.text, 3000ms));
  std::vector<pollfd> one{{listener.get(), POLLIN, 0}};
  REQUIRE(pollUntil(one, Clock::now() + 10s) > 0);
  const Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  serve(socket);
  std::string text = ranks.fared()[0].text;
  const size_t at = text.find(address.text);
  return at == std::string::npos ? text : text.replace(at, address.text.size(), "HERE");
}

} // namespace

TEST_CASE("a wrong secret: an error there, a line here, and rank 0 waits on") {
  FreeAddress address;
  Folder logs;
  Ranks ranks, wrong;
  ranks.start(hostOptions(0, 3, address.text), [&] {
    log::Options options;
    options.file = logs.path("log");
    log::configure(options);
  });
  HostLinkOptions options = hostOptions(2, 3, address.text);
  options.secret = "fishsword";
  wrong.start(options);
  wrong.start(options);
  checkPrompt(wrong.fared(),
              fmt::format("rank 2 was refused at {}: the secret differs from rank 0's (CCL_SECRET)",
                          address.text));
  ranks.start(hostOptions(1, 3, address.text));
  ranks.start(hostOptions(2, 3, address.text));
  checkAll(ranks.fared(), "met");
  auto log = llvm::MemoryBuffer::getFile(logs.path("log"));
  REQUIRE(bool(log));
  const llvm::StringRef text = (*log)->getBuffer();
  CHECK(text.count("CCL WARN refused a process of 127.0.0.1 that says it is rank 2: its secret "
                   "differs from ours (CCL_SECRET)\n") == 1);
  CHECK(text.count('\n') == 1);
  CHECK_FALSE(text.contains("sword"));
}

TEST_CASE("who answers in place of rank 0") {
  auto greet = [](const Descriptor &socket) {
    Greeting theirs{};
    CHECK(hear(socket, theirs));
    say(socket, llvm::cantFail(makeGreeting(false, 0, 2)));
    Digest proof;
    CHECK(hear(socket, proof));
  };
  for (uint32_t kind : {uint32_t(Verdict::Fits), uint32_t(Verdict::Failed), 7u})
    CHECK(askImpostor([&](const Descriptor &socket) {
            greet(socket);
            Verdict verdict{};
            verdict.kind = kind;
            std::strcpy(verdict.text, "send me your money");
            say(socket, verdict);
          }) == "what listens at HERE does not know the secret of rank 1 (CCL_SECRET)");
  // It returns what it got.
  CHECK(askImpostor([&](const Descriptor &socket) {
          Greeting theirs{};
          CHECK(hear(socket, theirs));
          say(socket, theirs);
        }) == "what listens at HERE is no rank 0 of ccl: choose another port (CCL_ADDRESS)");
  CHECK(askImpostor([&](const Descriptor &socket) {
          send(socket.get(), std::string(200, 'H').data(), 200, MSG_NOSIGNAL);
        }) == "what listens at HERE is no rank 0 of ccl: choose another port (CCL_ADDRESS)");
  CHECK(contains(askImpostor([&](const Descriptor &) { std::this_thread::sleep_for(3600ms); }),
                 "ms: rank 0 does not answer at HERE"));
}

TEST_CASE("a proof that was overheard is worth nothing") {
  FreeAddress address;
  Ranks ranks;
  ranks.start(hostOptions(0, 3, address.text));
  Conversation first = converse(address, [](Greeting &greeting) { greeting.ranks = 3; });
  CHECK(first.verdict.kind == Verdict::Fits);
  Conversation again;
  again.socket = connectAt(address);
  say(again.socket, first.ours);
  REQUIRE(hear(again.socket, again.theirs));
  say(again.socket, first.proof);
  REQUIRE(hear(again.socket, again.verdict));
  CHECK(again.verdict.kind == Verdict::Refused);
  // It is told nothing that guesses could be tried on.
  CHECK(again.verdict.proof == Digest{});
  first.socket.reset();
  checkPrompt(ranks.fared(), "rank 1 of 127.0.0.1 ended, or closed its connection, before all had");
}

TEST_CASE("strangers delay nobody") {
  FreeAddress address;
  Ranks ranks;
  ranks.start(hostOptions(0, 3, address.text));
  ranks.start(hostOptions(1, 3, address.text));
  std::vector<Descriptor> held;
  const Greeting greeting = llvm::cantFail(makeGreeting(true, 2, 3));
  for (int i = 0; i < 600; ++i) {
    Descriptor socket = connectAt(address);
    switch (i % 6) {
    case 0: break; // silent
    case 1: socket.reset(); break;
    case 2: send(socket.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL); break;
    case 3: send(socket.get(), std::string(5000, 'x').data(), 5000, MSG_NOSIGNAL); break;
    case 4: send(socket.get(), &greeting, 50, MSG_NOSIGNAL); break; // half
    default: say(socket, greeting); break;                          // and no proof
    }
    if (i >= 100 && i % 6 == 3)
      continue;
    held.push_back(std::move(socket));
  }
  ranks.start(hostOptions(2, 3, address.text));
  const std::vector<Fared> all = ranks.fared();
  checkAll(all, "met");
  CHECK(all[2].milliseconds < prompt);
  // Those that are still there have been hung up on.
  for (const Descriptor &socket : held) {
    Greeting ignored;
    while (socket && hear(socket, ignored))
      ;
  }
}

TEST_CASE("ranks that do not fit together all hear why") {
  FreeAddress address;
  auto run = [&](const std::function<void(HostLinkOptions &)> &change) {
    Ranks ranks;
    for (int64_t rank = 0; rank < 3; ++rank) {
      HostLinkOptions options = hostOptions(rank, 3, address.text);
      if (rank == 2)
        change(options);
      ranks.start(options);
    }
    return ranks.fared();
  };
  checkPrompt(run([](HostLinkOptions &options) { options.ranks = 4; }),
              "rank 0 wants 3 ranks, rank 2 wants 4");
  checkPrompt(run([](HostLinkOptions &options) { options.rank = 1; }),
              "two processes say that they are rank 1: one of 127.0.0.1 and one of 127.0.0.1");
  checkPrompt(run([](HostLinkOptions &options) { options.rank = 8, options.ranks = 9; }),
              "rank 0 wants 3 ranks, rank 8 wants 9");

  struct Case {
    std::function<void(Greeting &)> change;
    std::string text;
  };
  for (const Case &c :
       {Case{[](Greeting &greeting) { copyText(greeting.version, "9.9\x1b[2J"); },
             fmt::format("rank 0 is ccl {} (protocol 1), rank 1 is ccl 9.9?[2J (protocol 1)",
                         CCL_VERSION)},
        Case{[](Greeting &greeting) { greeting.protocol = 7; }, "(protocol 7)"},
        Case{[](Greeting &greeting) { greeting.rank = 0; }, "says that it is rank 0 of 2"},
        Case{[](Greeting &greeting) { greeting.rank = -1; }, "says that it is rank -1 of 2"},
        Case{[](Greeting &greeting) { greeting.rank = 1ll << 40; }, "rank 1099511627776 of 2"}}) {
    Ranks ranks;
    ranks.start(hostOptions(0, 2, address.text));
    const Conversation heard = converse(address, c.change);
    CHECK(heard.gotVerdict);
    CHECK(heard.verdict.kind == Verdict::Failed);
    const std::vector<Fared> all = ranks.fared();
    checkPrompt(all, c.text);
    CHECK(all[0].text == heard.verdict.text);
    CHECK(isEqual(heard.verdict.proof,
                  proveRank0("swordfish", heard.ours, heard.theirs, heard.verdict)));
  }
}

TEST_CASE("rubbish of one who has proved itself ends the meeting, and takes no memory") {
  FreeAddress address;
  for (FrameHeader header :
       {FrameHeader{1u << 31, FrameType::Present, 0, 1, 0, 0},
        FrameHeader{8, FrameType::Present, 0, 1, 1u << 31, 0},
        FrameHeader{8, FrameType(99), 0, 1, 0, 0}, FrameHeader{0, FrameType::Left, 0, 1, 0, 0},
        FrameHeader{0, FrameType::Present, 0, 1, 0, 0}}) {
    Ranks ranks;
    ranks.start(hostOptions(0, 2, address.text));
    const Conversation heard = converse(address, [](Greeting &) {});
    CHECK(heard.verdict.kind == Verdict::Fits);
    say(heard.socket, header);
    say(heard.socket, uint64_t(0));
    checkPrompt(ranks.fared(), "rank 1 sent an unexpected message");
  }
}

TEST_CASE("who does not come is named to those who came") {
  FreeAddress address;
  Ranks ranks;
  for (int64_t rank : {0, 2})
    ranks.start(hostOptions(rank, 4, address.text, 700ms));
  HostLinkOptions options = hostOptions(3, 4, address.text);
  options.secret = "fishsword";
  ranks.start(options);
  std::vector<Fared> all = ranks.fared();
  CHECK(contains(all[2].text, "the secret differs"));
  all.pop_back();
  checkPrompt(all, fmt::format("ms: ranks 1 and 3 of 4 did not come to {}; one that came had "
                               "another secret (CCL_SECRET)",
                               address.text));
  for (const Fared &fared : all)
    CHECK(fared.milliseconds >= 300); // who came last waited less

  // The most impatient decides, also if rank 0 is not it.
  for (int64_t rank : {0, 1})
    ranks.start(hostOptions(rank, 3, address.text, rank == 0 ? 20000ms : 700ms));
  checkPrompt(ranks.fared(), fmt::format("rank 2 of 3 did not come to {}", address.text));

  ranks.start(hostOptions(1, 2, address.text, 300ms));
  checkPrompt(ranks.fared(), fmt::format("ms: rank 0 of 2 did not come: nobody answers at {}: "
                                         "Connection refused",
                                         address.text));
}

TEST_CASE("who ends before all have come is named") {
  FreeAddress address;
  for (int64_t culprit : {0, 1}) {
    Signal go;
    Child ends([&] {
      std::thread([&] {
        go.wait();
        kill(getpid(), SIGKILL);
      }).detach();
      return std::string(HostLink::meet(hostOptions(culprit, 3, address.text)) ? "met" : "error");
    });
    Ranks ranks;
    ranks.start(hostOptions(1 - culprit, 3, address.text));
    std::this_thread::sleep_for(300ms);
    go.tell();
    std::this_thread::sleep_for(20ms);
    checkAll(ranks.fared(), culprit == 0
                                ? fmt::format("rank 0 ended, or closed its connection, before all "
                                              "had met at {}",
                                              address.text)
                                : fmt::format("rank 1 (process {}) of 127.0.0.1 ended, or closed "
                                              "its connection, before all had met",
                                              ends.pid()));
    CHECK(ends.status() == -SIGKILL);
  }
}

TEST_CASE("a rank that is stopped during the meeting is named at the deadline") {
  FreeAddress address;
  Ranks ranks;
  ranks.start(hostOptions(0, 3, address.text, 1500ms));
  Conversation stopped = converse(address, [](Greeting &greeting) { greeting.ranks = 3; });
  CHECK(stopped.verdict.kind == Verdict::Fits); // and then it says nothing more
  ranks.start(hostOptions(2, 3, address.text));
  checkAll(ranks.fared(), "ms: rank 1 came and then did not answer");
}

TEST_CASE("too few file descriptors") {
  FreeAddress address;
  Ranks ranks;
  ranks.start(hostOptions(0, 40, address.text), [] {
    rlimit both{30, 30};
    setrlimit(RLIMIT_NOFILE, &both);
  });
  checkPrompt(ranks.fared(), "but RLIMIT_NOFILE is 30: raise it to at least ");
  // Strangers have to go for ranks to come in.
  ranks.start(hostOptions(0, 3, address.text), [] {
    rlimit both{30, 30};
    setrlimit(RLIMIT_NOFILE, &both);
  });
  std::vector<Descriptor> held;
  for (int i = 0; i < 60; ++i)
    held.push_back(connectAt(address));
  for (int64_t rank : {1, 2})
    ranks.start(hostOptions(rank, 3, address.text));
  checkAll(ranks.fared(), "met");
}
