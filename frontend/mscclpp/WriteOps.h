//===- WriteOps.h - Instructions as ops of a thread block -----------------===//
#pragma once

#include "frontend/mscclpp/Plan.h"

#include <deque>

namespace ccl::mscclpp {

/// Writes the ops of one thread block, with a `nop` wherever the threads of MSCCL++'s
/// executor would overtake each other (ThreadOrder.cpp says how they do).
class BlockWriter {
public:
  /// `reduction` is what ops that combine say.
  BlockWriter(ThreadBlock &block, std::string_view reduction)
      : block(block), reduction(reduction) {}

  /// What the next ops come from: goes to `Op::place` as line `loc + 1`.
  int32_t loc = -1;

  /// A transfer: every destination becomes the combination of all sources. `temporary` is
  /// a place of the block's own in scratch, used where an op needs a local one.
  void transfer(const std::vector<BufferUse> &from, const std::vector<BufferUse> &to,
                const BufferUse &temporary);
  /// Whether such a transfer uses `temporary`.
  static bool needsTemporary(const std::vector<BufferUse> &from, const std::vector<BufferUse> &to);

  void signal(ChannelType type, int32_t channel);
  void wait(ChannelType type, int32_t channel);
  void release(int32_t semaphore);
  void acquire(int32_t semaphore);
  /// A put by port, with a signal behind it or without.
  void putByPort(const BufferUse &from, const BufferUse &to, int32_t channel, bool signals);
  void flush(int32_t channel);

private:
  struct Access {
    BufferUse use;
    bool writes;
  };

  void copyTo(const BufferUse &from, const std::vector<BufferUse> &to);
  void combine(OpKind kind, OpKind sending, std::vector<BufferUse> from, const BufferUse &to,
               const std::vector<BufferUse> &remotes);
  void sync(OpKind kind, ChannelType type, int32_t channel, bool waits);
  void data(Op op);
  void nop();
  Op &add(OpKind kind, ChannelType type);

  ThreadBlock &block;
  std::string reduction;
  bool waiting = false, touched = false;
  std::vector<Access> recent; ///< since the last nop
  static constexpr size_t maxRecent = 256;
};

} // namespace ccl::mscclpp
