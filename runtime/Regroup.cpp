//===- Regroup.cpp - Memory, words, and new communicators of old ones ---------===//
#include "runtime/RankMember.h"

#include "runtime/Log.h"

#include <algorithm>

namespace ccl {

//===----------------------------------------------------------------------===//
// Symmetric memory and words
//===----------------------------------------------------------------------===//

llvm::Error RankMember::runAllocation(int64_t bytes, Milliseconds timeout,
                                      SymmetricBuffer &buffer) {
  if (bytes < 0)
    return makeFailure(Failure::BadArgument, "rank {} allocates {} bytes", group.rank, bytes);
  llvm::Expected<Block> block = group.world().allocate(size_t(std::max<int64_t>(bytes, 1)));
  if (!block)
    return block.takeError();
  symmetric.push_back(*block);
  Announcement &mine = group.begin(Operation::Allocate, timeout, [bytes] {
    return fmt::format("allocation of {} bytes", bytes);
  });
  mine.words[0] = uint64_t(bytes);
  mine.buffers = group.world().share(block->data);
  if (llvm::Error e = group.enter())
    return e;
  buffer.local = block->data;
  buffer.bytes = bytes;
  for (int64_t r = 0; r < group.ranks; ++r)
    buffer.peers.push_back(
        r == group.rank   ? block->data
        : group.isNear(r) ? group.world().reach(group.worldRank(r), group.announcement(r).buffers)
                          : nullptr);
  return llvm::Error::success();
}

llvm::Expected<SymmetricBuffer> RankMember::allocate(int64_t bytes, Milliseconds timeout) {
  SymmetricBuffer buffer;
  if (llvm::Error e =
          guarded(timeout, "allocate", [&] { return runAllocation(bytes, timeout, buffer); }))
    return e;
  return buffer;
}

llvm::Expected<std::vector<Member::Words>> RankMember::exchange(const Words &mine,
                                                                Milliseconds timeout) {
  std::vector<Words> all;
  auto body = [&]() -> llvm::Error {
    group.begin(Operation::Exchange, timeout, [] { return std::string("exchange"); }).words = mine;
    if (llvm::Error e = group.enter())
      return e;
    for (int64_t r = 0; r < group.ranks; ++r)
      all.push_back(group.announcement(r).words);
    return llvm::Error::success();
  };
  if (llvm::Error e = guarded(timeout, "exchange", body))
    return e;
  return all;
}

//===----------------------------------------------------------------------===//
// Split
//===----------------------------------------------------------------------===//

int64_t RankMember::firstNear(const std::vector<int64_t> &members) const {
  const auto first = llvm::find_if(members, [&](int64_t r) { return group.isNear(r); });
  return first == members.end() ? -1 : *first;
}

/// Of a new communicator whose first rank is `first`: on all hosts alike. `occasion`: its
/// operation, or 0.
uint64_t RankMember::numberFor(int64_t first, uint64_t occasion) {
  const uint64_t parts[] = {group.block().number, occasion, uint64_t(group.worldRank(first))};
  return fingerprint({reinterpret_cast<const char *>(parts), sizeof parts});
}

/// Makes a control block for `members` (ranks of this group, this one among them) and says
/// in `place` where it is.
llvm::Error RankMember::offerBlock(const std::vector<int64_t> &members, uint64_t occasion,
                                   std::atomic<uint64_t> &place) {
  const auto ranks = int64_t(members.size());
  llvm::Expected<Block> block = group.world().allocate(ControlBlock::size(ranks));
  if (!block)
    return block.takeError();
  ControlBlock *child = ControlBlock::create(block->data, ranks, group.block().slotBytes,
                                             numberFor(members.front(), occasion));
  child->nearRanks =
      int32_t(llvm::count_if(members, [&](int64_t member) { return group.isNear(member); }));
  for (int64_t r = 0; r < ranks; ++r) {
    child->worldRanks()[r] = int32_t(group.worldRank(members[size_t(r)]));
    if (members[size_t(r)] == group.rank)
      child->owner = int32_t(r);
  }
  place.store(group.world().share(child), std::memory_order_release);
  return llvm::Error::success();
}

/// This rank's member of the block that `offerer` made; null if it is not in there.
std::unique_ptr<Member> RankMember::adopt(int64_t offerer, uint64_t address) {
  auto *child = static_cast<ControlBlock *>(group.world().reach(group.worldRank(offerer), address));
  for (int64_t r = 0; r < child->ranks; ++r)
    if (child->worldRanks()[r] == group.worldRank(group.rank)) {
      auto member = std::make_unique<RankMember>(group.sharedWorld(), child, r, recording);
      member->setDirect(direct);
      return member;
    }
  return nullptr;
}

llvm::Error RankMember::runSplit(int64_t color, int64_t key, Milliseconds timeout,
                                 std::unique_ptr<Member> &child) {
  auto what = [] { return std::string("split"); };
  Announcement &mine = group.begin(Operation::Split, timeout, what);
  mine.words[0] = uint64_t(color);
  mine.words[1] = uint64_t(key);
  if (llvm::Error e = group.enter())
    return e;
  std::vector<std::pair<int64_t, int64_t>> sorted;
  for (int64_t r = 0; r < group.ranks; ++r)
    if (const Words &words = group.announcement(r).words; int64_t(words[0]) == color)
      sorted.emplace_back(int64_t(words[1]), r);
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> members;
  for (auto [itsKey, r] : sorted)
    members.push_back(r);
  // The first of each color on each host has made the block when all have come here.
  const int64_t first = firstNear(members);
  if (color >= 0 && first == group.rank)
    if (llvm::Error e = offerBlock(members, group.number(), group.self().child))
      return e;
  group.begin(Operation::Publish, timeout, what);
  if (llvm::Error e = group.enter())
    return e;
  if (color >= 0) {
    child = adopt(first, group.block().rank(first).child.load(std::memory_order_acquire));
  }
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Member>> RankMember::split(int64_t color, int64_t key,
                                                          Milliseconds timeout) {
  std::unique_ptr<Member> child;
  if (llvm::Error e =
          guarded(timeout, "split", [&] { return runSplit(color, key, timeout, child); }))
    return e;
  return child;
}

//===----------------------------------------------------------------------===//
// Rebuild
//===----------------------------------------------------------------------===//

/// Those who ask to go on and are not known to be gone. `complete`: nobody else can come.
std::vector<int64_t> RankMember::survivors(bool &complete) {
  std::vector<int64_t> all;
  complete = true;
  for (int64_t r = 0; r < group.ranks; ++r) {
    const RankState &state = group.block().rank(r);
    if (group.world().gone(group.worldRank(r)) || state.lost.load(std::memory_order_acquire) ||
        state.left.load(std::memory_order_acquire))
      continue;
    if (state.rejoins.load(std::memory_order_acquire))
      all.push_back(r);
    else
      complete = false;
  }
  return all;
}

/// Others have seen this rank go, so none of them waits for it.
llvm::Error RankMember::refuseLost() {
  if (!group.self().lost.load(std::memory_order_acquire))
    return llvm::Error::success();
  return makeFailure(Failure::Aborted, "rank {} is gone for the others, which go on without it",
                     group.rank);
}

/// Makes a control block for `members`, and a list of them that says where it is. Who comes
/// late looks there: the block may be given back by then, the list never is.
llvm::Error RankMember::offerSuccessor(const std::vector<int64_t> &members) {
  std::atomic<uint64_t> child{0};
  if (llvm::Error e = offerBlock(members, /*occasion=*/0, child))
    return e;
  llvm::Expected<Block> list = group.world().allocate((2 + members.size()) * sizeof(int64_t));
  if (!list)
    return list.takeError();
  auto *words = reinterpret_cast<int64_t *>(list->data);
  words[0] = int64_t(child.load());
  words[1] = int64_t(members.size());
  std::copy(members.begin(), members.end(), words + 2);
  group.self().successor.store(group.world().share(words), std::memory_order_release);
  return llvm::Error::success();
}

/// This rank's member of what `decider` offered; null if it is not in there.
std::unique_ptr<Member> RankMember::adoptSuccessor(int64_t decider) {
  const uint64_t list = group.block().rank(decider).successor.load(std::memory_order_acquire);
  const auto *words =
      static_cast<const int64_t *>(group.world().reach(group.worldRank(decider), list));
  const int64_t *end = words + 2 + words[1];
  return std::find(words + 2, end, group.rank) == end ? nullptr
                                                      : adopt(decider, uint64_t(words[0]));
}

/// Whether all hosts have to decide the same. Rank 0 of the world sees to that; without it ranks
/// reach nobody but those of their host, and go on alone.
bool RankMember::decidesWithOthers() {
  return group.block().nearRanks < group.ranks && !group.world().gone(0);
}

/// One rank decides who goes on: the first of those who came, when all have come who can, or
/// when time is up. Whoever puts its number into `decidedBy` first has decided. Of several hosts
/// one decides for all; then that is done on each by the first of those who go on.
llvm::Error RankMember::awaitDecision(Milliseconds timeout) {
  std::atomic<int32_t> &decidedBy = group.block().decidedBy;
  const Clock::time_point deadline = Clock::now() + timeout;
  Hosts *hosts = group.world().hosts();
  group.self().rejoins.store(true, std::memory_order_release);
  if (hosts)
    hosts->tellRejoins(group.block(), group.rank);
  Backoff backoff;
  bool proposed = false, offered = false;
  while (decidedBy.load(std::memory_order_acquire) == 0) {
    if (llvm::Error e = refuseLost())
      return e;
    const bool late = Clock::now() >= deadline;
    bool complete = false;
    std::vector<int64_t> members = survivors(complete);
    const bool isIn = llvm::is_contained(members, group.rank);
    bool decides = isIn && ((complete && members.front() == group.rank) || late);
    if (hosts && decidesWithOthers()) {
      if (decides && !std::exchange(proposed, true))
        hosts->propose(group.block(), members);
      const std::optional<std::vector<int64_t>> decided = hosts->decision(group.block());
      members = decided.value_or(std::vector<int64_t>());
      decides = firstNear(members) == group.rank;
      if (decided && firstNear(members) < 0)
        return wentOnWithout();
      // It may be stopped: to go on without it could be wrong once it runs again.
      if (Clock::now() >= deadline + timeout)
        return makeFailureOf(0, Failure::Timeout,
                             "rank {}: rebuild: the process of rank 0, which sees to it that all "
                             "hosts decide alike, has not answered for {} ms",
                             group.rank, (2 * timeout).count());
    }
    if (decides && !std::exchange(offered, true)) {
      if (llvm::Error e = offerSuccessor(members))
        return e;
      int32_t nobody = 0;
      decidedBy.compare_exchange_strong(nobody, int32_t(group.rank) + 1, std::memory_order_acq_rel);
    }
    backoff.pause();
  }
  return llvm::Error::success();
}

llvm::Error RankMember::wentOnWithout() const {
  return makeFailure(Failure::Aborted, "the communicator went on without rank {}, which came late",
                     group.rank);
}

llvm::Expected<std::unique_ptr<Member>> RankMember::rebuild(Milliseconds timeout) {
  if (const char *why = group.world().unusable())
    return makeFailure(Failure::BadArgument, "{}", why);
  if (!group.hasFailed())
    return makeFailure(Failure::BadArgument, "rank {}: rebuild is for communicators that failed",
                       group.rank);
  if (busy.exchange(true, std::memory_order_acquire))
    return makeFailure(Failure::BadArgument, "rank {} is used by two threads at once", group.rank);
  llvm::Error error = awaitDecision(timeout);
  busy.store(false, std::memory_order_release);
  if (error)
    return error;
  const int64_t decider = group.block().decidedBy.load(std::memory_order_acquire) - 1;
  std::unique_ptr<Member> member = adoptSuccessor(decider);
  if (!member)
    return wentOnWithout();
  log::info(log::Subsystem::Init, group.rank, "rank {} of {} goes on as rank {} of {}", group.rank,
            group.ranks, member->rank(), member->ranks());
  return member;
}

} // namespace ccl
