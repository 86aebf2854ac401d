//===- SyncBlock.cpp --------------------------------------------------------===//
#include "runtime/cuda/SyncBlock.h"

#include "runtime/cuda/Driver.h"

#include <cstring>

namespace ccl::cuda {

static_assert(sizeof(RankSync) <= 256, "words begin behind it");

std::vector<char> SyncBlock::contents(int64_t rank, llvm::ArrayRef<CUdeviceptr> blocks) const {
  std::vector<char> memory(static_cast<size_t>(bytes()));
  const CUdeviceptr base = blocks[size_t(rank)];
  auto wordAt = [](CUdeviceptr address) { return pointerTo<unsigned long long>(address); };
  auto tableAt = [&](int64_t offset) {
    return reinterpret_cast<unsigned long long *const *>(uintptr_t(base) + uintptr_t(offset));
  };
  auto *addresses = reinterpret_cast<CUdeviceptr *>(memory.data() + tables());
  for (int64_t p = 0; p < ranks; ++p) {
    const CUdeviceptr peer = blocks[size_t(p)];
    addresses[p] = peer + CUdeviceptr(entered() + word * rank);
    addresses[ranks + p] = peer + CUdeviceptr(exited() + word * rank);
    for (int64_t i = 0; i < instances; ++i)
      addresses[(2 + i) * ranks + p] = peer + CUdeviceptr(turns() + word * (i * ranks + rank));
  }
  const auto pointer = int64_t(sizeof(void *));
  RankSync sync;
  sync.entered = wordAt(base + CUdeviceptr(entered()));
  sync.exited = wordAt(base + CUdeviceptr(exited()));
  sync.turns = wordAt(base + CUdeviceptr(turns()));
  sync.peersEntered = tableAt(tables());
  sync.peersExited = tableAt(tables() + pointer * ranks);
  sync.peersTurns = tableAt(tables() + pointer * 2 * ranks);
  sync.joined = reinterpret_cast<unsigned *>(wordAt(base + CUdeviceptr(joined())));
  sync.generation = wordAt(base + CUdeviceptr(generation()));
  sync.turn = wordAt(base + CUdeviceptr(turn()));
  std::memcpy(memory.data(), &sync, sizeof sync);
  return memory;
}

} // namespace ccl::cuda
