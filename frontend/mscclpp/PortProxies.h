//===- PortProxies.h - Proxies that are port channels of a block ----------===//
#pragma once

#include "dialect/model/Program.h"

#include <optional>

namespace ccl::mscclpp {

/// A proxy that does what a port channel of one thread block does: told by a local signal of
/// the block it puts local chunks to one peer, signals that peer, and tells the block.
struct PortProxy {
  int32_t block = -1; ///< index among the rank's agents
  int32_t peer = -1;
  int32_t trigger = -1; ///< the proxy's `from` end
  int32_t done = -1;    ///< the proxy's `to` end, or -1
  int32_t remote = -1;  ///< the proxy's `to` end to the peer, or -1
};

/// Whether agent `number` of a rank is such a proxy.
std::optional<PortProxy> findPortProxy(const model::RankProgram &program, int32_t rank,
                                       size_t number);

} // namespace ccl::mscclpp
