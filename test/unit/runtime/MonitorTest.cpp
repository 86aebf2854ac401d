//===- MonitorTest.cpp - Peers that go away --------------------------------------===//
#include "runtime/bootstrap/Monitor.h"
#include "test/unit/runtime/Processes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>

using namespace ccl;
using namespace ccl::test;

namespace {

Descriptor pidfdOf(pid_t pid) { return Descriptor(int(syscall(434, pid, 0))); }

/// A peer that stays until it is told to end; `theirs` is its end of the socket.
struct Peer {
  Signal go;
  Descriptor ours, theirs;
  std::optional<Child> child;

  explicit Peer(std::function<void()> end) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      abort();
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
    child.emplace([this, end] {
      ours.reset();
      go.wait();
      end();
      return std::string();
    });
    theirs.reset();
  }
};

Meeting meetingOf(std::vector<std::unique_ptr<Peer>> &peers, bool withSockets) {
  Meeting meeting;
  meeting.ranks = int64_t(peers.size()) + 1;
  meeting.peers.resize(peers.size() + 1);
  for (size_t i = 0; i < peers.size(); ++i) {
    PeerLink &link = meeting.peers[i + 1];
    link.pid = peers[i]->child->pid();
    link.pidfd = pidfdOf(link.pid);
    if (withSockets)
      link.socket = std::move(peers[i]->ours);
  }
  return meeting;
}

/// The monitor of rank 0 and what it reported.
class Watched {
public:
  explicit Watched(Meeting meeting) {
    monitor = llvm::cantFail(Monitor::start(
        meeting,
        [this](int64_t rank, const std::string &how) {
          std::lock_guard lock(mutex);
          reports.push_back(fmt::format("{}: {}", rank, how));
          reported.tell();
        },
        [this] { ticked.tell(); }));
  }
  explicit Watched(std::vector<std::unique_ptr<Peer>> &peers, bool withSockets = true)
      : Watched(meetingOf(peers, withSockets)) {}
  std::string takeReports() {
    std::lock_guard lock(mutex);
    std::string text;
    for (const std::string &report : std::exchange(reports, {}))
      text += report + "\n";
    return text;
  }

  Signal reported, ticked;
  std::mutex mutex;
  std::vector<std::string> reports;
  std::unique_ptr<Monitor> monitor;
};

std::vector<std::unique_ptr<Peer>> makePeers(std::vector<std::function<void()>> ends) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::function<void()> &end : ends)
    peers.push_back(std::make_unique<Peer>(std::move(end)));
  return peers;
}

/// The test itself stays without threads.
void runInChild(const std::function<std::string()> &body) {
  Child child(body);
  CHECK(child.text() == "fine");
}
/// The same with a peer that ends when it is told to.
void runWithPeer(
    const std::function<std::string(std::vector<std::unique_ptr<Peer>> &peers)> &body) {
  runInChild([&] {
    auto peers = makePeers({[] {}});
    return body(peers);
  });
}

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return fmt::format("line {}: {}", __LINE__, #condition);                                     \
  } while (false)

