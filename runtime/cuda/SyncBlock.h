//===- SyncBlock.h - The counters that ranks meet at --------------------------------===//
//
// One block of memory on each rank's GPU holds its RankSync and all that this points to, laid out
// alike on every rank: who knows where a peer's block is knows where its words are.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/DriverApi.h"
#include "runtime/plan/CudaAbi.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace ccl::cuda {

class SyncBlock {
public:
  /// For launches of at most `instances` instances.
  SyncBlock(int64_t ranks, int64_t instances) : ranks(ranks), instances(instances) {}

  int64_t bytes() const { return tables() + int64_t(sizeof(void *)) * (2 + instances) * ranks; }
  /// What the block of `rank` begins as; `blocks[r]` is where that of rank r is for it.
  std::vector<char> contents(int64_t rank, llvm::ArrayRef<CUdeviceptr> blocks) const;

private:
  // Words of 128 bytes behind a RankSync, then tables of addresses.
  static constexpr int64_t word = 128;
  static constexpr int64_t entered() { return 2 * word; }
  int64_t exited() const { return entered() + word * ranks; }
  int64_t turns() const { return exited() + word * ranks; }
  int64_t joined() const { return turns() + word * instances * ranks; }
  int64_t generation() const { return joined() + word * instances; }
  int64_t turn() const { return generation() + word * instances; }
  int64_t tables() const { return turn() + word * instances; }

  int64_t ranks, instances;
};

} // namespace ccl::cuda
