//===- RandomRank.cpp -------------------------------------------------------------------===//
#include "test/soak/RandomRank.h"

#include "test/soak/Crew.h"

#include <fmt/format.h>

#include <unistd.h>

#include <thread>

namespace ccl::soak {

/// Of one row: enough for many micro-batches of the smallest slots.
constexpr int64_t mostRowBytes = 256 << 10;

RandomRank::RandomRank(const Pool &pool, RandomTally &tally, Dice own, Milliseconds timeout,
                       std::string again)
    : pool(pool), tally(tally), own(own), timeout(timeout), again(std::move(again)),
      buffers(mostRowBytes + rowMargin) {}

void RandomRank::sayWrong(const std::string &what) const {
  ++tally.wrong;
  say(fmt::format("wrong: {}; again: {}", what, again));
}

/// Most ranks are in time, some come late.
void RandomRank::dawdle() {
  const int64_t mood = own.below(32);
  if (mood == 0)
    usleep(useconds_t(own.below(1500)));
  else if (mood < 3)
    std::this_thread::yield();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Launch RandomRank::rollLaunch(int64_t ranks, Dice &common) const {
  Launch launch;
  launch.program = &common.pick(pool.ofRanks(ranks));
  launch.timeout = timeout;
  launch.round = common.next() >> 32;
  if (common.chance(10))
    launch.microBatches = 1 + common.below(5);
  const model::Contract &contract = launch.program->workload->contract();
  const int64_t most = mostElements(*launch.program, mostRowBytes);
  auto rollCount = [&] {
    const int64_t count = common.chance(40) ? common.pick(matrixCounts())
                                            : common.below(int64_t(1) << common.below(18));
    return std::min(count, most);
  };
  launch.inPlace = common.chance(40);
  if (model::hasUnevenForm(contract.collective) && !common.chance(70))
    launch.lengths =
        unevenLengths(contract, launch.inPlace, [&](int64_t, int64_t) { return rollCount(); });
  else
    launch.lengths = rollCount();
  return launch;
}

Memory RandomRank::rollMemory(const Launch &launch, int64_t rank) {
  Memory memory;
  memory.shift = own.chance(50) ? 0 : own.below(4);
  const int64_t bytes = memoryBytes(launch, rank);
  std::vector<char *> fitting;
  for (const SymmetricBuffer &buffer : symmetric)
    if (buffer.bytes >= bytes)
      fitting.push_back(static_cast<char *>(buffer.local));
  own.shuffle(fitting);
  if (fitting.size() > 0 && own.chance(60))
    memory.in = fitting[0];
  if (fitting.size() > 1 && own.chance(60))
    memory.out = fitting[1];
  return memory;
}

llvm::Error RandomRank::launchOne(Member &member, Dice &common) {
  const Launch launch = rollLaunch(member.ranks(), common);
  const Memory memory = rollMemory(launch, member.rank());
  dawdle();
  llvm::Expected<Findings> found = buffers.run(member, launch, memory);
  ++tally.progress;
  if (!found)
    return found.takeError();
  if (found->any())
    sayWrong(fmt::format("rank {}: {}: {}", member.rank(), found->str(), launch.command("?")));
  if (member.rank() == 0)
    ++tally.launches;
  tally.symmetric += memory.in || memory.out;
  tally.uneven += launch.lengths.isUneven();
  tally.inPlace += launch.inPlace;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Other things
//===----------------------------------------------------------------------===//

llvm::Error RandomRank::exchangeWords(Member &member, Dice &common) {
  const uint64_t secret = common.next();
  dawdle();
  auto all = member.exchange({secret, uint64_t(member.rank())}, timeout);
  if (!all)
    return all.takeError();
  for (size_t r = 0; r < all->size(); ++r)
    if ((*all)[r][0] != secret || (*all)[r][1] != r)
      sayWrong(fmt::format("rank {} got other words than rank {} gave", member.rank(), r));
  return llvm::Error::success();
}

llvm::Error RandomRank::allocate(Member &member, Dice &common) {
  const int64_t bytes = 1 + common.below(mostRowBytes + 8192);
  if (symmetric.size() >= 8)
    return llvm::Error::success();
  auto buffer = member.allocate(bytes, timeout);
  if (!buffer)
    return buffer.takeError();
  if (buffer->peers[size_t(member.rank())] != buffer->local)
    sayWrong("a symmetric buffer is not its own peer");
  symmetric.push_back(std::move(*buffer));
  return llvm::Error::success();
}

/// A duplicate is used by a second thread while this one uses the communicator.
llvm::Error RandomRank::onTwoThreads(Member &member, Dice &common, int64_t launches, int depth) {
  auto other = member.duplicate(timeout);
  if (!other)
    return other.takeError();
  ++tally.communicators;
  ++tally.concurrent;
  RandomRank second(pool, tally, Dice(own.next()), timeout, again);
  const Dice theirs(common.next());
  std::optional<llvm::Error> secondError;
  std::thread thread([&] {
    secondError = second.live(std::move(*other), theirs, launches - launches / 2, depth + 1);
  });
  llvm::Error error = act(member, common, launches / 2, depth + 1);
  thread.join();
  return llvm::joinErrors(std::move(error), std::move(*secondError));
}

llvm::Expected<std::unique_ptr<Member>> RandomRank::split(Member &member, Dice &common,
                                                          int64_t &color) {
  std::vector<std::pair<int64_t, int64_t>> choices; // color and key
  for (int64_t r = 0; r < member.ranks(); ++r) {
    const int64_t theirs = common.chance(10) ? -1 : common.below(2);
    choices.emplace_back(theirs, common.below(5));
  }
  const auto [mine, key] = choices[size_t(member.rank())];
  int64_t ranks = 0, rank = 0;
  for (int64_t r = 0; r < member.ranks(); ++r) {
    const auto [theirs, theirKey] = choices[size_t(r)];
    ranks += theirs == mine;
    rank += theirs == mine && std::pair(theirKey, r) < std::pair(key, member.rank());
  }
  dawdle();
  auto child = member.split(mine, key, timeout);
  color = mine;
  if (!child)
    return child.takeError();
  ++tally.communicators;
  if (bool(*child) != (mine >= 0))
    sayWrong(fmt::format("color {} has {}", mine, *child ? "a communicator" : "no communicator"));
  else if (*child && ((*child)->ranks() != ranks || (*child)->rank() != rank))
    sayWrong(fmt::format("a split made rank {} of {}, not {} of {}", (*child)->rank(),
                         (*child)->ranks(), rank, ranks));
  return std::move(*child);
}

llvm::Error RandomRank::inGroups(Member &member, Dice &common, int64_t launches, int depth) {
  int64_t color = -1;
  auto child = split(member, common, color);
  if (!child)
    return child.takeError();
  const uint64_t next = common.next();
  if (!*child)
    return llvm::Error::success();
  RandomRank inside(pool, tally, Dice(own.next()), timeout, again);
  return inside.live(std::move(*child), Dice(next, uint64_t(color)), launches, depth + 1);
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

llvm::Error RandomRank::act(Member &member, Dice &common, int64_t launches, int depth) {
  while (launches > 0) {
    const int64_t what = common.below(100);
    // Made of other communicators too deeply, a launch is as good as any.
    const bool others = what >= 6 && what < 10 && depth < 2;
    const int64_t spent = others ? std::min(launches, 5 + common.below(20)) : what >= 6;
    if (llvm::Error error = what < 3   ? exchangeWords(member, common)
                            : what < 6 ? allocate(member, common)
                            : !others  ? launchOne(member, common)
                            : what < 8 ? onTwoThreads(member, common, spent, depth)
                                       : inGroups(member, common, spent, depth))
      return error;
    launches -= spent;
  }
  return llvm::Error::success();
}

llvm::Error RandomRank::live(std::unique_ptr<Member> member, Dice common, int64_t launches,
                             int depth) {
  symmetric.clear();
  if (llvm::Error error = act(*member, common, launches, depth)) {
    // Others may be elsewhere, and wait here later.
    member->abort("a rank of this run failed");
    return error;
  }
  if (depth >= 3 || common.chance(50))
    return llvm::Error::success();
  int64_t color = -1;
  auto child = split(*member, common, color);
  if (!child)
    return child.takeError();
  const uint64_t next = common.next();
  symmetric.clear();
  dawdle();
  member.reset();
  if (!*child)
    return llvm::Error::success();
  ++tally.orphans;
  return live(std::move(*child), Dice(next, uint64_t(color)), 1 + launches / 8, depth + 1);
}

} // namespace ccl::soak
