//===- Blocks.cpp -------------------------------------------------------------===//
#include "runtime/hosts/Blocks.h"

namespace ccl::hosts {

/// In an address of what a far rank published: whose memory it is in here, plus one.
static constexpr int keeperShift = 40;
static constexpr uint64_t keeperMask = uint64_t(0xfffff) << keeperShift;

/// States of others change all the time; nobody needs to know it exactly.
static constexpr std::chrono::milliseconds betweenLooks{50};

bool Blocks::isNear(const ControlBlock &control, int64_t rank) const {
  const int32_t there = const_cast<ControlBlock &>(control).worldRanks()[rank];
  return nearIndex[size_t(there)] >= 0;
}

void Blocks::join(ControlBlock &control, int64_t rank) {
  std::lock_guard lock(mutex);
  Known &here = known[control.number];
  here.control = &control;
  here.rank = rank;
  std::set<std::string> seen;
  for (int64_t r = 0; r < control.ranks; ++r) {
    const int64_t there = control.worldRanks()[r];
    if (!isNear(control, r))
      here.farRanks.push_back(there);
    if (!seen.insert(link.hostOf(there)).second)
      continue;
    if (isNear(control, r))
      here.keeps = r == rank;
    else
      here.farKeepers.push_back(there);
  }
  std::vector<Heard> waiting = std::move(early[control.number]);
  early.erase(control.number);
  for (const Heard &heard : waiting) {
    llvm::StringRef bytes = heard.bytes;
    const std::optional<Head> head = take<Head>(bytes);
    apply(here, heard.from, heard.kind, *head, bytes);
  }
}

void Blocks::leave(ControlBlock &control, int64_t rank) {
  std::lock_guard lock(mutex);
  auto found = known.find(control.number);
  if (found == known.end())
    return;
  Head head;
  head.communicator = control.number;
  head.rank = int32_t(rank);
  head.operation = control.rank(rank).entered.load(std::memory_order_acquire);
  std::string frame;
  append(frame, head);
  tell(found->second.farKeepers, left, frame);
  for (auto &[key, block] : found->second.blobs)
    near.release(block, /*mayBeInUse=*/true);
  known.erase(found);
  std::erase_if(mails, [&](const auto &mail) {
    return std::get<0>(mail.first) == control.number && std::get<2>(mail.first) == rank;
  });
  ended.insert(control.number);
}

void Blocks::tellArrived(ControlBlock &control, uint64_t operation) {
  Head head;
  head.communicator = control.number;
  head.operation = operation;
  std::string frame;
  append(frame, head);
  for (int64_t r = 0; r < control.ranks; ++r) {
    if (!isNear(control, r))
      continue;
    Entered one;
    one.rank = int32_t(r);
    one.announcement = control.rank(r).announcements[operation % 2];
    const bool publishes = one.announcement.operation == Operation::Counts;
    one.blobBytes = publishes ? uint32_t(2 * size_t(control.ranks) * sizeof(uint64_t)) : 0;
    append(frame, one);
    if (publishes)
      frame.append(static_cast<const char *>(near.reach(nearIndex[size_t(control.worldRanks()[r])],
                                                        one.announcement.buffers)),
                   one.blobBytes);
  }
  tellOf(control, &Known::farKeepers, entered, frame);
}

void Blocks::tellOf(ControlBlock &control, std::vector<int64_t> Known::*whom, uint32_t kind,
                    const std::string &frame) {
  std::lock_guard lock(mutex);
  if (auto found = known.find(control.number); found != known.end())
    tell(found->second.*whom, kind, frame);
}

void Blocks::tellFailed(ControlBlock &control, int64_t rank) {
  Head head;
  head.communicator = control.number;
  head.rank = int32_t(rank);
  std::string frame;
  append(frame, head);
  append(frame, Failed{control.rank(rank).failure});
  tellOf(control, &Known::farRanks, failed, frame);
}

void Blocks::tellRejoins(ControlBlock &control, int64_t rank) {
  Head head;
  head.communicator = control.number;
  head.rank = int32_t(rank);
  std::string frame;
  append(frame, head);
  tellOf(control, &Known::farRanks, rejoins, frame);
}

void Blocks::propose(ControlBlock &control, const std::vector<int64_t> &ranks) {
  Head head;
  head.communicator = control.number;
  head.count = int32_t(ranks.size());
  std::string frame;
  append(frame, head);
  for (int64_t r : ranks)
    append(frame, r);
  if (link.rank() == 0)
    hear(0, proposes, frame);
  else
    link.send({0}, proposes, frame);
}

std::optional<std::vector<int64_t>> Blocks::decision(ControlBlock &control) {
  std::lock_guard lock(mutex);
  auto found = decisions.find(control.number);
  return found == decisions.end() ? std::nullopt : std::optional(found->second);
}

void Blocks::look(ControlBlock &control) {
  std::lock_guard lock(mutex);
  auto found = known.find(control.number);
  if (found == known.end())
    return;
  const Clock::time_point now = Clock::now();
  if (now - found->second.lastLook < betweenLooks)
    return;
  found->second.lastLook = now;
  Head head;
  head.communicator = control.number;
  std::string frame;
  append(frame, head);
  tell(found->second.farKeepers, asks, frame);
}

void Blocks::send(ControlBlock &control, int64_t from, int64_t to, llvm::StringRef bytes) {
  Head head;
  head.communicator = control.number;
  head.rank = int32_t(to);
  head.sender = int32_t(from);
  std::string frame;
  append(frame, head);
  frame += bytes;
  link.send({int64_t(control.worldRanks()[to])}, mail, frame);
}

std::optional<std::string> Blocks::receive(ControlBlock &control, int64_t from, int64_t to) {
  std::lock_guard lock(mutex);
  auto found = mails.find({control.number, int32_t(from), int32_t(to)});
  if (found == mails.end())
    return std::nullopt;
  std::string first = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty())
    mails.erase(found);
  return first;
}

