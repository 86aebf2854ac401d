//===- ShimCaptureTest.cpp - Captures and graphs -----------------------------------===//
#include "test/unit/cuda/Shim.h"

#include <thread>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

/// Two streams, and events to fork and join.
struct Two {
  cuda::Stream a = llvm::cantFail(makeStream(shim())), b = llvm::cantFail(makeStream(shim()));
  cuda::Event fork = llvm::cantFail(makeEvent(shim())), back = llvm::cantFail(makeEvent(shim()));

  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) const {
    REQUIRE(name(shim().cuStreamBeginCapture_v2(a.get(), mode)) == "CUDA_SUCCESS");
  }
  void forkToB() const {
    CHECK(shim().cuEventRecord(fork.get(), a.get()) == CUDA_SUCCESS);
    CHECK(shim().cuStreamWaitEvent(b.get(), fork.get(), 0) == CUDA_SUCCESS);
  }
  void joinB() const {
    CHECK(shim().cuEventRecord(back.get(), b.get()) == CUDA_SUCCESS);
    CHECK(shim().cuStreamWaitEvent(a.get(), back.get(), 0) == CUDA_SUCCESS);
  }
  /// What cuStreamEndCapture of `a` says; no graph stays.
  std::string end() const {
    CUgraph graph = nullptr;
    const CUresult result = shim().cuStreamEndCapture(a.get(), &graph);
    CHECK((graph != nullptr) == (result == CUDA_SUCCESS));
    if (graph)
      CHECK(shim().cuGraphDestroy(graph) == CUDA_SUCCESS);
    return name(result);
  }
  CUstreamCaptureStatus status() const {
    CUstreamCaptureStatus status;
    CHECK(shim().cuStreamIsCapturing(a.get(), &status) == CUDA_SUCCESS);
    return status;
  }
};

} // namespace

