//===- NicSettings.h - Which NICs the environment chooses ---------------------------===//
#pragma once

#include "runtime/Settings.h"
#include "runtime/rdma/Nic.h"

namespace ccl::rdma {

/// One for each port that CCL_NICS names, in that order; if it is not set, for each that can be
/// used. Errors: the list cannot be parsed or names a port twice (Failure::BadArgument), no port
/// can be used, and why (Failure::Machine). A port that is named is not looked at: openVerbs()
/// does that.
llvm::Expected<std::vector<NicOptions>> chooseNics(const Settings &settings);

} // namespace ccl::rdma
