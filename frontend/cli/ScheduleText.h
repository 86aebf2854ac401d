//===- ScheduleText.h - Work requests between hosts, for people ------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "llvm/Support/Error.h"

namespace ccl::cli {

struct ScheduleRequest {
  int64_t count = 0; ///< elements of a shard
  int64_t slotBytes = 0;
  int64_t nics = 1;  ///< of each host
  int64_t rank = -1; ///< only this one, with its work requests; -1: the totals of all
};

/// What ranks of `plan` (with hosts and wires) send to other hosts: of one rank each list of work
/// requests of the first micro-batch, then totals of a launch, by rank and by NIC. Error
/// (Failure::BadArgument): slots that are too small, too many messages.
llvm::Expected<std::string> scheduleText(const Plan &plan, const ScheduleRequest &request);

} // namespace ccl::cli
