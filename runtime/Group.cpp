//===- Group.cpp ------------------------------------------------------------===//
#include "runtime/Group.h"

#include "runtime/Faults.h"
#include "runtime/Log.h"
#include "runtime/hosts/Hosts.h"

#include <sched.h>

#include <thread>

namespace ccl {
namespace {

/// A wait as long as this is reported (and goes on): a rank may rightly spend minutes
/// on something else, but someone should know.
constexpr std::chrono::seconds slowWait{30};

/// Who is to blame is worth a look only if it takes long, and then so often.
constexpr Milliseconds patience{20};

/// A rank whose waits last, and that has not gone on for so long, is taken to be stuck.
constexpr Milliseconds longStillness{100};

/// A process that shows no sign of life for so long does not run.
constexpr Milliseconds longSilence{700};

/// Cores that this process may use, which can be fewer than the machine has.
int64_t availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  return int64_t(std::thread::hardware_concurrency());
}

} // namespace

std::string describeSlow(int64_t rank, int64_t agoMs, int64_t microBatches) {
  std::string text = fmt::format("the ranks still go on, rank {} less than {} ms ago: the time is "
                                 "too short for this. Give it more (CCL_TIMEOUT, ccl run -T)",
                                 rank, agoMs);
  if (microBatches > 1)
    text += fmt::format(", or ask for fewer micro-batches than {}", microBatches);
  return text;
}

Group::Group(std::shared_ptr<World> world, ControlBlock *block, int64_t rank)
    : rank(rank), ranks(block->ranks), theWorld(std::move(world)), control(*block),
      spinBudget(ranks > availableCores()) {
  if (Hosts *hosts = theWorld->hosts())
    hosts->join(control, rank);
  theWorld->listen(this);
}

Group::~Group() {
  if (theWorld->unusable())
    return; // the copy that a child of fork has: its parent is still in there
  theWorld->ignore(this);
  self().left.store(true, std::memory_order_release);
  if (Hosts *hosts = theWorld->hosts())
    hosts->leave(control, rank);
  control.leavers.fetch_add(1, std::memory_order_acq_rel);
  theWorld->depart(&control, rank == control.owner, std::move(leftovers));
}

bool Group::isNear(int64_t r) const {
  const Hosts *hosts = theWorld->hosts();
  return !hosts || hosts->isNear(worldRank(r));
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

void Group::fail(Failure category, std::string text, int64_t culprit) {
  if (theWorld->unusable())
    return; // nor does what it says of it concern the others
  {
    std::lock_guard lock(failureMutex);
    if (wroteRecord || hasFailed())
      return;
    wroteRecord = true;
    FailureRecord &record = self().failure;
    record.category = int32_t(category);
    record.culprit = int32_t(culprit);
    copyText(record.text, text);
    int32_t nobody = 0;
    if (!control.failedBy.compare_exchange_strong(nobody, int32_t(rank) + 1,
                                                  std::memory_order_acq_rel))
      return; // somebody else was first
  }
  if (Hosts *hosts = theWorld->hosts())
    hosts->tellFailed(control, rank);
  log::info(log::Subsystem::Abort, rank, "communicator of {} ranks aborted: {}", ranks, text);
}

llvm::Error Group::fail(llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const RuntimeError &e) {
        // A wrong argument is this rank's own.
        const bool own = e.culprit < 0 && e.category == Failure::BadArgument;
        fail(e.category, e.message, own ? rank : e.culprit);
      },
      [&](const llvm::ErrorInfoBase &e) { fail(Failure::Machine, e.message()); });
  return firstFailure();
}

std::optional<RuntimeError> Group::failure() const {
  const int32_t by = control.failedBy.load(std::memory_order_acquire);
  if (by == 0)
    return std::nullopt;
  const FailureRecord &record = control.rank(by - 1).failure;
  return RuntimeError(Failure(record.category), record.text, record.culprit);
}

llvm::Error Group::firstFailure() const { return llvm::make_error<RuntimeError>(*failure()); }

void Group::onGone(int64_t worldRank, const std::string &how) {
  for (int64_t r = 0; r < ranks; ++r) {
    if (this->worldRank(r) != worldRank)
      continue;
    // Who has left in order is missed by nobody who is not waiting.
    if (control.rank(r).left.load(std::memory_order_acquire))
      continue;
    control.rank(r).lost.store(true, std::memory_order_release);
    fail(Failure::Machine, fmt::format("rank {} is gone: {}; {}", r, how, describeRank(r)), r);
  }
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

int64_t Group::firstMissing(uint64_t which) const {
  for (int64_t r = 0; r < ranks; ++r)
    if (control.rank(r).entered.load(std::memory_order_acquire) < which)
      return r;
  return -1;
}

std::string Group::describeMissing() const {
  std::string missing;
  int64_t count = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    if (control.rank(r).entered.load(std::memory_order_acquire) >= operation)
      continue;
    if (++count <= 8)
      missing += fmt::format("{}{}", count > 1 ? ", " : "", r);
  }
  if (count > 8)
    missing += fmt::format(" and {} more", count - 8);
  return fmt::format("rank{} {} did not come", count == 1 ? "" : "s", missing);
}