void *Blocks::reach(uint64_t shared) const {
  const uint64_t keeper = (shared & keeperMask) >> keeperShift;
  return keeper == 0 ? nullptr : near.reach(int64_t(keeper) - 1, shared & ~keeperMask);
}

//===----------------------------------------------------------------------===//
// What others tell
//===----------------------------------------------------------------------===//

void Blocks::hear(int64_t from, uint32_t kind, llvm::StringRef bytes) {
  const llvm::StringRef whole = bytes;
  const std::optional<Head> head = take<Head>(bytes);
  if (!head)
    return;
  std::lock_guard lock(mutex);
  if (kind == mail) {
    if (!ended.count(head->communicator))
      mails[{head->communicator, head->sender, head->rank}].push_back(bytes.str());
    return;
  }
  if (kind == proposes || kind == decides)
    return decide(*head, bytes);
  if (auto found = known.find(head->communicator); found != known.end())
    apply(found->second, from, kind, *head, bytes);
  else if (!ended.count(head->communicator))
    early[head->communicator].push_back({from, kind, whole.str()});
}

/// Whatever communicator it is about, also one that this process has no part in.
void Blocks::decide(const Head &head, llvm::StringRef bytes) {
  std::vector<int64_t> ranks;
  for (int32_t i = 0; i < head.count; ++i)
    if (std::optional<int64_t> r = take<int64_t>(bytes))
      ranks.push_back(*r);
  if (!decisions.emplace(head.communicator, ranks).second || link.rank() != 0)
    return;
  std::string frame;
  append(frame, head);
  for (int64_t r : ranks)
    append(frame, r);
  std::vector<int64_t> others;
  for (int64_t r = 1; r < link.ranks(); ++r)
    others.push_back(r);
  tell(others, decides, frame);
}

void Blocks::apply(Known &here, int64_t from, uint32_t kind, const Head &head,
                   llvm::StringRef bytes) {
  // Ranks in what follows are of other hosts: their states here are this process' alone.
  ControlBlock &control = *here.control;
  const bool isRank = head.rank >= 0 && head.rank < control.ranks && !isNear(control, head.rank);
  switch (kind) {
  case entered:
    here.hosts[link.hostOf(from)].waiting[head.operation] = bytes.str();
    return catchUp(here, here.hosts[link.hostOf(from)]);
  case failed: return isRank ? applyFailed(here, head, bytes) : void();
  case states: return applyStates(here, head, bytes);
  case asks: return answer(here, from);
  case left:
    if (!isRank)
      return;
    here.hosts[link.hostOf(from)].leaving.emplace_back(head.operation, head.rank);
    return catchUp(here, here.hosts[link.hostOf(from)]);
  case rejoins:
    if (isRank)
      control.rank(head.rank).rejoins.store(true, std::memory_order_release);
    return;
  default: return;
  }
}

uint64_t Blocks::keepBlob(Known &here, int64_t rank, size_t parity, llvm::StringRef bytes) {
  Block &block = here.blobs[{rank, parity}];
  if (block.bytes < bytes.size()) {
    llvm::Expected<Block> larger = near.allocate(bytes.size());
    if (!larger) {
      llvm::consumeError(larger.takeError());
      return 0;
    }
    // Who read the old one has since entered another operation.
    if (block)
      near.release(block, false);
    block = *larger;
  }
  std::memcpy(block.data, bytes.data(), bytes.size());
  const int64_t keeper = nearIndex[size_t(here.control->worldRanks()[here.rank])];
  return near.share(block.data) | uint64_t(keeper + 1) << keeperShift;
}

