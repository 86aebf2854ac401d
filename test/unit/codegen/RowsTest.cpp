//===- RowsTest.cpp - Uneven rows, and memory of other processes -----------===//
//
// Generated algorithms as machine code, on shards of any length that lie anywhere, and with
// peers' memory that only a read function gets at.
//===----------------------------------------------------------------------===//
#include "passes/synthesis/generators/Generators.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <cstring>
#include <mutex>

namespace ccl::test {
namespace {

using model::Collective;

/// counts[p][q]: elements of the shard that rank p has for rank q, or of shard q on every p.
using Counts = std::vector<std::vector<int64_t>>;

Plan planOf(Collective collective, const std::string &generator, int64_t ranks, int64_t root,
            ElementType type = ElementType::I32,
            model::Reduction reduction = model::Reduction::Sum) {
  const Generator *found = findGenerator(collective, generator);
  REQUIRE(found);
  GeneratorRequest request;
  request.collective = collective;
  request.reduction = model::reduces(collective) ? reduction : model::Reduction::None;
  request.ranks = ranks;
  request.root = root;
  Ir ir;
  ir.context.loadAllAvailableDialects();
  mlir::ModuleOp module = ir.parse("");
  found->generate(module, request);
  CompileOptions options;
  options.type = type;
  CompileStats stats;
  auto plan = compile(module, options, stats);
  if (mlir::failed(plan))
    throw std::runtime_error(ir.diagnostics);
  return std::move(*plan);
}

/// A row whose shards lie in any order, with a guard after each.
struct Row {
  Row(const std::vector<int64_t> &lengths, bool backwards) : ranges(lengths.size()) {
    int64_t end = guards;
    for (size_t i = 0; i < lengths.size(); ++i) {
      size_t s = backwards ? lengths.size() - 1 - i : i;
      ranges[s] = {end - guards, lengths[s]};
      end += lengths[s] + guards;
    }
    memory.assign(size_t(end), guard);
  }
  int32_t *data() { return memory.data() + guards; }
  int32_t *shard(size_t s) { return data() + ranges[s].start; }
  bool intact() {
    size_t guarded = size_t(guards) * (ranges.size() + 1);
    for (const ShardRange &range : ranges)
      for (int64_t i = 0; i < guards; ++i)
        guarded -= data()[range.start + range.length + i] == guard;
    for (int64_t i = 0; i < guards; ++i)
      guarded -= memory[size_t(i)] == guard;
    return guarded == 0;
  }
  static constexpr int64_t guards = 3;
  static constexpr int32_t guard = -77;
  std::vector<int32_t> memory;
  std::vector<ShardRange> ranges;
};

int32_t valueOf(int64_t rank, int64_t shard, int64_t i) {
  return int32_t(rank * 1000000 + shard * 10000 + i);
}

/// What one launch is like, besides its counts.
struct Way {
  int64_t microBatches = 1;
  bool backwards = false;     ///< order of the shards in a row
  bool remote = false;        ///< memory that is only read is another process'
  int64_t bounceBytes = 1024; ///< for each source
};

class Launch {
public:
  Launch(const Plan &plan, Counts counts, Way way)
      : program(plan), contract(program.plan.contract), counts(std::move(counts)), way(way) {}

  std::vector<int32_t> run();
  int64_t countWrong();
  int64_t reads = 0, readBytes = 0;

private:
  std::vector<int64_t> lengthsOf(int64_t rank, model::Role role, int64_t shards) const;
  void place();
  void prepare(KernelArgs &args);
  int32_t read(int64_t rank, const void *address, void *to, int64_t bytes);

