//===- ThreadCommunicator.cpp -----------------------------------------------===//
#include "runtime/ThreadCommunicator.h"

#include "runtime/Log.h"

#include <fmt/format.h>

#include <sched.h>

#include <thread>

namespace ccl {
namespace {

/// A wait as long as this is reported (and goes on): a rank may rightly spend minutes
/// on something else, but someone should know.
constexpr std::chrono::seconds slowWait{30};

/// Cores that this process may use, which can be fewer than the machine has.
int64_t availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  return int64_t(std::thread::hardware_concurrency());
}

} // namespace

ThreadCommunicator::ThreadCommunicator(int64_t ranks, CommunicatorOptions options)
    : numRanks(ranks), options(options), crowded(ranks > availableCores()),
      channels(options.slotBytes), states(std::make_unique<Rank[]>(size_t(ranks))) {
  for (int64_t r = 0; r < ranks; ++r) {
    states[size_t(r)].communicator = this;
    states[size_t(r)].rank = r;
  }
  for (auto &table : tables)
    table.resize(size_t(ranks), nullptr);
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

void ThreadCommunicator::fail(Failure category, std::string message) {
  {
    std::lock_guard lock(failureMutex);
    if (failed.load(std::memory_order_relaxed))
      return;
    failureCategory = category;
    failureMessage = std::move(message);
    failed.store(true, std::memory_order_release);
  }
  log::info(log::Subsystem::Abort, -1, "communicator of {} ranks aborted: {}", numRanks,
            failureMessage);
}

llvm::Error ThreadCommunicator::fail(llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error), [&](const RuntimeError &e) { fail(e.category, e.message); },
      [&](const llvm::ErrorInfoBase &e) { fail(Failure::Machine, e.message()); });
  return firstFailure();
}

llvm::Error ThreadCommunicator::firstFailure() const {
  std::lock_guard lock(failureMutex);
  return llvm::make_error<RuntimeError>(failureCategory, failureMessage);
}

std::string ThreadCommunicator::describe(const Rank &self) const {
  return fmt::format("launch {} of {} (hash {}, {} {})", self.launch, self.plan->program,
                     self.plan->hash, self.plan->contract.str(), name(self.plan->type));
}

std::string ThreadCommunicator::describeMissing(const Rank &self) const {
  std::string missing;
  int64_t count = 0;
  for (int64_t r = 0; r < numRanks; ++r) {
    if (states[size_t(r)].entered.load(std::memory_order_acquire) >= self.launch)
      continue;
    if (++count <= 8)
      missing += fmt::format("{}{}", count > 1 ? ", " : "", r);
  }
  if (count > 8)
    missing += fmt::format(" and {} more", count - 8);
  return fmt::format("rank{} {} did not come", count == 1 ? "" : "s", missing);
}

