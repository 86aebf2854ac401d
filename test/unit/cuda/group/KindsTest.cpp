//===- KindsTest.cpp - Launches like ones before ------------------------------------===//
//
// The driver's table is a copy whose calls are counted: what a known kind costs, and which
// launches are of one.
//===----------------------------------------------------------------------===//
#include "test/unit/cuda/group/Ranks.h"

#include <cstdlib>
#include <new>
#include <random>

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

namespace {
thread_local int64_t allocations = 0;
}

#if !SANITIZED
// NOLINTBEGIN
void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
// NOLINTEND
#endif

namespace {

struct Calls {
  int64_t newKinds = 0; ///< what only launches of new kinds call
  int64_t copies = 0, waits = 0, grids = 0;
} calls;

/// The stand-in, which also counts. `idle`: grids are not launched.
Driver counting(bool idle) {
  Driver driver(shim());
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode *mode) {
    ++calls.newKinds;
    return shim().cuThreadExchangeStreamCaptureMode(mode);
  };
  driver.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void *from, size_t bytes,
                                   CUstream stream) {
    ++calls.copies;
    return shim().cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
  };
  driver.cuStreamSynchronize = [](CUstream stream) {
    ++calls.waits;
    return shim().cuStreamSynchronize(stream);
  };
  driver.cuEventSynchronize = [](CUevent event) {
    ++calls.waits;
    return shim().cuEventSynchronize(event);
  };
  driver.cuLaunchCooperativeKernel = [](CUfunction function, unsigned x, unsigned y, unsigned z,
                                        unsigned i, unsigned j, unsigned k, unsigned shared,
                                        CUstream stream, void **parameters) {
    ++calls.grids;
    return shim().cuLaunchCooperativeKernel(function, x, y, z, i, j, k, shared, stream, parameters);
  };
  if (idle) {
    driver.cuLaunchCooperativeKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned,
                                          unsigned, unsigned, unsigned, CUstream,
                                          void **) { return ++calls.grids, CUDA_SUCCESS; };
    // What the stand-in allocates is not ours.
    driver.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  }
  return driver;
}

struct Sum {
  explicit Sum(const Driver &driver, int64_t n, std::vector<int> devices)
      : ranks(n), devices(devices), group(llvm::cantFail(CudaGroup::create(driver, n, devices))),
        sum(llvm::cantFail(LoadedCudaProgram::load(driver, ringAllReduce({n})))),
        gather(llvm::cantFail(LoadedCudaProgram::load(driver, directAllGather({n})))) {}
  std::string launch(const Program &program, llvm::ArrayRef<CudaLaunchArgs> args, int64_t count) {
    CudaLaunchOptions options;
    options.count = count;
    options.timeout = Milliseconds(20000);
    return text(group->launch(program, args, options));
  }
  const int64_t ranks;
  const std::vector<int> devices;
  std::unique_ptr<CudaGroup> group;
  const Program sum, gather;
};

/// Buffers of all ranks, one after the other in two allocations of each.
struct Buffers {
  Buffers(const Sum &of, size_t elements) {
    for (int64_t r = 0; r < of.ranks; ++r) {
      const int device = of.devices[of.group->deviceOf(r)];
      in.emplace_back(shim(), device, elements);
      out.emplace_back(shim(), device, elements * size_t(of.ranks));
    }
  }
  std::vector<CudaLaunchArgs> args(int64_t offset, bool inPlace = false, int64_t count = 0) const {
    std::vector<CudaLaunchArgs> all;
    for (size_t r = 0; r < in.size(); ++r) {
      int32_t *to = out[r].data() + offset;
      all.push_back({inPlace ? to + count * int64_t(r) : in[r].data() + offset, to});
    }
    return all;
  }
  std::vector<Buffer> in, out;
};

} // namespace

