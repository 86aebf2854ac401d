//===- CudaPeers.h - Ranks on GPUs of other processes ------------------------------===//
//
// What one process, which is one rank, knows of the others: memory that each reaches, and
// agreement. Memory is made of segments that all processes map; a place in a segment of some rank
// has an address in every process, each its own.
//
// Everything *collective* is called by all processes in the same order. Used by one thread at a
// time, failure() and fail() excepted. Any error leaves the ranks apart: pass it to fail().
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "runtime/bootstrap/PeerSockets.h"
#include "runtime/cuda/CudaWatch.h"
#include "runtime/cuda/RankHomes.h"
#include "runtime/cuda/SharedMemory.h"

#include <optional>

namespace ccl::cuda {

class CudaPeers final : public RankHomes {
public:
  /// Collective. `home` outlives it. `sharing`: instead of what suits the GPU.
  static llvm::Expected<std::unique_ptr<CudaPeers>> create(std::unique_ptr<Member> member,
                                                           Device &home,
                                                           std::optional<Sharing> sharing,
                                                           Milliseconds timeout);
  /// Waits a moment for others to unmap what has to outlive their use of it.
  ~CudaPeers() override;

  Member &host() const { return *member; }
  std::optional<RuntimeError> failure() const { return member->failure(); }
  llvm::Error fail(llvm::Error error) { return member->fail(std::move(error)); }
  /// Of each collective operation from now on.
  void setTimeout(Milliseconds value) { timeout = value; }

  bool isLocal(int64_t rank) const override { return rank == member->rank(); }
  Device &device(int64_t) const override { return home; }
  llvm::Expected<CUdeviceptr> take(int64_t rank, size_t bytes) override;
  llvm::Error meet() override;

  /// What a meeting is about. Who meets for something else differs.
  enum class Topic : uint64_t { Open = 1, Program, Launch, Counts, Place, Allocate, Register };
  using Facts = std::array<uint64_t, 5>;
  /// Everybody's facts. Collective. Mismatch if the topics differ.
  llvm::Expected<std::vector<Facts>> meet(Topic topic, const Facts &mine);
  /// Everybody's words, as many for each. Collective.
  llvm::Expected<std::vector<std::vector<uint64_t>>> gather(llvm::ArrayRef<uint64_t> mine);
  /// Everybody's text, cut to 40 bytes. Collective.
  llvm::Expected<std::vector<std::string>> tell(std::string_view text);

  /// A new segment of this rank, at least so large, zeroed. Others reach it after share().
  llvm::Expected<CUdeviceptr> allocateSegment(size_t bytes);
  /// How many segments this rank has: whether it got new ones.
  size_t segments() const { return own.size(); }
  /// Lets all map each other's new segments. Collective.
  llvm::Error share();
  /// A place in memory of this rank, for others; 0: it lies in no segment.
  uint64_t placeOf(const void *address) const;
  /// The address here of a place of `rank`; null for 0.
  void *reach(int64_t rank, uint64_t place) const;

  /// Memory that the user knows to be reached by all. Collective.
  llvm::Expected<SymmetricBuffer> allocate(int64_t bytes);
  /// The user keeps it until all have done with it.
  llvm::Expected<SymmetricBuffer> registerMemory(void *address, int64_t bytes);
  /// Which part of such memory [address, address + bytes) is: the same on all ranks for what
  /// corresponds; 0: none.
  uint64_t regionOf(const void *address, int64_t bytes) const;

private:
  CudaPeers(std::unique_ptr<Member> member, Device &home, Sharing sharing, Milliseconds timeout)
      : member(std::move(member)), home(home), sharing(sharing), timeout(timeout),
        theirs(size_t(this->member->ranks())) {}
  llvm::Error checkDevices();
  llvm::Error growPools(size_t bytes);
  llvm::Error sendNew(int64_t rank, llvm::ArrayRef<MemoryOffer> offers,
                      llvm::ArrayRef<Descriptor> descriptors);
  llvm::Error receiveNew(int64_t rank, uint64_t count);
  llvm::Expected<SymmetricBuffer> publish(void *address, int64_t bytes);

  /// What take() cuts: a segment of each rank, alike in all processes.
  struct Pool {
    std::vector<CUdeviceptr> bases;
    std::vector<size_t> used;
    size_t bytes;
  };
  struct Region {
    uintptr_t begin;
    int64_t bytes;
  };

  const std::unique_ptr<Member> member;
  Device &home;
  const Sharing sharing;
  Milliseconds timeout;
  std::optional<bootstrap::PeerSockets> sockets;
  std::vector<SharedMemory> own;
  size_t shared = 0; ///< so many of them are known to others
  std::vector<std::vector<SharedMemory>> theirs;
  std::vector<Pool> pools;
  std::vector<Region> regions;
};

} // namespace ccl::cuda
