//===- TreeAlgorithm.cpp ------------------------------------------------------===//
#include "passes/synthesis/TreeAlgorithm.h"
#include "passes/synthesis/generators/Builder.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"

#include <map>

using namespace mlir;

namespace ccl {
namespace {

using solver::Forest;
using solver::Hop;
using solver::Network;
using solver::Tree;
using solver::Way;

/// Numbers the lanes of links that each rank sends over.
class AgentNumbers {
public:
  AgentNumbers(const Network &network, const Forest &forest, int32_t lanes)
      : network(network), lanes(lanes), used(size_t(network.representatives())) {
    for (size_t t = 0; t < forest.trees.size(); ++t) {
      const Tree &tree = forest.trees[t];
      for (int32_t rank = 0; rank < network.ranks(); ++rank) {
        if (!tree.has(rank))
          continue;
        const Way &way = Forest::way(network, tree, rank);
        used[row(tree.up ? rank : network.end(rank, way))][{way.exit, lane(t)}];
      }
    }
    for (Numbers &numbers : used) {
      int64_t next = 0;
      for (auto &[key, number] : numbers)
        number = next++;
      senders = std::max(senders, next);
    }
  }

  int64_t sender(int32_t rank, const Way &way, size_t tree) const {
    return used[row(rank)].find({way.exit, lane(tree)})->second;
  }
  /// Copies inside of a rank; what ends there, put or reduced.
  int64_t local() const { return senders; }
  int64_t arrivals() const { return senders + 1; }
  int64_t root() const { return senders + 2; }

private:
  using Numbers = std::map<std::pair<int32_t, int64_t>, int64_t>; ///< by exit and lane
  int64_t lane(size_t tree) const { return int64_t(tree) % lanes; }
  size_t row(int32_t rank) const { return network.isSymmetric() ? 0 : size_t(rank); }

  const Network &network;
  const int64_t lanes;
  std::vector<Numbers> used; ///< by representative
  int64_t senders = 0;
};

/// A move of the choreography.
struct TreeMove {
  bool reduce = false;
  int32_t src = 0, dst = 0; ///< ranks
  bool fromInput = false;
  int64_t chunk = 0;
  int64_t srcAgent = 0;
  SmallVector<int64_t, 2> dstAgents = {};
  double start = 0;
};

class Writer {
public:
  Writer(ModuleOp module, StringRef name, const Network &network, const Forest &forest,
         const TreeAlgorithm &trees)
      : network(network), forest(forest), trees(trees), agents(network, forest, trees.lanes),
        start(module, name, trees.request, shapeOfRanks(network)),
        builder(start.getAlgorithm().getBody()), loc(start.getAlgorithm().getLoc()) {
    builder.setInsertionPointToEnd(&start.getAlgorithm().getBody().front());
  }

  AlgorithmOp write() {
    addBuffers();
    findForwarders();
    if (separate)
      addOwnCopies();
    std::vector<TreeMove> moves;
    for (const Hop &hop : trees.hops)
      moves.push_back(moveOf(hop));
    if (network.isSymmetric())
      for (const TreeMove &move : moves)
        addStep(move);
    else
      addTable(moves);
    return start.getAlgorithm();
  }

private:
  static SmallVector<int64_t> shapeOfRanks(const Network &network) {
    if (!network.isSymmetric())
      return {network.ranks()};
    return SmallVector<int64_t>(network.grid().begin(), network.grid().end());
  }

  bool gathers() const { return trees.request.collective == model::Collective::AllGather; }
  bool isRooted() const {
    return trees.request.collective == model::Collective::Broadcast ||
           trees.request.collective == model::Collective::Reduce;
  }
  /// Of the buffer: each has a tree, if not ranks do alike.
  int64_t chunks() const { return 1 + *std::max_element(trees.chunks.begin(), trees.chunks.end()); }

  void addBuffers() {
    SmallVector<int64_t> grid = {chunks()};
    if (network.isSymmetric()) {
      grid = shapeOfRanks(network);
      grid.push_back(trees.chunksPerShard);
    }
    separate = gathers() || trees.request.collective == model::Collective::Broadcast;
    if (!separate) {
      main = start.inout("x", grid).getValue();
      return;
    }
    in = start.in("in", {trees.chunksPerShard}).getValue();
    main = start.out("out", grid).getValue();
  }