/// What a rank does, as far as it can be seen from outside.
std::string Group::describeRank(int64_t r) const {
  const RankState &state = control.rank(r);
  const uint64_t entered = state.entered.load(std::memory_order_acquire);
  const uint64_t done = state.done.load(std::memory_order_acquire);
  const int32_t peer = state.waitsFor.load(std::memory_order_relaxed);
  if (entered == 0)
    return fmt::format("rank {} has not begun anything", r);
  if (peer == waitsForEverybody)
    return fmt::format("rank {} waits at the entry of operation {}", r, entered);
  if (done >= entered)
    return fmt::format("rank {} has done operation {} and is between operations", r, done);
  const int64_t instruction = __atomic_load_n(&state.kernel.instruction, __ATOMIC_RELAXED);
  const int64_t slice = __atomic_load_n(&state.kernel.microBatch, __ATOMIC_RELAXED);
  const int64_t agent = __atomic_load_n(&state.kernel.agent, __ATOMIC_RELAXED);
  std::string place = fmt::format("operation {}, agent {}, micro-batch {}, instruction {}", entered,
                                  agentName(agent), slice, instruction);
  if (peer >= 0)
    return fmt::format("rank {} waits for rank {} in {}", r, peer, place);
  return fmt::format("rank {} is in {} and does not wait", r, place);
}

std::string Group::lastWait() const {
  return lastPeer == waitsForNobody      ? ""
         : lastPeer == waitsForEverybody ? "all ranks"
                                         : fmt::format("rank {}", lastPeer);
}

std::string Group::describeOthers() const {
  std::string text;
  constexpr int64_t most = 16;
  int64_t said = 0;
  for (int64_t r = 0; r < ranks && said < most; ++r)
    if (r != rank) {
      text += "; " + describeRank(r);
      ++said;
    }
  if (ranks - 1 > most)
    text += fmt::format("; and {} more", ranks - 1 - most);
  return text;
}

std::optional<std::string> Group::notRunning(int64_t r) const {
  if (std::optional<std::string> how = theWorld->gone(worldRank(r)))
    return fmt::format("rank {} is gone: {}", r, *how);
  if (const Milliseconds silence = theWorld->silence(worldRank(r)); silence > longSilence)
    return fmt::format("rank {} ({}) has not run for {} ms: stopped?", r,
                       theWorld->describe(worldRank(r)), silence.count());
  return std::nullopt;
}

Group::Blame Group::findCulprit(int32_t peer) const {
  std::vector<bool> seen(size_t(ranks), false);
  std::vector<int64_t> chain{rank};
  auto next = [&](int32_t waitsFor, uint64_t where) -> int64_t {
    return waitsFor == waitsForEverybody ? firstMissing(where) : waitsFor;
  };
  int64_t at = next(peer, operation);
  while (at >= 0 && at < ranks && at != rank && !seen[size_t(at)]) {
    seen[size_t(at)] = true;
    chain.push_back(at);
    const RankState &state = control.rank(at);
    const std::string who = fmt::format("rank {} ({})", at, theWorld->describe(worldRank(at)));
    if (std::optional<std::string> why = notRunning(at))
      return {at, *why};
    const int32_t waitsFor = state.waitsFor.load(std::memory_order_relaxed);
    if (waitsFor == waitsForNobody) {
      const bool idle = state.done.load(std::memory_order_acquire) >=
                        state.entered.load(std::memory_order_acquire);
      if (idle)
        return {at, fmt::format("{} holds everybody up: it did not call", who)};
      return {at, fmt::format("{} holds everybody up: it is busy inside the operation", who),
              std::move(chain)};
    }
    at = next(waitsFor, state.entered.load(std::memory_order_acquire));
  }
  if (at < 0)
    return {-1, "who holds everybody up is not known"};
  return {-1, fmt::format("the ranks wait for each other in a circle through rank {}", at),
          std::move(chain)};
}

Group::Blame Group::findCulprit(llvm::ArrayRef<Awaited> peers) const {
  Blame found = findCulprit(lastPeer);
  for (size_t i = 0; i < peers.size() && found.rank < 0; ++i)
    if (Blame other = findCulprit(peers[i].peer); other.rank >= 0)
      found = std::move(other);
  return found;
}

Group::Progress Group::progressOf(int64_t r) const {
  const RankState &state = control.rank(r);
  return {state.entered.load(std::memory_order_relaxed),
          state.turns.load(std::memory_order_relaxed),
          __atomic_load_n(&state.kernel.microBatch, __ATOMIC_RELAXED)};
}

void Group::lookAround(Clock::time_point now) {
  sights.resize(size_t(ranks));
  for (int64_t r = 0; r < ranks; ++r)
    if (const Progress found = progressOf(r); found != sights[size_t(r)].progress)
      sights[size_t(r)] = {found, now};
}

