//===- RankMember.cpp - Launches ----------------------------------------------===//
#include "runtime/RankMember.h"

#include "runtime/Faults.h"
#include "runtime/Log.h"

namespace ccl {

RankMember::RankMember(std::shared_ptr<World> world, ControlBlock *control, int64_t rank,
                       std::shared_ptr<Recording> recording)
    : far(group), group(std::move(world), control, rank), direct(group.world().canRead()),
      channels(group.world(), control->slotBytes, rank, group.ranks,
               [this](int64_t r) { return group.isNear(r); }),
      memorySource(group.world()), memory(memorySource), recording(std::move(recording)) {
  if (!this->recording)
    return;
  std::vector<int64_t> members;
  for (int64_t r = 0; r < group.ranks; ++r)
    members.push_back(group.worldRank(r));
  recordedGroup = this->recording->recorder.addGroup(
      fmt::format("{}", control->number), fmt::format("communicator of {} ranks", group.ranks),
      std::move(members));
}

RankMember::~RankMember() {
  if (group.world().unusable())
    return;
  (void)CCL_FAULT(Destroy, group.worldRank(group.rank));
  if (group.hasFailed())
    dump();
  std::vector<Block> large = std::move(symmetric), tables;
  channels.takeBlocks(large, tables);
  memory.takeBlocks(large);
  for (const Block &table : shared)
    if (table)
      tables.push_back(table);
  if (!group.hasFailed()) {
    large.insert(large.end(), tables.begin(), tables.end());
    group.giveBack(std::move(large));
    return;
  }
  // Who has not noticed the failure yet may still read and write there. It can do with
  // zeros for data, but not for addresses: the tables stay until the world ends.
  for (const Block &block : large)
    group.world().release(block, true);
}

llvm::Error RankMember::guarded(Milliseconds timeout, std::string_view what,
                                llvm::function_ref<llvm::Error()> body) {
  if (const char *why = group.world().unusable())
    return makeFailure(Failure::BadArgument, "{}", why);
  if (group.hasFailed())
    return group.firstFailure();
  if (timeout.count() <= 0)
    return group.fail(makeFailure(Failure::BadArgument, "rank {}: the time-out of {} is {} ms",
                                  group.rank, what, timeout.count()));
  if (busy.exchange(true, std::memory_order_acquire))
    return group.fail(makeFailure(Failure::BadArgument,
                                  "rank {} is used by two threads at once: {}", group.rank, what));
  llvm::Error error = body();
  if (error) {
    error = group.fail(std::move(error));
    dump();
  } else {
    group.end();
  }
  busy.store(false, std::memory_order_release);
  return error;
}

llvm::Error RankMember::fail(llvm::Error error) {
  if (const char *why = group.world().unusable()) {
    llvm::consumeError(std::move(error));
    return makeFailure(Failure::BadArgument, "{}", why);
  }
  return group.fail(std::move(error));
}

void RankMember::record(const Prepared &prepared, const LaunchShape &shape,
                        const LaunchArgs &args) {
  FlightRecorder::Operation operation;
  operation.group = recordedGroup;
  operation.sequence = launches;
  operation.collective = plan->contract.collective;
  operation.uneven = shape.uneven;
  CallerRows rows{prepared.facts.inShards * shape.count, prepared.facts.outShards * shape.count, 0,
                  0};
  if (shape.uneven)
    rows = shape.uneven->callerRows(group.rank);
  operation.inElements = rows.inElements;
  operation.outElements = rows.outElements;
  operation.type = plan->type;
  operation.timeout = args.timeout;
  operation.program = prepared.name;
  recorded = recording->recorder.begin(operation);
}

void RankMember::dump() {
  if (!recording || std::exchange(dumped, true))
    return;
  if (recorded) {
    const RankState &state = group.self();
    recording->recorder.failed(
        *recorded,
        fmt::format("agent {}, micro-batch {}, instruction {}",
                    agentName(__atomic_load_n(&state.kernel.agent, __ATOMIC_RELAXED)),
                    __atomic_load_n(&state.kernel.microBatch, __ATOMIC_RELAXED),
                    __atomic_load_n(&state.kernel.instruction, __ATOMIC_RELAXED)),
        group.lastWait());
  }
  llvm::Expected<std::string> file = recording->recorder.dump(recording->prefix);
  if (file)
    log::info(log::Subsystem::Abort, group.rank, "the last operations are in {}", *file);
  else
    log::warn(log::Subsystem::Abort, group.rank, "cannot write the last operations: {}",
              llvm::toString(file.takeError()));
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

/// Whether all that accesses a peer's memory directly is on the host of that peer.
llvm::Error RankMember::checkHosts() const {
  const Hosts *hosts = const_cast<Group &>(group).world().hosts();
  if (!hosts || !plan->direct)
    return llvm::Error::success();
  std::map<int32_t, int64_t> first; // rank of each of the plan's hosts
  for (int64_t r = 0; r < group.ranks; ++r) {
    const int32_t planned = size_t(r) < plan->hosts.size() ? plan->hosts[size_t(r)] : 0;
    const int64_t other = first.emplace(planned, r).first->second;
    if (hosts->hostOf(group.worldRank(other)) != hosts->hostOf(group.worldRank(r)))
      return makeFailure(Failure::BadArgument,
                         "{} (hash {}) accesses the memory of peers directly as if ranks {} and {} "
                         "shared a host, which they do not: lower it with --via staged, or for the "
                         "hosts that there are (--hosts)",
                         plan->program, plan->hash, other, r);
  }
  return llvm::Error::success();
}

llvm::Expected<RankMember::Prepared *>
RankMember::prepare(const std::shared_ptr<LoadedProgram> &program) {
  auto found = programs.find(program.get());
  if (found != programs.end()) {
    // An address may be that of a program which is gone: compare the owners.
    const std::weak_ptr<LoadedProgram> &known = found->second.program;
    if (!known.owner_before(program) && !program.owner_before(known))
      return &found->second;
    programs.erase(found);
  }
  if (programs.size() >= 64)
    std::erase_if(programs, [](const auto &entry) { return entry.second.program.expired(); });

  const Plan &plan = program->plan();
  if (plan.ranks() != group.ranks)
    return makeFailure(Failure::BadArgument,
                       "{} (hash {}) is for {} ranks, the communicator has {}", plan.program,
                       plan.hash, plan.ranks(), group.ranks);
  if (llvm::Error e = checkHosts())
    return e;
  Prepared prepared;
  prepared.program = program;
  llvm::Expected<RankFacts> facts = findFacts(plan, group.rank);
  if (!facts)
    return facts.takeError();
  prepared.facts = *facts;
  prepared.kernel = program->kernel(group.rank);
  prepared.announcement = describe(plan);
  if (recording)
    prepared.name = fmt::format("{} (hash {})", plan.program, plan.hash);
  if (facts->kernel >= 0) {
    const KernelPlan &kernel = plan.kernels[size_t(facts->kernel)];
    if (facts->indexInSet < kernel.agents.size())
      prepared.agents = std::make_unique<Agents>(plan, kernel.agents[facts->indexInSet],
                                                 program->agentFunctions());
    if (llvm::Error e = channels.open(kernel, facts->indexInSet))
      return e;
  }
  return &programs.insert_or_assign(program.get(), std::move(prepared)).first->second;
}

llvm::Expected<uint64_t *> RankMember::sharedWords(size_t words) {
  Block &table = shared[group.parity()];
  const size_t bytes = words * sizeof(uint64_t);
  if (table.bytes < bytes) {
    // Who read the old table has since entered another operation.
    if (table)
      group.world().release(std::exchange(table, {}), false);
    llvm::Expected<Block> larger = group.world().allocate(bytes);
    if (!larger)
      return larger.takeError();
    table = *larger;
  }
  return reinterpret_cast<uint64_t *>(table.data);
}

llvm::Error RankMember::gatherCounts(const Prepared &prepared, const LaunchArgs &args,
                                     std::vector<UnevenCounts> &counts) {
  const size_t n = size_t(group.ranks);
  Announcement &mine = group.begin(
      Operation::Counts, args.timeout,
      [this] { return fmt::format("the counts of launch {} of {}", launches + 1, plan->program); },
      prepared.announcement);
  llvm::Expected<uint64_t *> table = sharedWords(2 * n);
  if (!table)
    return table.takeError();
  for (size_t r = 0; r < n; ++r) {
    (*table)[r] = uint64_t(args.uneven->counts[r]);
    (*table)[n + r] = uint64_t(args.uneven->receives[r]);
  }
  mine.buffers = group.world().share(*table);
  if (llvm::Error e = group.enter())
    return e;
  counts.assign(n, {});
  for (size_t r = 0; r < n; ++r) {
    const auto *words = static_cast<const uint64_t *>(
        group.world().reach(group.worldRank(int64_t(r)), group.announcement(int64_t(r)).buffers));
    counts[r].counts.assign(words, words + n);
    counts[r].receives.assign(words + n, words + 2 * n);
  }
  return llvm::Error::success();
}

llvm::Error RankMember::findShards(const Prepared &prepared, const LaunchArgs &args) {
  shards.reset();
  if (!args.uneven)
    return llvm::Error::success();
  if (llvm::Error e = checkUneven(*plan, group.rank, *args.uneven))
    return e;
  std::vector<UnevenCounts> counts;
  if (!args.uneven->receives.empty()) {
    if (llvm::Error e = gatherCounts(prepared, args, counts))
      return e;
  } else {
    counts.push_back(*args.uneven);
  }
  llvm::Expected<UnevenShards> made = UnevenShards::make(*plan, counts);
  if (!made)
    return made.takeError();
  shards.emplace(std::move(*made));
  return llvm::Error::success();
}

std::string RankMember::describeLaunch() const {
  return fmt::format("launch {} of {} (hash {}, {} {})", launches, plan->program, plan->hash,
                     plan->contract.str(), name(plan->type));
}

/// Publishes what others need of this launch.
llvm::Error RankMember::announce(Announcement &mine, const LaunchShape &shape,
                                 const LaunchArgs &args) {
  mine.count = shape.count;
  // What each states for an all_to_all is its own; make() compared that.
  if (shape.uneven)
    mine.uneven = args.uneven->receives.empty()
                      ? fingerprint({reinterpret_cast<const char *>(args.uneven->counts.data()),
                                     args.uneven->counts.size() * sizeof(int64_t)})
                      : 1;
  mine.form = shape.form;
  mine.microBatches = shape.cut.microBatches;
  mine.directory = channels.directoryAddress();
  mine.entries = channels.directoryEntries();
  if (!plan->direct || pointers.empty())
    return llvm::Error::success();
  llvm::Expected<uint64_t *> table = sharedWords(pointers.size());
  if (!table)
    return table.takeError();
  uint64_t *entries = *table;
  for (size_t b = 0; b < pointers.size(); ++b)
    entries[b] = group.world().share(pointers[b]);
  mine.buffers = group.world().share(entries);
  return llvm::Error::success();
}

llvm::Error RankMember::resolve(Prepared &prepared) {
  if (prepared.resolved)
    return llvm::Error::success();
  if (prepared.facts.kernel >= 0) {
    auto ends = channels.resolve(
        plan->kernels[size_t(prepared.facts.kernel)], prepared.facts.indexInSet,
        [&](int64_t r) -> const Announcement & { return group.announcement(r); },
        [&](int64_t r) { return group.worldRank(r); });
    if (!ends)
      return ends.takeError();
    prepared.channels = std::move(*ends);
    if (group.world().hosts())
      if (llvm::Error e = far.resolve(*plan, prepared.facts, prepared.channels, prepared.far))
        return e;
  }
  prepared.resolved = true;
  return llvm::Error::success();
}

/// Translates everybody's published buffers.
void RankMember::reachPeers() {
  const size_t buffers = pointers.size(), ranks = size_t(group.ranks);
  peerPointers.resize(ranks * buffers);
  peerTable.resize(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    void **mine = peerPointers.data() + r * buffers;
    peerTable[r] = mine;
    if (int64_t(r) == group.rank) {
      std::copy(pointers.begin(), pointers.end(), mine);
      continue;
    }
    const int64_t there = group.worldRank(int64_t(r));
    const uint64_t address = group.announcement(int64_t(r)).buffers;
    if (!address) // without buffers, or on another host
      continue;
    const auto *table = static_cast<const uint64_t *>(group.world().reach(there, address));
    for (size_t b = 0; b < buffers; ++b)
      mine[b] = table[b] ? group.world().reach(there, table[b]) : nullptr;
  }
}

void RankMember::trace(const LaunchShape &shape, const LaunchArgs &args) const {
  log::write(log::Level::Info, group.rank,
             fmt::format("COLL #{} {} {} {} bytes {} n {}: {} hash {} m {}{}{}", launches,
                         plan->contract.str(), name(plan->type), shape.count * sizeOf(plan->type),
                         shape.form == Form::InPlace ? "in-place" : "out-of-place", group.ranks,
                         plan->program, plan->hash, shape.cut.microBatches,
                         args.reason.empty() ? "" : " by ", args.reason));
}

llvm::Error RankMember::run(const std::shared_ptr<LoadedProgram> &program, const LaunchArgs &args) {
  if (!program)
    return makeFailure(Failure::BadArgument, "rank {}: no program", group.rank);
  plan = &program->plan();
  llvm::Expected<Prepared *> prepared = prepare(program);
  if (!prepared)
    return prepared.takeError();
  const RankFacts &facts = (*prepared)->facts;
  if (llvm::Error e = findShards(**prepared, args))
    return e;
  llvm::Expected<LaunchShape> shape = findShape(
      *plan, facts, group.rank, args, group.block().slotBytes, shards ? &*shards : nullptr);
  if (!shape)
    return shape.takeError();

  ++launches;
  Announcement &mine = group.begin(
      Operation::Launch, args.timeout, [this] { return describeLaunch(); },
      (*prepared)->announcement);
  // A barrier moves no data, so a count says nothing about it.
  const bool empty = shape->count == 0 && facts.places > 0;
  pointers.clear();
  if (!empty)
    if (llvm::Error e = memory.place(*plan, facts, *shape, args, group.rank, pointers))
      return e;
  if (llvm::Error e = announce(mine, *shape, args))
    return e;
  if (recording)
    record(**prepared, *shape, args);
  if (llvm::Error e = group.enter())
    return e;
  if (recorded)
    recording->recorder.started(*recorded);
  if (group.rank == 0 && log::tracesCollectives())
    trace(*shape, args);
  if (llvm::Error e = resolve(**prepared))
    return e;
  if (!empty) {
    if (llvm::Error e = execute(**prepared, *shape))
      return e;
    if (CCL_FAULT(LastWait, group.worldRank(group.rank)))
      return faults::injected("after the last wait");
    // Once it has failed, others are back from this launch: what was read of their buffers since
    // may be something else by now. Such a result must not pass for one. Slots are not used again.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (plan->direct && group.hasFailed())
      return group.firstFailure();
    auto finishRow = [&, function = program->finish()](char *to, const char *from, int64_t n) {
      function(to, from, n, plan->ranks());
      return llvm::Error::success();
    };
    if (llvm::Error e = memory.finish(*plan, facts, *shape, args,
                                      program->finish() ? FinishRow(finishRow) : FinishRow()))
      return e;
  }
  if (recorded)
    recording->recorder.completed(*std::exchange(recorded, std::nullopt));
  if (CCL_FAULT(Exit, group.worldRank(group.rank)))
    return faults::injected("at the exit");
  return llvm::Error::success();
}

llvm::Error RankMember::launch(const std::shared_ptr<LoadedProgram> &program,
                               const LaunchArgs &args) {
  return guarded(args.timeout, "launch", [&] { return run(program, args); });
}

} // namespace ccl
