//===- Member.cpp - Making communicators ---------------------------------------===//
#include "runtime/Member.h"

#include "runtime/Log.h"
#include "runtime/ProcessWorld.h"
#include "runtime/RankMember.h"
#include "runtime/hosts/HostsWorld.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace ccl {

namespace {

// Ranks travel as 32-bit numbers in plans.
constexpr int64_t mostRanks = int64_t(1) << 20, mostSlotBytes = int64_t(1) << 40;

llvm::Error checkSizes(int64_t ranks, MemberOptions &options) {
  if (ranks < 1 || ranks > mostRanks)
    return makeFailure(Failure::BadArgument, "a communicator has 1 to {} ranks, not {}", mostRanks,
                       ranks);
  if (options.slotBytes < 1 || options.slotBytes > mostSlotBytes)
    return makeFailure(Failure::BadArgument, "slots have 1 to {} bytes, not {} (CCL_SLOT_BYTES)",
                       mostSlotBytes, options.slotBytes);
  options.slotBytes = roundUp(options.slotBytes, int64_t(cacheLine));
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<std::unique_ptr<Member>>> Member::createThreads(int64_t ranks,
                                                                           MemberOptions options) {
  if (llvm::Error e = checkSizes(ranks, options))
    return e;
  log::info(log::Subsystem::Init, -1, "communicator of {} threads, slots of {} bytes", ranks,
            options.slotBytes);
  std::shared_ptr<World> world = createThreadWorld();
  llvm::Expected<Block> block = world->allocate(ControlBlock::size(ranks));
  if (!block)
    return block.takeError();
  ControlBlock *control = ControlBlock::create(block->data, ranks, options.slotBytes, 0);
  std::vector<std::unique_ptr<Member>> members;
  for (int64_t r = 0; r < ranks; ++r)
    members.push_back(std::make_unique<RankMember>(world, control, r,
                                                   Recording::make(options.flightRecorder, r)));
  return members;
}

llvm::Expected<std::unique_ptr<Member>> Member::join(JoinOptions options) {
  if (llvm::Error e = checkSizes(options.ranks, options.member))
    return e;
  return options.address.empty() ? joinProcesses(std::move(options))
                                 : joinHosts(std::move(options));
}

namespace {

/// Lets no rank begin before all threads exist: if one cannot be made, the others
/// would wait for it inside a collective.
class StartGate {
public:
  bool wait() {
    std::unique_lock lock(mutex);
    condition.wait(lock, [&] { return decided; });
    return go;
  }
  void open(bool start) {
    std::lock_guard lock(mutex);
    decided = true;
    go = start;
    condition.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable condition;
  bool decided = false, go = false;
};

/// Joins in the order of ranks, keeping one of those that say the same.
llvm::Error joinDistinct(std::vector<llvm::Error> errors) {
  llvm::Error all = llvm::Error::success();
  std::set<std::string> said;
  for (llvm::Error &error : errors)
    llvm::handleAllErrors(std::move(error), [&](std::unique_ptr<llvm::ErrorInfoBase> e) {
      if (said.insert(e->message()).second)
        all = llvm::joinErrors(std::move(all), llvm::Error(std::move(e)));
    });
  return all;
}

} // namespace

/// What a rank's body throws must neither end the process nor leave the other ranks' threads
/// without somebody who waits for them.
static llvm::Error guardedBody(const std::function<llvm::Error(int64_t)> &body, int64_t rank) {
  try {
    return body(rank);
  } catch (const std::bad_alloc &) {
    return makeFailure(Failure::Machine, "rank {}: out of memory", rank);
  } catch (const std::exception &e) {
    return makeFailure(Failure::Machine, "rank {}: {}", rank, e.what());
  }
}

llvm::Error onEveryRank(int64_t ranks, const std::function<llvm::Error(int64_t)> &body) {
  std::vector<llvm::Error> errors;
  for (int64_t r = 0; r < ranks; ++r)
    errors.push_back(llvm::Error::success());
  StartGate gate;
  std::vector<std::thread> threads;
  std::string problem;
  try {
    threads.reserve(errors.size());
    for (int64_t r = 1; r < ranks; ++r)
      threads.emplace_back([&, r] {
        if (gate.wait()) {
          llvm::consumeError(std::move(errors[size_t(r)]));
          errors[size_t(r)] = guardedBody(body, r);
        }
      });
  } catch (const std::exception &e) { // no more threads, or no memory
    problem = fmt::format("cannot start a thread for rank {}: {}", threads.size() + 1, e.what());
  }
  gate.open(problem.empty());
  if (problem.empty() && ranks > 0) {
    llvm::consumeError(std::move(errors[0]));
    errors[0] = guardedBody(body, 0);
  }
  for (std::thread &thread : threads)
    thread.join();
  llvm::Error all = joinDistinct(std::move(errors));
  if (problem.empty())
    return all;
  return llvm::joinErrors(std::move(all), makeFailure(Failure::Machine, "{}", problem));
}

} // namespace ccl