std::string readTask(const std::string &task, const std::string &file) {
  std::ifstream stream(task + "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

} // namespace

TEST_CASE("how a child ended is told, once") {
  for (bool withSockets : {true, false})
    runInChild([&]() -> std::string {
      auto peers = makePeers({[] { _exit(3); }, [] { kill(getpid(), SIGKILL); }, [] {}});
      Watched watched(peers, withSockets);
      watched.ticked.wait(2);
      EXPECT(watched.takeReports() == "");
      peers[0]->go.tell();
      watched.reported.wait();
      EXPECT(watched.takeReports() ==
             fmt::format("1: its process {} ended: exit status 3\n", peers[0]->child->pid()));
      peers[1]->go.tell();
      watched.reported.wait();
      EXPECT(watched.takeReports() ==
             fmt::format("2: its process {} ended: killed by signal 9 (Killed)\n",
                         peers[1]->child->pid()));
      // Who asks for the status still gets it.
      EXPECT(peers[0]->child->status() == 3);
      EXPECT(peers[1]->child->status() == -SIGKILL);
      watched.ticked.wait(5);
      EXPECT(watched.takeReports() == "");
      return "fine";
    });
}

TEST_CASE("a process that is no child of ours") {
  auto peers = makePeers({[] {}});
  runInChild([&]() -> std::string {
    Watched watched(peers);
    peers[0]->go.tell();
    // The test keeps a copy of the socket's end; the pidfd tells all the same.
    watched.reported.wait();
    EXPECT(watched.takeReports() ==
           fmt::format("1: its process {} ended\n", peers[0]->child->pid()));
    return "fine";
  });
}

TEST_CASE("a closed socket of a living process; what is sent is thrown away") {
  runInChild([]() -> std::string {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    Signal stay;
    Child living([&] {
      close(ends[0]);
      close(ends[1]);
      stay.wait();
      return std::string();
    });
    Meeting meeting;
    meeting.ranks = 2;
    meeting.peers.resize(2);
    meeting.peers[1].pid = living.pid();
    meeting.peers[1].pidfd = pidfdOf(living.pid());
    meeting.peers[1].socket = Descriptor(ends[0]);
    Watched watched(std::move(meeting));
    EXPECT(send(ends[1], "rubbish", 7, 0) == 7);
    watched.ticked.wait(4);
    EXPECT(watched.takeReports() == "");
    int unread = -1; // of the other end: it has been taken
    EXPECT(recv(ends[1], &unread, 1, MSG_DONTWAIT) < 0);
    close(ends[1]);
    watched.reported.wait();
    EXPECT(watched.takeReports() ==
           fmt::format("1: its process {} closed its connection\n", living.pid()));
    stay.tell();
    EXPECT(living.status() == 0);
    watched.ticked.wait(3);
    EXPECT(watched.takeReports() == "");
    return "fine";
  });
}

TEST_CASE("the thread has a name, takes no signals, and leaves nothing") {
  runWithPeer([](auto &peers) -> std::string {
    // Signals are two pipes each.
    const int before = countDescriptors();
    {
      Watched watched(peers);
      watched.ticked.wait();
      int found = 0;
      for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
        if (readTask(task.path(), "comm") == "ccl-monitor\n") {
          ++found;
          const std::string status = readTask(task.path(), "status");
          const size_t at = status.find("SigBlk:\t");
          // All but what nobody can block; glibc keeps 32 and 33 for itself.
          EXPECT(at != std::string::npos);
          const uint64_t blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
          EXPECT((blocked | 1ull << 31 | 1ull << 32) == ~(1ull << 8 | 1ull << 18));
        }
      EXPECT(found == 1);
    }
    EXPECT(countDescriptors() == before - 1); // `ours` of the peer was taken
    return "fine";
  });
}

TEST_CASE("a forked child closes its copies and does not miss the thread") {
  runWithPeer([](auto &peers) -> std::string {
    const int before = countDescriptors();
    Watched watched(peers);
    const int with = countDescriptors();
    watched.ticked.wait();
    Child forked([&]() -> std::string {
      const int here = countDescriptors();
      watched.monitor->closeInChild();
      EXPECT(here - countDescriptors() == 3); // pidfd, socket, stop
      watched.monitor.reset();
      return "fine";
    });
    EXPECT(forked.text() == "fine");
    EXPECT(with == before + 6); // two signals, pidfd, stop; the socket was there
    peers[0]->go.tell();
    watched.reported.wait();
    return "fine";
  });
}

TEST_CASE("closed sockets of one's own say nothing of the peers") {
  runWithPeer([](auto &peers) -> std::string {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    peers[0]->ours = Descriptor(ends[0]);
    Watched watched(peers);
    watched.monitor->closeSockets();
    char byte;
    EXPECT(recv(ends[1], &byte, 1, 0) == 0); // the peer sees it
    watched.ticked.wait(4);
    EXPECT(watched.takeReports() == "");
    peers[0]->go.tell();
    watched.reported.wait();
    EXPECT(watched.takeReports().find("ended: exit status 0") != std::string::npos);
    return "fine";
  });
}

TEST_CASE("no thread to be had") {
  if (geteuid() != 0)
    return; // needs a user of its own: the limit counts all threads of a user
  runInChild([]() -> std::string {
    rlimit none{0, 0};
    EXPECT(setgid(54322) == 0 && setuid(54322) == 0);
    EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0);
    Meeting meeting;
    meeting.peers.resize(1);
    auto monitor = Monitor::start(meeting, [](int64_t, const std::string &) {}, [] {});
    EXPECT(!monitor);
    EXPECT(llvm::toString(monitor.takeError()).find("cannot start the thread") == 0);
    return "fine";
  });
}
