//===- CudaPrepare.cpp - What a program is for a communicator, found once ----------===//
#include "runtime/cuda/CudaGroup.h"

namespace ccl::cuda {

static_assert(sizeof(LaunchHead) % alignof(BufferView) == 0,
              "buffers lie right behind the head, as in the kernels' Launch");

/// What any driver passes to a kernel by value.
constexpr size_t mostParameterBytes = 4000;
static_assert(mostParameterBytes + sizeof(Step) <= 4096, "a step has both");

static size_t launchBytes(const Plan &plan) {
  return sizeof(LaunchHead) + std::max<size_t>(plan.buffers.size(), 1) * sizeof(BufferView);
}

llvm::Error CudaGroup::prepareTables(const RankAgents &table, int64_t rank, RankProgram &part) {
  part.agents.clear();
  for (const AgentCode &agent : table.agents)
    part.agents.push_back(agent.number());
  if (part.agents.empty()) // a block that only takes part in barriers
    part.agents.push_back(0);
  if (!isLocal(rank))
    return llvm::Error::success();
  llvm::Expected<Tables> tables = uploadTables(table, device(rank));
  if (!tables)
    return tables.takeError();
  part.tables = *tables;
  return llvm::Error::success();
}

llvm::Error CudaGroup::prepareRank(Prepared &prepared, int64_t rank) {
  const Plan &plan = prepared.program->plan();
  RankProgram &part = prepared.ranks[size_t(rank)];
  llvm::Expected<RankFacts> facts = findFacts(plan, rank);
  if (!facts)
    return facts.takeError();
  part.facts = *facts;
  if (facts->kernel < 0)
    return llvm::Error::success();
  const KernelPlan &kernel = plan.kernels[size_t(facts->kernel)];
  part.agents = plan.cuda.agents[size_t(facts->kernel)];
  if (part.agents.empty())
    return makeFailure(Failure::BadArgument, "malformed plan: {} has no agents on rank {}",
                       plan.program, rank);
  llvm::Expected<RankChannels> found = findChannels(kernel, facts->indexInSet, rank, theRanks);
  if (!found)
    return found.takeError();
  part.channels = std::move(*found);
  if (facts->indexInSet < kernel.agents.size())
    if (llvm::Error e = prepareTables(kernel.agents[facts->indexInSet], rank, part))
      return e;
  part.blocks = int64_t(part.agents.size());
  if (llvm::Error e = prepareEngines(plan, rank, part))
    return e;
  if (!isLocal(rank))
    return llvm::Error::success();
  llvm::Expected<CUdeviceptr> endOf = device(rank).upload(part.channels.endOf);
  if (!endOf)
    return endOf.takeError();
  part.endOf = *endOf;
  return llvm::Error::success();
}

/// Who sends finds somebody who receives. The other way round a wait will time out, which says
/// more.
llvm::Error CudaGroup::checkSides(const Prepared &prepared) const {
  std::set<ChannelKey> received;
  for (const RankProgram &rank : prepared.ranks)
    for (const RankChannels::End &end : rank.channels.ends)
      if (!end.to)
        received.insert(end.key);
  for (const RankProgram &rank : prepared.ranks)
    for (const RankChannels::End &end : rank.channels.ends)
      if (end.to && !received.count(end.key))
        return makeFailure(Failure::BadArgument,
                           "malformed plan: rank {} sends to rank {} through tag {} with {} slots, "
                           "where rank {} does not receive",
                           end.key.source, end.key.destination, end.key.tag, end.key.slots,
                           end.key.destination);
  return llvm::Error::success();
}

llvm::Error CudaGroup::prepareGrid(Prepared &prepared, size_t d) {
  const Plan &plan = prepared.program->plan();
  const Part &part = parts[d];
  Grid &grid = prepared.grids[d];
  llvm::Expected<const Code *> code = prepared.program->on(*part.device);
  if (!code)
    return code.takeError();
  grid.code = *code;
  for (int64_t r : part.ranks) {
    const RankProgram &rank = prepared.ranks[size_t(r)];
    grid.blocks = std::max(grid.blocks, rank.blocks);
    grid.engines += int64_t(rank.agents.size()) - rank.blocks;
  }
  grid.mostBlocks =
      int64_t(grid.code->kernel.blocksPerMultiprocessor) * part.device->multiprocessors();
  grid.describe = fmt::format(
      "GPU {} holds {} at once, {} on each of {} multiprocessors ({} "
      "threads of {} registers each)",
      part.device->ordinal(), grid.mostBlocks, grid.code->kernel.blocksPerMultiprocessor,
      part.device->multiprocessors(), plan.cuda.threads, grid.code->kernel.registers);
  return llvm::Error::success();
}

/// Every process does that for all ranks, so that each knows where the memory of all is.
llvm::Error CudaGroup::openChannels(Prepared &prepared, int64_t instances) {
  if (prepared.opened.count(instances))
    return llvm::Error::success();
  for (int64_t r = 0; r < theRanks; ++r) {
    RankProgram &program = prepared.ranks[size_t(r)];
    if (program.channels.ends.empty())
      continue;
    llvm::Expected<std::vector<CUdeviceptr>> opened = channels->open(program.channels, instances);
    if (!opened)
      return opened.takeError();
    if (!isLocal(r))
      continue;
    llvm::Expected<CUdeviceptr> table = device(r).upload(*opened);
    if (!table)
      return table.takeError();
    program.ends[instances] = *table;
  }
  prepared.opened.insert(instances);
  return llvm::Error::success();
}

void CudaGroup::forgetPrograms() {
  // Code may be in use until all that was launched is over.
  if (llvm::Error e = wait())
    return llvm::consumeError(std::move(e)); // the next call says so
  // Processes forget alike: who still holds what is not known to others.
  std::erase_if(programs, [&](const auto &entry) {
    return !entry.second.captured && (peers || entry.second.program.use_count() == 1);
  });
}

llvm::Expected<CudaGroup::Prepared *>
CudaGroup::prepare(const std::shared_ptr<LoadedCudaProgram> &program) {
  auto found = programs.find(program.get());
  if (found != programs.end())
    return &found->second;
  if (programs.size() >= 64)
    forgetPrograms();
  const Plan &plan = program->plan();
  if (plan.ranks() != theRanks)
    return makeFailure(Failure::BadArgument,
                       "{} (hash {}) is for {} ranks, the communicator has {}", plan.program,
                       plan.hash, plan.ranks(), theRanks);
  if (launchBytes(plan) > mostParameterBytes)
    return makeFailure(Failure::BadArgument,
                       "{} (hash {}) has {} buffers: their addresses do not fit the parameters of "
                       "a kernel, {} bytes",
                       plan.program, plan.hash, plan.buffers.size(), mostParameterBytes);
  Prepared prepared;
  prepared.program = program;
  prepared.number = int(plans.size());
  prepared.ranks.resize(size_t(theRanks));
  prepared.grids.resize(parts.size());
  for (int64_t r = 0; r < theRanks; ++r)
    if (llvm::Error e = prepareRank(prepared, r))
      return e;
  if (llvm::Error e = checkSides(prepared))
    return e;
  for (size_t d = 0; d < parts.size(); ++d)
    if (llvm::Error e = prepareGrid(prepared, d))
      return e;
  for (size_t d = 0; d < parts.size(); ++d) {
    const Grid &grid = prepared.grids[d];
    const int64_t blocks = int64_t(parts[d].ranks.size()) * grid.blocks + grid.engines;
    prepared.resident = std::min(prepared.resident, grid.mostBlocks / blocks);
    if (grid.engines > 0)
      prepared.resident = std::min(prepared.resident, (queuesOf(driver) - 1) / grid.engines);
  }
  if (peers)
    if (llvm::Error e = agreeOnProgram(prepared))
      return e;
  const std::lock_guard lock(failureMutex); // reports name plans
  Named &named = plans.emplace_back();
  named.name = fmt::format("{} (hash {}, {} {})", plan.program, plan.hash, plan.contract.str(),
                           name(plan.type));
  for (const RankProgram &rank : prepared.ranks)
    named.agents.push_back(rank.agents);
  return &programs.emplace(program.get(), std::move(prepared)).first->second;
}

} // namespace ccl::cuda
