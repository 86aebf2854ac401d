//===- Control.h - What the ranks of a communicator share --------------------===//
//
// A control block lies in memory that all ranks of one communicator reach; it is their
// only meeting place. Its layout is fixed by this header, so only processes of one build
// may share it (the rendezvous compares versions). docs/protocol.md says who may write
// and read what, and when.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Memory.h"
#include "runtime/plan/Plan.h"

#include <array>
#include <atomic>
#include <new>

namespace ccl {

/// Either: this rank has no input or no output, so its pointers do not tell.
enum class Form : uint8_t { Disjoint, InPlace, Either };
enum class Operation : uint8_t {
  None,
  Launch,
  Counts,
  Allocate,
  Exchange,
  Split,
  Publish,
  MicroBatch, ///< in a launch: between two of them
  Exit        ///< in a launch: at its end
};

/// What a rank is about to do. Written by its owner before it arrives at the entry of the
/// operation, read by others after; the next operation but one overwrites it.
struct Announcement {
  // What the next stage of a launch needs is in the first line.
  Operation operation = Operation::None;
  Form form = Form::Either;
  uint64_t program = 0; ///< fingerprint of the plan
  int64_t count = 0;
  int64_t microBatches = 0;
  uint64_t uneven = 0;                 ///< fingerprint of the counts of an uneven launch, or 0
  uint64_t buffers = 0;                ///< where the table of this rank's buffers (or counts) lies
  uint64_t directory = 0, entries = 0; ///< of the channels that end at this rank

  std::array<uint64_t, 6> words{}; ///< Allocate: bytes; Split: color, key; Exchange: the user's

  // For people, if ranks disagree.
  model::Collective collective{};
  model::Reduction reduction{};
  ElementType type{};
  int64_t root = 0;
  char name[48] = {}, hash[24] = {};
};

/// Why a communicator failed. Complete before ControlBlock::failedBy names its owner.
struct FailureRecord {
  int32_t category = 0;
  int32_t culprit = -1;
  char text[2048] = {};
};

constexpr int32_t waitsForNobody = -1, waitsForEverybody = -2;

/// The part of the block that one rank owns: nobody else writes it, `lost` excepted.
struct RankState {
  alignas(cacheLine) Announcement announcements[2];
  /// Of the launch under way: the program's progress is stored here. Only `agent`,
  /// `instruction` and `microBatch` mean anything to others.
  alignas(cacheLine) KernelArgs kernel;
  alignas(cacheLine) FailureRecord failure;
  // Read at any time, for reports and by those who wait.
  alignas(cacheLine) std::atomic<uint64_t> entered{0}; ///< operations
  std::atomic<uint64_t> done{0};                       ///< operations
  std::atomic<uint64_t> turns{0}; ///< waits begun and ended, but those that are over at once
  std::atomic<int32_t> waitsFor{waitsForNobody};
  std::atomic<bool> left{false};    ///< destroyed its member
  std::atomic<bool> rejoins{false}; ///< asks to go on without the others
  /// Another rank saw it go, so that all agree to go on without it, whoever else saw that. It
  /// may be alive: one that has closed its connection.
  std::atomic<bool> lost{false};
  /// Where lies what this rank made: the block of a split, the list of a rebuild, which begins
  /// with where its block is.
  std::atomic<uint64_t> child{0}, successor{0};
};

struct ControlBlock {
  static constexpr uint32_t expectedMagic = 0x6c636363;
  uint32_t magic = expectedMagic;
  int32_t ranks = 0;
  int32_t owner = 0;     ///< the rank in whose memory it lies
  int32_t nearRanks = 0; ///< ranks of this host
  uint64_t bytes = 0;
  uint64_t number = 0; ///< tells communicators of one job apart, in reports
  int64_t slotBytes = 0;
  alignas(cacheLine) std::atomic<uint64_t> arrivals{0}; ///< of all ranks, all operations
  alignas(cacheLine) std::atomic<int32_t> failedBy{0};  ///< 1 + the rank whose record counts
  std::atomic<uint64_t> nearArrivals{0};                ///< those of this host, if there are others
  std::atomic<int32_t> farFailure{0}; ///< 1: some process here takes down another host's
  std::atomic<int32_t> decidedBy{0};  ///< 1 + the rank whose offer is what survivors use
  std::atomic<int32_t> leavers{0};
  std::atomic<int32_t> givers{0}; ///< near ranks that gave their memory back, but the owner

  RankState &rank(int64_t r) {
    return *std::launder(
        reinterpret_cast<RankState *>(reinterpret_cast<char *>(this) + sizeof(ControlBlock)) + r);
  }
  /// World rank of each rank of this communicator.
  int32_t *worldRanks() {
    return reinterpret_cast<int32_t *>(reinterpret_cast<char *>(this) + sizeof(ControlBlock) +
                                       size_t(ranks) * sizeof(RankState));
  }
  static size_t size(int64_t ranks) {
    return sizeof(ControlBlock) + size_t(ranks) * (sizeof(RankState) + sizeof(int32_t));
  }
  /// Makes one in `memory` of size(ranks) bytes on a cache line boundary.
  static ControlBlock *create(void *memory, int64_t ranks, int64_t slotBytes, uint64_t number) {
    auto *block = new (memory) ControlBlock;
    block->ranks = block->nearRanks = int32_t(ranks);
    block->bytes = size(ranks);
    block->slotBytes = slotBytes;
    block->number = number;
    for (int64_t r = 0; r < ranks; ++r) {
      new (reinterpret_cast<char *>(block) + sizeof(ControlBlock) + size_t(r) * sizeof(RankState))
          RankState;
      block->worldRanks()[r] = int32_t(r);
    }
    return block;
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "locks do not work between processes");

} // namespace ccl
