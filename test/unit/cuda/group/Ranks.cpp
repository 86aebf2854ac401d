//===- Ranks.cpp ------------------------------------------------------------===//
#include "test/unit/cuda/group/Ranks.h"

#include <chrono>
#include <thread>

using namespace ccl::cuda;

namespace ccl::test {

std::string text(llvm::Error error) { return llvm::toString(std::move(error)); }

Buffer::Buffer(const Driver &driver, int device, size_t elements) : size(elements) {
  context = llvm::cantFail(PrimaryContext::retain(driver, device));
  const ContextScope scope = llvm::cantFail(context.enter());
  memory = llvm::cantFail(allocate(driver, std::max<size_t>(elements, 1) * sizeof(int32_t)));
}

Ranks::Ranks(int64_t ranks, std::vector<int> devices, CudaGroupOptions options)
    : ranks(ranks), devices(std::move(devices)),
      group(llvm::cantFail(CudaGroup::create(shim(), ranks, this->devices, options))) {}

void Ranks::allocate(size_t inElements, size_t outElements) {
  in.clear();
  out.clear();
  for (int64_t r = 0; r < ranks; ++r) {
    const int device = devices[group->deviceOf(r)];
    in.emplace_back(shim(), device, inElements);
    out.emplace_back(shim(), device, outElements);
  }
}

int32_t Ranks::value(int32_t seed, int64_t rank, int64_t i) {
  return int32_t(seed * 7919 + rank * 100003 + i * 31);
}

void Ranks::fill(int32_t seed) {
  for (int64_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < in[size_t(r)].size; ++i)
      in[size_t(r)][i] = value(seed, r, int64_t(i));
    for (size_t i = 0; i < out[size_t(r)].size; ++i)
      out[size_t(r)][i] = -1;
  }
}

llvm::Error Ranks::launch(const Program &program, CudaLaunchOptions options) {
  std::vector<CudaLaunchArgs> args;
  for (int64_t r = 0; r < ranks; ++r)
    args.push_back({in[size_t(r)].data(), out[size_t(r)].data()});
  return group->launch(program, args, options);
}

std::string Ranks::run(const Program &program, const CudaLaunchOptions &options) {
  std::string error = text(launch(program, options));
  return error.empty() ? text(group->synchronize()) : error;
}

std::string Ranks::abortSoon(const std::string &reason) {
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    group->abort(reason);
  });
  std::string error = text(group->synchronize());
  other.join();
  return error;
}

CudaLaunchOptions optionsOf(int64_t count, int64_t instances, int64_t microBatches) {
  CudaLaunchOptions options;
  options.count = count;
  options.instances = instances;
  options.microBatches = microBatches;
  options.timeout = Milliseconds(20000);
  return options;
}

int64_t Ranks::wrongSums(int32_t seed, int64_t count) const {
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int64_t r = 0; r < ranks; ++r)
      sum += uint32_t(value(seed, r, i));
    for (const Buffer &result : out)
      wrong += result[size_t(i)] != int32_t(sum);
  }
  return wrong;
}

int64_t Ranks::wrongGathers(int32_t seed, int64_t count) const {
  int64_t wrong = 0;
  for (int64_t r = 0; r < ranks; ++r)
    for (int64_t i = 0; i < count; ++i)
      for (const Buffer &result : out)
        wrong += result[size_t(r * count + i)] != value(seed, r, i);
  return wrong;
}

size_t freeBytes() {
  size_t all = 0;
  int count = 0;
  shim().cuDeviceGetCount(&count);
  for (int d = 0; d < count; ++d) {
    const PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), d));
    const ContextScope scope = llvm::cantFail(context.enter());
    size_t free = 0, total = 0;
    shim().cuMemGetInfo_v2(&free, &total);
    all += free;
  }
  return all;
}

} // namespace ccl::test
