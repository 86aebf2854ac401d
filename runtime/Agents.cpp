//===- Agents.cpp -------------------------------------------------------------===//
#include "runtime/Agents.h"

#include <algorithm>

namespace ccl {
namespace {

uint64_t arrived(const ChannelEnd &end) { return __atomic_load_n(end.arrive, __ATOMIC_ACQUIRE); }

/// Makes what this rank did to the channel's next slot, or before its next signal, visible.
void publish(ChannelEnd &end) { __atomic_store_n(end.depart, ++end.next, __ATOMIC_RELEASE); }

/// What *end.arrive must have come to for the next operation. By difference: with k slots the
/// first k sends ask for a value below zero.
uint64_t neededBy(const ChannelEnd &end) {
  return end.next + 1 - (end.to ? uint64_t(end.numSlots) : 0);
}

bool hasCome(const ChannelEnd &end, uint64_t value) { return int64_t(arrived(end) - value) >= 0; }

char *slotOf(const ChannelEnd &end) {
  return end.slots + int64_t(end.next % uint64_t(end.numSlots)) * end.slotBytes;
}

} // namespace

bool Agents::Wait::isOver() const { return hasCome(*end, value); }

Agents::Agents(const Plan &plan, const RankAgents &program, const AgentFunctions &functions)
    : plan(plan), program(program), functions(functions), elementBytes(sizeOf(plan.type)) {
  size_t most = 0;
  for (const TransferPattern &transfer : plan.transfers)
    most = std::max(most, size_t(transfer.sources) + size_t(transfer.destinations));
  places.resize(most);
  pointers.resize(most);
  owners.resize(most);
  running.reserve(program.agents.size());
  waiting.reserve(program.agents.size());
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

bool Agents::canGoOn() const {
  return std::any_of(waiting.begin(), waiting.end(),
                     [](const Wait &wait) { return wait.isOver(); });
}

int32_t Agents::run(KernelArgs &args, llvm::function_ref<int32_t()> wait) {
  for (int64_t batch = args.firstBatch; batch < args.endBatch; ++batch) {
    __atomic_store_n(&args.microBatch, batch, __ATOMIC_RELAXED);
    if (int32_t code = runBatch(args, wait))
      return code;
  }
  return 0;
}

int32_t Agents::runBatch(KernelArgs &args, llvm::function_ref<int32_t()> wait) {
  running.clear();
  for (const AgentCode &agent : program.agents)
    if (agent.begin != agent.end)
      running.push_back({&agent, agent.begin});
  while (!running.empty()) {
    bool progress = false;
    waiting.clear();
    size_t kept = 0;
    for (State &state : running) {
      const uint32_t before = state.next;
      const Step step = advance(args, state);
      if (step == Step::Failed)
        return failure;
      progress |= state.next != before;
      if (step == Step::Blocked)
        running[kept++] = state;
    }
    running.resize(kept);
    if (progress || running.empty())
      continue;
    if (int32_t code = wait())
      return code;
  }
  return 0;
}

Agents::Step Agents::advance(KernelArgs &args, State &state) {
  __atomic_store_n(&args.agent, state.agent->number(), __ATOMIC_RELAXED);
  for (; state.next < state.agent->end; ++state.next) {
    __atomic_store_n(&args.instruction, int64_t(state.next - state.agent->begin), __ATOMIC_RELAXED);
    if (Step step = execute(args, state, program.instructions[state.next]); step != Step::Done)
      return step;
  }
  return Step::Done;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Whether some channel among the operands is not ready; then that is kept as a wait.
bool Agents::isBlocked(const KernelArgs &args, const State &state,
                       llvm::ArrayRef<AgentOperand> operands) {
  for (const AgentOperand &operand : operands) {
    if (operand.peer != AgentOperand::channel)
      continue;
    const ChannelEnd &end = *args.channels[operand.chunk];
    const uint64_t value = neededBy(end);
    if (hasCome(end, value))
      continue;
    waiting.push_back({state.agent, int64_t(state.next - state.agent->begin), &end, value});
    return true;
  }
  return false;
}

Agents::Step Agents::execute(KernelArgs &args, const State &state,
                             const AgentInstruction &instruction) {
  const AgentOperand *first = program.operands.data() + instruction.operands;
  if (instruction.pattern == AgentInstruction::signal) {
    publish(*args.channels[first->chunk]);
    return Step::Done;
  }
  if (instruction.pattern == AgentInstruction::wait) {
    if (isBlocked(args, state, *first))
      return Step::Blocked;
    ++args.channels[first->chunk]->next;
    return Step::Done;
  }
  const TransferPattern &pattern = plan.transfers[size_t(instruction.pattern)];
  const llvm::ArrayRef<AgentOperand> operands(first,
                                              size_t(pattern.sources + pattern.destinations));
  return isBlocked(args, state, operands) ? Step::Blocked : transfer(args, instruction, operands);
}

Agents::Place Agents::placeOf(const KernelArgs &args, const AgentOperand &operand) const {
  Place place;
  place.owner = args.me;
  if (operand.peer == AgentOperand::channel) {
    place.base = reinterpret_cast<uintptr_t>(slotOf(*args.channels[operand.chunk]));
    return place;
  }
  void *const *table = args.buffers;
  if (operand.peer != AgentOperand::own) {
    place.owner = operand.peer;
    table = args.peers[operand.peer];
  }
  place.base = reinterpret_cast<uintptr_t>(table[operand.buffer]);
  place.chunk = operand.chunk;
  const model::Role role = plan.buffers[size_t(operand.buffer)].role;
  if (role != model::Role::Scratch)
    place.row = 2 * place.owner + (role == model::Role::Out);
  return place;
}

/// Executes the transfer for the chunks that lie `chunk` further on. `length` is the number of
/// elements if no place tells; this rank's places come first, since in an uneven launch those of
/// peers may be longer.
int32_t Agents::move(KernelArgs &args, const AgentInstruction &instruction, size_t operands,
                     int64_t chunk, int64_t length) {
  bool known = false, isOurs = false;
  for (size_t o = 0; o < operands; ++o) {
    const Place &place = places[o];
    int64_t start = (place.chunk + chunk) * args.stride;
    if (place.row != noRow) {
      const ShardRange slice = functions.slice(place.chunk + chunk, args.count, args.microBatch,
                                               args.microBatches, args.shards, place.row);
      start = slice.start;
      const bool ours = place.owner == args.me;
      if (!known || (!isOurs && ours))
        length = slice.length;
      known = true;
      isOurs |= ours;
    }
    // Not by pointers: an address of another process is none.
    pointers[o] = reinterpret_cast<char *>(place.base + uintptr_t(start * elementBytes));
    owners[o] = place.owner;
  }
  return functions.transfers[size_t(instruction.pattern)](&args, pointers.data(), owners.data(),
                                                          length);
}

Agents::Step Agents::transfer(KernelArgs &args, const AgentInstruction &instruction,
                              llvm::ArrayRef<AgentOperand> operands) {
  bool inRow = false;
  for (size_t o = 0; o < operands.size(); ++o) {
    places[o] = placeOf(args, operands[o]);
    inRow |= places[o].row != noRow;
  }
  // Strided places hold adjacent chunks back to back.
  const int64_t rounds = inRow ? instruction.count : 1;
  const int64_t length = args.stride * (inRow ? 1 : instruction.count);
  for (int64_t j = 0; j < rounds; ++j)
    if ((failure = move(args, instruction, operands.size(), j, length)) != 0)
      return Step::Failed;
  for (const AgentOperand &operand : operands)
    if (operand.peer == AgentOperand::channel)
      publish(*args.channels[operand.chunk]);
  return Step::Done;
}

} // namespace ccl
