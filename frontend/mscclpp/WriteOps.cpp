//===- WriteOps.cpp -------------------------------------------------------===//
#include "frontend/mscclpp/WriteOps.h"

#include <algorithm>

namespace ccl::mscclpp {

static bool overlap(const BufferUse &a, const BufferUse &b) {
  return a.kind == b.kind && a.type == b.type && a.remote == b.remote &&
         a.index < b.index + b.size && b.index < a.index + a.size;
}

static bool isSame(const BufferUse &a, const BufferUse &b) {
  return a.kind == b.kind && a.type == b.type && a.remote == b.remote && a.index == b.index;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

Op &BlockWriter::add(OpKind kind, ChannelType type) {
  Op &op = block.ops.emplace_back();
  op.kind = kind;
  op.channelType = type;
  op.place.line = loc + 1;
  return op;
}

void BlockWriter::nop() {
  add(OpKind::Nop, ChannelType::None);
  waiting = touched = false;
  recent.clear();
}

void BlockWriter::data(Op op) {
  auto conflicts = [&](const BufferUse &use, bool writes) {
    return std::any_of(recent.begin(), recent.end(), [&](const Access &access) {
      return (writes || access.writes) && overlap(use, access.use);
    });
  };
  // A nop costs less than looking far back.
  bool needed = waiting || recent.size() >= maxRecent;
  for (const BufferUse &use : op.src)
    needed |= conflicts(use, false);
  for (const BufferUse &use : op.dst)
    needed |= conflicts(use, true);
  // A proxy reads what all threads wrote.
  needed |= op.channelType == ChannelType::Port && touched;
  if (needed)
    nop();
  for (const BufferUse &use : op.src)
    recent.push_back({use, false});
  for (const BufferUse &use : op.dst)
    recent.push_back({use, true});
  touched |= op.channelType != ChannelType::Port;
  op.place.line = loc + 1;
  block.ops.push_back(std::move(op));
}

void BlockWriter::sync(OpKind kind, ChannelType type, int32_t number, bool waits) {
  if (!waits && (touched || waiting))
    nop();
  bool semaphore = kind == OpKind::SemAcquire || kind == OpKind::SemRelease;
  auto listOf = [&](Op &op) -> std::vector<int32_t> & {
    return semaphore ? op.semaphores : op.channels;
  };
  waiting |= waits;
  if (!block.ops.empty() && block.ops.back().kind == kind && block.ops.back().channelType == type &&
      kind != OpKind::Flush) {
    // Threads of one op wait for one channel each, so each channel comes once.
    std::vector<int32_t> &list = listOf(block.ops.back());
    if (list.size() < maxChannelsOfOp &&
        std::find(list.begin(), list.end(), number) == list.end()) {
      list.push_back(number);
      return;
    }
  }
  listOf(add(kind, type)).push_back(number);
}

void BlockWriter::signal(ChannelType type, int32_t channel) {
  sync(OpKind::Signal, type, channel, false);
}
void BlockWriter::wait(ChannelType type, int32_t channel) {
  sync(OpKind::Wait, type, channel, true);
}
void BlockWriter::release(int32_t semaphore) {
  sync(OpKind::SemRelease, ChannelType::None, semaphore, false);
}
void BlockWriter::acquire(int32_t semaphore) {
  sync(OpKind::SemAcquire, ChannelType::None, semaphore, true);
}
void BlockWriter::flush(int32_t channel) { sync(OpKind::Flush, ChannelType::Port, channel, true); }

void BlockWriter::putByPort(const BufferUse &from, const BufferUse &to, int32_t channel,
                            bool signals) {
  Op op;
  op.kind = signals ? OpKind::Pws : OpKind::Put;
  op.channelType = ChannelType::Port;
  op.src = {from};
  op.dst = {to};
  op.channels = {channel};
  data(std::move(op));
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

static std::vector<BufferUse> ofKind(const std::vector<BufferUse> &uses, BufferUse::Kind kind) {
  std::vector<BufferUse> result;
  std::copy_if(uses.begin(), uses.end(), std::back_inserter(result),
               [&](const BufferUse &use) { return use.kind == kind; });
  return result;
}

bool BlockWriter::needsTemporary(const std::vector<BufferUse> &from,
                                 const std::vector<BufferUse> &to) {
  bool copiesLocal = from.size() == 1 && from.front().kind == BufferUse::Kind::Local;
  return !copiesLocal && ofKind(to, BufferUse::Kind::Local).empty();
}

void BlockWriter::copyTo(const BufferUse &from, const std::vector<BufferUse> &to) {
  Op put;
  put.kind = OpKind::Put;
  put.channelType = ChannelType::Memory;
  for (const BufferUse &use : to) {
    if (use.kind == BufferUse::Kind::Remote) {
      put.src.push_back(from);
      put.dst.push_back(use);
    } else if (!isSame(use, from)) {
      Op copy;
      copy.kind = OpKind::Copy;
      copy.src = {from};
      copy.dst = {use};
      data(std::move(copy));
    }
  }
  if (!put.dst.empty())
    data(std::move(put));
}

void BlockWriter::combine(OpKind kind, OpKind sending, std::vector<BufferUse> from,
                          const BufferUse &to, const std::vector<BufferUse> &remotes) {
  Op op;
  op.kind = remotes.empty() ? kind : sending;
  bool isRemote = !remotes.empty() || kind == OpKind::Rre;
  op.channelType = isRemote ? ChannelType::Memory : ChannelType::None;
  op.src = std::move(from);
  op.dst = {to};
  op.dst.insert(op.dst.end(), remotes.begin(), remotes.end());
  op.reduction = reduction;
  data(std::move(op));
}

void BlockWriter::transfer(const std::vector<BufferUse> &from, const std::vector<BufferUse> &to,
                           const BufferUse &temporary) {
  std::vector<BufferUse> locals = ofKind(from, BufferUse::Kind::Local);
  std::vector<BufferUse> remotes = ofKind(from, BufferUse::Kind::Remote);
  std::vector<BufferUse> localTargets = ofKind(to, BufferUse::Kind::Local);
  std::vector<BufferUse> remoteTargets = ofKind(to, BufferUse::Kind::Remote);
  if (from.size() == 1 && remotes.empty())
    return copyTo(from.front(), to);

  BufferUse target = temporary;
  if (!localTargets.empty()) {
    target = localTargets.front();
    localTargets.erase(localTargets.begin());
  }
  // What reads from peers takes exactly one local source.
  if (locals.empty()) {
    Op get;
    get.kind = OpKind::Get;
    get.channelType = ChannelType::Memory;
    get.src = {remotes.front()};
    get.dst = {target};
    data(std::move(get));
    remotes.erase(remotes.begin());
    locals = {target};
  } else if (locals.size() > 1 && !remotes.empty()) {
    combine(OpKind::Re, OpKind::Res, locals, target, {});
    locals = {target};
  }
  if (!remotes.empty()) {
    locals.insert(locals.end(), remotes.begin(), remotes.end());
    combine(OpKind::Rre, OpKind::Rres, locals, target, remoteTargets);
  } else if (locals.size() > 1) {
    combine(OpKind::Re, OpKind::Res, locals, target, remoteTargets);
  } else {
    copyTo(target, remoteTargets);
  }
  copyTo(target, localTargets);
}

} // namespace ccl::mscclpp
