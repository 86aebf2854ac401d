//===- RendezvousTest.cpp - Processes that find each other ----------------------===//
#include "test/unit/runtime/Meetings.h"

#include "runtime/Faults.h"
#include "runtime/Log.h"
#include "runtime/bootstrap/Connection.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

using namespace ccl;
using namespace ccl::test;
using bootstrap::Connection;
using bootstrap::Kind;
using bootstrap::Message;

namespace {

constexpr Milliseconds plenty{20000};
/// Far from every time-out, also on a busy machine under a sanitizer.
constexpr int64_t prompt = 5000;

void checkFine(const std::vector<Fared> &all) {
  for (const Fared &fared : all) {
    INFO(fared.message);
    CHECK(fared.ok);
    CHECK(fared.message == "");
    CHECK(fared.leaked == 0);
  }
}

/// All failed in the same words.
void checkAll(const std::vector<Fared> &all, Failure category, std::string_view text,
              std::optional<int64_t> culprit = std::nullopt) {
  REQUIRE(!all.empty());
  for (const Fared &fared : all) {
    INFO(fared.message);
    CHECK_FALSE(fared.ok);
    CHECK(fared.category == category);
    CHECK(fared.message.find(text) != std::string::npos);
    CHECK(fared.message == all[0].message);
    CHECK(fared.leaked == 0);
    if (culprit)
      CHECK(fared.culprit == *culprit);
  }
}

sockaddr_un addressOf(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

/// A socket file and who listens at it, if anybody.
Descriptor bindAt(const std::string &path, bool listens) {
  const sockaddr_un address = addressOf(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
  if (listens)
    REQUIRE(listen(socket.get(), 16) == 0);
  return socket;
}

/// Connects as soon as somebody listens.
Descriptor connectAt(const std::string &path) {
  const sockaddr_un address = addressOf(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  while (connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
    sched_yield();
  return socket;
}

Descriptor ownPidfd() { return Descriptor(int(syscall(434, getpid(), 0))); }

Message helloOf(const JoinOptions &options) {
  Message hello = bootstrap::makeMessage(Kind::Hello);
  hello.rank = options.rank;
  hello.ranks = options.ranks;
  hello.arenaBytes = testArenaBytes;
  hello.slotBytes = options.member.slotBytes;
  hello.remainingMs = 20000;
  return hello;
}

/// Plays a rank that says `hello` with `handles` and then stays until it is told something.
std::string play(const std::string &path, const Message &hello, std::vector<int> handles) {
  Connection connection(connectAt(path), 64);
  connection.queue(hello, std::move(handles));
  connection.flush();
  while (true) {
    std::vector<pollfd> one{{connection.get(), POLLIN, 0}};
    bootstrap::pollUntil(one, bootstrap::Clock::now() + plenty);
    const Connection::Received received = connection.receive();
    if (received == Connection::Received::Closed)
      return "closed";
    if (received == Connection::Received::Whole && connection.message.kind == Kind::Failed)
      return bootstrap::toError(connection.message).message;
  }
}

/// What rank 0 (of 2) and `play`ed rank 1 hear.
struct Heard {
  Fared hub;
  std::string player;
};
Heard playAgainst(const std::function<Message(Message)> &change,
                  const std::function<std::vector<Descriptor>()> &makeHandles) {
  Folder folder;
  std::vector<Attend> ranks = atPath(2, folder.path("socket"));
  Child hub([&] { return attend(ranks[0]).toText(); });
  Child player([&] {
    std::vector<Descriptor> owned = makeHandles();
    std::vector<int> handles;
    for (const Descriptor &handle : owned)
      handles.push_back(handle.get());
    return play(folder.path("socket"), change(helloOf(ranks[1].options)), handles);
  });
  Heard heard;
  heard.hub = Fared::fromText(hub.text());
  heard.player = player.text();
  return heard;
}
std::vector<Descriptor> goodHandles() {
  std::vector<Descriptor> handles;
  handles.push_back(makeArena(testArenaBytes, 2));
  handles.push_back(ownPidfd());
  return handles;
}

} // namespace

TEST_CASE("all meet at a path, and nothing stays") {
  for (int64_t ranks : {1, 2, 3, 8, 40}) {
    CAPTURE(ranks);
    Folder folder;
    checkFine(meetAll(atPath(ranks, folder.path("socket"))));
    CHECK(folder.isEmpty());
  }
}

TEST_CASE("all meet over sockets made before fork") {
  for (int64_t ranks : {2, 3, 8, 40}) {
    CAPTURE(ranks);
    checkFine(meetOverSockets(atPath(ranks, "")));
  }
}

TEST_CASE("rank 0 may come last, and makes the folder") {
  Folder folder;
  const std::string path = folder.path("own/socket");
  std::vector<Attend> ranks = atPath(3, path);
  Signal begun;
  std::vector<Child> children;
  for (size_t r : {1, 2})
    children.emplace_back([&, r] {
      begun.tell();
      return attend(ranks[r]).toText();
    });
  begun.wait(2);
  children.emplace_back([&] { return attend(ranks[0]).toText(); });
  for (Child &child : children)
    checkFine({Fared::fromText(child.text())});
  struct stat status{};
  REQUIRE(stat(folder.path("own").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
}

TEST_CASE("a path is used again at once") {
  Folder folder;
  for (int round = 0; round < 20; ++round)
    checkFine(meetAll(atPath(3, folder.path("socket"))));
}

TEST_CASE("a folder that others may enter is refused, with what to do") {
  Folder folder;
  REQUIRE(chmod(folder.path().c_str(), 0711) == 0);
  checkAll(meetAll(atPath(2, folder.path("socket"))), Failure::BadArgument,
           fmt::format("others may enter or write the folder {} of the socket (mode 0711): chmod "
                       "700 {}",
                       folder.path(), folder.path()));
  REQUIRE(chmod(folder.path().c_str(), 0720) == 0);
  checkAll(meetAll(atPath(2, folder.path("socket"))), Failure::BadArgument, "(mode 0720)");
  REQUIRE(chmod(folder.path().c_str(), 0744) == 0); // they see its name and no more
  checkFine(meetAll(atPath(2, folder.path("socket"))));
}

TEST_CASE("paths that cannot be") {
  Folder folder;
  auto refused = [](const std::string &path, std::string_view text, Attend like = {}) {
    for (Attend &how : atPath(2, path)) {
      CAPTURE(how.options.rank);
      how.prepare = like.prepare;
      const std::vector<Fared> all = meetAll({how});
      checkAll(all, Failure::BadArgument, text);
      CHECK(all[0].milliseconds < prompt);
    }
  };
  checkAll(meetAll({atPath(2, folder.path("a/b/socket"))[0]}), Failure::BadArgument,
           "cannot make the folder");
  refused(folder.path(std::string(120, 'x')), "the limit is 107: choose a shorter one");
  refused(folder.path() + "/", "names no file");
  {
    Descriptor file(open(folder.path("file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  REQUIRE(mkdir(folder.path("folder").c_str(), 0700) == 0);
  REQUIRE(symlink(folder.path("loop").c_str(), folder.path("loop").c_str()) == 0);
  REQUIRE(symlink(folder.path("socket").c_str(), folder.path("link").c_str()) == 0);
  for (const char *name : {"file", "folder", "loop", "link"})
    refused(folder.path(name),
            fmt::format("{} exists and is no socket: choose another path", folder.path(name)));
  refused(folder.path("file") + std::string("\0x", 2), "has a zero byte in it");
  refused(folder.path("file/socket"), "is no folder");
  Folder real;
  REQUIRE(symlink(real.path().c_str(), folder.path("elsewhere").c_str()) == 0);
  refused(folder.path("elsewhere/socket"), "is no folder");
  refused(folder.path("loop/socket"), "is no folder");

  // Of a user who is held to permissions.
  const uid_t user = geteuid() == 0 ? 54323 : geteuid();
  Folder own;
  const std::string closed = own.path("closed");
  REQUIRE(mkdir(closed.c_str(), 0700) == 0);
  bindAt(closed + "/old", false).reset();
  for (const std::string &name : {own.path(), closed, closed + "/old"})
    REQUIRE(chown(name.c_str(), user, gid_t(-1)) == 0);
  Attend like;
  like.prepare = [user] {
    if (setuid(user) != 0)
      abort();
    prctl(PR_SET_DUMPABLE, 1); // lost with the user, and /proc/self with it
  };
  for (auto [mode, text] :
       {std::pair(0300, "cannot open the folder"), std::pair(0600, "cannot look for the socket")}) {
    REQUIRE(chmod(closed.c_str(), mode_t(mode)) == 0);
    refused(closed + "/socket", fmt::format("{} ", text), like);
    refused(closed + "/socket", "Permission denied", like);
  }
  REQUIRE(chmod(closed.c_str(), 0700) == 0);
  REQUIRE(chmod((closed + "/old").c_str(), 0) == 0);
  refused(closed + "/old", closed + "/old: Permission denied", like);
}

TEST_CASE("a socket that a crash left behind is replaced, one in use is not") {
  Folder folder;
  const std::string path = folder.path("socket");
  bindAt(path, false).reset();
  checkFine(meetAll(atPath(2, path)));
  Descriptor other = bindAt(path, true);
  std::vector<Attend> ranks = atPath(2, path);
  checkAll(meetAll({ranks[0]}), Failure::BadArgument,
           fmt::format("another job uses {} (process {} listens there)", path, getpid()));
  CHECK(access(path.c_str(), F_OK) == 0);
}

TEST_CASE("another user's folder, socket and connection") {
  if (geteuid() != 0)
    return; // needs a second user
  constexpr uid_t other = 65534;
  Folder folder;
  const std::string path = folder.path("socket");
  REQUIRE(chown(folder.path().c_str(), other, other) == 0);
  std::vector<Attend> ranks = atPath(2, path);
  checkAll(meetAll(ranks), Failure::BadArgument,
           fmt::format("belongs to user {}, not to 0 who runs this", other));
  REQUIRE(chown(folder.path().c_str(), 0, 0) == 0);

  { // The socket of another in our folder: credentials are those at listen().
    Descriptor socket = bindAt(path, false);
    Signal listening, done;
    Child server([&] {
      if (seteuid(other) != 0 || listen(socket.get(), 8) != 0)
        return "no";
      listening.tell();
      done.wait();
      return "yes";
    });
    listening.wait();
    checkAll(meetAll({ranks[1]}), Failure::Machine,
             fmt::format("is served by another user ({}), not by 0 who runs this: refused", other));
    done.tell();
    CHECK(server.text() == "yes");
  }
  unlink(path.c_str());

  // A connection of another: dropped, and the job goes on.
  Signal dropped;
  Child hub([&] { return attend(ranks[0]).toText(); });
  connectAt(path).reset();
  REQUIRE(chmod(folder.path().c_str(), 0711) == 0);
  REQUIRE(chmod(path.c_str(), 0777) == 0);
  Child stranger([&] {
    if (setgid(other) != 0 || setuid(other) != 0)
      return std::string("no");
    std::vector<Descriptor> handles = goodHandles();
    return play(path, helloOf(ranks[1].options), {handles[0].get(), handles[1].get()});
  });
  CHECK(stranger.text() == "closed");
  REQUIRE(chmod(folder.path().c_str(), 0700) == 0);
  checkFine(meetAll({ranks[1]}));
  checkFine({Fared::fromText(hub.text())});
}

TEST_CASE("10,000 hostile connections during init") {
  Folder folder, logs;
  const std::string path = folder.path("socket");
  std::vector<Attend> ranks = atPath(3, path);
  ranks[0].prepare = [&] {
    log::Options options;
    options.level = log::Level::Info;
    options.file = logs.path("log");
    log::configure(options);
  };
  Child hub([&] { return attend(ranks[0]).toText(); });
  Child first([&] { return attend(ranks[1]).toText(); });
  std::vector<Descriptor> silent;
  Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Message hello = helloOf(ranks[2].options);
  for (int i = 0; i < 10000; ++i) {
    Descriptor socket = connectAt(path);
    switch (i % 5) {
    case 0: break; // hangs up
    case 1: CHECK(send(socket.get(), "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL) <= 16); break;
    case 2: CHECK(send(socket.get(), &hello, 100, MSG_NOSIGNAL) <= 100); break; // half
    case 3: {
      Connection connection(std::move(socket), 8); // far too many descriptors
      connection.queue(hello, std::vector<int>(200, null.get()));
      connection.flush();
      break;
    }
    case 4:
      if (silent.size() < 200)
        silent.push_back(std::move(socket));
      break;
    }
  }
  checkFine(meetAll({ranks[2]}));
  checkFine({Fared::fromText(hub.text()), Fared::fromText(first.text())});
  auto log = llvm::MemoryBuffer::getFile(logs.path("log"));
  REQUIRE(bool(log));
  CHECK((*log)->getBuffer().count("dropped a connection to") == 1);
  CHECK((*log)->getBuffer().count("dropped in all") == 1);
}

TEST_CASE("ranks that do not fit together all hear who said what") {
  auto run = [](const std::function<void(std::vector<Attend> &)> &change, bool overSockets) {
    Folder folder;
    std::vector<Attend> ranks = atPath(3, folder.path("socket"));
    change(ranks);
    std::vector<Fared> all = overSockets ? meetOverSockets(ranks) : meetAll(ranks);
    for (const Fared &fared : all)
      CHECK(fared.milliseconds < prompt);
    CHECK(folder.isEmpty());
    return all;
  };
  for (bool overSockets : {false, true}) {
    CAPTURE(overSockets);
    checkAll(run([](auto &ranks) { ranks[2].options.ranks = 4; }, overSockets), Failure::Mismatch,
             "rank 0 wants 3 ranks, rank 2 wants 4");
    checkAll(run([](auto &ranks) { ranks[1].arenaBytes *= 2; }, overSockets), Failure::Mismatch,
             "rank 0 has an arena of 1048576 bytes, rank 1 of 2097152");
    checkAll(run([](auto &ranks) { ranks[2].options.member.slotBytes = 64; }, overSockets),
             Failure::Mismatch, "rank 0 has slots of 131072 bytes (CCL_SLOT_BYTES), rank 2 of 64");
  }
  checkAll(run([](auto &ranks) { ranks[2].options.rank = 1; }, false), Failure::Mismatch,
           "two processes say that they are rank 1");
  checkAll(run([](auto &ranks) { ranks[2].options.rank = 1; }, true), Failure::Mismatch, "rank 1");
}

TEST_CASE("hellos that no rank of ours says") {
  auto check = [](const Heard &heard, Failure category, const std::string &text) {
    checkAll({heard.hub}, category, text);
    CHECK(heard.player == heard.hub.message);
  };
  auto checkHello = [&](void (*change)(Message &), const std::string &text) {
    auto changed = [change](Message hello) {
      change(hello);
      return hello;
    };
    check(playAgainst(changed, goodHandles), Failure::Mismatch, text);
  };
  auto checkHandles = [&](const std::function<void(std::vector<Descriptor> &)> &change,
                          const std::string &text) {
    auto changed = [&] {
      std::vector<Descriptor> handles = goodHandles();
      change(handles);
      return handles;
    };
    check(playAgainst([](Message hello) { return hello; }, changed), Failure::Machine, text);
  };
  checkHello(
      [](Message &hello) { std::strcpy(hello.version, "9.9.9"); },
      fmt::format("rank 0 is ccl {} (protocol 1), rank 1 is ccl 9.9.9 (protocol 1)", CCL_VERSION));
  checkHello([](Message &hello) { hello.protocol = 7; }, "(protocol 7)");
  checkHello([](Message &hello) { hello.rank = 2; }, "a process says that it is rank 2 of 2");
  for (int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_SEAL})
    checkHandles([&](auto &handles) { handles[0] = makeArena(testArenaBytes, 2, seals); },
                 "is refused: it is not sealed against resizing");
  checkHandles([](auto &handles) { handles[0] = makeArena(4096, 2); },
               "is refused: it has 4096 bytes, not 1048576");
  checkHandles(
      [](auto &handles) { handles[0] = Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC)); },
      "is refused: it is no memfd");
  checkHandles([](auto &handles) { handles.pop_back(); },
               "rank 1 sent 1 descriptors that are not an arena and a pidfd");
  checkHandles([](auto &handles) { handles[1] = makeArena(4096, 2); },
               "rank 1 sent 2 descriptors that are not an arena and a pidfd");
}

TEST_CASE("who does not come is named to those who came") {
  Folder folder;
  std::vector<Attend> ranks = atPath(4, folder.path("socket"), Milliseconds(300));
  std::vector<Fared> all = meetAll({ranks[0], ranks[2]});
  checkAll(all, Failure::Timeout, "ranks 1 and 3 of 4 did not come to", 1);
  for (const Fared &fared : all) {
    CHECK(fared.milliseconds >= 100); // who came last waited less
    CHECK(fared.milliseconds < prompt);
  }
  CHECK(folder.isEmpty());

  // The most impatient decides, also if rank 0 is not it.
  ranks = atPath(3, folder.path("socket"));
  ranks[1].options.timeout = Milliseconds(300);
  checkAll(meetAll({ranks[0], ranks[1]}), Failure::Timeout, "rank 2 of 3 did not come", 2);

  ranks = atPath(2, folder.path("socket"), Milliseconds(100));
  checkAll(meetAll({ranks[1]}), Failure::Timeout,
           fmt::format("rank 0 of 2 did not come: nobody listens at {}", folder.path("socket")), 0);
}

TEST_CASE("a rank that goes before it said a word") {
  std::vector<Attend> ranks = atPath(3, "");
  ranks[2].prepare = [] { _exit(1); };
  std::vector<Fared> all = meetOverSockets(ranks);
  all.pop_back();
  checkAll(all, Failure::Machine, "rank 2 ended, or closed its connection", 2);
  ranks = atPath(3, "");
  ranks[0].prepare = [] { _exit(1); };
  all = meetOverSockets(ranks);
  all.erase(all.begin());
  checkAll(all, Failure::Machine, "rank 0 ended, or closed its connection", 0);
}

TEST_CASE("ranks that die, hang up or fail at a fault point") {
  if (!faults::enabled())
    return;
  struct Case {
    faults::Action action;
    std::string_view text;
  };
  for (faults::Point point : {faults::Point::Connect, faults::Point::Exchange})
    for (int64_t culprit : {0, 1, 2})
      for (const Case &c :
           {Case{faults::Action::Kill, "ended"}, Case{faults::Action::Close, "before all had met"},
            Case{faults::Action::Fail, "was told to fail"}})
        for (bool overSockets : {true, false}) {
          // At a path, nobody can know of a rank 0 that never listened.
          if (!overSockets && culprit == 0 && point == faults::Point::Connect)
            continue;
          CAPTURE(int(point));
          CAPTURE(culprit);
          CAPTURE(c.text);
          CAPTURE(overSockets);
          Folder folder;
          std::vector<Attend> ranks = atPath(3, folder.path("socket"));
          ranks[size_t(culprit)].prepare = [&] {
            faults::Fault fault{};
            fault.point = point;
            fault.rank = culprit;
            fault.action = c.action;
            faults::arm(fault);
          };
          std::vector<Fared> all = overSockets ? meetOverSockets(ranks) : meetAll(ranks);
          all.erase(all.begin() + culprit);
          for (const Fared &fared : all) {
            INFO(fared.message);
            CHECK_FALSE(fared.ok);
            CHECK(fared.milliseconds < prompt);
            CHECK(fared.leaked == 0);
            CHECK(fared.culprit == culprit);
            CHECK(fared.message.find(c.text) != std::string::npos);
          }
        }
}

TEST_CASE("a rank that stops during init is named at the deadline") {
  if (!faults::enabled())
    return;
  Folder folder;
  std::vector<Attend> ranks = atPath(3, folder.path("socket"), Milliseconds(1500));
  Child stopped([&] {
    faults::Fault fault{};
    fault.point = faults::Point::Exchange;
    fault.rank = 1;
    fault.action = faults::Action::Stop;
    faults::arm(fault);
    return attend(ranks[1]).toText();
  });
  checkAll(meetAll({ranks[0], ranks[2]}), Failure::Timeout, "rank 1 came and then did not answer",
           1);
}

TEST_CASE("too few file descriptors: the limit and what is needed are named, to all") {
  auto limitTo = [](rlim_t limit) {
    return [limit] {
      rlimit both{limit, limit};
      setrlimit(RLIMIT_NOFILE, &both);
    };
  };
  for (int64_t culprit : {0, 2}) {
    std::vector<Attend> ranks = atPath(12, "");
    ranks[size_t(culprit)].prepare = limitTo(28);
    checkAll(meetOverSockets(ranks), Failure::Machine, "but RLIMIT_NOFILE is 28: raise it to at",
             culprit);
  }
}

TEST_CASE("few file descriptors may be under way") {
  if (geteuid() != 0)
    return; // needs a user of its own: the limit counts all processes of a user
  std::vector<Attend> ranks = atPath(40, "");
  for (Attend &how : ranks)
    how.prepare = [] {
      rlimit both{192, 192};
      setrlimit(RLIMIT_NOFILE, &both);
      // A number without a name: nobody else's descriptors count.
      if (setgid(54321) != 0 || setuid(54321) != 0)
        abort();
      prctl(PR_SET_DUMPABLE, 1); // lost with the user, and /proc/self with it
    };
  checkFine(meetOverSockets(ranks));
}

TEST_CASE("ranks in different pid namespaces") {
  if (geteuid() != 0)
    return; // needs the right to make one
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::vector<Attend> ranks = atPath(2, "");
  Child hub([&] {
    close(ends[1]);
    ranks[0].options.sockets = {ends[0]};
    return attend(ranks[0]).toText();
  });
  Child other([&] {
    close(ends[0]);
    if (unshare(CLONE_NEWPID) != 0)
      return std::string("unshare");
    Child inner([&] {
      ranks[1].options.sockets = {ends[1]};
      return attend(ranks[1]).toText();
    });
    close(ends[1]);
    return inner.text();
  });
  close(ends[0]);
  close(ends[1]);
  checkFine({Fared::fromText(hub.text())});
  const Fared inner = Fared::fromText(other.text());
  CHECK(inner.ok);
  CHECK(inner.message == "pid of 0"); // cannot be seen from there, and that is all
}

TEST_CASE("options that make no sense") {
  auto run = [](const std::function<void(Attend &)> &change) {
    std::vector<Attend> ranks = atPath(2, "");
    change(ranks[0]);
    return meetAll({ranks[0]});
  };
  checkAll(run([](Attend &) {}), Failure::BadArgument, "neither a path");
  checkAll(run([](Attend &how) { how.options.ranks = 0; }), Failure::BadArgument, "0 ranks");
  checkAll(run([](Attend &how) { how.options.rank = 2; }), Failure::BadArgument, "no rank 2 of 2");
  checkAll(run([](Attend &how) { how.options.timeout = Milliseconds(0); }), Failure::BadArgument,
           "0 ms");
  checkAll(run([](Attend &how) { how.options.sockets = {dup(0), dup(0)}; }), Failure::BadArgument,
           "needs 1 sockets, not 2");
  llvm::Expected<Meeting> meeting = [] {
    JoinOptions options;
    options.rank = 0;
    options.ranks = 1;
    return meet(options, makeArena(4096, 1, 0), 4096);
  }();
  CHECK(llvm::toString(meeting.takeError()) ==
        "the arena of this rank is refused: it is not sealed against resizing");
}
