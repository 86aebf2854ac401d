//===- ShimKernelTest.cpp - Modules and launches -----------------------------------===//
#include "test/unit/cuda/Shim.h"

#include <cstring>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

struct Big {
  char text[3];
  long long numbers[40];
};

std::string load(const std::string &image) {
  llvm::Expected<cuda::Module> module = loadModule(shim(), image);
  return module ? "" : llvm::toString(module.takeError());
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("all blocks of a launch run at once and can wait for each other") {
  const InContext context;
  const Kernels kernels;
  const unsigned blocks = unsigned(shimResident);
  const Array<unsigned> arrived(1), values(blocks), seen(blocks);
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  for (int round = 0; round < 20; ++round) {
    CHECK(shim().cuMemsetD32Async(arrived.address(), 0, 1, stream.get()) == CUDA_SUCCESS);
    CHECK(launchTogether(kernels["meet"], blocks, stream.get(), arrived.data(), values.data(),
                         seen.data()) == CUDA_SUCCESS);
    CHECK(name(shim().cuStreamSynchronize(stream.get())) == "CUDA_SUCCESS");
    for (unsigned b = 0; b < blocks; ++b)
      REQUIRE(seen[b] == (b + 1) % blocks + 1);
    std::memset(seen.data(), 0, blocks * sizeof(unsigned));
  }
}

TEST_CASE("a cooperative launch of more blocks than fit is refused") {
  const InContext context;
  const Kernels kernels;
  int blocks = 0;
  CHECK(shim().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels["tell"], 512, 0) ==
        CUDA_SUCCESS);
  CHECK(blocks == 8);
  const Array<unsigned> word(1);
  CHECK(name(launchTogether(kernels["tell"], unsigned(shimResident) + 1, nullptr, word.data(),
                            1u)) == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
  // Others wait for their turn.
  const Array<long long> numbers(1000);
  CHECK(shim().cuMemsetD8Async(numbers.address(), 0, 8000, nullptr) == CUDA_SUCCESS);
  CHECK(launch(kernels["scale"], 1000, nullptr, numbers.data(), 1000ll, 1ll, 1ll) == CUDA_SUCCESS);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  for (size_t i = 0; i < numbers.size(); ++i)
    CHECK(numbers[i] == 1);
}

TEST_CASE("parameters are copied when a kernel is launched") {
  const InContext context;
  const Kernels kernels;
  const Array<unsigned> word(1);
  const Array<long long> result(1);
  word[0] = 0;
  CHECK(launch(kernels["await"], 1, nullptr, word.data(), 1u) == CUDA_SUCCESS);
  Big big = {{1, 2, 3}, {}};
  for (int i = 0; i < 40; ++i)
    big.numbers[i] = i;
  char one = 10;
  long long *to = result.data();
  void *pointers[] = {&big, &one, &to};
  CHECK(shim().cuLaunchKernel(kernels["sum"], 1, 1, 1, 1, 1, 1, 0, nullptr, pointers, nullptr) ==
        CUDA_SUCCESS);
  big = {};
  one = 0;
  to = nullptr;
  __atomic_store_n(&word[0], 1, __ATOMIC_RELEASE);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(result[0] == 780 + 10 + 3);
}

TEST_CASE("launches that cannot be are refused") {
  const InContext context;
  const Kernels kernels;
  const CUfunction tell = kernels["tell"];
  const Array<unsigned> word(1);
  unsigned *to = word.data();
  unsigned value = 1;
  void *pointers[] = {&to, &value}, *one[] = {&to, nullptr};
  auto launched = [&](CUfunction f, unsigned grid, unsigned threads, unsigned shared,
                      CUstream stream, void **parameters) {
    return name(
        shim().cuLaunchKernel(f, grid, 1, 1, threads, 1, 1, shared, stream, parameters, nullptr));
  };
  CHECK(launched(tell, 0, 1, 0, nullptr, pointers) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(launched(tell, 1, 1025, 0, nullptr, pointers) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(launched(tell, 1, 1, 64 << 10, nullptr, pointers) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(launched(tell, 1, 1, 0, nullptr, nullptr) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(launched(tell, 1, 1, 0, nullptr, one) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(launched(nullptr, 1, 1, 0, nullptr, pointers) == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(launched(kernels["bare"], 1, 1, 0, nullptr, nullptr) == "CUDA_SUCCESS");
  CHECK(shim().cuFuncSetAttribute(tell, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  100 << 10) == CUDA_SUCCESS);
  CHECK(launched(tell, 1, 1, 64 << 10, nullptr, pointers) == "CUDA_SUCCESS");
  const InContext other(1);
  CHECK(launched(tell, 1, 1, 0, nullptr, pointers) == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("a kernel that fails fails its context until that is opened anew") {
  for (const char *kernel : {"fail", "throwing"}) {
    const InContext context(2);
    const Kernels kernels;
    const Array<unsigned> word(1);
    CHECK(shim().cuMemsetD32Async(word.address(), 3, 1, nullptr) == CUDA_SUCCESS);
    CHECK(launch(kernels["fail"], 4, nullptr, 0) == CUDA_SUCCESS);
    CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(launch(kernels[kernel], 4, nullptr, 1) == CUDA_SUCCESS);
    // Refused, or not done any more.
    shim().cuMemsetD32Async(word.address(), 9, 1, nullptr);
    CUdeviceptr more = 0;
    CHECK(name(shim().cuCtxSynchronize()) == "CUDA_ERROR_LAUNCH_FAILED");
    CHECK(name(shim().cuMemAlloc_v2(&more, 16)) == "CUDA_ERROR_LAUNCH_FAILED");
    CHECK(name(shim().cuStreamQuery(nullptr)) == "CUDA_ERROR_LAUNCH_FAILED");
    CHECK(word[0] == 3);
    const InContext other(3); // nobody else's
    CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  }
  const InContext again(2);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("code that is none, or of another machine, is refused") {
  const InContext context;
  CHECK(contains(load("not code at all"), "CUDA_ERROR_INVALID_IMAGE"));
  std::string image = Kernels::image();
  image[4] = 1; // of 32 bits
  CHECK(contains(load(image), "CUDA_ERROR_NO_BINARY_FOR_GPU"));
  CHECK(contains(load(makeObject("unresolved", "extern int gone();\n"
                                               "int here() { return gone(); }\n")),
                 "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED ("));
  const std::string lacking = load(makeObject("unresolved", ""));
  INFO(lacking);
  CHECK(contains(lacking, "undefined symbol"));
  CHECK(contains(lacking, "gone"));
  const Kernels kernels;
  llvm::Expected<cuda::Module> module = loadModule(shim(), Kernels::image());
  REQUIRE(bool(module));
  CHECK(contains(llvm::toString(findFunction(shim(), *module, "nobody").takeError()),
                 "cannot find the kernel nobody: CUDA_ERROR_NOT_FOUND"));
  const CUfunction stale = llvm::cantFail(findFunction(shim(), *module, "bare"));
  module->reset();
  CHECK(name(launch(stale, 1, nullptr)) == "CUDA_ERROR_INVALID_HANDLE");
}

TEST_CASE("modules of the same names are not taken for each other") {
  const InContext context;
  const Array<int> result(1);
  for (int i = 1; i <= 5; ++i) {
    const std::string text = std::to_string(i);
    const std::string &image =
        makeObject("same" + text, "#include <cstddef>\nint value = " + text + R"(;
extern "C" int put_shim(int what, void **p, unsigned, unsigned, size_t *sizes) {
  if (what == 1)
    **(int **)p[0] = value++;
  else if (sizes)
    sizes[0] = sizeof(int *);
  return what == 1 ? 0 : 1;
})",
                   "-Wl,-z,nodelete");
    // A module is loaded fresh each time, also if the loader keeps the last one.
    for (int again = 0; again < 2; ++again) {
      const cuda::Module module = llvm::cantFail(loadModule(shim(), image));
      const CUfunction put = llvm::cantFail(findFunction(shim(), module, "put"));
      CHECK(launch(put, 1, nullptr, result.data()) == CUDA_SUCCESS);
      CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
      CHECK(result[0] == i);
    }
  }
}