  /// Every root has its own chunks in its output.
  void addOwnCopies() {
    const int64_t k = trees.chunksPerShard, agent = agents.local();
    if (network.isSymmetric()) {
      inStep([&](ArrayRef<Value> ivs) {
        SmallVector<AffineExpr> r = dims(), from = r, into = r;
        from.push_back(constant(0));
        into.append(r);
        into.push_back(constant(0));
        builder.create<CopyOp>(loc, in, map(from), ivs, main, map(into), ivs, k, ViaAttr(), 0,
                               builder.getDenseI64ArrayAttr({agent, agent}));
      });
      return;
    }
    SmallVector<int64_t> table, tableAgents;
    for (int64_t rank = 0; rank < network.ranks(); ++rank) {
      if (isRooted() && rank != trees.request.root)
        continue;
      table.append({0, 0, rank, 0, 0, rank, 1, isRooted() ? 0 : rank * k, k});
      tableAgents.append({agent, agent});
      tableAgents.append(size_t(columns) - 2, -1);
    }
    addSchedule(table, tableAgents, ViaAttr(), 0);
  }

  TreeMove moveOf(const Hop &hop) const {
    const Tree &tree = forest.trees[size_t(hop.tree)];
    const Way &way = Forest::way(network, tree, hop.rank);
    const int32_t parent = network.end(hop.rank, way);
    TreeMove move{.reduce = tree.up && model::reduces(trees.request.collective),
                  .src = parent,
                  .dst = hop.rank,
                  .chunk = trees.chunks[size_t(hop.tree)],
                  .start = hop.start};
    if (!tree.up) {
      move.fromInput = separate && parent == tree.root;
      move.srcAgent = agents.sender(parent, way, size_t(hop.tree));
      const std::vector<int64_t> &waiters =
          forwarders[size_t(hop.tree) * size_t(network.ranks()) + size_t(hop.rank)];
      move.dstAgents.assign(waiters.begin(), waiters.end());
      if (waiters.empty())
        move.dstAgents.push_back(agents.arrivals());
      return move;
    }
    move.src = hop.rank, move.dst = parent;
    move.srcAgent = agents.sender(hop.rank, way, size_t(hop.tree));
    move.dstAgents.push_back(
        parent == tree.root
            ? (move.reduce ? agents.root() : agents.arrivals())
            : agents.sender(parent, Forest::way(network, tree, parent), size_t(hop.tree)));
    return move;
  }

  /// By tree and rank: the agents that send on what comes down.
  void findForwarders() {
    forwarders.resize(forest.trees.size() * size_t(network.ranks()));
    for (size_t t = 0; t < forest.trees.size(); ++t) {
      const Tree &tree = forest.trees[t];
      for (int32_t rank = 0; !tree.up && rank < network.ranks(); ++rank) {
        if (!tree.has(rank))
          continue;
        const Way &way = Forest::way(network, tree, rank);
        const int32_t parent = network.end(rank, way);
        std::vector<int64_t> &list = forwarders[t * size_t(network.ranks()) + size_t(parent)];
        if (const int64_t agent = agents.sender(parent, way, t); !llvm::is_contained(list, agent))
          list.push_back(agent);
      }
    }
    for (std::vector<int64_t> &list : forwarders)
      columns = std::max(columns, int64_t(list.size()) + 1);
  }

  static SmallVector<int64_t> agentsOf(const TreeMove &move) {
    SmallVector<int64_t> list = {move.srcAgent};
    list.append(move.dstAgents.begin(), move.dstAgents.end());
    return list;
  }

  ViaAttr via(const TreeMove &move) const {
    return ViaAttr::get(builder.getContext(), move.reduce ? Via::Staged : Via::Put);
  }
  /// Slots and signals between one pair of agents are two channels.
  uint64_t tag(const TreeMove &move) const {
    return trees.request.collective == model::Collective::AllReduce && !move.reduce;
  }

  // All ranks alike.

  AffineExpr constant(int64_t value) const {
    return getAffineConstantExpr(value, builder.getContext());
  }
  SmallVector<AffineExpr> dims() const {
    SmallVector<AffineExpr> list;
    for (size_t i = 0; i < network.grid().size(); ++i)
      list.push_back(getAffineDimExpr(unsigned(i), builder.getContext()));
    return list;
  }
  AffineMap map(ArrayRef<AffineExpr> results) const {
    return AffineMap::get(unsigned(network.grid().size()), 0, results, builder.getContext());
  }

