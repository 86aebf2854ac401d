//===- NvrtcTest.cpp - CUDA C++ to cubins ---------------------------------------===//
#include "codegen/cuda/Nvrtc.h"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>

namespace ccl::test {
namespace {

const char *const source = R"(
extern "C" __global__ void scale(float *p, float by) { p[threadIdx.x] = p[threadIdx.x] * by + 1; }
extern "C" __global__ void reverse(int *p) {
  __shared__ int copy[256];
  copy[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = copy[255 - threadIdx.x];
}
)";

/// Null, with a message, where there is none: such a test says nothing then.
const Nvrtc *nvrtc() {
  llvm::Expected<const Nvrtc *> library = Nvrtc::get("");
  if (library)
    return *library;
  MESSAGE("skipped: " << llvm::toString(library.takeError()));
  return nullptr;
}

std::string whyNot(llvm::StringRef text, llvm::StringRef arch) {
  llvm::Expected<Cubin> cubin = nvrtc()->compile(text, arch);
  return cubin ? "" : llvm::toString(cubin.takeError());
}

TEST_CASE("architectures are written sm_ and a number") {
  CHECK(parseArch("sm_80") == 80);
  CHECK(parseArch("sm_90a") == 90);
  CHECK(parseArch("sm_100f") == 100);
  for (const char *bad : {"", "sm_", "sm_9", "sm_90b", "sm_90aa", "90", "compute_90", "sm_-1",
                          "sm_90 ", "sm_1000", "shim"})
    CHECK_MESSAGE(!parseArch(bad), bad);
}

TEST_CASE("resources are read from the assembler's log") {
  // As CUDA 13 writes it, and as CUDA 11 does, without a cumulative stack.
  std::vector<KernelResources> kernels = kernelResources(
      "ptxas info    : 46 bytes gmem, 120 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
      "ptxas info    : Function properties for one\n"
      "ptxas         .     128 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 1 barriers, 272 bytes cumulative stack size, 3152 "
      "bytes smem, 364 bytes cmem[0]\n"
      "ptxas info    : Function properties for callee\n"
      "ptxas         .     0 bytes stack frame, 36 bytes spill stores, 156 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'all' for 'sm_90a'\n"
      "ptxas info    : Function properties for all\n"
      "ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 9 registers\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].name == "all");
  CHECK(kernels[0].registers == 9);
  CHECK(kernels[0].sharedBytes == 0);
  CHECK(kernels[0].stackBytes == 16);
  CHECK(kernels[1].name == "one");
  CHECK(kernels[1].registers == 64);
  CHECK(kernels[1].sharedBytes == 3152);
  CHECK(kernels[1].spillBytes == 8 + 12 + 36 + 156);
  CHECK(kernels[1].stackBytes == 272);
  CHECK(kernelResources("").empty());
}

TEST_CASE("a library that is not there is named, with what to do") {
  llvm::Expected<const Nvrtc *> absent = Nvrtc::get("/nonexistent/libnvrtc.so");
  REQUIRE(!absent);
  const std::string why = llvm::toString(absent.takeError());
  CHECK(why.find("CCL_NVRTC_LIBRARY=/nonexistent/libnvrtc.so: cannot be loaded") == 0);
  CHECK(why.find("--arch shim") != why.npos);
}

TEST_CASE("a library that is another one is refused by what it lacks") {
  llvm::Expected<const Nvrtc *> other = Nvrtc::get("libm.so.6");
  REQUIRE(!other);
  CHECK(llvm::toString(other.takeError()) ==
        "libm.so.6 has no nvrtcGetErrorString: expected NVRTC of CUDA 11.2 or later");
}

TEST_CASE("cubins for every generation, with their resources") {
  if (!nvrtc())
    return;
  for (const char *arch : {"sm_80", "sm_90a", "sm_100a"}) {
    CAPTURE(arch);
    const std::vector<int> &known = nvrtc()->architectures();
    if (std::find(known.begin(), known.end(), *parseArch(arch)) == known.end())
      continue;
    llvm::Expected<Cubin> cubin = nvrtc()->compile(source, arch);
    REQUIRE_MESSAGE(cubin, llvm::toString(cubin.takeError()));
    CHECK(cubin->image.substr(0, 4) == "\x7f"
                                       "ELF");
    REQUIRE(cubin->kernels.size() == 2);
    CHECK(cubin->kernels[0].name == "reverse");
    CHECK(cubin->kernels[0].sharedBytes >= 1024);
    CHECK(cubin->kernels[1].name == "scale");
    CHECK(cubin->kernels[1].registers > 0);
    CHECK(cubin->kernels[1].registers < 64);
    CHECK(cubin->kernels[1].sharedBytes < 1024 + 1024); // the system's share, of late
    CHECK(cubin->kernels[1].spillBytes == 0);
  }
}

TEST_CASE("the same source gives the same image") {
  if (!nvrtc())
    return;
  llvm::Expected<Cubin> one = nvrtc()->compile(source, "sm_90"),
                        two = nvrtc()->compile(source, "sm_90");
  REQUIRE(one);
  REQUIRE(two);
  CHECK(one->image == two->image);
  CHECK(nvrtc()->identity().find("--fmad=false") != std::string::npos);
}

TEST_CASE("what NVRTC says of a faulty source has its line") {
  if (!nvrtc())
    return;
  const std::string why =
      whyNot("#line 7 \"ccl.cuh\"\n__device__ int f() { return nothing; }\n", "sm_90");
  CHECK_MESSAGE(why.find("ccl.cuh(7): error: identifier \"nothing\"") != why.npos, why);
}

TEST_CASE("an unknown architecture: those that there are") {
  if (!nvrtc())
    return;
  for (const char *arch : {"sm_20", "sm_999", "sm_80a", "sm_90f", "banana"}) {
    const std::string why = whyNot(source, arch);
    CHECK_MESSAGE(
        why.find(std::string("has no architecture ") + arch + ": it knows sm_") != why.npos, why);
    CHECK_MESSAGE(why.find(", sm_90") != why.npos, why);
  }
}

TEST_CASE("several threads may compile at once") {
  if (!nvrtc())
    return;
  std::string images[4];
  std::vector<std::thread> threads;
  for (std::string &image : images)
    threads.emplace_back([&] {
      llvm::Expected<Cubin> cubin = nvrtc()->compile(source, "sm_90");
      image = cubin ? cubin->image : llvm::toString(cubin.takeError());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &image : images)
    CHECK(image == images[0]);
}

} // namespace
} // namespace ccl::test
