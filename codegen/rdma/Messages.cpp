//===- Messages.cpp -----------------------------------------------------------===//
#include "codegen/rdma/Messages.h"

#include "codegen/Programs.h"
#include "dialect/Expand.h"

namespace ccl::rdma {
namespace {

using model::Operand;

/// Index into KernelPlan::channels of a `to` end.
int32_t familyOf(const KernelPlan &kernel, const model::Channel &channel) {
  for (size_t f = 0; f < kernel.channels.size(); ++f) {
    const ChannelFamily &family = kernel.channels[f];
    if (family.to && family.tag == channel.tag && family.slots == channel.slots)
      return int32_t(f);
  }
  return -1;
}

/// The row that tells how long a transfer is: one of this rank comes before those of peers.
void findRow(const model::Instruction &instruction, const Plan &plan, int64_t me,
             WireMessage &message) {
  bool isOwn = false;
  for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
    for (const Operand &operand : *side) {
      if (operand.kind == Operand::Kind::Channel)
        continue;
      const model::Role role = plan.buffers[size_t(operand.buffer)].role;
      const bool own = operand.kind == Operand::Kind::Local;
      if (role == model::Role::Scratch || isOwn || (message.owner != WireMessage::noRow && !own))
        continue;
      message.owner = int32_t(own ? me : operand.peer);
      message.output = role == model::Role::Out;
      message.chunk = operand.chunk;
      isOwn = own;
    }
}

/// Whether it lasts until another rank has done something.
bool awaitsOthers(const model::Instruction &instruction) {
  if (instruction.kind != model::Instruction::Kind::Transfer)
    return instruction.kind == model::Instruction::Kind::Wait;
  return llvm::any_of(instruction.from, [](const Operand &operand) {
    return operand.kind == Operand::Kind::Channel;
  });
}

void listMessages(const model::RankProgram &rank, const KernelPlan &kernel, const Plan &plan,
                  int64_t me, RankWire &wire) {
  int32_t run = 0;
  for (const model::Agent &agent : rank.agents) {
    ++run;
    for (const model::Instruction &instruction : agent.code) {
      run += awaitsOthers(instruction);
      if (instruction.kind != model::Instruction::Kind::Transfer)
        continue;
      for (const Operand &operand : instruction.to) {
        if (operand.kind != Operand::Kind::Channel)
          continue;
        const model::Channel &channel = rank.channels[size_t(operand.channel)];
        WireMessage message;
        message.family = familyOf(kernel, channel);
        message.peer = channel.peer;
        message.count = instruction.count;
        message.run = run;
        findRow(instruction, plan, me, message);
        wire.messages.push_back(message);
      }
    }
  }
}

} // namespace

mlir::LogicalResult planMessages(ProgramOp program, KernelPlan &kernel, Plan &plan,
                                 uint64_t &numMessages) {
  LocationTable locations;
  for (auto [begin, end] : kernel.ranks)
    for (int64_t r = begin; r < end && plan.hasWires; ++r) {
      mlir::FailureOr<model::Program> expanded = expandRank(program, r, locations);
      if (mlir::failed(expanded))
        return mlir::failure();
      locations.clear();
      listMessages(expanded->ranks.front(), kernel, plan, r, kernel.wires.emplace_back());
      numMessages += kernel.wires.back().messages.size();
      plan.hasWires = numMessages <= mostMessages;
    }
  return mlir::success();
}

mlir::LogicalResult refuseFarAccess(AlgorithmOp algorithm, llvm::ArrayRef<int32_t> hosts,
                                    int64_t rank) {
  for (ProgramOp program : programsOf(algorithm, rank)) {
    // Without peers there is nothing to expand.
    if (!program.walk([](PeerOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
      continue;
    llvm::ArrayRef<int64_t> ranks = program.getRanks();
    for (size_t i = 0; i + 1 < ranks.size(); i += 2)
      for (int64_t me = ranks[i]; me < ranks[i + 1]; ++me) {
        mlir::Operation *wrong = nullptr;
        int32_t peer = -1;
        auto visit = [&](mlir::Operation *op, const model::Instruction &instruction) {
          for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
            for (const Operand &operand : *side)
              if (!wrong && instruction.kind == model::Instruction::Kind::Transfer &&
                  operand.kind == Operand::Kind::Peer &&
                  hosts[size_t(operand.peer)] != hosts[size_t(me)]) {
                wrong = op;
                peer = operand.peer;
              }
          return wrong == nullptr;
        };
        if ((rank >= 0 && me != rank) || mlir::succeeded(forEachInstruction(program, me, visit)) ||
            !wrong)
          continue;
        return wrong->emitOpError()
               << "accesses memory of rank " << peer << " from rank " << me
               << ", which is on another host: there only channels lead, as they do in what is "
                  "lowered with --hosts";
      }
  }
  return mlir::success();
}

} // namespace ccl::rdma
