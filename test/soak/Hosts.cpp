//===- Hosts.cpp --------------------------------------------------------------------===//
#include "test/soak/Hosts.h"

#include "frontend/cli/Forked.h"
#include "runtime/rdma/Nic.h"

#include <sys/wait.h>

namespace ccl::soak {

JoinOptions HostsPlace::joining(int64_t rank, Milliseconds timeout) const {
  JoinOptions options;
  options.rank = rank;
  options.ranks = ranks();
  options.address = address;
  options.secret = "of this test";
  if (here < 0)
    options.host = fmt::format("host{}", hostOf(rank));
  options.timeout = timeout;
  options.nics = [device = nicOf(hostOf(rank)),
                  mtu = mtu]() -> llvm::Expected<std::vector<std::unique_ptr<rdma::Nic>>> {
    rdma::NicOptions port;
    port.device = device;
    port.mtu = mtu;
    auto nic = rdma::openVerbs("", port);
    if (!nic)
      return nic.takeError();
    std::vector<std::unique_ptr<rdma::Nic>> nics;
    nics.push_back(std::move(*nic));
    return nics;
  };
  return options;
}

std::string runHosts(const HostsPlace &place, Milliseconds timeout,
                     const std::function<llvm::Error(std::unique_ptr<Member>)> &body,
                     const std::atomic<int64_t> &progress) {
  struct Said {
    std::atomic<bool> taken;
    char text[4096];
  };
  const Shared<Said> said;
  auto say = [&](const std::string &text) {
    if (!said->taken.exchange(true))
      text.copy(said->text, sizeof(said->text) - 1);
  };
  auto runRank = [&](int64_t rank) -> llvm::Error {
    auto member = Member::join(place.joining(rank, timeout));
    return member ? body(std::move(*member)) : member.takeError();
  };
  // Each leads a group of its own, as waitForChild asks for.
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < place.ranks(); ++rank) {
    if (!place.isHere(rank))
      continue;
    const pid_t child = cli::forkChild([&] {
      setpgid(0, 0);
      llvm::Error error = runRank(rank);
      const bool failed = bool(error);
      if (failed)
        say(fmt::format("rank {}: {}", rank, llvm::toString(std::move(error))));
      return int(failed);
    });
    if (child < 0)
      say(fmt::format("cannot fork rank {}: {}", rank, strerror(errno)));
    else
      setpgid(child, child);
    children.push_back(child);
  }
  for (pid_t child : children)
    if (child > 0)
      if (std::string ended = waitForChild(child, progress, 4 * timeout); !ended.empty())
        say(ended);
  return said->taken ? said->text : "";
}

} // namespace ccl::soak
