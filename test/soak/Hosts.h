//===- Hosts.h - Ranks of several hosts, for which NICs of this machine stand ---------===//
#pragma once

#include "test/soak/Crew.h"

#include <optional>

namespace ccl::soak {

/// Rank r is of host r / perHost, which has a NIC of its own.
struct HostsPlace {
  int64_t hosts = 2, perHost = 2;
  /// Only ranks of this host are started here: the others are on another machine, which does the
  /// same. -1: all of them, and each host has a name of its own.
  int64_t here = -1;
  std::string address = "10.77.0.1:14791"; ///< of rank 0
  std::string nic = "rxe";                 ///< and the number of the host, or 0 if it is `here`
  int mtu = 0;                             ///< bytes, 0: of the ports

  int64_t ranks() const { return hosts * perHost; }
  int64_t hostOf(int64_t rank) const { return rank / perHost; }
  bool isHere(int64_t rank) const { return here < 0 || hostOf(rank) == here; }
  int64_t ranksHere() const { return here < 0 ? ranks() : perHost; }
  std::string nicOf(int64_t host) const { return nic + std::to_string(here < 0 ? host : 0); }
  /// How this rank joins, but for the sizes.
  JoinOptions joining(int64_t rank, Milliseconds timeout) const;
};

/// Calls body(member) in a process of its own for every rank that is here. Returns "" or what went
/// wrong, see runCrew.
std::string runHosts(const HostsPlace &place, Milliseconds timeout,
                     const std::function<llvm::Error(std::unique_ptr<Member>)> &body,
                     const std::atomic<int64_t> &progress);

} // namespace ccl::soak
