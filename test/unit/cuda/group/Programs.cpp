//===- Programs.cpp ---------------------------------------------------------===//
#include "test/unit/cuda/group/Programs.h"

#include "codegen/cuda/Embedded.h"
#include "codegen/cuda/ShimCompile.h"

#include <cstdlib>
#include <map>

using namespace ccl::cuda;
using ccl::model::Collective;
using ccl::model::Role;

namespace ccl::test {

const Driver &shim() {
  static const Driver *driver = [] {
    setenv("CCL_SHIM_DEVICES", "3", 1);
    setenv("CCL_SHIM_SMS", "16", 1);
    return llvm::cantFail(Driver::get("shim"));
  }();
  return *driver;
}

namespace {

/// Who is alone copies; the others have channels to the next rank and from the one before.
const char *const beginRing = R"(
#define BEGIN_RING                                                                                 \
  const int me = state.here.rank, ranks = launched().ranks;                                     \
  if (ranks == 1) {                                                                                \
    transferOf<1>(b, 0, 1, at(0, 0), at(1, 0));                                                      \
    return;                                                                                        \
  }                                                                                                \
  enum { to, from };                                                                               \
  const Channels ring[] = {{0, (me + 1) % ranks}, {1, (me + ranks - 1) % ranks}};                  \
  name(0, ring);
)";

const char *const ringAllReduceText = R"(
static __device__ void run(Block &b) {
  BEGIN_RING
  if (me == SILENT)
    return;
  transferOf<1, SENDS>(b, 0, 1, at(0, me), slot(to, WIRE));
  for (int s = 1; s < ranks - 1; ++s)
    transferOf<2, SENDS>(b, s, 1, slot(from, WIRE), at(0, (me + ranks - s) % ranks), slot(to, WIRE));
  transferOf<2, SENDS>(b, ranks - 1, 1, slot(from, WIRE), at(0, (me + 1) % ranks),
                     at(1, (me + 1) % ranks), slot(to, WIRE));
  for (int s = 0; s < ranks - 2; ++s)
    transferOf<1, SENDS>(b, ranks + s, 1, slot(from, WIRE), at(1, (me + ranks - s) % ranks),
                       slot(to, WIRE));
  transferOf<1, TAKES>(b, 2 * ranks - 2, 1, slot(from, WIRE), at(1, (me + 2) % ranks));
}
)";

const char *const ringAllGatherText = R"(
static __device__ void run(Block &b) {
  BEGIN_RING
  if (me == SILENT)
    return;
  transferOf<1, SENDS>(b, 0, 1, at(0, 0), at(1, me), slot(to, WIRE));
  for (int s = 1; s < ranks; ++s) {
    const int c = (me + ranks - s) % ranks;
    if (s < ranks - 1)
      transferOf<1, SENDS>(b, 2 * s, 1, slot(from, WIRE), at(2, 1), slot(to, WIRE));
    else
      transferOf<1, TAKES>(b, 2 * s, 1, slot(from, WIRE), at(2, 1));
    transferOf<1>(b, 2 * s + 1, 1, at(2, 1), at(1, c));
  }
}
)";

const char *const tableText = R"(
static __device__ void run(Block &b) {
  static const Shape shapes[] = {{1, 3, SENDS}, {1, 3, SENDS}, {1, 2, TAKES}};
  runTable(b, shapes);
}
)";

const char *const directText = R"(
static __device__ void run(Block &b) {
  for (int p = state.here.agent; p < launched().ranks; p += 2)
    transferOf<1>(b, p, 1, at(0, 0, p), at(1, p));
}
)";

const char *const ringReduceScatterText = R"(
static __device__ void run(Block &b) {
  BEGIN_RING
  transferOf<1, SENDS>(b, 0, 1, at(0, (me + ranks - 1) % ranks), slot(to, WIRE));
  for (int s = 1; s < ranks - 1; ++s)
    transferOf<2, SENDS>(b, s, 1, slot(from, WIRE), at(0, (me + ranks - 1 - s) % ranks),
                       slot(to, WIRE));
  transferOf<2, TAKES>(b, ranks - 1, 1, slot(from, WIRE), at(0, me), at(1, 0));
}
)";

const char *const directReduceScatterText = R"(
static __device__ void run(Block &b) {
  const int me = state.here.rank, ranks = launched().ranks;
  transferOf<1>(b, 0, 1, at(0, me), at(1, 0));
  for (int s = 1; s < ranks; ++s)
    transferOf<2>(b, s, 1, at(1, 0), at(0, me, (me + s) % ranks), at(1, 0));
}
)";

