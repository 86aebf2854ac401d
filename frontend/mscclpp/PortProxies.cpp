//===- PortProxies.cpp ----------------------------------------------------===//
#include "frontend/mscclpp/PortProxies.h"

#include <algorithm>

namespace ccl::mscclpp {

using model::Agent;
using model::Instruction;
using model::Operand;
using model::RankProgram;

/// The end of a local channel on the other side, or -1.
static int32_t otherEnd(const RankProgram &program, int32_t rank, int32_t channel) {
  const model::Channel &c = program.channels[size_t(channel)];
  for (size_t i = 0; i < program.channels.size(); ++i) {
    const model::Channel &other = program.channels[i];
    if (other.to != c.to && other.peer == rank && other.tag == c.tag)
      return int32_t(i);
  }
  return -1;
}

/// The one block that uses a channel so many times, or -1.
static int32_t userOf(const RankProgram &program, int32_t channel, int64_t uses) {
  int32_t user = -1;
  int64_t found = 0;
  for (size_t i = 0; i < program.agents.size(); ++i) {
    int64_t here = std::count_if(program.agents[i].code.begin(), program.agents[i].code.end(),
                                 [&](const Instruction &instruction) {
                                   return instruction.kind != Instruction::Kind::Transfer &&
                                          instruction.channel == channel;
                                 });
    if (here == 0)
      continue;
    if (user >= 0 || program.agents[i].proxy)
      return -1;
    user = int32_t(i);
    found = here;
  }
  return found == uses ? user : -1;
}

/// Sets `slot` to `value` unless it is something else already.
static bool same(int32_t &slot, int32_t value) {
  if (slot < 0)
    slot = value;
  return slot == value;
}

static bool addInstruction(const RankProgram &program, int32_t rank, const Instruction &instruction,
                           PortProxy &proxy) {
  if (instruction.kind == Instruction::Kind::Transfer)
    return instruction.from.size() == 1 && instruction.to.size() == 1 &&
           instruction.from.front().kind == Operand::Kind::Local &&
           instruction.to.front().kind == Operand::Kind::Peer &&
           same(proxy.peer, instruction.to.front().peer);
  const model::Channel &channel = program.channels[size_t(instruction.channel)];
  if (instruction.kind == Instruction::Kind::Wait)
    return channel.peer == rank && same(proxy.trigger, instruction.channel);
  if (channel.peer == rank)
    return same(proxy.done, instruction.channel);
  return same(proxy.remote, instruction.channel) && same(proxy.peer, channel.peer);
}

std::optional<PortProxy> findPortProxy(const RankProgram &program, int32_t rank, size_t number) {
  const Agent &agent = program.agents[number];
  if (!agent.proxy || agent.code.empty() || agent.code.front().kind != Instruction::Kind::Wait)
    return std::nullopt;
  PortProxy proxy;
  int64_t triggers = 0, dones = 0;
  for (const Instruction &instruction : agent.code) {
    if (!addInstruction(program, rank, instruction, proxy))
      return std::nullopt;
    triggers += instruction.kind == Instruction::Kind::Wait;
    dones += instruction.kind == Instruction::Kind::Signal && instruction.channel == proxy.done;
  }
  if (proxy.peer < 0)
    return std::nullopt;
  int32_t told = otherEnd(program, rank, proxy.trigger);
  proxy.block = told < 0 ? -1 : userOf(program, told, triggers);
  if (proxy.block < 0)
    return std::nullopt;
  if (proxy.done >= 0) {
    int32_t heard = otherEnd(program, rank, proxy.done);
    if (heard < 0 || userOf(program, heard, dones) != proxy.block)
      return std::nullopt;
  }
  return proxy;
}

} // namespace ccl::mscclpp
