//===- LaunchTest.cpp - Launches of ranks in several processes -------------------------===//
#include "test/unit/cuda/member/Processes.h"

using namespace ccl;
using namespace ccl::test;
using namespace ccl::cuda;

namespace {

/// Programs compiled before ranks are forked; each loads them once.
struct Plans {
  explicit Plans(int64_t n, const char *wire = "simple")
      : sum(ringAllReduce({n, wire})), gather(ringAllGather({n, wire})),
        table(tableAllGather({n, wire})), direct(directAllGather({n})),
        exchange(pairwiseAllToAll({n})), engines(engineAllGather({{n}})) {}
  Plan sum, gather, table, direct, exchange, engines;
};

CudaMemberLaunch launchOf(const void *in, void *out, int64_t count) {
  CudaMemberLaunch launch;
  launch.in = in;
  launch.out = out;
  launch.count = count;
  launch.timeout = Milliseconds(20000);
  return launch;
}

int32_t *ints(void *pointer) { return static_cast<int32_t *>(pointer); }

/// Memory that is made for itself, with a handle of the driver.
class Mapped {
public:
  Mapped(int device, size_t bytes) : bytes((bytes + granularity - 1) / granularity * granularity) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ok = shim().cuMemCreate(&handle, this->bytes, &prop, 0) == CUDA_SUCCESS &&
         shim().cuMemAddressReserve(&address, this->bytes, 0, 0, 0) == CUDA_SUCCESS &&
         shim().cuMemMap(address, this->bytes, 0, handle, 0) == CUDA_SUCCESS &&
         shim().cuMemSetAccess(address, this->bytes, &access, 1) == CUDA_SUCCESS;
  }
  ~Mapped() {
    shim().cuMemUnmap(address, bytes);
    shim().cuMemAddressFree(address, bytes);
    shim().cuMemRelease(handle);
  }
  int32_t *data() const { return reinterpret_cast<int32_t *>(uintptr_t(address)); }
  bool ok = false;

private:
  static constexpr size_t granularity = size_t(2) << 20;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  const size_t bytes;
};

/// All programs on buffers of the caller, for odd counts and others, one after the other.
void runAll(Process &process, const Plans &plans, int32_t *in, int32_t *out,
            llvm::ArrayRef<int64_t> counts, std::string_view what) {
  const Program sum = load(plans.sum), gather = load(plans.gather), table = load(plans.table),
                direct = load(plans.direct), engines = load(plans.engines);
  int32_t seed = 0;
  for (int round = 0; round < 3; ++round)
    for (int64_t count : counts)
      for (const Program &program : {sum, engines, gather, direct, table, direct}) {
        if (program == table && process.ranks == 1)
          continue; // it sends to itself
        process.fill(in, count, out, count * process.ranks, ++seed);
        const std::string error = process.run(program, launchOf(in, out, count));
        process.complaint.unless(error.empty(), "{}: {}", what, error);
        if (!process.complaint.text.empty())
          return;
        process.expect(program == sum, out, seed, count,
                       fmt::format("{}, {}", what, program->plan().program));
      }
}

} // namespace

TEST_CASE("ranks in processes, on ordinary memory") {
  for (const auto &[n, wire] :
       {std::pair<int64_t, const char *>{1, "simple"}, {2, "ll"}, {3, "ll128"}, {4, "simple"}}) {
    CAPTURE(n);
    const Plans plans(n, wire);
    Processes(n, [&plans](Process &process) {
      const int64_t most = 20011;
      Buffer in(shim(), process.device(), most),
          out(shim(), process.device(), size_t(most * process.ranks));
      runAll(process, plans, in.data(), out.data(), {1, 13, 513, most}, "ordinary");
    }).check();
  }
}