const char *const directAllToAllText = R"(
static __device__ void run(Block &b) {
  const int me = state.here.rank;
  for (int p = 0; p < launched().ranks; ++p)
    transferOf<1>(b, p, 1, at(0, me, p), at(1, p));
}
)";

const char *const allToAllText = R"(
static __device__ void run(Block &b) {
  const int me = state.here.rank, ranks = launched().ranks;
  transferOf<1>(b, 0, 1, at(0, me), at(1, me));
  if (me == SILENT)
    return;
  for (int s = 1; s < ranks; ++s) {
    const int to = (me + s) % ranks, from = (me + ranks - s) % ranks;
    const Channels both[] = {{0, to}, {1, from}};
    name(0, both);
    transferOf<1, SENDS>(b, 2 * s, 1, at(0, to), slot(0, WIRE));
    transferOf<1, TAKES>(b, 2 * s + 1, 1, slot(1, WIRE), at(1, from));
  }
}
)";

const char *const engineText = R"(
static __device__ void run(Block &b) {
  const int me = state.here.rank, ranks = launched().ranks;
  if (me == MUTE)
    return;
  transferOf<1>(b, 0, 1, at(0, 0), at(2, 0));
  const Channels engines[] = {{2, me}, {4, me}};
  if (ranks > 1)
    signal(b, engines);
  transferOf<1>(b, 3, 1, at(2, 0), at(1, me));
  for (int s = 1; s < ranks; ++s) {
    const Channels next[] = {{1, (me + s) % ranks}};
    wait(b, 3 + s, next);
  }
}
extern "C" __global__ void test_step(const __grid_constant__ Launch one,
                                     const __grid_constant__ Step step) {
  runStep(one, step);
}
CCL_EXPORT(test_step)
)";

const char *const engineTableText = R"(
static __device__ void run(Block &b) {
  static const Shape shapes[] = {{1, 2, 0}};
  runTable(b, shapes);
}
extern "C" __global__ void test_step(const __grid_constant__ Launch one,
                                     const __grid_constant__ Step step) {
  runStep(one, step);
}
CCL_EXPORT(test_step)
)";

const char *const kernelText = R"(
extern "C" __global__ void test_kernel(const __grid_constant__ Launch one, const Launch *all,
                                       int blocksPerRank) {
  Block b;
  if (!begin(b, one, all, blocksPerRank))
    return;
  do
    if (launched().program >= 0)
      run(b);
  while (nextBatch(b));
  end(b);
}
CCL_EXPORT(test_kernel)
extern "C" __global__ void test_finish(void *to, const void *from, i64 n, i64 ranks) {
  divideAll(to, from, n, ranks);
}
CCL_EXPORT(test_finish)
)";

int32_t protocolOf(std::string_view wire) { return wire == "simple" ? 0 : wire == "ll" ? 1 : 2; }

std::string compile(const std::string &source) {
  static std::map<std::string, std::string> images;
  std::string &image = images[source];
  if (image.empty())
    image = llvm::cantFail(llvm::cantFail(ShimCompiler::find("", CCL_SANITIZE))
                               .compile(selfContained(source, CudaDialect::Shim)));
  return image;
}

