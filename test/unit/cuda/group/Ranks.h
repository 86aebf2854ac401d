//===- Ranks.h - A communicator and buffers that its ranks fill and check ----------===//
#pragma once

#include "runtime/cuda/CudaGroup.h"
#include "test/unit/cuda/group/Programs.h"

#include <doctest/doctest.h>

namespace ccl::test {

/// Memory of a GPU; with the stand-in it can be read and written here.
class Buffer {
public:
  Buffer(const cuda::Driver &driver, int device, size_t elements);
  int32_t *data() const { return reinterpret_cast<int32_t *>(uintptr_t(memory.get())); }
  int32_t &operator[](size_t i) const { return data()[i]; }
  const size_t size;

private:
  cuda::PrimaryContext context;
  cuda::DeviceMemory memory;
};

class Ranks {
public:
  Ranks(int64_t ranks, std::vector<int> devices, cuda::CudaGroupOptions options = {});

  /// New buffers of so many elements.
  void allocate(size_t in, size_t out);
  /// Every rank's input gets values of `seed`, its output ones that are nobody's.
  void fill(int32_t seed);
  llvm::Error launch(const Program &program, cuda::CudaLaunchOptions options);
  /// launch(), waits, and what went wrong.
  std::string run(const Program &program, const cuda::CudaLaunchOptions &options);
  /// Of launches that only end if they are aborted, in a moment: what waiting for them says.
  std::string abortSoon(const std::string &reason);
  static int32_t value(int32_t seed, int64_t rank, int64_t i);
  // How many elements are not what they should be, after fill(seed).
  int64_t wrongSums(int32_t seed, int64_t count) const;
  int64_t wrongGathers(int32_t seed, int64_t count) const;

  const int64_t ranks;
  const std::vector<int> devices;
  std::unique_ptr<cuda::CudaGroup> group;
  std::vector<Buffer> in, out;
};

/// Of a launch that ends in 20 s, or not at all.
cuda::CudaLaunchOptions optionsOf(int64_t count, int64_t instances = 0, int64_t microBatches = 0);

/// Free bytes of all GPUs together.
size_t freeBytes();
std::string text(llvm::Error error);

} // namespace ccl::test
