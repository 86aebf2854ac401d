//===- CudaFailure.cpp - Failing, and who is to blame ------------------------------===//
#include "runtime/Group.h"
#include "runtime/cuda/CudaGroup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

namespace ccl::cuda {

llvm::Error CudaGroup::fail(llvm::Error error) {
  if (peers) {
    error = peers->fail(std::move(error));
    __atomic_store_n(&control()->abort, 1u, __ATOMIC_RELEASE);
    return error;
  }
  const std::lock_guard lock(failureMutex);
  llvm::handleAllErrors(
      std::move(error),
      [&](const RuntimeError &e) {
        if (!failed)
          failed.emplace(e);
      },
      [&](const llvm::ErrorInfoBase &e) {
        if (!failed)
          failed.emplace(Failure::Machine, e.message());
      });
  // Kernels of other GPUs need not wait for what does not come.
  __atomic_store_n(&control()->abort, 1u, __ATOMIC_RELEASE);
  return llvm::make_error<RuntimeError>(*failed);
}

void CudaGroup::abort(std::string reason) {
  llvm::consumeError(fail(makeFailure(Failure::Aborted, "{}", reason)));
}

void CudaGroup::collect() {
  const std::lock_guard lock(failureMutex);
  FailureReport &found = control()->failure;
  if (failed || __atomic_load_n(&found.written, __ATOMIC_ACQUIRE) == 0)
    return;
  const Blame who = blame(found);
  failed.emplace(Failure::Timeout, describeReport(found) + "; " + who.why, who.rank);
  if (peers) // who was first everywhere is right
    llvm::consumeError(peers->fail(llvm::make_error<RuntimeError>(*failed)));
}

const WaitReport *CudaGroup::reportOf(int64_t rank) const {
  if (watch)
    return watch->reportOf(rank);
  const FailureReport *report = reinterpret_cast<const FailureReport *>(control() + 1) + rank;
  return __atomic_load_n(&report->written, __ATOMIC_ACQUIRE) != 0 ? report : nullptr;
}

/// Whose waits are as long, and those of nobody else, does not go on. A shorter time-out than
/// the least of it says nothing about who does.
static int64_t longStillness(const WaitReport &first) {
  constexpr int64_t ms = 1'000'000;
  return std::clamp(int64_t(first.timeoutNs / 4), 20 * ms, 100 * ms);
}

CudaGroup::Blame CudaGroup::findCulprit(const WaitReport &first,
                                        std::vector<const WaitReport *> &waits) const {
  // Who waits has seen by now that it is over, or does in a moment; other processes see it later.
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(peers ? 300 : 50);
  auto waitOf = [&](int64_t rank) -> const WaitReport * {
    const WaitReport *report = nullptr;
    while (!(report = reportOf(rank))) {
      if (std::chrono::steady_clock::now() > deadline)
        return nullptr;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // Launches that were queued behind this one end, too.
    return report->launch == first.launch ? report : nullptr;
  };
  std::vector<int64_t> chain;
  waits = {&first};
  for (int64_t rank = first.rank;;) {
    if (auto seen = llvm::find(chain, rank); seen != chain.end())
      return {first.peer,
              fmt::format("ranks {} wait for each other", fmt::join(seen, chain.end(), ", "))};
    chain.push_back(rank);
    if (peers && rank != first.rank)
      if (std::optional<std::string> why = peers->host().notRunning(rank))
        return {rank, *why, /*isSure=*/true};
    int64_t next = first.peer;
    if (chain.size() > 1 || next == rank) {
      const WaitReport *wait = waitOf(rank);
      next = wait ? wait->peer : -1;
      if (wait)
        waits.push_back(wait);
    }
    if (next < 0 || next >= theRanks)
      return {rank, fmt::format("rank {} waits for nobody: it has ended, has not begun, or is slow",
                                rank)};
    rank = next;
  }
}

CudaGroup::Blame CudaGroup::blame(const WaitReport &first) const {
  std::vector<const WaitReport *> waits;
  Blame found = findCulprit(first, waits);
  const WaitReport *last = waits.front();
  for (const WaitReport *wait : waits)
    if (wait->waitedNs < last->waitedNs)
      last = wait;
  if (found.isSure || last->waitedNs >= longStillness(first))
    return found;
  return {-1, describeSlow(last->rank, last->waitedNs / 1'000'000 + 1, first.microBatches)};
}

std::optional<RuntimeError> CudaGroup::failure() {
  if (peers)
    return peers->failure(); // the watch tells it of kernels
  collect();
  const std::lock_guard lock(failureMutex);
  return failed;
}

llvm::Error CudaGroup::firstFailure() {
  std::optional<RuntimeError> first = failure();
  return first ? llvm::make_error<RuntimeError>(*first) : llvm::Error::success();
}

std::string CudaGroup::describeReport(const WaitReport &found) const {
  std::string program = "a program", agent = fmt::format("{}", found.agent);
  if (found.plan >= 0 && size_t(found.plan) < plans.size()) {
    const Named &plan = plans[size_t(found.plan)];
    program = plan.name;
    if (size_t(found.rank) < plan.agents.size() &&
        size_t(found.agent) < plan.agents[size_t(found.rank)].size())
      agent = agentName(plan.agents[size_t(found.rank)][size_t(found.agent)]);
  }
  std::string text = fmt::format(
      "rank {} timed out after {} ms in launch {} of {}: agent {}, instance {}, ", found.rank,
      found.timeoutNs / 1'000'000, found.launch + 1, program, agent, found.instance);
  if (found.peer < 0)
    return text + fmt::format("at micro-batch {} of {}", found.microBatch, found.microBatches);
  std::string what;
  switch (found.instruction) {
  case -1: what = "the entry"; break;
  case -2: what = "the barrier between micro-batches"; break;
  case -3: what = "the barrier at its end"; break;
  default: what = fmt::format("instruction {}", found.instruction);
  }
  text += fmt::format("micro-batch {}, {} waits for rank {}", found.microBatch, what, found.peer);
  if (found.numSlots < 0)
    return text + fmt::format(" (channel from it): data flagged {} has not come", found.expected);
  if (found.instruction >= 0)
    text += fmt::format(" (channel {} it{})", found.channelTo ? "to" : "from",
                        found.numSlots > 0 ? fmt::format(", {} slots", found.numSlots) : "");
  return text + fmt::format(": expected counter {}, found {}", found.expected, found.found);
}

} // namespace ccl::cuda