/// A plan without channels. `barriers`: cuda::Barriers.
Plan planOf(const char *name, Collective collective, int64_t chunks, const Variant &variant,
            const char *text, int agents, int barriers, int moreEnds = 0) {
  Plan plan;
  plan.program = name;
  plan.hash = "0123abcd";
  plan.contract.collective = collective;
  plan.contract.ranks = variant.ranks;
  plan.contract.chunks = chunks;
  plan.type = variant.type;
  plan.buffers = {{"in", Role::In, plan.contract.inChunks()},
                  {"out", Role::Out, plan.contract.outChunks()},
                  {"scratch", Role::Scratch, 2}};
  plan.inPlaceProved = true;
  plan.unevenSafe = variant.unevenSafe;
  plan.divisible = variant.divisible;
  KernelPlan kernel;
  kernel.ranks = {{0, variant.ranks}};
  plan.kernels = {kernel};
  plan.cuda.arch = "shim";
  plan.cuda.kernel = "test_kernel";
  plan.cuda.agents.emplace_back();
  for (int a = 0; a < agents; ++a)
    plan.cuda.agents[0].push_back(agentNumber(false, a));
  plan.cuda.barriers = barriers;
  const bool flagged = protocolOf(variant.wire) > 0;
  const std::string lines = protocolOf(variant.wire) == 2 ? " | inLines" : "";
  plan.cuda.source =
      fmt::format("#define CCL_BUFFERS 3\n#define CCL_ROLES \"ios\"\n#define CCL_CHUNKS {}\n"
                  "#define CCL_ELEMENT {}\n#define CCL_REDUCTION Sum\n#define CCL_OPERANDS 4\n"
                  "#define CCL_AGENTS {}\n#define CCL_BARRIERS {}\n#define CCL_THREADS 512\n"
                  "#define CCL_NAMED 2\n#define CCL_FLAGS\n#define CCL_TABLES\n#define "
                  "CCL_STEPS\n#define CCL_ROWS 0\n#define CCL_SLOTS 1\n#define CCL_PEERS "
                  "1\n#define CCL_TURNS 1\n#define CCL_ENDS {}\n#define CCL_WIRES (simple | "
                  "{})\n"
                  "#define CCL_SOURCES 1, 2\n"
                  "#define WIRE {}\n#define SILENT {}\n#define TAKES {}\n#define SENDS {}\n"
                  "#include \"ccl.cuh\"\nusing namespace ccl::cuda;\n{}{}{}",
                  chunks, variant.type == ElementType::I64 ? "I64" : "I32", agents, barriers,
                  2 * variant.ranks + 2 * moreEnds, variant.wire, variant.wire, variant.silent,
                  flagged ? "flagged" + lines : "0", flagged ? "flagged | wholeSlots" + lines : "0",
                  beginRing, text, kernelText);
  plan.cuda.image = compile(plan.cuda.source);
  return plan;
}

/// Each rank sends to the next, or to all others.
void addChannels(Plan &plan, const Variant &variant, int32_t slots, bool toAll) {
  if (variant.ranks == 1)
    return;
  KernelPlan &kernel = plan.kernels[0];
  for (const bool to : {true, false}) {
    kernel.channels.push_back({to, 0, slots, protocolOf(variant.wire)});
    std::vector<std::vector<int32_t>> &peers = kernel.peers.emplace_back();
    for (int64_t r = 0; r < variant.ranks; ++r) {
      peers.emplace_back();
      for (int64_t s = 1; s < (toAll ? variant.ranks : 2); ++s)
        peers.back().push_back(int32_t((r + (to ? s : variant.ranks - s)) % variant.ranks));
    }
  }
}

} // namespace

Plan ringAllReduce(const Variant &variant, model::Reduction reduction) {
  Plan plan = planOf("ring_all_reduce", Collective::AllReduce, variant.ranks, variant,
                     ringAllReduceText, 1, 0);
  plan.contract.reduction = reduction;
  if (reduction == model::Reduction::Avg)
    plan.cuda.finish = "test_finish";
  addChannels(plan, variant, 2, false);
  return plan;
}

Plan ringAllGather(const Variant &variant) {
  Plan plan = planOf("ring_all_gather", Collective::AllGather, 1, variant, ringAllGatherText, 1, 0);
  addChannels(plan, variant, 2, false);
  return plan;
}

/// Its input is read by peers.
static Plan directPlan(const char *name, Collective collective, const Variant &variant,
                       const char *text, int agents) {
  Plan plan =
      planOf(name, collective, 1, variant, text, agents, entryBarrier | batchBarrier | exitBarrier);
  plan.direct = plan.exitBarrier = plan.batchBarrier = true;
  plan.buffers[0].peersRead = true;
  return plan;
}

Plan directAllGather(const Variant &variant) {
  return directPlan("direct_all_gather", Collective::AllGather, variant, directText, 2);
}

Plan ringReduceScatter(const Variant &variant) {
  Plan plan = planOf("ring_reduce_scatter", Collective::ReduceScatter, 1, variant,
                     ringReduceScatterText, 1, 0);
  addChannels(plan, variant, 2, false);
  return plan;
}

Plan directReduceScatter(const Variant &variant) {
  return directPlan("direct_reduce_scatter", Collective::ReduceScatter, variant,
                    directReduceScatterText, 1);
}

Plan directAllToAll(const Variant &variant) {
  return directPlan("direct_all_to_all", Collective::AllToAll, variant, directAllToAllText, 1);
}

Plan pairwiseAllToAll(const Variant &variant) {
  Plan plan = planOf("pairwise", Collective::AllToAll, 1, variant, allToAllText, 1, 0);
  addChannels(plan, variant, 1, true);
  return plan;
}