std::string ThreadCommunicator::describeOthers(const Rank &self) const {
  std::string text;
  for (int64_t r = 0; r < numRanks; ++r) {
    const Rank &other = states[size_t(r)];
    if (r == self.rank)
      continue;
    const int32_t peer = other.waitsFor.load(std::memory_order_relaxed);
    text += fmt::format("; rank {} ", r);
    if (peer >= 0)
      text += fmt::format("waits for rank {} at instruction {}", peer,
                          other.instruction.load(std::memory_order_relaxed));
    else if (peer == everybody)
      text += fmt::format("waits at the entry of launch {}",
                          other.entered.load(std::memory_order_acquire));
    else
      text += "does not wait";
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

template <typename Ready, typename Describe>
ThreadCommunicator::Wait ThreadCommunicator::waitUntil(Rank &self, int32_t peer,
                                                       int64_t instruction, Ready ready,
                                                       Describe describe) {
  Backoff backoff(crowded);
  bool published = false, reported = false;
  Wait result = Wait::Done;
  while (!ready()) {
    if (!backoff.pause())
      continue;
    if (hasFailed()) {
      result = Wait::Aborted;
      break;
    }
    if (!published) {
      self.instruction.store(instruction, std::memory_order_relaxed);
      self.waitsFor.store(peer, std::memory_order_relaxed);
      published = true;
    }
    const Clock::time_point now = Clock::now();
    if (now >= self.deadline) {
      // Whoever looks last may still find it done; a late result is a result.
      if (ready())
        break;
      fail(Failure::Timeout, fmt::format("rank {} timed out after {} ms in {}", self.rank,
                                         self.timeout.count(), describe()));
      result = Wait::TimedOut;
      break;
    }
    if (!reported && now - self.begin >= slowWait) {
      log::warn(log::Subsystem::Wait, self.rank, "slow, {} s so far: {}", slowWait.count(),
                describe());
      reported = true;
    }
  }
  if (published)
    self.waitsFor.store(nobody, std::memory_order_relaxed);
  return result;
}

int32_t ThreadCommunicator::waitInKernel(KernelArgs *args, ChannelEnd *end, uint64_t value) {
  Rank &self = *static_cast<Rank *>(args->context);
  ThreadCommunicator &communicator = *self.communicator;
  auto found = [&] { return __atomic_load_n(end->arrive, __ATOMIC_ACQUIRE); };
  return int32_t(communicator.waitUntil(
      self, end->peer, args->instruction,
      // By difference: with k slots the first k sends ask for a value below zero.
      [&] { return int64_t(found() - value) >= 0; },
      [&] {
        return fmt::format("{}: micro-batch {}, instruction {} waits for rank {} ({}, tag {}{}): "
                           "expected counter {}, found {}{}",
                           communicator.describe(self), args->microBatch, args->instruction,
                           end->peer, end->to ? "channel to it" : "channel from it", end->tag,
                           end->numSlots > 0 ? fmt::format(", {} slots", end->numSlots) : "",
                           int64_t(value), found(), communicator.describeOthers(self));
      }));
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

llvm::Expected<ThreadCommunicator::Prepared *>
ThreadCommunicator::prepare(Rank &self, const std::shared_ptr<LoadedProgram> &program) {
  auto found = self.programs.find(program.get());
  if (found != self.programs.end()) {
    // An address may be that of a program which is gone: compare the owners.
    const std::weak_ptr<LoadedProgram> &known = found->second.program;
    if (!known.owner_before(program) && !program.owner_before(known))
      return &found->second;
    self.programs.erase(found);
  }
  if (self.programs.size() >= 64)
    std::erase_if(self.programs, [](const auto &entry) { return entry.second.program.expired(); });

  const Plan &plan = program->plan();
  if (plan.ranks() != numRanks)
    return llvm::make_error<RuntimeError>(
        Failure::BadArgument, fmt::format("{} (hash {}) is for {} ranks, the communicator has {}",
                                          plan.program, plan.hash, plan.ranks(), numRanks));
  Prepared prepared;
  prepared.program = program;
  llvm::Expected<RankFacts> facts = findFacts(plan, self.rank);
  if (!facts)
    return facts.takeError();
  prepared.facts = *facts;
  prepared.kernel = program->kernel(self.rank);
  if (facts->kernel >= 0) {
    auto ends = channels.resolve(plan.kernels[size_t(facts->kernel)], self.rank, facts->indexInSet,
                                 numRanks);
    if (!ends)
      return ends.takeError();
    prepared.channels = std::move(*ends);
  }
  return &self.programs.insert_or_assign(program.get(), std::move(prepared)).first->second;
}

llvm::Error ThreadCommunicator::enter(Rank &self) {
  // Release: whoever sees the arrival sees what this rank published.
  self.entered.store(self.launch, std::memory_order_release);
  arrivals.fetch_add(1, std::memory_order_acq_rel);
  const uint64_t all = self.launch * uint64_t(numRanks);
  const Wait wait = waitUntil(
      self, everybody, 0, [&] { return arrivals.load(std::memory_order_acquire) >= all; },
      [&] { return fmt::format("{}, at its entry: {}", describe(self), describeMissing(self)); });
  if (wait != Wait::Done)
    return firstFailure();

  std::vector<const Announcement *> announcements;
  announcements.reserve(size_t(numRanks));
  for (int64_t r = 0; r < numRanks; ++r)
    announcements.push_back(&states[size_t(r)].announcements[self.launch % 2]);
  if (auto text = findDisagreement(announcements)) {
    fail(Failure::Mismatch, fmt::format("launch {}: {}", self.launch, *text));
    return firstFailure();
  }
  return llvm::Error::success();
}

llvm::Error ThreadCommunicator::execute(Rank &self, const Prepared &prepared,
                                        const LaunchShape &shape) {
  if (!prepared.kernel)
    return llvm::Error::success();
  const size_t parity = self.launch % 2;
  KernelArgs kernelArgs;
  kernelArgs.me = self.rank;
  kernelArgs.ranks = numRanks;
  kernelArgs.count = shape.runCount;
  kernelArgs.microBatches = shape.cut.microBatches;
  kernelArgs.stride = shape.cut.stride;
  kernelArgs.buffers = self.pointers[parity].data();
  kernelArgs.peers = tables[parity].data();
  kernelArgs.channels = prepared.channels.data();
  kernelArgs.wait = &waitInKernel;
  kernelArgs.context = &self;
  if (int32_t code = prepared.kernel(&kernelArgs)) {
    fail(Failure::Machine,
         fmt::format("rank {}: the kernel of {} returned {}", self.rank, describe(self), code));
    return firstFailure();
  }
  return llvm::Error::success();
}

void ThreadCommunicator::trace(const Rank &self, const LaunchShape &shape,
                               const LaunchArgs &args) const {
  const Plan &plan = *self.plan;
  log::write(log::Level::Info, self.rank,
             fmt::format("COLL #{} {} {} {} bytes {} n {}: {} hash {} m {}{}{}", self.launch,
                         plan.contract.str(), name(plan.type), shape.count * sizeOf(plan.type),
                         shape.form == Form::InPlace ? "in-place" : "out-of-place", numRanks,
                         plan.program, plan.hash, shape.cut.microBatches,
                         args.reason.empty() ? "" : " by ", args.reason));
}

void ThreadCommunicator::setDeadline(Rank &self, std::chrono::milliseconds timeout) {
  // A deadline that overflows the clock would be one in the past.
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
  self.timeout = std::min(timeout, longest);
  self.begin = Clock::now();
  self.deadline = self.begin + self.timeout;
}

llvm::Error ThreadCommunicator::run(Rank &self, const std::shared_ptr<LoadedProgram> &program,
                                    const LaunchArgs &args) {
  if (!program)
    return llvm::make_error<RuntimeError>(Failure::BadArgument,
                                          fmt::format("rank {}: no program", self.rank));
  if (args.timeout.count() <= 0)
    return llvm::make_error<RuntimeError>(
        Failure::BadArgument,
        fmt::format("rank {}: the time-out is {} ms", self.rank, args.timeout.count()));
  setDeadline(self, args.timeout);
  self.plan = &program->plan();
  const Plan &plan = *self.plan;

  llvm::Expected<Prepared *> prepared = prepare(self, program);
  if (!prepared)
    return prepared.takeError();
  const RankFacts &facts = (*prepared)->facts;
  llvm::Expected<LaunchShape> shape = findShape(plan, facts, self.rank, args, options.slotBytes);
  if (!shape)
    return shape.takeError();

  ++self.launch;
  const size_t parity = self.launch % 2;
  // A barrier moves no data, so a count says nothing about it.
  const bool empty = args.count == 0 && facts.places > 0;
  if (!empty) {
    if (llvm::Error e = self.memory.place(plan, facts, *shape, args, self.pointers[parity]))
      return e;
    tables[parity][size_t(self.rank)] = self.pointers[parity].data();
  }
  self.announcements[parity] = {program, args.count, shape->form, shape->cut.microBatches};
  if (llvm::Error e = enter(self))
    return e;
  if (self.rank == 0 && log::tracesCollectives())
    trace(self, *shape, args);
  if (empty)
    return llvm::Error::success();
  if (llvm::Error e = execute(self, **prepared, *shape))
    return e;
  self.memory.finish(plan, facts, *shape, args);
  return llvm::Error::success();
}

llvm::Error ThreadCommunicator::launch(int64_t rank, const std::shared_ptr<LoadedProgram> &program,
                                       const LaunchArgs &args) {
  if (hasFailed())
    return firstFailure();
  if (rank < 0 || rank >= numRanks)
    return fail(llvm::make_error<RuntimeError>(
        Failure::BadArgument, fmt::format("rank {} of {} does not exist", rank, numRanks)));
  Rank &self = states[size_t(rank)];
  if (self.busy.exchange(true, std::memory_order_acquire))
    return fail(llvm::make_error<RuntimeError>(
        Failure::BadArgument, fmt::format("rank {} launches from two threads at once", rank)));
  llvm::Error error = run(self, program, args);
  self.busy.store(false, std::memory_order_release);
  if (error)
    return fail(std::move(error));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Symmetric memory
//===----------------------------------------------------------------------===//

llvm::Expected<SymmetricBuffer> ThreadCommunicator::runAllocation(Rank &self, int64_t bytes) {
  if (bytes < 0)
    return llvm::make_error<RuntimeError>(
        Failure::BadArgument, fmt::format("rank {} allocates {} bytes", self.rank, bytes));
  AlignedBuffer block;
  if (!block.reserve(size_t(std::max<int64_t>(bytes, 1))))
    return llvm::make_error<RuntimeError>(
        Failure::Machine, fmt::format("rank {}: no memory for {} bytes", self.rank, bytes));
  self.symmetric.push_back(std::move(block));
  const uint64_t allocation = self.symmetric.size();
  const size_t parity = allocation % 2;
  self.symmetricBytes[parity] = bytes;
  self.symmetricBlock[parity] = self.symmetric.back().data();
  allocations.fetch_add(1, std::memory_order_acq_rel);
  const uint64_t all = allocation * uint64_t(numRanks);
  const Wait wait = waitUntil(
      self, everybody, 0, [&] { return allocations.load(std::memory_order_acquire) >= all; },
      [&] { return fmt::format("allocation {}: not every rank came", allocation); });
  if (wait != Wait::Done)
    return firstFailure();
  SymmetricBuffer buffer;
  buffer.local = self.symmetric.back().data();
  buffer.bytes = bytes;
  for (int64_t r = 0; r < numRanks; ++r) {
    const Rank &other = states[size_t(r)];
    if (other.symmetricBytes[parity] != states[0].symmetricBytes[parity])
      return llvm::make_error<RuntimeError>(
          Failure::Mismatch,
          fmt::format("allocation {}: rank 0 asks for {} bytes, rank {} for {}", allocation,
                      states[0].symmetricBytes[parity], r, other.symmetricBytes[parity]));
    buffer.peers.push_back(other.symmetricBlock[parity]);
  }
  return buffer;
}

llvm::Expected<SymmetricBuffer> ThreadCommunicator::allocate(int64_t rank, int64_t bytes,
                                                             std::chrono::milliseconds timeout) {
  if (hasFailed())
    return firstFailure();
  if (rank < 0 || rank >= numRanks || timeout.count() <= 0)
    return fail(llvm::make_error<RuntimeError>(
        Failure::BadArgument,
        fmt::format("allocate: rank {} of {}, time-out {} ms", rank, numRanks, timeout.count())));
  Rank &self = states[size_t(rank)];
  if (self.busy.exchange(true, std::memory_order_acquire))
    return fail(llvm::make_error<RuntimeError>(
        Failure::BadArgument, fmt::format("rank {} is used by two threads at once", rank)));
  setDeadline(self, timeout);
  llvm::Expected<SymmetricBuffer> buffer = runAllocation(self, bytes);
  self.busy.store(false, std::memory_order_release);
  if (!buffer)
    return fail(buffer.takeError());
  return buffer;
}

} // namespace ccl