TEST_CASE("symmetric and registered memory is used in place") {
  for (const bool legacy : {false, true}) {
    const int64_t n = 3;
    const Plans plans(n);
    CudaGroupOptions options;
    if (legacy)
      options.sharing = Sharing::Ipc;
    CAPTURE(legacy);
    Processes(
        n,
        [&plans](Process &process) {
          const int64_t most = 5003, bytes = most * 4;
          auto in = process.member->allocate(bytes);
          auto out = process.member->allocate(bytes * process.ranks);
          process.complaint.unless(bool(in) && bool(out), "cannot allocate");
          if (!in || !out) {
            llvm::consumeError(in.takeError());
            return llvm::consumeError(out.takeError());
          }
          // What a rank writes, the others see.
          *ints(in->local) = int32_t(100 + process.rank);
          process.complaint.unless(
              process.run(load(plans.sum), launchOf(in->local, out->local, 1)) == "", "no launch");
          for (int64_t r = 0; r < process.ranks; ++r)
            process.complaint.unless(*ints(in->peers[size_t(r)]) == 100 + r, "not that of {}", r);
          process.complaint.unless(
              process.run(load(plans.gather), launchOf(in->local, out->local, 1)) == "",
              "no launch");
          runAll(process, plans, ints(in->local), ints(out->local), {1, 13, most}, "symmetric");
          // At a place in it, and with ordinary memory in between.
          runAll(process, plans, ints(in->local) + 3, ints(out->local) + 5, {64}, "a part");
          Buffer alone(shim(), process.device(), most);
          runAll(process, plans, alone.data(), ints(out->local), {64, 65}, "mixed");
        },
        options)
        .check();
    Processes(
        n,
        [&plans](Process &process) {
          const int64_t most = 5003;
          const PrimaryContext context =
              llvm::cantFail(PrimaryContext::retain(shim(), process.device()));
          const ContextScope scope = llvm::cantFail(context.enter());
          Buffer in(shim(), process.device(), most + 64);
          Mapped out(process.device(), size_t(most * process.ranks * 4));
          process.complaint.unless(out.ok, "no virtual memory");
          // Each rank's lies elsewhere in its allocation.
          int32_t *mine = in.data() + 7 * process.rank;
          for (auto [address, bytes] : {std::pair<int32_t *, int64_t>{mine, most * 4},
                                        {out.data(), most * process.ranks * 4}}) {
            auto buffer = process.member->registerBuffer(address, bytes);
            if (!buffer) {
              process.complaint.unless(false, "{}", llvm::toString(buffer.takeError()));
              return;
            }
          }
          runAll(process, plans, mine, out.data(), {1, 13, most}, "registered");
          // It goes before the memory.
          process.complaint.unless(text(process.member->synchronize()) == "", "no end");
          process.member.reset();
        },
        options)
        .check();
  }
}

TEST_CASE("in place, and every rank to every rank") {
  const int64_t n = 4;
  const Plans plans(n);
  Processes(n, [&plans](Process &process) {
    const int64_t count = 1001, n = process.ranks;
    Buffer out(shim(), process.device(), size_t(count * n)),
        in(shim(), process.device(), size_t(count * n));
    const Program gather = load(plans.gather), direct = load(plans.direct),
                  exchange = load(plans.exchange), engines = load(plans.engines);
    for (int32_t seed = 1; seed < 10; ++seed) {
      const Program &program = seed % 3 == 0 ? engines : seed % 2 ? gather : direct;
      int32_t *mine = out.data() + process.rank * count;
      process.fill(mine, 0, out.data(), count * n, seed);
      process.fill(mine, count, out.data(), 0, seed);
      const std::string error = process.run(program, launchOf(mine, out.data(), count));
      process.complaint.unless(error.empty(), "{}", error);
      process.expect(false, out.data(), seed, count, "in place");
      process.fill(in.data(), count * n, out.data(), count * n, seed);
      const std::string second = process.run(exchange, launchOf(in.data(), out.data(), count));
      process.complaint.unless(second.empty(), "{}", second);
      int64_t wrong = 0;
      for (int64_t r = 0; r < n; ++r)
        for (int64_t i = 0; i < count; ++i)
          wrong += out[size_t(r * count + i)] != Ranks::value(seed, r, process.rank * count + i);
      process.complaint.unless(wrong == 0, "all_to_all: {} elements are wrong", wrong);
    }
  }).check();
}