/// Operations in their order, and who has left once what it entered is known.
void Blocks::catchUp(Known &here, FarHost &host) {
  for (auto next = host.waiting.find(host.entered + 1); next != host.waiting.end();
       next = host.waiting.find(host.entered + 1)) {
    applyEntered(here, ++host.entered, next->second);
    host.waiting.erase(next);
  }
  std::erase_if(host.leaving, [&](const std::pair<uint64_t, int32_t> &one) {
    if (one.first > host.entered)
      return false;
    here.control->rank(one.second).left.store(true, std::memory_order_release);
    here.control->leavers.fetch_add(1, std::memory_order_acq_rel);
    return true;
  });
}

void Blocks::applyEntered(Known &here, uint64_t operation, llvm::StringRef bytes) {
  ControlBlock &control = *here.control;
  // Ranks of this host have read what was said of the last operation but one: each before it
  // arrived at the last one, without which nobody is at this one.
  control.nearArrivals.fetch_add(0, std::memory_order_acq_rel);
  uint64_t arrived = 0;
  while (!bytes.empty()) {
    std::optional<Entered> one = take<Entered>(bytes);
    if (!one || one->rank < 0 || one->rank >= control.ranks || isNear(control, one->rank) ||
        bytes.size() < one->blobBytes)
      break;
    const llvm::StringRef blob = bytes.take_front(one->blobBytes);
    bytes = bytes.drop_front(one->blobBytes);
    // Addresses of another host mean nothing here.
    one->announcement.directory = one->announcement.entries = one->announcement.buffers = 0;
    if (!blob.empty())
      one->announcement.buffers = keepBlob(here, one->rank, operation % 2, blob);
    RankState &state = control.rank(one->rank);
    state.announcements[operation % 2] = one->announcement;
    state.entered.store(operation, std::memory_order_release);
    ++arrived;
  }
  control.arrivals.fetch_add(arrived, std::memory_order_acq_rel);
}

void Blocks::applyFailed(Known &here, const Head &head, llvm::StringRef bytes) {
  const std::optional<Failed> failure = take<Failed>(bytes);
  ControlBlock &control = *here.control;
  int32_t unclaimed = 0;
  if (!failure || control.failedBy.load(std::memory_order_acquire) != 0 ||
      !control.farFailure.compare_exchange_strong(unclaimed, 1, std::memory_order_acq_rel))
    return;
  FailureRecord &record = control.rank(head.rank).failure;
  record = failure->record;
  record.text[sizeof record.text - 1] = 0;
  int32_t nobody = 0;
  control.failedBy.compare_exchange_strong(nobody, head.rank + 1, std::memory_order_acq_rel);
}

void Blocks::answer(const Known &here, int64_t asker) {
  ControlBlock &control = *here.control;
  Head head;
  head.communicator = control.number;
  std::string frame;
  for (int64_t r = 0; r < control.ranks; ++r) {
    if (!isNear(control, r))
      continue;
    const RankState &state = control.rank(r);
    State one;
    one.rank = int32_t(r);
    one.waitsFor = state.waitsFor.load(std::memory_order_relaxed);
    one.entered = state.entered.load(std::memory_order_acquire);
    one.done = state.done.load(std::memory_order_acquire);
    one.turns = state.turns.load(std::memory_order_relaxed);
    one.agent = __atomic_load_n(&state.kernel.agent, __ATOMIC_RELAXED);
    one.instruction = __atomic_load_n(&state.kernel.instruction, __ATOMIC_RELAXED);
    one.microBatch = __atomic_load_n(&state.kernel.microBatch, __ATOMIC_RELAXED);
    append(frame, one);
    ++head.count;
  }
  // Not to its host's keeper, which may be the one that has stopped.
  link.send({asker}, states,
            std::string(reinterpret_cast<const char *>(&head), sizeof head) + frame);
}

void Blocks::applyStates(Known &here, const Head &head, llvm::StringRef bytes) {
  ControlBlock &control = *here.control;
  for (int32_t i = 0; i < head.count; ++i) {
    const std::optional<State> one = take<State>(bytes);
    if (!one || one->rank < 0 || one->rank >= control.ranks || isNear(control, one->rank))
      return;
    RankState &state = control.rank(one->rank);
    state.waitsFor.store(one->waitsFor, std::memory_order_relaxed);
    state.done.store(one->done, std::memory_order_release);
    state.turns.store(one->turns, std::memory_order_relaxed);
    __atomic_store_n(&state.kernel.agent, one->agent, __ATOMIC_RELAXED);
    __atomic_store_n(&state.kernel.instruction, one->instruction, __ATOMIC_RELAXED);
    __atomic_store_n(&state.kernel.microBatch, one->microBatch, __ATOMIC_RELAXED);
  }
}

} // namespace ccl::hosts