TEST_CASE("two streams are captured as one graph that is launched 100 times") {
  const InContext context;
  const Kernels kernels;
  const Two two;
  const Array<long long> left(64), right(64);
  const Array<unsigned> flags(2);
  for (const CUdeviceptr to : {left.address(), right.address()})
    CHECK(shim().cuMemsetD8Async(to, 0, 512, two.a.get()) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(two.a.get()) == CUDA_SUCCESS);
  two.begin();
  CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(shim().cuMemsetD32Async(flags.address(), 0, 2, two.a.get()) == CUDA_SUCCESS);
  two.forkToB();
  // Each branch waits for the other: they run at the same time.
  CHECK(launch(kernels["tell"], 1, two.a.get(), flags.data(), 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["await"], 1, two.a.get(), flags.data() + 1, 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["scale"], 3, two.a.get(), left.data(), 64ll, 1ll, 1ll) == CUDA_SUCCESS);
  CHECK(launch(kernels["await"], 1, two.b.get(), flags.data(), 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["tell"], 1, two.b.get(), flags.data() + 1, 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["scale"], 3, two.b.get(), right.data(), 64ll, 1ll, 2ll) == CUDA_SUCCESS);
  two.joinB();
  CHECK(launch(kernels["scale"], 3, two.a.get(), right.data(), 64ll, 1ll, 1ll) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(shim().cuStreamEndCapture(two.a.get(), &graph) == CUDA_SUCCESS);
  const cuda::Graph owned(shim(), context.get(), graph);
  CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(shim().cuStreamSynchronize(two.a.get()) == CUDA_SUCCESS);
  CHECK(left[0] == 0); // nothing was done
  CUgraphExec exec = nullptr;
  REQUIRE(shim().cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  const cuda::GraphExec ownedExec(shim(), context.get(), exec);
  for (int i = 0; i < 100; ++i) // from either stream: launches of a graph follow each other
    REQUIRE(shim().cuGraphLaunch(exec, i % 3 ? two.a.get() : two.b.get()) == CUDA_SUCCESS);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  for (int i = 0; i < 64; ++i) {
    CHECK(left[size_t(i)] == 100);
    CHECK(right[size_t(i)] == 300);
  }
}

TEST_CASE("a graph keeps its arguments, its code and a graph that it launches") {
  const InContext context;
  const Array<long long> numbers(1);
  const Two two;
  CUgraph inner = nullptr, outer = nullptr;
  CUgraphExec innerExec = nullptr, outerExec = nullptr;
  {
    const Kernels kernels;
    CHECK(shim().cuMemsetD8Async(numbers.address(), 0, 8, two.a.get()) == CUDA_SUCCESS);
    two.begin();
    CHECK(launch(kernels["scale"], 1, two.a.get(), numbers.data(), 1ll, 2ll, 1ll) == CUDA_SUCCESS);
    REQUIRE(shim().cuStreamEndCapture(two.a.get(), &inner) == CUDA_SUCCESS);
    REQUIRE(shim().cuGraphInstantiateWithFlags(&innerExec, inner, 0) == CUDA_SUCCESS);
    two.begin();
    CHECK(shim().cuGraphLaunch(innerExec, two.a.get()) == CUDA_SUCCESS);
    CHECK(shim().cuGraphLaunch(innerExec, two.a.get()) == CUDA_SUCCESS);
    REQUIRE(shim().cuStreamEndCapture(two.a.get(), &outer) == CUDA_SUCCESS);
    REQUIRE(shim().cuGraphInstantiateWithFlags(&outerExec, outer, 0) == CUDA_SUCCESS);
  }
  CHECK(shim().cuGraphDestroy(inner) == CUDA_SUCCESS);
  CHECK(shim().cuGraphDestroy(outer) == CUDA_SUCCESS);
  CHECK(shim().cuGraphExecDestroy(innerExec) == CUDA_SUCCESS);
  CHECK(name(shim().cuGraphLaunch(innerExec, two.a.get())) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(shim().cuGraphLaunch(outerExec, two.a.get()) == CUDA_SUCCESS);
  CHECK(shim().cuGraphExecDestroy(outerExec) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(two.a.get()) == CUDA_SUCCESS);
  CHECK(numbers[0] == 3); // (0 * 2 + 1) * 2 + 1
}

TEST_CASE("waiting for, or asking of a captured stream ends its capture") {
  const InContext context;
  const Two two;
  CUstream a = two.a.get();
  for (const auto call : {shim().cuStreamSynchronize, shim().cuStreamQuery}) {
    two.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(name(call(a)) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_NONE);
  }
  two.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(name(shim().cuCtxSynchronize()) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
}

TEST_CASE("captures that are not put together as they should be are refused") {
  const InContext context;
  const Kernels kernels;
  const Two two;
  const Array<unsigned> words(1);
  CUgraph graph = nullptr;
  CHECK(name(shim().cuStreamEndCapture(two.a.get(), &graph)) == "CUDA_ERROR_ILLEGAL_STATE");
  CHECK(name(shim().cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL)) ==
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");

  two.begin();
  CHECK(name(shim().cuStreamBeginCapture_v2(two.a.get(), CU_STREAM_CAPTURE_MODE_GLOBAL)) ==
        "CUDA_ERROR_ILLEGAL_STATE");
  two.forkToB();
  CHECK(name(shim().cuStreamEndCapture(two.b.get(), &graph)) ==
        "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED");
  CHECK(launch(kernels["tell"], 1, two.b.get(), words.data(), 1u) == CUDA_SUCCESS);
  CHECK(name(shim().cuEventQuery(two.fork.get())) == "CUDA_ERROR_CAPTURED_EVENT");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  // The stream that was drawn in is free again; the event's capture is over.
  CHECK(shim().cuStreamSynchronize(two.b.get()) == CUDA_SUCCESS);
  CHECK(name(shim().cuStreamWaitEvent(two.b.get(), two.fork.get(), 0)) ==
        "CUDA_ERROR_CAPTURED_EVENT");

  CHECK(shim().cuEventRecord(two.back.get(), two.b.get()) == CUDA_SUCCESS);
  two.begin();
  CHECK(name(shim().cuStreamWaitEvent(two.a.get(), two.back.get(), 0)) ==
        "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");

  two.begin();
  CHECK(shim().cuStreamBeginCapture_v2(two.b.get(), CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(shim().cuEventRecord(two.fork.get(), two.a.get()) == CUDA_SUCCESS);
  CHECK(name(shim().cuStreamWaitEvent(two.b.get(), two.fork.get(), 0)) ==
        "CUDA_ERROR_STREAM_CAPTURE_MERGE");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
  CHECK(name(shim().cuStreamEndCapture(two.b.get(), &graph)) ==
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
}

TEST_CASE("the modes say who may do what else meanwhile") {
  const InContext context;
  const Two two;
  CUdeviceptr pointer = 0;
  // What another thread gets from cuMemAlloc.
  auto elsewhere = [&] {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      const InContext here;
      CUdeviceptr memory = 0;
      result = shim().cuMemAlloc_v2(&memory, 16);
      if (result == CUDA_SUCCESS)
        shim().cuMemFree_v2(memory);
    }).join();
    return name(result);
  };
  two.begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(elsewhere() == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");

  two.begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CHECK(elsewhere() == "CUDA_SUCCESS");
  CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(name(shim().cuMemAlloc_v2(&pointer, 16)) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");

  two.begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(shim().cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(shim().cuMemAlloc_v2(&pointer, 16) == CUDA_SUCCESS);
  CHECK(shim().cuMemFree_v2(pointer) == CUDA_SUCCESS);
  CHECK(shim().cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    const InContext here;
    CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD");
  }).join();
  CHECK(two.end() == "CUDA_SUCCESS");

  two.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(shim().cuMemAlloc_v2(&pointer, 16) == CUDA_SUCCESS);
  CHECK(shim().cuMemFree_v2(pointer) == CUDA_SUCCESS);
  std::thread([&] {
    const InContext here;
    CHECK(two.end() == "CUDA_SUCCESS");
  }).join();
}

TEST_CASE("the default stream may not be used while a blocking stream is captured") {
  const InContext context;
  const Array<unsigned> words(1);
  Two two;
  two.begin();
  CHECK(shim().cuMemsetD32Async(words.address(), 1, 1, nullptr) == CUDA_SUCCESS);
  CHECK(two.end() == "CUDA_SUCCESS"); // that one does not block
  two.a = llvm::cantFail(makeStream(shim(), CU_STREAM_DEFAULT));
  two.begin();
  CHECK(name(shim().cuMemsetD32Async(words.address(), 1, 1, nullptr)) ==
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
}

TEST_CASE("a stream that is destroyed ends its capture") {
  const InContext context;
  Two two;
  two.begin();
  two.forkToB();
  two.b.reset();
  CHECK(two.end() == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
  two.begin();
  unsigned long id = 0, next = 0;
  CUstreamCaptureStatus status;
  CHECK(shim().cuStreamGetCaptureInfo_v2(two.a.get(), &status, &id, nullptr, nullptr, nullptr) ==
        CUDA_SUCCESS);
  CHECK(id > 0);
  two.a = llvm::cantFail(makeStream(shim()));
  CHECK(two.status() == CU_STREAM_CAPTURE_STATUS_NONE);
  two.begin();
  CHECK(shim().cuStreamGetCaptureInfo_v2(two.a.get(), &status, &next, nullptr, nullptr, nullptr) ==
        CUDA_SUCCESS);
  CHECK(next > id);
  CHECK(two.end() == "CUDA_SUCCESS");
}
