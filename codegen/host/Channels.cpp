//===- Channels.cpp ---------------------------------------------------------===//
#include "codegen/host/Channels.h"

#include "codegen/host/Affine.h"

using namespace mlir;

namespace ccl::host {

int familyOf(const KernelPlan &kernel, ChannelOp channel) {
  bool to = channel.getDirection() == Direction::To;
  for (auto [index, family] : llvm::enumerate(kernel.channels))
    if (family.to == to && family.tag == int64_t(channel.getTag()) &&
        family.slots == int64_t(channel.getSlots()))
      return int(index);
  return -1;
}

namespace {

/// The peers that one channel op names, for one rank after the other.
class PeerWalk {
public:
  explicit PeerWalk(ChannelOp channel) : channel(channel) {
    for (Operation *op = channel->getParentOp(); op && !isa<ProgramOp>(op); op = op->getParentOp())
      if (auto loop = dyn_cast<affine::AffineForOp>(op))
        loops.insert(loops.begin(), loop);
    for (affine::AffineForOp loop : loops)
      iterate.push_back(matters(loop));
  }

  /// Whether every index that the walk reads is a rank, a loop variable or a constant,
  /// and every map can be evaluated. Emits an error if not.
  LogicalResult check(Value me) const {
    Environment known;
    if (me)
      known.set(me, 0);
    auto checkMap = [&](AffineMap map, ValueRange operands) -> LogicalResult {
      if (std::string why = whyNotAffine(map); !why.empty())
        return channel.emitOpError() << why;
      for (Value operand : operands)
        if (!known.get(operand))
          return channel.emitOpError("depends on an index that is neither the rank, a loop "
                                     "variable nor a constant");
      return success();
    };
    for (auto loop : loops) {
      if (failed(checkMap(loop.getLowerBoundMap(), loop.getLowerBoundOperands())) ||
          failed(checkMap(loop.getUpperBoundMap(), loop.getUpperBoundOperands())))
        return failure();
      known.set(loop.getInductionVar(), 0);
    }
    return checkMap(channel.getPeer(), channel.getPeerOperands());
  }

  /// Calls use(peer); stops when it fails.
  LogicalResult run(Environment &environment, function_ref<LogicalResult(int64_t)> use,
                    size_t depth = 0) const {
    if (depth == loops.size())
      return use(environment.evaluate(channel.getPeer(), channel.getPeerOperands()).front());
    affine::AffineForOp loop = loops[depth];
    auto [lower, upper] = environment.bounds(loop);
    if (!iterate[depth])
      upper = std::min(upper, lower + 1); // only: is there an iteration at all?
    for (int64_t i = lower; i < upper; i += loop.getStepAsInt()) {
      environment.set(loop.getInductionVar(), i);
      if (failed(run(environment, use, depth + 1)))
        return failure();
    }
    return success();
  }

private:
  bool matters(affine::AffineForOp loop) const {
    Value variable = loop.getInductionVar();
    return dependsOn(channel.getPeerOperands(), variable) ||
           llvm::any_of(loops, [&](affine::AffineForOp inner) {
             return dependsOn(inner->getOperands(), variable);
           });
  }

  mutable ChannelOp channel;
  mutable SmallVector<affine::AffineForOp> loops;
  SmallVector<bool> iterate;
};

} // namespace

static LogicalResult planPeers(ChannelOp channel, ArrayRef<int64_t> ranks, Value me,
                               int64_t numRanks, std::vector<std::vector<int32_t>> &peers) {
  PeerWalk walk(channel);
  if (failed(walk.check(me)))
    return failure();
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    Environment environment;
    if (me)
      environment.set(me, rank);
    std::vector<int32_t> &reached = peers[index];
    auto use = [&, rank = rank](int64_t peer) -> LogicalResult {
      if (peer < 0 || peer >= numRanks)
        return channel.emitOpError("reaches rank ")
               << peer << " from rank " << rank << ", but there are ranks 0 to " << numRanks - 1;
      if (reached.empty() || reached.back() != peer)
        reached.push_back(int32_t(peer));
      return success();
    };
    if (failed(walk.run(environment, use)))
      return failure();
  }
  return success();
}

LogicalResult planChannels(ProgramOp program, int64_t numRanks, KernelPlan &kernel) {
  SmallVector<int64_t> ranks = program.getRankList();
  Value me = program.getMe();
  WalkResult result = program.walk([&](ChannelOp channel) {
    if (channel.use_empty())
      return WalkResult::advance();
    int family = familyOf(kernel, channel);
    if (family < 0) {
      family = int(kernel.channels.size());
      kernel.channels.push_back({channel.getDirection() == Direction::To, int32_t(channel.getTag()),
                                 int32_t(channel.getSlots())});
      kernel.peers.emplace_back(ranks.size());
    }
    return failed(planPeers(channel, ranks, me, numRanks, kernel.peers[family]))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (auto &family : kernel.peers)
    for (std::vector<int32_t> &reached : family) {
      llvm::sort(reached);
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
    }
  return success();
}

} // namespace ccl::host
