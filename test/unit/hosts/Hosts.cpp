//===- Hosts.cpp --------------------------------------------------------------===//
#include "test/unit/hosts/Hosts.h"

#include "runtime/bootstrap/Descriptor.h"

#include "doctest/doctest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ccl::test {

int freePort() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr *>(&address), length) == 0);
  REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length) == 0);
  return ntohs(address.sin_port);
}

HostTeam::HostTeam(std::vector<std::string> names, MemberOptions options,
                   rdma::Fabric::Options fabricOptions)
    : hosts(std::move(names)), fabric(rdma::Fabric::create(fabricOptions)), members(hosts.size()) {
  const std::string address = fmt::format("127.0.0.1:{}", freePort());
  llvm::Error error = onEveryRank(ranks(), [&](int64_t rank) -> llvm::Error {
    JoinOptions joining;
    joining.rank = rank;
    joining.ranks = ranks();
    joining.address = address;
    joining.secret = "open sesame";
    joining.host = hosts[size_t(rank)];
    joining.member = options;
    joining.nics = [this, rank]() -> llvm::Expected<std::vector<std::unique_ptr<rdma::Nic>>> {
      std::vector<std::unique_ptr<rdma::Nic>> nics;
      nics.push_back(fabric->addNic(fmt::format("nic{}", rank)));
      return nics;
    };
    auto member = Member::join(std::move(joining));
    if (!member)
      return member.takeError();
    members[size_t(rank)] = std::move(*member);
    return llvm::Error::success();
  });
  const std::string message = llvm::toString(std::move(error));
  REQUIRE(message == "");
}

std::string HostTeam::run(const std::function<llvm::Error(int64_t, Member &)> &body) {
  return llvm::toString(
      onEveryRank(ranks(), [&](int64_t rank) { return body(rank, *members[size_t(rank)]); }));
}

} // namespace ccl::test