TEST_CASE("a known kind allocates, uploads and waits for nothing") {
  const Driver driver = counting(/*idle=*/true);
  for (const std::vector<int> &devices : {std::vector<int>{0}, {2, 0, 1}})
    for (const int64_t n : {1, 2, 5}) {
      CAPTURE(n);
      CAPTURE(devices.size());
      Sum of(driver, n, devices);
      const Buffers buffers(of, 600);
      for (const Program &program : {of.sum, of.gather}) {
        const auto first = buffers.args(0), second = buffers.args(8);
        for (const auto &args : {first, second})
          REQUIRE(of.launch(program, args, 500) == "");
        REQUIRE(text(of.group->synchronize()) == ""); // frees what is not used any more
        calls = {};
        const int64_t before = allocations;
        for (int i = 0; i < 20; ++i) {
          CHECK(of.launch(program, i % 2 ? first : second, 500).empty());
        }
        CHECK(allocations == before);
        CHECK(calls.newKinds == 0);
        CHECK(calls.copies == 0);
        CHECK(calls.waits == 0);
        CHECK(calls.grids == 20 * int64_t(std::min<size_t>(devices.size(), size_t(n))));
        // Other addresses wait for nothing, either.
        for (int64_t k = 0; k < 20; ++k)
          REQUIRE(of.launch(program, buffers.args(9 + k), 500) == "");
        CHECK(calls.waits == 0);
        // Another count is another kind.
        CHECK(calls.newKinds == 0);
        const int64_t known = allocations;
        REQUIRE(of.launch(program, first, 499) == "");
        CHECK(calls.newKinds > 0);
        CHECK((allocations > known || SANITIZED));
        calls = {};
        REQUIRE(of.launch(program, second, 499) == "");
        CHECK(calls.newKinds == 0);
      }
    }
}

