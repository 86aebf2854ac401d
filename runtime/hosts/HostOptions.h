//===- HostOptions.h - What settings say about other hosts ----------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/Settings.h"

namespace ccl {

/// If options.address is set, or CCL_ADDRESS and no other place to meet: fills in the secret, the
/// name of this host and its NICs. Error (Failure::BadArgument): there is no secret, or its file
/// is open to others.
llvm::Error fillHostOptions(const Settings &settings, JoinOptions &options);

} // namespace ccl