TEST_CASE("uneven counts of every rank") {
  const int64_t n = 3;
  const Plan exchange = pairwiseAllToAll([&] {
    Variant variant{n};
    variant.unevenSafe = true;
    return variant;
  }());
  Processes(n, [&exchange](Process &process) {
    const Program program = load(exchange);
    for (int64_t scale : {1, 50, 7}) {
      auto countOf = [&](int64_t from, int64_t to) { return scale * (1 + (from * 3 + to) % 4); };
      UnevenCounts counts;
      int64_t sent = 0, received = 0;
      for (int64_t r = 0; r < process.ranks; ++r) {
        sent += counts.counts.emplace_back(countOf(process.rank, r));
        received += counts.receives.emplace_back(countOf(r, process.rank));
      }
      Buffer in(shim(), process.device(), size_t(sent)),
          out(shim(), process.device(), size_t(received));
      process.fill(in.data(), sent, out.data(), received, int32_t(scale));
      CudaMemberLaunch launch = launchOf(in.data(), out.data(), 0);
      launch.uneven = &counts;
      const std::string error = process.run(program, launch);
      process.complaint.unless(error.empty(), "{}", error);
      int64_t wrong = 0, at = 0;
      for (int64_t r = 0; r < process.ranks; ++r) {
        int64_t begin = 0;
        for (int64_t to = 0; to < process.rank; ++to)
          begin += countOf(r, to);
        for (int64_t i = 0; i < countOf(r, process.rank); ++i)
          wrong += out[size_t(at++)] != Ranks::value(int32_t(scale), r, begin + i);
      }
      process.complaint.unless(wrong == 0, "scale {}: {} elements are wrong", scale, wrong);
    }
  }).check();
}

TEST_CASE("captured launches are replayed, also between others") {
  const int64_t n = 3;
  const Plans plans(n);
  Processes(n, [&plans](Process &process) {
    const int64_t count = 777;
    const ContextScope scope =
        llvm::cantFail(ContextScope::enter(shim(), process.member->context()));
    const Program sum = load(plans.sum), direct = load(plans.direct);
    Buffer in(shim(), process.device(), size_t(count));
    Buffer out(shim(), process.device(), size_t(count * process.ranks));
    const Stream stream = llvm::cantFail(makeStream(shim()));
    CudaMemberLaunch launch = launchOf(in.data(), out.data(), count);
    launch.stream = stream.get();
    std::vector<Graph> graphs;
    std::vector<GraphExec> replays;
    for (const Program &program : {sum, direct}) {
      shim().cuStreamBeginCapture_v2(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
      const std::string error = text(process.member->launch(program, launch));
      process.complaint.unless(error.empty(), "captured: {}", error);
      CUgraph graph = nullptr;
      shim().cuStreamEndCapture(stream.get(), &graph);
      graphs.emplace_back(shim(), process.member->context(), graph);
      CUgraphExec exec = nullptr;
      shim().cuGraphInstantiateWithFlags(&exec, graph, 0);
      replays.emplace_back(shim(), process.member->context(), exec);
    }
    for (int32_t seed = 1; seed < 60 && process.complaint.text.empty(); ++seed) {
      process.fill(in.data(), count, out.data(), count * process.ranks, seed);
      if (seed % 7 == 0) {
        launch.count = seed % 2 ? count : 100 + seed; // also a new kind, with other memory
        const std::string error = process.run(sum, launch);
        process.complaint.unless(error.empty(), "{}", error);
        process.expect(true, out.data(), seed, launch.count, "between replays");
        continue;
      }
      shim().cuGraphLaunch(replays[size_t(seed % 2)].get(), stream.get());
      shim().cuStreamSynchronize(stream.get());
      process.expect(seed % 2 == 0, out.data(), seed, count, "replayed");
    }
    process.complaint.unless(text(process.member->synchronize()) == "", "no end");
  }).check();
}
