//===- GraphTest.cpp - Launches that are captured and replayed ----------------------===//
#include "test/unit/cuda/group/Ranks.h"

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

/// A stream of one GPU that is captured.
class Captured {
public:
  explicit Captured(int device)
      : context(llvm::cantFail(PrimaryContext::retain(shim(), device))),
        scope(llvm::cantFail(context.enter())), stream(llvm::cantFail(makeStream(shim()))) {}
  void begin() {
    REQUIRE(shim().cuStreamBeginCapture_v2(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL) ==
            CUDA_SUCCESS);
  }
  void end() {
    CUgraph made = nullptr;
    REQUIRE(shim().cuStreamEndCapture(stream.get(), &made) == CUDA_SUCCESS);
    graph = Graph(shim(), context.get(), made);
    CUgraphExec instance = nullptr;
    REQUIRE(shim().cuGraphInstantiateWithFlags(&instance, made, 0) == CUDA_SUCCESS);
    exec = GraphExec(shim(), context.get(), instance);
  }
  void replay() {
    REQUIRE(shim().cuGraphLaunch(exec.get(), stream.get()) == CUDA_SUCCESS);
    REQUIRE(shim().cuStreamSynchronize(stream.get()) == CUDA_SUCCESS);
  }
  CUstream get() const { return stream.get(); }

private:
  PrimaryContext context;
  ContextScope scope;
  Stream stream;
  Graph graph;
  GraphExec exec;
};

} // namespace

TEST_CASE("a captured launch is replayed, also between others") {
  for (const bool warm : {true, false}) {
    CAPTURE(warm);
    const int64_t n = 4, count = 513;
    Ranks ranks(n, {0});
    Variant padded{n};
    padded.divisible = true; // takes stand-ins: their copies belong to the graph
    const Program sum = load(ringAllReduce(padded)), gather = load(ringAllGather({n}));
    ranks.allocate(count, count * n);
    Captured captured(0);
    const CUstream streams[] = {captured.get()};
    CudaLaunchOptions options;
    options.count = count;
    options.instances = 2;
    options.streams = streams;
    if (warm)
      REQUIRE(ranks.run(sum, options) == "");
    captured.begin();
    REQUIRE(text(ranks.launch(sum, options)) == "");
    captured.end();
    for (int32_t k = 0; k < 100; ++k) {
      CAPTURE(k);
      ranks.fill(k);
      captured.replay();
      CHECK(ranks.wrongSums(k, count) == 0);
      if (k % 10)
        continue;
      // More channels, scratch and instances, and the same channels from the host.
      options.instances = 1 << k / 10 % 4;
      ranks.fill(-k);
      REQUIRE(ranks.run(gather, options) == "");
      CHECK(ranks.wrongGathers(-k, count) == 0);
    }
    CHECK(text(ranks.group->synchronize()) == "");
  }
}

TEST_CASE("a graph of several GPUs") {
  const int64_t n = 4, count = 100;
  Ranks ranks(n, {0, 1});
  const Program program = load(directAllGather({n}));
  ranks.allocate(count, count * n);
  Captured first(0);
  PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), 1));
  Stream second;
  Event forked, joined;
  {
    const ContextScope scope = llvm::cantFail(context.enter());
    second = llvm::cantFail(makeStream(shim()));
    joined = llvm::cantFail(makeEvent(shim()));
  }
  forked = llvm::cantFail(makeEvent(shim()));
  const CUstream streams[] = {first.get(), second.get()};
  CudaLaunchOptions options;
  options.count = count;
  options.streams = streams;
  first.begin();
  // One captured and one not: refused, and the capture goes on.
  CHECK(text(ranks.launch(program, options)).find("not captured alike") != std::string::npos);
  REQUIRE(shim().cuEventRecord(forked.get(), first.get()) == CUDA_SUCCESS);
  {
    const ContextScope scope = llvm::cantFail(context.enter());
    REQUIRE(shim().cuStreamWaitEvent(second.get(), forked.get(), 0) == CUDA_SUCCESS);
  }
  REQUIRE(text(ranks.launch(program, options)) == "");
  {
    const ContextScope scope = llvm::cantFail(context.enter());
    REQUIRE(shim().cuEventRecord(joined.get(), second.get()) == CUDA_SUCCESS);
  }
  REQUIRE(shim().cuStreamWaitEvent(first.get(), joined.get(), 0) == CUDA_SUCCESS);
  first.end();
  for (int32_t k = 0; k < 20; ++k) {
    ranks.fill(k);
    first.replay();
    CHECK(ranks.wrongGathers(k, count) == 0);
  }
}
