//===- ScheduleText.cpp -------------------------------------------------------===//
#include "frontend/cli/ScheduleText.h"

#include "frontend/cli/Output.h"

#include "runtime/Launch.h"
#include "runtime/rdma/Schedule.h"

#include <fmt/format.h>

#include <map>

namespace ccl::cli {
namespace {

using rdma::ScheduledList;
using rdma::ScheduleOptions;
using rdma::ScheduleTotals;

std::string requestText(const rdma::ScheduledRequest &one, int64_t rank,
                        const std::vector<int32_t> &nics) {
  const rdma::WorkRequest &request = one.request;
  return fmt::format("    {:<15} {:>9} bytes at {} of slot {}, tag {}, NIC {}{}{}\n",
                     request.immediate ? "WRITE_WITH_IMM" : "WRITE", request.bytes, request.offset,
                     one.slot, one.tag, nics[size_t(request.stripe)],
                     request.inlined ? " INLINE" : "", request.signaled ? " SIGNALED" : "");
}

std::string listsText(const Plan &plan, int64_t rank, const ScheduleOptions &options) {
  std::string text;
  const std::vector<int32_t> nics = rdma::nicsOf(rank, options);
  int64_t number = 0;
  rdma::PostedCounts posted;
  for (const ScheduledList &list : rdma::scheduleBatch(plan, rank, options, 0, posted)) {
    text += fmt::format("  list {}, to rank {} on host {}:\n", ++number, list.peer,
                        plan.hosts[size_t(list.peer)]);
    for (const rdma::ScheduledRequest &request : list.requests)
      text += requestText(request, rank, nics);
  }
  return text;
}

std::string totalsText(const ScheduleTotals &totals) {
  return fmt::format("{}, {}, {} requested, {} bytes", plural(totals.messages, "message"),
                     plural(totals.requests, "work request"),
                     plural(totals.completions, "completion"), totals.bytes);
}

} // namespace

llvm::Expected<std::string> scheduleText(const Plan &plan, const ScheduleRequest &request) {
  if (!plan.hasWires)
    return makeFailure(Failure::BadArgument, "{} sends too many messages to list them",
                       plan.program);
  llvm::Expected<RankFacts> facts = findFacts(plan, std::max<int64_t>(request.rank, 0));
  if (!facts)
    return facts.takeError();
  const int64_t count =
      plan.divisible ? roundUp(request.count, plan.contract.chunks) : request.count;
  llvm::Expected<Cut> cut = chooseCut(plan, *facts, count, request.slotBytes, 0);
  if (!cut)
    return cut.takeError();
  ScheduleOptions options;
  options.cut = {count, cut->microBatches, cut->stride, nullptr};
  options.nics = int(request.nics);
  options.limits.stripes = int(request.nics);
  std::string text = fmt::format(
      "{}: {} {}, {} elements a shard, {} of up to {} bytes a chunk\n", plan.program,
      plan.contract.str(), name(plan.type), count,
      fmt::format("{} micro-batch{}", cut->microBatches, cut->microBatches == 1 ? "" : "es"),
      cut->stride * sizeOf(plan.type));
  std::map<int32_t, ScheduleTotals> hosts;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    if (request.rank >= 0 && rank != request.rank)
      continue;
    const ScheduleTotals totals = rdma::totalsOf(plan, rank, options);
    text +=
        fmt::format("rank {} on host {}: {}\n", rank, plan.hosts[size_t(rank)], totalsText(totals));
    if (request.rank >= 0)
      text += listsText(plan, rank, options);
    ScheduleTotals &host = hosts[plan.hosts[size_t(rank)]];
    host.nicBytes.resize(size_t(request.nics), 0);
    for (size_t nic = 0; nic < totals.nicBytes.size(); ++nic)
      host.nicBytes[nic] += totals.nicBytes[nic];
  }
  if (request.rank < 0)
    for (const auto &[host, totals] : hosts)
      for (size_t nic = 0; nic < totals.nicBytes.size(); ++nic)
        text += fmt::format("host {} NIC {}: {} bytes\n", host, nic, totals.nicBytes[nic]);
  return text;
}

} // namespace ccl::cli