Group::Blame Group::judge(llvm::ArrayRef<Awaited> peers, Clock::time_point now) {
  lookAround(now);
  Blame blame = findCulprit(peers);
  int64_t last = -1;
  for (int64_t r : blame.alive)
    if (last < 0 || sights[size_t(r)].since > sights[size_t(last)].since)
      last = r;
  // Ranks may outnumber cores: who does not move for a moment need not be stuck.
  const Clock::duration still = std::min<Clock::duration>(longStillness, timeout / 4);
  if (last < 0 || now - sights[size_t(last)].since >= still)
    return blame;
  const auto ago = std::chrono::ceil<Milliseconds>(now - sights[size_t(last)].since + patience);
  return {-1,
          describeSlow(last, ago.count(), control.rank(rank).announcements[parity()].microBatches)};
}

std::string Group::describeTimeout(const std::string &missing, const Blame &blame) const {
  return fmt::format("rank {} timed out after {} ms in {}; {}", rank, timeout.count(), missing,
                     blame.why);
}

/// Of several that this rank waits for, one may be waiting for this rank.
void Group::publishWait(llvm::ArrayRef<Awaited> peers) {
  Awaited chosen = peers.front();
  for (size_t i = 0; i < peers.size() && peers.size() > 1; ++i)
    if (findCulprit(peers[i].peer).rank >= 0) {
      chosen = peers[i];
      break;
    }
  if (chosen.agent >= 0) {
    __atomic_store_n(&self().kernel.agent, chosen.agent, __ATOMIC_RELAXED);
    __atomic_store_n(&self().kernel.instruction, chosen.instruction, __ATOMIC_RELAXED);
  }
  self().waitsFor.store(chosen.peer, std::memory_order_relaxed);
  lastPeer = chosen.peer;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void Group::setDeadline(Milliseconds wanted) {
  // A deadline that overflows the clock would be one in the past.
  constexpr Milliseconds longest = std::chrono::hours(24 * 365);
  timeout = std::min(wanted, longest);
  begun = Clock::now();
  deadline = begun + timeout;
  reported = false;
}

Announcement &Group::begin(Operation kind, Milliseconds wanted, std::function<std::string()> text,
                           const Announcement &start) {
  setDeadline(wanted);
  what = std::move(text);
  ++operation;
  Announcement &mine = self().announcements[parity()];
  mine = start;
  mine.operation = kind;
  return mine;
}

llvm::Error Group::meet(Operation kind, std::function<std::string()> text) {
  std::function<std::string()> outer = std::exchange(what, std::move(text));
  ++operation;
  Announcement &mine = self().announcements[parity()];
  mine = {};
  mine.operation = kind;
  llvm::Error error = enter();
  what = std::move(outer);
  return error;
}

llvm::Error Group::enter() {
  if (CCL_FAULT(FirstWait, worldRank(rank)))
    return fail(faults::injected("at the entry of an operation"));
  // Release: whoever sees the arrival sees what this rank published.
  self().entered.store(operation, std::memory_order_release);
  if (Hosts *hosts = theWorld->hosts())
    if (control.nearArrivals.fetch_add(1, std::memory_order_acq_rel) + 1 ==
        operation * uint64_t(control.nearRanks))
      hosts->tellArrived(control, operation);
  control.arrivals.fetch_add(1, std::memory_order_acq_rel);
  const uint64_t all = operation * uint64_t(ranks);
  const Wait wait = waitUntil(
      waitsForEverybody, [&] { return control.arrivals.load(std::memory_order_acquire) >= all; },
      [&] { return fmt::format("{}, at its entry: {}", what(), describeMissing()); });
  if (wait != Wait::Done)
    return firstFailure();

  announced.clear();
  for (int64_t r = 0; r < ranks; ++r)
    announced.push_back(&announcement(r));
  if (auto text = findDisagreement(announced))
    return fail(makeFailure(Failure::Mismatch, "operation {}: {}", operation, *text));
  return llvm::Error::success();
}

bool Group::keepWaiting(AwaitedPeers peers, Clock::time_point now,
                        llvm::function_ref<std::string()> describe) {
  if (!published) {
    countTurn();
    publishWait(peers().front());
    published = true;
    nextLook = now + patience;
  } else if (now >= nextLook) {
    publishWait(peers());
    if (Hosts *hosts = theWorld->hosts())
      hosts->look(control);
    lookAround(now);
    nextLook = now + patience;
  }
  if (now >= deadline)
    return false;
  // Who has destroyed its member will never come.
  for (int64_t r = 0; r < ranks; ++r)
    if (control.rank(r).left.load(std::memory_order_acquire) &&
        control.rank(r).entered.load(std::memory_order_acquire) < operation) {
      fail(Failure::Aborted,
           fmt::format("rank {} has left the communicator, and rank {} waits "
                       "for it in {}",
                       r, rank, what()),
           r);
      return true; // the failure ends the wait
    }
  if (!reported && now - begun >= slowWait) {
    log::warn(log::Subsystem::Wait, rank, "slow, {} s so far: {}; {}", slowWait.count(), describe(),
              judge(peers(), now).why);
    reported = true;
  }
  return true;
}

void Group::countTurn() {
  std::atomic<uint64_t> &turns = self().turns;
  turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Group::leaveWait() {
  countTurn();
  self().waitsFor.store(waitsForNobody, std::memory_order_relaxed);
  published = false;
}

} // namespace ccl