Plan tableAllGather(const Variant &variant) {
  Plan plan = planOf("table_all_gather", Collective::AllGather, 1, variant, tableText, 1, 0);
  addChannels(plan, variant, 2, false);
  const auto ranks = int32_t(variant.ranks);
  for (int32_t me = 0; me < ranks; ++me) {
    const int32_t wire = 1 << protocolOf(variant.wire);
    const AgentOperand to{AgentOperand::channel, wire, (me + 1) % ranks},
        from{AgentOperand::channel, wire, ranks + (me + ranks - 1) % ranks};
    RankAgents &table = plan.kernels[0].agents.emplace_back();
    table.operands = {{AgentOperand::own, 0, 0}, {AgentOperand::own, 1, me}, to};
    table.instructions = {{0, 0, 1}};
    for (int32_t s = 1; s < ranks && me != variant.silent; ++s) {
      const bool last = s == ranks - 1;
      table.instructions.push_back({last ? 2 : 1, uint32_t(table.operands.size()), 1});
      table.operands.push_back(from);
      table.operands.push_back({AgentOperand::own, 1, (me + ranks - s) % ranks});
      if (!last)
        table.operands.push_back(to);
    }
    table.agents = {{false, 7, 0, uint32_t(table.instructions.size())}};
  }
  return plan;
}

/// Tables of one rank.
struct TableMaker {
  RankAgents table{};
  void begin(bool proxy, int32_t id) {
    const auto at = uint32_t(table.instructions.size());
    table.agents.push_back({proxy, id, at, at});
  }
  void add(int32_t pattern, std::vector<AgentOperand> operands) {
    table.instructions.push_back({pattern, uint32_t(table.operands.size()), 1});
    table.operands.insert(table.operands.end(), operands.begin(), operands.end());
    ++table.agents.back().end;
  }
};

Plan engineAllGather(const EngineVariant &variant) {
  const auto n = int32_t(variant.ranks);
  const std::string text = "#define MUTE " + std::to_string(variant.mute) +
                           (variant.tables ? engineTableText : engineText);
  Plan plan = planOf("engine_all_gather", Collective::AllGather, 1, variant, text.c_str(), 3,
                     entryBarrier, 2);
  plan.cuda.agents[0].resize(1);
  plan.cuda.step = "test_step";
  plan.cuda.engines.resize(1);
  plan.direct = plan.buffers[1].peersWrite = true;
  plan.transfers = {{1, 1, ""}};
  addChannels(plan, variant, 0, true);
  KernelPlan &kernel = plan.kernels[0];
  kernel.channels.resize(2, {true, 0, 0, 0});
  kernel.channels[1].to = false;
  kernel.peers.resize(2, std::vector<std::vector<int32_t>>(size_t(n)));
  for (int32_t proxy = 0; proxy < 2; ++proxy) // from the block to its proxies
    for (const bool to : {true, false}) {
      kernel.channels.push_back({to, 1 + proxy, 0, 0});
      std::vector<std::vector<int32_t>> &peers = kernel.peers.emplace_back();
      for (int32_t r = 0; r < n; ++r)
        peers.push_back({r});
    }
  auto channel = [&](int32_t family, int32_t peer) {
    return AgentOperand{AgentOperand::channel, 1, family * n + peer};
  };
  const AgentOperand in{AgentOperand::own, 0, 0}, scratch{AgentOperand::own, 2, 0};
  for (int32_t me = 0; me < n; ++me) {
    TableMaker block, engines;
    block.begin(false, 0);
    if (me != variant.mute) {
      block.add(0, {in, scratch});
      for (int32_t proxy = 0; proxy < 2 && n > 1; ++proxy)
        block.add(AgentInstruction::signal, {channel(2 + 2 * proxy, me)});
      block.add(0, {scratch, {AgentOperand::own, 1, me}});
      for (int32_t s = 1; s < n; ++s)
        block.add(AgentInstruction::wait, {channel(1, (me + s) % n)});
    }
    if (variant.tables)
      kernel.agents.push_back(block.table);
    for (int32_t proxy = 0; proxy < 2; ++proxy) {
      engines.begin(true, 5 + proxy);
      if (me == variant.silent || n == 1)
        continue;
      engines.add(AgentInstruction::wait, {channel(3 + 2 * proxy, me)});
      for (int32_t s = 1 + proxy; s < n; s += 2)
        engines.add(0, {scratch, {(me + s) % n, 1, me}});
      for (int32_t s = 1 + proxy; s < n; s += 2)
        engines.add(AgentInstruction::signal, {channel(0, (me + s) % n)});
    }
    plan.cuda.engines[0].push_back(engines.table);
  }
  return plan;
}

Program load(Plan plan) { return llvm::cantFail(LoadedCudaProgram::load(shim(), std::move(plan))); }

} // namespace ccl::test
