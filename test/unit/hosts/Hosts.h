//===- Hosts.h - Ranks of several hosts in one process ---------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/rdma/Nic.h"

namespace ccl::test {

/// A number that no one listens at.
int freePort();

/// Threads as ranks of hosts by these names, on one emulated fabric: the NIC of rank r is "nic<r>".
class HostTeam {
public:
  explicit HostTeam(std::vector<std::string> hosts, MemberOptions options = {},
                    rdma::Fabric::Options fabric = {});
  int64_t ranks() const { return int64_t(hosts.size()); }
  Member &operator[](int64_t rank) { return *members[size_t(rank)]; }
  /// Body on a thread for each rank; what went wrong, "" if nothing.
  std::string run(const std::function<llvm::Error(int64_t, Member &)> &body);

  std::vector<std::string> hosts;
  std::shared_ptr<rdma::Fabric> fabric;
  std::vector<std::unique_ptr<Member>> members;
};

} // namespace ccl::test
