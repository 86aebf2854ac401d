//===- LoopFacts.cpp --------------------------------------------------------===//
#include "codegen/cuda/LoopFacts.h"

#include "codegen/host/Affine.h"
#include "dialect/Indexing.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <set>
#include <tuple>

using namespace mlir;

namespace ccl::cuda {

/// visit(rank, iteration, values known in it) until that is false. Whether it never was, and all
/// iterations could be visited.
static bool
forEachIteration(affine::AffineForOp loop,
                 llvm::function_ref<bool(int64_t, int64_t, const host::Environment &)> visit) {
  constexpr int64_t mostVisits = 1 << 20;
  auto program = loop->getParentOfType<ProgramOp>();
  if (!program || loop->getParentOfType<affine::AffineForOp>() || !loop.hasConstantBounds())
    return false;
  const SmallVector<int64_t> ranks = program.getRankList();
  const int64_t lower = loop.getConstantLowerBound(), upper = loop.getConstantUpperBound();
  if (upper <= lower || upper - lower > mostVisits / int64_t(ranks.size()))
    return false;
  for (int64_t rank : ranks) {
    host::Environment environment;
    if (Value me = program.getMe())
      environment.set(me, rank);
    for (int64_t i = lower; i < upper; i += loop.getStepAsInt()) {
      environment.set(loop.getInductionVar(), i);
      if (!visit(rank, i, environment))
        return false;
    }
  }
  return true;
}

/// Nothing if some operand is not known.
static std::optional<SmallVector<int64_t>> evaluate(const host::Environment &environment,
                                                    AffineMap map, ValueRange operands) {
  if (!host::whyNotAffine(map).empty())
    return std::nullopt;
  for (Value operand : operands)
    if (!environment.get(operand))
      return std::nullopt;
  return environment.evaluate(map, operands);
}

bool namesEachChannelOnce(affine::AffineForOp loop, ChannelOp channel) {
  std::set<std::pair<int64_t, int64_t>> named;
  return forEachIteration(loop, [&](int64_t rank, int64_t, const host::Environment &environment) {
    auto peer = evaluate(environment, channel.getPeer(), channel.getPeerOperands());
    return peer && named.insert({rank, peer->front()}).second;
  });
}

namespace {

/// Who touches what in the iterations of one rank.
class Touched {
public:
  /// Whether a place is known, and nothing of it is in another iteration's way.
  bool add(int64_t rank, int64_t iteration, const host::Environment &environment,
           const PlaceRef &place, int64_t count, bool writes);

private:
  struct Users {
    std::set<int64_t> readers, writers;
  };
  static bool meet(const Users &one, const Users &other);

  /// By rank whose memory it is, buffer, chunk.
  std::map<std::tuple<int64_t, Operation *, int64_t>, Users> chunks;
  /// By that rank: of inputs and outputs, which may be one memory.
  std::map<int64_t, Users> inputs, outputs;
};

} // namespace

/// Whether some iteration writes what another one touches.
bool Touched::meet(const Users &one, const Users &other) {
  auto differ = [](const std::set<int64_t> &writers, const std::set<int64_t> &others) {
    return !writers.empty() && !others.empty() &&
           (writers.size() > 1 || others.size() > 1 || *writers.begin() != *others.begin());
  };
  return differ(one.writers, other.readers) || differ(one.writers, other.writers) ||
         differ(one.readers, other.writers);
}

bool Touched::add(int64_t rank, int64_t iteration, const host::Environment &environment,
                  const PlaceRef &place, int64_t count, bool writes) {
  auto indices = evaluate(environment, place.map, place.operands);
  if (PeerOp peer = place.getPeer()) {
    auto found = evaluate(environment, peer.getPeer(), peer.getPeerOperands());
    if (!found)
      return false;
    rank = found->front();
  }
  BufferOp buffer = place.getBuffer();
  if (!indices || !buffer.getChunkShape())
    return false;
  const int64_t first = linearize(*indices, *buffer.getChunkShape());
  if (first < 0)
    return false;
  auto note = [&](Users &users) {
    (writes ? users.writers : users.readers).insert(iteration);
    return !meet(users, users);
  };
  for (int64_t chunk = first; chunk < first + count; ++chunk)
    if (!note(chunks[{rank, buffer, chunk}]))
      return false;
  if (buffer.getRole() == BufferRole::In)
    note(inputs[rank]);
  else if (buffer.getRole() == BufferRole::Out)
    note(outputs[rank]);
  return !meet(inputs[rank], outputs[rank]);
}

TransferOp independentTransfer(affine::AffineForOp loop) {
  TransferOp transfer;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isa<PeerOp, arith::ConstantOp>(op))
      continue;
    if (transfer || !isa<TransferOp>(op))
      return {};
    transfer = cast<TransferOp>(op);
  }
  if (!transfer || loop.getNumIterOperands() > 0)
    return {};
  const SmallVector<PlaceRef> from = getFromPlaces(transfer), to = getToPlaces(transfer);
  auto isChannel = [](const PlaceRef &place) { return place.isChannel(); };
  if (llvm::any_of(from, isChannel) || llvm::any_of(to, isChannel))
    return {};
  int64_t rankAtHand = -1;
  Touched touched;
  const bool apart = forEachIteration(
      loop, [&](int64_t rank, int64_t iteration, const host::Environment &environment) {
        // What other ranks do at the same time has been proved of the program.
        if (rank != rankAtHand)
          touched = Touched();
        rankAtHand = rank;
        auto add = [&](ArrayRef<PlaceRef> places, bool writes) {
          return llvm::all_of(places, [&](const PlaceRef &place) {
            return touched.add(rank, iteration, environment, place, int64_t(transfer.getCount()),
                               writes);
          });
        };
        return add(from, false) && add(to, true);
      });
  return apart ? transfer : TransferOp();
}

} // namespace ccl::cuda
