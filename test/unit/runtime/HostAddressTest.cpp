//===- HostAddressTest.cpp - Where rank 0 listens, and what hosts are called ------===//
#include "test/unit/runtime/Hosts.h"

#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sched.h>
#include <sys/stat.h>

#include <fstream>

using namespace ccl;
using namespace ccl::bootstrap;
using namespace ccl::test;
using namespace std::chrono_literals;

namespace {

std::string errorOf(const HostLinkOptions &options) {
  auto link = HostLink::meet(options);
  return link ? "met" : llvm::toString(link.takeError());
}
/// Of rank `rank` of 2 that meet at `address`, in a child: a resolver may leave a thread.
std::string errorAt(const std::string &address, int64_t rank, Milliseconds timeout = 1000ms) {
  Child child([&] { return errorOf(hostOptions(rank, 2, address, timeout)); });
  return child.text();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("addresses as they are written") {
  for (const auto &[text, host, port] : {std::tuple("node1:29500", "node1", 29500),
                                         {"10.0.0.1:1", "10.0.0.1", 1},
                                         {"[fd00::1]:65535", "fd00::1", 65535},
                                         {"a.b-c:80", "a.b-c", 80}}) {
    const HostPort where = llvm::cantFail(parseAddress(text));
    CHECK(where.host == host);
    CHECK(where.port == port);
  }
  for (const auto &[text, why] :
       {std::pair("", "names no port"),
        {"node1", "names no port"},
        {"node1:", "has no port from 1 to 65535"},
        {"node1:0", "has no port from 1 to 65535"},
        {"node1:65536", "has no port from 1 to 65535"},
        {"node1:99999999999999999999", "has no port from 1 to 65535"},
        {"node1:-1", "has no port from 1 to 65535"},
        {"node1:+5", "has no port from 1 to 65535"},
        {"node1:http", "has no port from 1 to 65535"},
        {"::1:29500", "has colons in its host; IPv6 is written in brackets"},
        {"[]:29500", "names no host"},
        {":29500", "names no host"}}) {
    CAPTURE(text);
    auto where = parseAddress(text);
    REQUIRE(!where);
    const std::string error = llvm::toString(where.takeError());
    CHECK(contains(error, fmt::format("'{}' (CCL_ADDRESS) {}", text, why)));
    CHECK(contains(error, "expected host:port or [v6]:port"));
  }
}

TEST_CASE("addresses at which nobody can listen") {
  CHECK(errorAt("192.0.2.1:29500", 0) ==
        "192.0.2.1:29500 is no address of this host, but rank 0 is to listen there (CCL_ADDRESS): "
        "name one of its own, or run rank 0 there");
  FreeAddress address;
  const Descriptor other = llvm::cantFail(listenAt({address.address}, address.text));
  CHECK(errorAt(address.text, 0) ==
        fmt::format("another process listens at {}: choose another port (CCL_ADDRESS)",
                    address.text));
  CHECK(contains(errorAt("127.0.0.1:0", 0), "has no port from 1 to 65535"));
  CHECK(contains(errorAt("127.0.0.1:0", 1), "has no port from 1 to 65535"));
}

TEST_CASE("rank 0 listens where it was told, there alone") {
  FreeAddress address;
  const Descriptor listener = llvm::cantFail(listenAt({address.address}, address.text));
  HostAddress elsewhere = address.address;
  auto *v4 = reinterpret_cast<sockaddr_in *>(&elsewhere.storage);
  v4->sin_addr.s_addr = htonl(0x7f000002); // 127.0.0.2 is this host, too
  CHECK(connectTo(elsewhere, Clock::now() + 1s).error == ECONNREFUSED);
  CHECK(connectTo(address.address, Clock::now() + 1s).error == 0);
}

TEST_CASE("names that lead nowhere") {
  // Where there is no resolver to ask, there is no answer in time.
  for (int64_t rank : {0, 1}) {
    const std::string error = errorAt("no-such-host.invalid:29500", rank, 600ms);
    CAPTURE(error);
    CHECK(contains(error,
                   "the host 'no-such-host.invalid' of rank 0 (CCL_ADDRESS) cannot be found: "));
  }
  // Nobody is there: an error at the deadline, whatever the network says to it.
  const Clock::time_point begin = Clock::now();
  CHECK(contains(errorAt("192.0.2.1:29500", 1, 500ms),
                 "rank 0 of 2 did not come: nobody answers at 192.0.2.1:29500: "));
  CHECK(millisecondsSince(begin) < 3000);
}

TEST_CASE("one does not take oneself for rank 0") {
  // The kernel gives ports of this range to who connects: tried often enough, also the one wanted.
  FreeAddress address;
  int own = 0;
  for (int i = 0; i < 300; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto *to = reinterpret_cast<const sockaddr *>(&address.address.storage);
    if (bind(socket.get(), to, address.address.bytes) == 0 &&
        connect(socket.get(), to, address.address.bytes) == 0)
      ++own;
    CHECK_FALSE(connectTo(address.address, Clock::now() + 1s).socket);
  }
  CHECK(own > 0); // such connections there are
}

TEST_CASE("options that make no sense") {
  const HostLinkOptions good = hostOptions(1, 2, "127.0.0.1:29500");
  auto check = [&](const std::function<void(HostLinkOptions &)> &change, const std::string &text) {
    HostLinkOptions options = good;
    change(options);
    CHECK(errorOf(options) == text);
  };
  check([](HostLinkOptions &options) { options.ranks = 0; }, "0 ranks");
  check([](HostLinkOptions &options) { options.rank = 2; }, "there is no rank 2 of 2");
  check([](HostLinkOptions &options) { options.rank = -1; }, "there is no rank -1 of 2");
  check([](HostLinkOptions &options) { options.timeout = 0ms; }, "the time-out is 0 ms");
  check([](HostLinkOptions &options) { options.secret = ""; },
        "there is no secret that all ranks know (CCL_SECRET, CCL_SECRET_FILE)");
  check([](HostLinkOptions &options) { options.address = ""; },
        "there is no address of rank 0 (CCL_ADDRESS)");
  check([](HostLinkOptions &options) { options.host = std::string(2000, 'h'); },
        "the name of the host (CCL_HOST_ID) has 2000 bytes, the limit is 1024");
}

TEST_CASE("the secret: of the variable or of a file of one's own") {
  Folder folder;
  const std::string path = folder.path("secret");
  auto write = [&](const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
    REQUIRE(chmod(path.c_str(), 0600) == 0);
  };
  auto errorOf = [&] {
    auto secret = readSecret("", path);
    return secret ? "'" + *secret + "'" : llvm::toString(secret.takeError());
  };
  CHECK(llvm::cantFail(readSecret("", "")) == "");
  CHECK(llvm::cantFail(readSecret("word", "")) == "word");
  CHECK(errorOf() == fmt::format("cannot read the secret in {} (CCL_SECRET_FILE): No such file or "
                                 "directory",
                                 path));
  write("open sesame\r\nsecond line\n");
  CHECK(errorOf() == "'open sesame'");
  write("no end");
  CHECK(errorOf() == "'no end'");
  auto both = readSecret("word", path);
  CHECK(contains(llvm::toString(both.takeError()), "set one of them"));
  for (auto [mode, shown] : {std::pair(0644, "0644"), {0640, "0640"}, {0602, "0602"}}) {
    REQUIRE(chmod(path.c_str(), mode_t(mode)) == 0);
    CHECK(errorOf() ==
          fmt::format("others may read or write the secret in {} (CCL_SECRET_FILE, mode {}): chmod "
                      "600 {}",
                      path, shown, path));
  }
  for (size_t bytes : {0, 4097}) {
    write(std::string(bytes, 's'));
    CHECK(contains(errorOf(), fmt::format("has {} bytes: a secret has 1 to 4096", bytes)));
  }
  write(std::string(4096, 's') + "\n");
  CHECK(errorOf().size() == 4098);
  auto folderItself = readSecret("", folder.path());
  CHECK(contains(llvm::toString(folderItself.takeError()), "(CCL_SECRET_FILE) is no file"));
}

TEST_CASE("the identity of a host") {
  CHECK(hostIdentity("mine") == "mine");
  const std::string here = hostIdentity("");
  CHECK(here.find('\n') == std::string::npos);
  for (const char *part : {" pid:[", " ipc:[", " mnt:[", " user:["})
    CHECK(contains(here, part));
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  CHECK(boot.size() == 36);
  CHECK(here.starts_with(boot + " "));
  Child same([] { return hostIdentity(""); });
  CHECK(same.text() == here);
  if (geteuid() != 0)
    return; // needs the right to make namespaces
  Child other([] { return unshare(CLONE_NEWIPC) == 0 ? hostIdentity("") : ""; });
  const std::string there = other.text();
  CHECK(there.starts_with(boot + " "));
  CHECK(there != here);
}