TEST_CASE("kinds in any order, with any buffers, give what they should") {
  const Driver driver = counting(/*idle=*/false);
  for (const std::vector<int> &devices : {std::vector<int>{0}, {0, 1, 2}}) {
    const int64_t n = 4, most = 4099;
    Sum of(driver, n, devices);
    const PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), devices[0]));
    const Program large = llvm::cantFail(LoadedCudaProgram::load(driver, [&] {
      Variant padded{n};
      padded.divisible = true; // takes stand-ins, which grow
      return ringAllReduce(padded);
    }()));
    std::vector<Buffers> sets;
    for (int s = 0; s < 3; ++s)
      sets.emplace_back(of, size_t(most) + 8);
    std::mt19937 random(7);
    calls = {};
    for (int32_t seed = 1; seed < 400; ++seed) {
      CAPTURE(seed);
      const Program &program = random() % 3 == 0 ? of.gather : random() % 4 == 0 ? large : of.sum;
      const int64_t count =
          std::vector<int64_t>{1, 7, 500, seed % 40 == 0 ? most : 1003}[random() % 4];
      const bool inPlace = program == of.gather && random() % 2;
      const Buffers &set = sets[random() % sets.size()];
      const auto args = set.args(random() % 2 * 4, inPlace, count);
      for (int64_t r = 0; r < n; ++r) {
        auto *in = static_cast<int32_t *>(const_cast<void *>(args[size_t(r)].in));
        auto *out = static_cast<int32_t *>(args[size_t(r)].out);
        std::fill(out, out + count * (program == of.gather ? n : 1), -1);
        for (int64_t i = 0; i < count; ++i)
          in[i] = Ranks::value(seed, r, i);
      }
      REQUIRE(of.launch(program, args, count) == "");
      REQUIRE(text(of.group->synchronize()) == "");
      int64_t wrong = 0;
      for (int64_t r = 0; r < n; ++r) {
        const auto *out = static_cast<const int32_t *>(args[size_t(r)].out);
        for (int64_t i = 0; i < count; ++i) {
          uint32_t sum = 0;
          for (int64_t s = 0; s < n; ++s) {
            sum += uint32_t(Ranks::value(seed, s, i));
            if (program == of.gather)
              wrong += out[s * count + i] != Ranks::value(seed, s, i);
          }
          if (program != of.gather)
            wrong += out[i] != int32_t(sum);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("what is wrong with a launch of a known kind is said") {
  const Driver driver = counting(/*idle=*/false);
  const int64_t n = 2, count = 100;
  Sum of(driver, n, {0});
  const Buffers buffers(of, 200);
  const auto good = buffers.args(0);
  for (int i = 0; i < 3; ++i)
    REQUIRE(of.launch(of.sum, good, count) == "");
  auto bad = good;
  std::vector<int32_t> host(size_t{count});
  bad[1].in = host.data();
  const std::string ours = of.launch(of.sum, bad, count);
  CHECK(ours.find("rank 1: `in` (") == 0);
  CHECK(ours.find("is no memory that GPU 0 can use: it must come from CUDA") != std::string::npos);
  bad = good;
  bad[0].out = nullptr;
  CHECK(of.launch(of.sum, bad, count) == "rank 0: `out` is null, but count is 100");
  bad = good;
  bad[0].in = static_cast<const char *>(good[0].in) + 1;
  CHECK(of.launch(of.sum, bad, count) == "rank 0: `in` is not aligned to its elements of 4 bytes");
  bad = good;
  bad[1].in = good[1].out;
  CHECK(of.launch(of.sum, bad, count) ==
        "ranks 0 and 1 disagree on the form: out of place and in place");
  bad[1].in = static_cast<char *>(good[1].out) + 8;
  CHECK(of.launch(of.sum, bad, count).find("overlap without being in place") != std::string::npos);
  {
    // Memory that is given back is seen, although the address is a known one.
    const Buffer gone(shim(), 0, 200);
    bad = good;
    bad[0].in = gone.data();
    REQUIRE(of.launch(of.sum, bad, count) == "");
    REQUIRE(of.launch(of.sum, bad, count) == "");
    REQUIRE(text(of.group->synchronize()) == "");
  }
  CHECK(of.launch(of.sum, bad, count).find("it must come from CUDA") != std::string::npos);
  // None of that is the end.
  CHECK(!of.group->failure());
  REQUIRE(of.launch(of.sum, good, count) == "");
  REQUIRE(text(of.group->synchronize()) == "");
  of.group->abort("enough");
  CHECK(of.launch(of.sum, good, count) == "enough");
}

TEST_CASE("a known kind is captured as it is, with what was uploaded without a wait") {
  const Driver driver = counting(/*idle=*/false);
  const int64_t n = 3, count = 300;
  Sum of(driver, n, {0});
  const Buffers buffers(of, 400);
  const PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), 0));
  const ContextScope scope = llvm::cantFail(context.enter());
  const Stream stream = llvm::cantFail(makeStream(shim()));
  const CUstream streams[] = {stream.get()};
  CudaLaunchOptions options;
  options.count = count;
  options.timeout = Milliseconds(20000);
  auto fill = [&](int32_t seed, int64_t offset) {
    for (int64_t r = 0; r < n; ++r)
      for (int64_t i = 0; i < count; ++i)
        buffers.in[size_t(r)][size_t(offset + i)] = Ranks::value(seed, r, i);
  };
  auto wrong = [&](int32_t seed, int64_t offset) {
    int64_t result = 0;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t s = 0; s < n; ++s)
        for (int64_t i = 0; i < count; ++i)
          result +=
              buffers.out[size_t(r)][size_t(offset + s * count + i)] != Ranks::value(seed, s, i);
    return result;
  };
  fill(1, 0);
  REQUIRE(of.launch(of.gather, buffers.args(0), count) == "");
  REQUIRE(of.launch(of.gather, buffers.args(4), count) == ""); // its tables are in flight
  REQUIRE(shim().cuStreamBeginCapture_v2(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          CUDA_SUCCESS);
  options.streams = streams;
  REQUIRE(text(of.group->launch(of.gather, buffers.args(4), options)) == "");
  CUgraph made = nullptr;
  REQUIRE(shim().cuStreamEndCapture(stream.get(), &made) == CUDA_SUCCESS);
  const Graph graph(shim(), context.get(), made);
  CUgraphExec instance = nullptr;
  REQUIRE(shim().cuGraphInstantiateWithFlags(&instance, made, 0) == CUDA_SUCCESS);
  const GraphExec exec(shim(), context.get(), instance);
  REQUIRE(text(of.group->synchronize()) == "");
  for (int32_t seed = 2; seed < 30; ++seed) {
    CAPTURE(seed);
    const int64_t offset = seed % 3 ? 4 : 0;
    fill(seed, offset);
    if (seed % 3) {
      REQUIRE(shim().cuGraphLaunch(exec.get(), stream.get()) == CUDA_SUCCESS);
      REQUIRE(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
    } else {
      REQUIRE(of.launch(of.gather, buffers.args(0), count) == "");
      REQUIRE(text(of.group->synchronize()) == "");
    }
    CHECK(wrong(seed, offset) == 0);
  }
}
