//===- Agents.h - The agents of one rank, executed in turns -------------------===//
//
// A rank has one thread, a program may have many agents, and they wait for each other and for
// those of other ranks. Each is a state machine whose state is the number of its next
// instruction. One runs until an operand of that is not ready: a slot is not filled, or not
// free, or a signal has not come. Then nothing of the instruction has happened yet, and the
// next agent has its turn. Only where none can go on the thread waits.
//
// So an agent that could go on is never kept from it by one that cannot, whatever the order:
// what is free of deadlock with agents that run at once is so with these.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ccl {

/// The code that tables refer to, linked.
struct AgentFunctions {
  SliceFunction slice = nullptr;
  std::vector<TransferFunction> transfers; ///< by AgentInstruction::pattern
};

class Agents {
public:
  /// All three outlive it. Execution trusts the table: codegen has looked at its indices.
  Agents(const Plan &plan, const RankAgents &program, const AgentFunctions &functions);

  /// A wait that was not over when its agent was looked at last.
  struct Wait {
    const AgentCode *agent;
    int64_t instruction; ///< in the agent's code
    const ChannelEnd *end;
    uint64_t value; ///< of *end->arrive, that would do
    bool isOver() const;
  };
  /// Executes micro-batches [args.firstBatch, args.endBatch). All agents end one before any
  /// begins the next. `wait` is called when none can go on, and returns 0 once `canGoOn`.
  /// Returns 0, or at once what `wait` or a transfer returned.
  int32_t run(KernelArgs &args, llvm::function_ref<int32_t()> wait);

  /// Whether some wait is over.
  bool canGoOn() const;
  /// In `wait`: of every agent that has not ended.
  llvm::ArrayRef<Wait> waits() const { return waiting; }

private:
  enum class Step : uint8_t { Done, Blocked, Failed };
  struct State {
    const AgentCode *agent;
    uint32_t next = 0; ///< instruction
  };
  /// An operand while its transfer is executed.
  struct Place {
    uintptr_t base = 0; ///< of the buffer, or the slot
    int64_t chunk = 0;
    int64_t row = noRow; ///< in KernelArgs::shards, if it lies in a shard row
    int64_t owner = 0;
  };
  static constexpr int64_t noRow = -1;

  int32_t runBatch(KernelArgs &args, llvm::function_ref<int32_t()> wait);
  /// Lets one agent run until it is blocked or has ended.
  Step advance(KernelArgs &args, State &state);
  Step execute(KernelArgs &args, const State &state, const AgentInstruction &instruction);
  Step transfer(KernelArgs &args, const AgentInstruction &instruction,
                llvm::ArrayRef<AgentOperand> operands);
  bool isBlocked(const KernelArgs &args, const State &state, llvm::ArrayRef<AgentOperand> operands);
  Place placeOf(const KernelArgs &args, const AgentOperand &operand) const;
  int32_t move(KernelArgs &args, const AgentInstruction &instruction, size_t operands,
               int64_t chunk, int64_t length);

  const Plan &plan;
  const RankAgents &program;
  const AgentFunctions &functions;
  const int64_t elementBytes;
  std::vector<State> running;
  std::vector<Wait> waiting;
  // Of the transfer under way, by operand.
  std::vector<Place> places;
  std::vector<char *> pointers;
  std::vector<int64_t> owners;
  int32_t failure = 0;
};

} // namespace ccl
