//===- SimulatorTrees.cpp - Copies and sums in switches -------------------===//
//
// Pushes of a transfer that share a copy form a tree: the trunk goes first, the others begin where
// it parts from them. Pulls that share a sum form one, too, the other way round: all begin, and end
// where they meet the trunk, which waits for them there.
//===----------------------------------------------------------------------===//
#include "dialect/simulate/Simulator.h"

#include <algorithm>

namespace ccl::model {

int32_t Simulator::newBranch(int32_t message) {
  int32_t number = freeBranch;
  if (number < 0) {
    number = int32_t(branches.size());
    branches.emplace_back();
  } else {
    freeBranch = branches[size_t(number)].sibling;
    branches[size_t(number)] = Branch();
  }
  branches[size_t(number)].message = message;
  messages[size_t(message)].branch = number;
  return number;
}

void Simulator::sendTree(int32_t agent, const SimStep &step, int32_t first, int32_t count) {
  group.clear();
  for (int32_t i = first; i < first + count; ++i)
    group.push_back(
        newTransferMessage(agent, code.sends[step.firstSend + uint32_t(i)], kindOf(step, i)));
  auto branchOf = [&](int32_t message) {
    const int32_t known = messages[size_t(message)].branch;
    return known >= 0 ? known : newBranch(message);
  };
  int32_t roots = 0;
  for (int32_t i = first + count; i-- > first;) { // so that children are in order
    const SimSend &send = code.sends[step.firstSend + uint32_t(i)];
    const Message kind = kindOf(step, i);
    if (send.trunk < 0) {
      ++roots;
      continue;
    }
    const int32_t trunk = group[size_t(send.trunk - first)];
    const int32_t own = branchOf(group[size_t(i - first)]), other = branchOf(trunk);
    Branch &branch = branches[size_t(own)];
    branch.trunk = other, branch.own = send.own;
    // The end of both ways is the same of a sum, the beginning of a copy.
    const int32_t rest = code.ways[size_t(send.way)].numHops - send.own;
    branch.joint = kind == Message::Pull
                       ? code.ways[size_t(messages[size_t(trunk)].way)].numHops - rest
                       : send.own;
    branch.sibling = branches[size_t(other)].firstChild;
    branches[size_t(other)].firstChild = own;
  }
  states[size_t(agent)].pending = roots;
  for (int32_t number : group) {
    const InFlight &message = messages[size_t(number)];
    // Fair rates are those of the whole tree.
    if (!isFollower(message) || (message.kind == Message::Pull && !fair))
      setOff(number);
  }
}

/// Copies of a trunk that part from it after its last hop go on by themselves.
void Simulator::copyAt(const InFlight &trunk, double begin, double end, double delay) {
  for (int32_t *link = &branches[size_t(trunk.branch)].firstChild; *link >= 0;) {
    Branch &branch = branches[size_t(*link)];
    if (branch.joint != trunk.hop) {
      link = &branch.sibling;
      continue;
    }
    *link = branch.sibling;
    InFlight &copy = messages[size_t(branch.message)];
    copy.hop = branch.own;
    copy.queued = trunk.queued, copy.longest = trunk.longest, copy.longestAt = trunk.longestAt;
    push(std::max(now, nextStart(copy, begin, end, delay)), Event::Hop, copy.agent, branch.message);
  }
}

/// At `next` the message could take its next hop. It becomes part of another one here, or waits for
/// those that become part of it; the last one makes the trunk go on.
void Simulator::combineAt(int32_t number, double next) {
  const InFlight &message = messages[size_t(number)];
  Branch &branch = branches[size_t(message.branch)];
  branch.ready = next;
  if (branch.trunk >= 0 && branch.own == message.hop) {
    Branch &trunk = branches[size_t(branch.trunk)];
    branch.hasCome = true;
    if (trunk.waits == branch.joint && --trunk.missing == 0)
      goOnTogether(branch.trunk);
    return;
  }
  branch.waits = message.hop, branch.missing = 0;
  for (int32_t b = branch.firstChild; b >= 0; b = branches[size_t(b)].sibling)
    branch.missing += branches[size_t(b)].joint == message.hop && !branches[size_t(b)].hasCome;
  if (branch.missing == 0)
    goOnTogether(message.branch);
}

/// The last one to come says when, and what it waited for.
void Simulator::goOnTogether(int32_t trunkNumber) {
  Branch &trunk = branches[size_t(trunkNumber)];
  InFlight &message = messages[size_t(trunk.message)];
  for (int32_t b = trunk.firstChild; b >= 0; b = branches[size_t(b)].sibling) {
    const Branch &branch = branches[size_t(b)];
    if (branch.joint != message.hop || branch.ready <= trunk.ready)
      continue;
    const InFlight &late = messages[size_t(branch.message)];
    trunk.ready = branch.ready;
    message.queued = late.queued, message.longest = late.longest;
    message.longestAt = late.longestAt;
  }
  trunk.waits = -1;
  push(std::max(now, trunk.ready), Event::Hop, message.agent, trunk.message);
}

/// A message that has arrived, and what was combined with it.
void Simulator::release(int32_t number) {
  InFlight &message = messages[size_t(number)];
  if (message.branch >= 0) {
    const int32_t own = message.branch;
    if (message.kind == Message::Pull)
      for (int32_t b = branches[size_t(own)].firstChild; b >= 0;) {
        const int32_t next = branches[size_t(b)].sibling;
        InFlight &part = messages[size_t(branches[size_t(b)].message)];
        recordFlight(part, now);
        release(branches[size_t(b)].message);
        b = next;
      }
    branches[size_t(own)].sibling = freeBranch;
    freeBranch = own;
  }
  message.next = freeMessage;
  freeMessage = number;
}

} // namespace ccl::model
