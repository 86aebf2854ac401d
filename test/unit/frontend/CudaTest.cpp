//===- CudaTest.cpp - The public interface for GPUs, over the stand-in ------------------===//
#include <ccl/cuda.h>

#include "test/unit/runtime/Processes.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace ccl;
using ccl::test::Child;

namespace {

void useShim() {
  setenv("CCL_CUDA_LIBRARY", CCL_SHIM, 1);
  setenv("CCL_SHIM_DEVICES", "2", 1);
  setenv("CCL_SHIM_SMS", "16", 1);
}

std::string work(int rank, int size, std::vector<int> sockets) {
  useShim();
  OpenOptions options;
  options.rank = rank;
  options.size = size;
  options.sockets = std::move(sockets);
  options.timeout = std::chrono::seconds(30);
  Result<Communicator> world = Communicator::open(options);
  if (!world)
    return world.error().message;
  Result<CudaCommunicator> gpus = CudaCommunicator::open(*world, rank % 2);
  if (!gpus)
    return gpus.error().message;
  const int64_t count = 1001;
  Result<CudaMemory> in = gpus->allocate(count * 4), out = gpus->allocate(count * 4 * size_t(size));
  if (!in || !out)
    return (in ? out.error() : in.error()).message;
  auto *mine = static_cast<int32_t *>(in->data), *result = static_cast<int32_t *>(out->data);
  if (gpus->size() != size || gpus->ranks() != std::vector{rank} || in->peers[size_t(rank)] != mine)
    return "it is not what was opened";
  auto finish = [&](const Status &queued) {
    if (!queued)
      return queued.error().message;
    const Status done = gpus->synchronize();
    return done ? std::string() : done.error().message;
  };
  for (int round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < count; ++i)
      mine[i] = int32_t(i + rank + round);
    if (std::string e = finish(gpus->allReduce({mine, result}, count, DataType::i32, Op::sum));
        !e.empty())
      return e;
    for (int64_t i = 0; i < count; ++i)
      if (result[i] != (i + round) * size + size * (size - 1) / 2)
        return "a sum is wrong";
    if (std::string e = finish(gpus->allGather({mine, result}, count, DataType::i32)); !e.empty())
      return e;
    for (int64_t r = 0; r < size; ++r)
      if (result[r * count + 7] != 7 + r + round)
        return "a shard is wrong";
  }
  // Of one's own: the compiler makes it for GPUs, too.
  ProgramOptions generate;
  generate.ranks = size;
  generate.type = DataType::i32;
  generate.op = Op::max;
  Result<Program> program = Program::generate(Collective::allReduce, generate);
  if (!program)
    return program.error().message;
  if (std::string e = finish(gpus->launch(*program, {mine, result}, count)); !e.empty())
    return e;
  if (result[5] != 5 + size - 1 + 2)
    return "a maximum is wrong";
  if (Status wrong = gpus->broadcast({mine, result}, 1, DataType::i32, size);
      wrong || wrong.error().kind != Error::Kind::argument)
    return "there is no such root";
  // The host goes on by itself.
  if (Status met = world->barrier(); !met)
    return met.error().message;
  // Ranks that differ hear of it, all.
  const Status differ = gpus->allReduce({mine, result}, 10 + rank, DataType::i32, Op::sum);
  if (differ || differ.error().kind != Error::Kind::mismatch || !gpus->failure())
    return "ranks agreed on different counts";
  return "";
}

} // namespace

TEST_CASE("GPUs of several processes") {
  const int size = 2;
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank)
    children.emplace_back([&] {
      close(ends[1 - rank]);
      return work(rank, size, {ends[rank]});
    });
  close(ends[0]);
  close(ends[1]);
  for (Child &child : children) {
    CHECK(child.text() == "");
    CHECK(child.status() == 0);
  }
}

TEST_CASE("GPUs of one process") {
  Child child([]() -> std::string {
    useShim();
    const int devices[] = {0, 1};
    Result<CudaCommunicator> gpus = CudaCommunicator::openLocal(3, devices);
    if (!gpus)
      return gpus.error().message;
    void *library = dlopen(CCL_SHIM, RTLD_NOW | RTLD_NOLOAD);
    auto *allocate = reinterpret_cast<int (*)(uint64_t *, size_t)>(dlsym(library, "cuMemAlloc_v2"));
    auto *retain =
        reinterpret_cast<int (*)(void **, int)>(dlsym(library, "cuDevicePrimaryCtxRetain"));
    auto *enter = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxSetCurrent"));
    std::vector<CudaBuffer> buffers;
    const int64_t count = 100;
    for (int r = 0; r < 3; ++r) {
      void *context = nullptr;
      uint64_t in = 0, out = 0;
      if (retain(&context, r % 2) != 0 || enter(context) != 0 || allocate(&in, count * 4) != 0 ||
          allocate(&out, count * 4) != 0)
        return "no memory";
      buffers.push_back({reinterpret_cast<void *>(in), reinterpret_cast<void *>(out)});
      for (int64_t i = 0; i < count; ++i)
        reinterpret_cast<float *>(in)[i] = float(r + 1);
    }
    if (Status queued =
            gpus->allReduce(std::span<const CudaBuffer>(buffers), count, DataType::f32, Op::prod);
        !queued)
      return queued.error().message;
    if (Status done = gpus->synchronize(); !done)
      return done.error().message;
    for (const CudaBuffer &buffer : buffers)
      if (static_cast<float *>(buffer.out)[99] != 6)
        return "a product is wrong";
    if (gpus->allocate(4))
      return "it allocates";
    gpus->abort("enough");
    const Status dead = gpus->synchronize();
    return !dead && dead.error().kind == Error::Kind::aborted ? "" : "it lives";
  });
  CHECK(child.text() == "");
}