  void inStep(function_ref<void(ArrayRef<Value>)> fill) {
    SmallVector<AffineMap> lower, upper;
    for (int64_t side : network.grid()) {
      lower.push_back(AffineMap::getConstantMap(0, builder.getContext()));
      upper.push_back(AffineMap::getConstantMap(side, builder.getContext()));
    }
    auto loop = builder.create<affine::AffineParallelOp>(
        loc, TypeRange(), ArrayRef<arith::AtomicRMWKind>(), lower, ValueRange(), upper,
        ValueRange(), SmallVector<int64_t>(network.grid().size(), 1));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> ivs(loop.getIVs());
    fill(ivs);
  }

  /// The coordinates of `rank`, counted from the rank of the loop.
  SmallVector<AffineExpr> beside(int32_t rank) const {
    SmallVector<AffineExpr> list = dims();
    for (size_t i = network.grid().size(); i-- > 0;) {
      const int64_t side = network.grid()[i], offset = rank % side;
      rank = int32_t(rank / side);
      if (offset != 0)
        list[i] = (list[i] + offset) % side;
    }
    return list;
  }

  /// The root of the image is the rank of the loop.
  void addStep(const TreeMove &move) {
    inStep([&](ArrayRef<Value> ivs) {
      SmallVector<AffineExpr> from = beside(move.src), into = beside(move.dst);
      if (!move.fromInput)
        from.append(dims());
      from.push_back(constant(move.chunk));
      into.append(dims());
      into.push_back(constant(move.chunk));
      auto create = [&](auto op) {
        builder.create<decltype(op)>(loc, move.fromInput ? in : main, map(from), ivs, main,
                                     map(into), ivs, 1, via(move), tag(move),
                                     builder.getDenseI64ArrayAttr(agentsOf(move)));
      };
      if (move.reduce)
        create(ReduceOp());
      else
        create(CopyOp());
    });
  }

  // A table.

  /// One for stages and one for puts: rows of one op go one way.
  void addTable(ArrayRef<TreeMove> moves) {
    for (size_t begin = 0, end; begin < moves.size(); begin = end) {
      SmallVector<int64_t> table, tableAgents;
      int64_t step = 0;
      for (end = begin; end < moves.size() && moves[end].reduce == moves[begin].reduce; ++end) {
        const TreeMove &move = moves[end];
        step += end > begin && move.start > moves[end - 1].start;
        const int64_t out = separate ? 1 : 0;
        table.append(
            {step, move.reduce ? 1 : 0, move.src, move.fromInput ? 0 : out,
             move.fromInput && !isRooted() ? move.chunk % trees.chunksPerShard : move.chunk,
             move.dst, out, move.chunk, 1});
        SmallVector<int64_t> mine = agentsOf(move);
        mine.resize(size_t(columns), -1);
        tableAgents.append(mine);
      }
      addSchedule(table, tableAgents, via(moves[begin]), tag(moves[begin]));
    }
  }

  void addSchedule(ArrayRef<int64_t> table, ArrayRef<int64_t> tableAgents, ViaAttr via,
                   uint64_t tag) {
    SmallVector<Value> buffers = {main};
    if (separate)
      buffers.insert(buffers.begin(), in);
    MLIRContext *context = builder.getContext();
    builder.create<ScheduleOp>(loc, buffers, ScheduleOp::makeTable(context, table), via, tag,
                               ScheduleOp::makeTable(context, tableAgents, columns));
  }

  const Network &network;
  const Forest &forest;
  const TreeAlgorithm &trees;
  AgentNumbers agents;
  AlgorithmBuilder start;
  mutable OpBuilder builder;
  Location loc;
  Value in, main;
  std::vector<std::vector<int64_t>> forwarders;
  int64_t columns = 2;   ///< of the table of agents
  bool separate = false; ///< input and output are two buffers
};

} // namespace

AlgorithmOp writeTrees(ModuleOp module, StringRef name, const Network &network,
                       const Forest &forest, const TreeAlgorithm &trees) {
  return Writer(module, name, network, forest, trees).write();
}

} // namespace ccl
