//===- ShimStreamTest.cpp - Order of streams and events ----------------------------===//
#include "test/unit/cuda/Shim.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

TEST_CASE("a stream does one thing after the other") {
  const InContext context;
  const Kernels kernels;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  const Array<long long> numbers(100);
  CHECK(shim().cuMemsetD8Async(numbers.address(), 0, 800, stream.get()) == CUDA_SUCCESS);
  long long expected = 0;
  for (long long i = 0; i < 200; ++i) {
    expected = (expected * 3 + i) % 1000003;
    REQUIRE(launch(kernels["scale"], 4, stream.get(), numbers.data(), 100ll, 3ll, i) ==
            CUDA_SUCCESS);
    // The remainder keeps numbers small: done by the host in the stream's turn.
    REQUIRE(shim().cuLaunchHostFunc(
                stream.get(),
                [](void *data) {
                  for (int k = 0; k < 100; ++k)
                    static_cast<long long *>(data)[k] %= 1000003;
                },
                numbers.data()) == CUDA_SUCCESS);
  }
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  for (size_t i = 0; i < numbers.size(); ++i)
    CHECK(numbers[i] == expected);
}

TEST_CASE("a stream holds so much work and no more, then the caller waits") {
  const InContext context;
  const Kernels kernels;
  const Array<unsigned> words(1);
  words[0] = 0;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  REQUIRE(launch(kernels["await"], 1, stream.get(), words.data(), 7u) == CUDA_SUCCESS);
  constexpr int many = 5000;
  std::atomic<int> queued{0}, done{0};
  std::thread caller([&] {
    const InContext same;
    for (int i = 0; i < many; ++i, ++queued)
      if (shim().cuLaunchHostFunc(
              stream.get(), [](void *data) { ++*static_cast<std::atomic<int> *>(data); }, &done) !=
          CUDA_SUCCESS)
        return;
  });
  // Until it goes on no more.
  for (int before = -1; before != queued.load();) {
    before = queued.load();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  CHECK(queued.load() < many);
  CHECK(done.load() == 0);
  __atomic_store_n(&words[0], 7, __ATOMIC_RELEASE);
  caller.join();
  CHECK(queued.load() == many);
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  CHECK(done.load() == many);
}

TEST_CASE("an event holds another stream back, also of another device") {
  const InContext first(0);
  const Kernels kernels;
  const Array<unsigned> words(2);
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  const cuda::Event event = llvm::cantFail(makeEvent(shim()));
  CHECK(shim().cuMemsetD32Async(words.address(), 0, 2, stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuEventQuery(event.get()) == CUDA_SUCCESS); // never recorded
  CHECK(launch(kernels["await"], 1, stream.get(), words.data(), 7u) == CUDA_SUCCESS);
  CHECK(shim().cuEventRecord(event.get(), stream.get()) == CUDA_SUCCESS);
  CHECK(name(shim().cuStreamQuery(stream.get())) == "CUDA_ERROR_NOT_READY");
  CHECK(name(shim().cuEventQuery(event.get())) == "CUDA_ERROR_NOT_READY");
  {
    const InContext second(1);
    const Kernels theirs;
    const cuda::Stream other = llvm::cantFail(makeStream(shim()));
    CHECK(name(shim().cuEventRecord(event.get(), other.get())) == "CUDA_ERROR_INVALID_HANDLE");
    CHECK(shim().cuStreamWaitEvent(other.get(), event.get(), 0) == CUDA_SUCCESS);
    CHECK(launch(theirs["tell"], 1, other.get(), words.data() + 1, 1u) == CUDA_SUCCESS);
    CHECK(name(shim().cuStreamQuery(other.get())) == "CUDA_ERROR_NOT_READY");
    CHECK(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0);
    __atomic_store_n(&words[0], 7, __ATOMIC_RELEASE);
    CHECK(shim().cuStreamSynchronize(other.get()) == CUDA_SUCCESS);
    CHECK(words[1] == 1);
  }
  CHECK(shim().cuEventSynchronize(event.get()) == CUDA_SUCCESS);
  CHECK(shim().cuEventQuery(event.get()) == CUDA_SUCCESS);
}

TEST_CASE("events know when") {
  const InContext context;
  const cuda::Stream stream = llvm::cantFail(makeStream(shim()));
  const cuda::Event start = llvm::cantFail(makeEvent(shim(), CU_EVENT_DEFAULT)),
                    end = llvm::cantFail(makeEvent(shim(), CU_EVENT_DEFAULT)),
                    timeless = llvm::cantFail(makeEvent(shim()));
  float ms = -1;
  CHECK(name(shim().cuEventElapsedTime(&ms, start.get(), end.get())) ==
        "CUDA_ERROR_INVALID_HANDLE"); // not recorded
  CHECK(shim().cuEventRecord(start.get(), stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuLaunchHostFunc(
            stream.get(),
            [](void *) {
              timespec time{0, 20000000};
              nanosleep(&time, nullptr);
            },
            nullptr) == CUDA_SUCCESS);
  CHECK(shim().cuEventRecord(end.get(), stream.get()) == CUDA_SUCCESS);
  CHECK(shim().cuEventSynchronize(end.get()) == CUDA_SUCCESS);
  CHECK(shim().cuEventElapsedTime(&ms, start.get(), end.get()) == CUDA_SUCCESS);
  CHECK(ms >= 20);
  CHECK(ms < 20000);
  CHECK(shim().cuEventRecord(timeless.get(), stream.get()) == CUDA_SUCCESS);
  CHECK(name(shim().cuEventElapsedTime(&ms, start.get(), timeless.get())) ==
        "CUDA_ERROR_INVALID_HANDLE");
}

TEST_CASE("the default stream waits for blocking streams, and they for it") {
  const InContext context;
  const Kernels kernels;
  const Array<unsigned> words(3);
  const cuda::Stream blocking = llvm::cantFail(makeStream(shim(), CU_STREAM_DEFAULT)),
                     apart = llvm::cantFail(makeStream(shim()));
  CHECK(shim().cuMemsetD32Async(words.address(), 0, 3, nullptr) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(launch(kernels["await"], 1, blocking.get(), words.data(), 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["tell"], 1, nullptr, words.data() + 1, 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["tell"], 1, blocking.get(), words.data() + 1, 2u) == CUDA_SUCCESS);
  CHECK(launch(kernels["tell"], 1, apart.get(), words.data() + 2, 1u) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(apart.get()) == CUDA_SUCCESS);
  CHECK(words[2] == 1); // not held back
  CHECK(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0);
  CHECK(name(shim().cuStreamQuery(nullptr)) == "CUDA_ERROR_NOT_READY");
  __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(words[1] == 2);
}

TEST_CASE("a destroyed stream does what it was given, and its handle is gone") {
  const InContext context;
  const Kernels kernels;
  const Array<unsigned> words(2);
  CUstream stream = nullptr;
  REQUIRE(shim().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(shim().cuMemsetD32Async(words.address(), 0, 2, stream) == CUDA_SUCCESS);
  CHECK(shim().cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(launch(kernels["await"], 1, stream, words.data(), 1u) == CUDA_SUCCESS);
  CHECK(launch(kernels["tell"], 1, stream, words.data() + 1, 5u) == CUDA_SUCCESS);
  CHECK(shim().cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  CHECK(name(shim().cuStreamDestroy_v2(stream)) == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(name(shim().cuStreamQuery(stream)) == "CUDA_ERROR_INVALID_HANDLE");
  __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
  CHECK(shim().cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(words[1] == 5);
}

TEST_CASE("arguments of streams and events are checked") {
  const InContext context;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CHECK(name(shim().cuStreamCreate(&stream, 2)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuStreamCreate(nullptr, 0)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuEventCreate(&event, 64)) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(name(shim().cuEventDestroy_v2(event)) == "CUDA_ERROR_INVALID_HANDLE");
  const cuda::Stream real = llvm::cantFail(makeStream(shim()));
  // A handle of one kind is none of another.
  CHECK(name(shim().cuEventQuery(reinterpret_cast<CUevent>(real.get()))) ==
        "CUDA_ERROR_INVALID_HANDLE");
  CUcontext found = nullptr;
  CHECK(shim().cuStreamGetCtx(real.get(), &found) == CUDA_SUCCESS);
  CHECK(found == context.get());
}
