//===- HostsWorld.h - Ranks of several hosts ------------------------------------===//
#pragma once

#include "runtime/Member.h"

namespace ccl {

/// See Member::join: finds the others at options.address.
llvm::Expected<std::unique_ptr<Member>> joinHosts(JoinOptions options);

} // namespace ccl