  Compiled program;
  const model::Contract &contract;
  Counts counts;
  Way way;
  int64_t stride = 1;
  std::vector<std::vector<Row>> rows; ///< [rank][buffer]; of scratch one shard
  std::vector<std::vector<void *>> local, peers;
  std::vector<void *const *> peerTables;
  std::vector<const ShardRange *> tables;
  std::vector<std::vector<char>> bounce;
  std::mutex mutex;
};

std::vector<int64_t> Launch::lengthsOf(int64_t rank, model::Role role, int64_t shards) const {
  std::vector<int64_t> lengths;
  const bool isOut = role == model::Role::Out;
  for (int64_t s = 0; s < shards; ++s) {
    const auto r = size_t(rank), q = size_t(s);
    if (shards == 1 && contract.ranks > 1)
      lengths.push_back(counts[r][r]); // its own shard
    else if (contract.collective == Collective::AllToAll)
      lengths.push_back(isOut ? counts[q][r] : counts[r][q]);
    else
      lengths.push_back(counts[r][q]);
  }
  return lengths;
}

void Launch::place() {
  const int64_t n = contract.ranks;
  int64_t longest = 0;
  for (const auto &row : counts)
    for (int64_t count : row)
      longest = std::max(longest, model::longestChunk(count, contract.chunks));
  stride = (longest + way.microBatches - 1) / way.microBatches + 1;
  tables.assign(size_t(2 * n), nullptr);
  for (int64_t rank = 0; rank < n; ++rank) {
    rows.emplace_back();
    rows.back().reserve(program.plan.buffers.size()); // `tables` points into it
    for (const BufferPlan &buffer : program.plan.buffers) {
      if (buffer.role == model::Role::Scratch) {
        rows.back().emplace_back(std::vector<int64_t>{buffer.chunks * stride}, false);
        continue;
      }
      Row &row = rows.back().emplace_back(
          lengthsOf(rank, buffer.role, buffer.chunks / contract.chunks), way.backwards);
      if (buffer.role == model::Role::In)
        for (size_t s = 0; s < row.ranges.size(); ++s)
          for (int64_t i = 0; i < row.ranges[s].length; ++i)
            row.shard(s)[i] = valueOf(rank, row.ranges.size() == 1 ? rank : int64_t(s), i);
    }
  }
  for (int64_t rank = 0; rank < n; ++rank) {
    local.emplace_back();
    peers.emplace_back();
    for (size_t b = 0; b < program.plan.buffers.size(); ++b) {
      const BufferPlan &buffer = program.plan.buffers[b];
      Row &row = rows[size_t(rank)][b];
      if (buffer.role != model::Role::Scratch)
        tables[size_t(2 * rank + (buffer.role == model::Role::Out))] = row.ranges.data();
      local.back().push_back(row.data());
      auto address = reinterpret_cast<uint64_t>(row.data());
      if (way.remote && buffer.peersRead && !buffer.peersWrite)
        address |= KernelArgs::remoteBit;
      peers.back().push_back(reinterpret_cast<void *>(address));
    }
  }
  for (auto &table : peers)
    peerTables.push_back(table.data());
}

/// A copy, as of another process.
int32_t Launch::read(int64_t rank, const void *address, void *to, int64_t bytes) {
  std::lock_guard lock(mutex);
  ++reads;
  readBytes += bytes;
  bool inside = false;
  for (Row &row : rows[size_t(rank)]) {
    const auto *first = reinterpret_cast<const char *>(row.data());
    const auto *begin = static_cast<const char *>(address);
    inside |= begin >= first && begin + bytes <= first + row.memory.size() * sizeof(int32_t);
  }
  if (!inside || bytes <= 0)
    return 56;
  std::memcpy(to, address, size_t(bytes));
  return 0;
}

void Launch::prepare(KernelArgs &args) {
  args.shards = tables.data();
  args.peers = peerTables.data();
  args.context = this;
  args.read = [](KernelArgs *a, int64_t rank, const void *address, void *to, int64_t bytes) {
    return static_cast<Launch *>(a->context)->read(rank, address, to, bytes);
  };
  std::vector<char> &memory = bounce[size_t(args.me)];
  memory.resize(size_t(way.bounceBytes * program.plan.bounceSources + 64));
  args.bounce = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  args.bounceBytes = way.bounceBytes * program.plan.bounceSources;
}

std::vector<int32_t> Launch::run() {
  place();
  bounce.resize(size_t(contract.ranks));
  World world(program, stride * program.plan.maxCount);
  world.prepare = [&](KernelArgs &args) { prepare(args); };
  // No kernel may use the even count.
  return world.launch(/*count=*/-1000, way.microBatches, stride, local);
}

int64_t Launch::countWrong() {
  int64_t wrong = 0;
  for (int64_t rank = 0; rank < contract.ranks; ++rank)
    for (size_t b = 0; b < program.plan.buffers.size(); ++b) {
      Row &row = rows[size_t(rank)][b];
      wrong += !row.intact();
      std::vector<model::Atom> atoms;
      if (program.plan.buffers[b].role != model::Role::Out)
        continue;
      // A buffer that is wider than the result holds it where it is in place.
      const bool wide = int64_t(row.ranges.size()) > contract.outShards();
      for (int64_t s = 0; s < contract.outShards(); ++s) {
        contract.expected(rank, s * contract.chunks, atoms);
        const size_t at = wide ? size_t(rank) : size_t(s);
        for (int64_t i = 0; i < row.ranges[at].length && !atoms.empty(); ++i) {
          int32_t want = 0;
          for (const model::Atom &atom : atoms) {
            int64_t shard = atom.chunk / contract.chunks;
            want += valueOf(atom.rank, contract.inShards() == 1 ? atom.rank : shard, i);
          }
          wrong += row.shard(at)[i] != want;
        }
      }
    }
  return wrong;
}

Counts sameOnAll(const std::vector<int64_t> &row) { return Counts(row.size(), row); }

struct Case {
  Collective collective;
  std::string generator;
  int64_t root = 0;
};

const Case cases[] = {{Collective::AllGather, "ring"},
                      {Collective::AllGather, "one_shot"},
                      {Collective::AllGather, "recursive_doubling"},
                      {Collective::ReduceScatter, "ring"},
                      {Collective::ReduceScatter, "one_shot"},
                      {Collective::AllToAll, "pairwise"},
                      {Collective::Gather, "one_shot", 1},
                      {Collective::Scatter, "one_shot", 2}};

} // namespace

TEST_CASE("uneven shards, through the tables of their owners") {
  for (const Case &c : cases) {
    Plan plan = planOf(c.collective, c.generator, 4, c.root);
    std::vector<Counts> all = {sameOnAll({5, 0, 17, 1}), sameOnAll({0, 0, 0, 0}),
                               sameOnAll({1000, 3, 1, 400})};
    if (c.collective == Collective::AllToAll)
      all.push_back({{1, 2, 3, 0}, {40, 5, 6, 70}, {0, 0, 90, 11}, {7, 130, 1, 2}});
    for (const Counts &counts : all)
      for (int64_t microBatches : {1, 3})
        for (bool backwards : {false, true}) {
          CAPTURE(std::string(name(c.collective)));
          CAPTURE(c.generator);
          CAPTURE(counts[0][0]);
          CAPTURE(microBatches);
          CAPTURE(backwards);
          Launch launch(plan, counts, {microBatches, backwards});
          CHECK(launch.run() == std::vector<int32_t>(4, 0));
          CHECK(launch.countWrong() == 0);
          CHECK(launch.reads == 0);
        }
  }
}

TEST_CASE("collectives without an uneven form do not look at tables") {
  Compiled program(planOf(Collective::AllReduce, "ring", 2, 0));
  World world(program, 100);
  world.prepare = [](KernelArgs &args) {
    args.shards = reinterpret_cast<const ShardRange *const *>(uintptr_t(8));
  };
  std::vector<int32_t> in0(10, 1), in1(10, 2), out0(10), out1(10);
  CHECK(world.launch(10, 1, 16, {{in0.data(), out0.data()}, {in1.data(), out1.data()}}) ==
        std::vector<int32_t>{0, 0});
  CHECK(out0 == std::vector<int32_t>(10, 3));
  CHECK(out1 == out0);
}

TEST_CASE("peers' memory of another process is read, in pieces where it is combined") {
  const std::vector<int64_t> shards = {5, 0, 1700, 1};
  for (const Case &c : cases) {
    Plan plan = planOf(c.collective, c.generator, 4, c.root);
    bool reads = false;
    for (const BufferPlan &buffer : plan.buffers)
      reads |= buffer.peersRead && !buffer.peersWrite;
    CHECK(reads == plan.direct);
    for (int64_t bounceBytes : {64, 1000, 1 << 20}) {
      CAPTURE(std::string(name(c.collective)));
      CAPTURE(c.generator);
      CAPTURE(bounceBytes);
      Launch launch(plan, sameOnAll(shards), {1, false, true, bounceBytes});
      CHECK(launch.run() == std::vector<int32_t>(4, 0));
      CHECK(launch.countWrong() == 0);
      CHECK((launch.reads > 0) == reads);
      if (c.collective == Collective::ReduceScatter && reads) {
        CHECK(plan.bounceSources == (c.generator == "ring" ? 2 : 4));
        CHECK(launch.readBytes == 3 * 1706 * 4); // three peers, each shard once
        if (bounceBytes == 64)
          CHECK(launch.reads == 3 * (1 + 107 + 1)); // 16 elements at a time
      }
      if (c.collective == Collective::AllToAll && reads) {
        CHECK(plan.bounceSources == 0);
        CHECK(launch.reads == 3 * 3); // what is only copied comes in one piece
      }
    }
  }
}

TEST_CASE("a read that fails ends the kernel with its code") {
  struct Failing {
    Case program;
    int64_t read; ///< the one that fails, on rank 0
  };
  for (const Failing &c : {Failing{{Collective::ReduceScatter, "one_shot"}, 2},
                           Failing{{Collective::AllToAll, "pairwise"}, 1}}) {
    Compiled program(planOf(c.program.collective, c.program.generator, 2, 0));
    REQUIRE(program.plan.direct);
    World world(program, 0);
    const int64_t count = 1000;
    std::vector<std::vector<int32_t>> memory(2, std::vector<int32_t>(4 * count, 1));
    std::vector<std::vector<void *>> buffers;
    for (auto &row : memory)
      buffers.emplace_back(program.plan.buffers.size(), row.data());
    std::vector<void *> far(program.plan.buffers.size(),
                            reinterpret_cast<void *>(KernelArgs::remoteBit | 64));
    void *const *peers[] = {far.data(), far.data()};
    struct Context {
      int64_t reads = 0, fails = 0;
      char bounce[256];
    } contexts[2];
    contexts[0].fails = c.read;
    world.prepare = [&](KernelArgs &args) {
      args.peers = peers;
      args.context = &contexts[args.me];
      args.bounce = contexts[args.me].bounce;
      args.bounceBytes = sizeof(Context::bounce);
      args.wait = [](KernelArgs *, ChannelEnd *, uint64_t) { return int32_t(0); };
      args.read = [](KernelArgs *a, int64_t rank, const void *address, void *to, int64_t bytes) {
        auto *context = static_cast<Context *>(a->context);
        const bool isRight = rank == 1 - a->me && int64_t(address) >= 64 && bytes > 0;
        std::memset(to, 0, size_t(bytes));
        return !isRight ? int32_t(56) : ++context->reads == context->fails ? int32_t(55) : 0;
      };
    };
    CHECK(world.launch(count, 1, count, buffers) == std::vector<int32_t>{55, 0});
    CHECK(contexts[0].reads == c.read);
    CHECK(contexts[1].reads >= c.read);
  }
}

} // namespace ccl::test
