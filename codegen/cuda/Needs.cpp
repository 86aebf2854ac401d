//===- Needs.cpp ------------------------------------------------------------===//
#include "codegen/cuda/Needs.h"

#include "codegen/cuda/LoopFacts.h"
#include "codegen/cuda/Nvrtc.h"

using namespace mlir;

namespace ccl::cuda {
namespace {

class NeedsFinder {
public:
  NeedsFinder(AlgorithmOp algorithm, ArrayRef<ProgramOp> programs, const CudaOptions &options)
      : algorithm(algorithm), programs(programs), options(options) {}

  FailureOr<Needs> run(int64_t ranks);

private:
  LogicalResult verify();
  LogicalResult verifyReduction(TransferOp transfer);
  LogicalResult verifyProtocol(ChannelOp channel);
  LogicalResult collectProtocols();
  void orderMemory();
  LogicalResult verifyHardware(StringRef option);
  LogicalResult findMulticasts(int64_t ranks);
  void findLoops();

  AlgorithmOp algorithm;
  ArrayRef<ProgramOp> programs;
  const CudaOptions &options;
  Needs needs;
};

} // namespace

LogicalResult NeedsFinder::verifyReduction(TransferOp transfer) {
  needs.mostOperands =
      std::max(needs.mostOperands, transfer.getFrom().size() + transfer.getTo().size());
  // They lie in shared memory, next to what tma needs of it.
  const size_t most = options.tma ? 128 : 512;
  if (needs.mostOperands > most)
    return transfer.emitOpError() << "has " << needs.mostOperands << " operands: on GPUs "
                                  << (options.tma ? "with tma " : "") << "at most " << most
                                  << " fit into a block's shared memory";
  for (const SmallVector<PlaceRef> &places : {getFromPlaces(transfer), getToPlaces(transfer)})
    for (const PlaceRef &place : places) {
      needs.slots |= place.isChannel();
      needs.peers |= bool(place.getPeer());
    }
  needs.turns |= transfer.getCount() != 1;
  constexpr size_t mostAtOnce = 8; // see device/units.cuh
  const SmallVector<PlaceRef> from = getFromPlaces(transfer), to = getToPlaces(transfer);
  if (llvm::any_of(wiresOf(from), isFlagged) || llvm::any_of(wiresOf(to), isFlagged))
    needs.flaggedSources.insert(std::min(from.size(), mostAtOnce));
  if (from.size() < 2)
    return success();
  if (std::string why = whyNotReducible("GPUs have", options.type, options.reduction); !why.empty())
    return transfer.emitOpError() << "cannot be generated: " << why;
  return success();
}

LogicalResult NeedsFinder::verify() {
  for (ProgramOp program : programs) {
    WalkResult walk = program.walk([&](TransferOp transfer) {
      return failed(verifyReduction(transfer)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  // With one rank nothing is reduced, and the program is no better for that.
  if (options.reduction != model::Reduction::None)
    if (std::string why = whyNotReducible("GPUs have", options.type, options.reduction);
        !why.empty())
      return algorithm.emitOpError("cannot be generated: ") << why;
  return collectProtocols();
}

/// `lamport` needs a word that stands for what is not there yet.
LogicalResult NeedsFinder::verifyProtocol(ChannelOp channel) {
  if (channel.getProtocol() != Protocol::Lamport)
    return success();
  switch (options.type) {
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::F32:
  case ElementType::F8E4M3:
  case ElementType::F8E5M2: return success();
  default:
    return channel.emitOpError() << "has protocol lamport, which marks what is not there yet with "
                                    "zeros of both signs: '"
                                 << name(options.type)
                                 << "' elements have none in such words; it can carry f32, f16, "
                                    "bf16 and floats of 8 bits";
  }
}

/// Families of channels are told apart by tag and slots: those have one protocol.
LogicalResult NeedsFinder::collectProtocols() {
  for (ProgramOp program : programs) {
    size_t channels = 0;
    WalkResult walk = program.walk([&](ChannelOp channel) {
      channels +=
          llvm::any_of(channel->getUsers(), [](Operation *user) { return isa<TransferOp>(user); });
      if (failed(verifyProtocol(channel)))
        return WalkResult::interrupt();
      const auto key = std::make_pair(int64_t(channel.getTag()), int64_t(channel.getSlots()));
      auto [known, isNew] = needs.protocols.try_emplace(key, channel.getProtocol());
      if (known->second == channel.getProtocol())
        return WalkResult::advance();
      channel.emitOpError() << "has protocol " << stringifyProtocol(channel.getProtocol())
                            << ", but other channels of tag " << key.first << " with " << key.second
                            << " slots have " << stringifyProtocol(known->second);
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
    const size_t most = options.tma ? 256 : 1000;
    if (channels > most)
      return program.emitOpError() << "has transfers through " << channels << " channels: on GPUs "
                                   << (options.tma ? "with tma " : "") << "at most " << most
                                   << " fit into a block's shared memory";
    needs.mostChannels = std::max(needs.mostChannels, channels);
  }
  return success();
}

/// A message of `simple` comes after all that its sender has done before, one that tells by its own
/// words that it is there only after these. Where a rank's memory is touched by one block, that is
/// the same; else every message has to be of the first kind.
void NeedsFinder::orderMemory() {
  bool shared = false;
  for (ProgramOp program : programs) {
    size_t agents = 0;
    for (Operation &op : program.getBlock())
      agents += isa<BlockOp, ProxyOp>(op);
    shared |= agents > 1;
    program.walk([&](PeerOp peer) { shared |= !peer.use_empty(); });
  }
  if (!shared)
    return;
  for (ProgramOp program : programs)
    program.walk([](ChannelOp channel) { channel.setProtocol(Protocol::Simple); });
}

LogicalResult NeedsFinder::verifyHardware(StringRef option) {
  const std::optional<int> arch = parseArch(options.arch);
  if (arch && *arch >= 90)
    return success();
  return algorithm.emitOpError() << "cannot use " << option << " on " << options.arch
                                 << ": it needs sm_90 or later";
}

/// Finds what goes through the switch.
LogicalResult NeedsFinder::findMulticasts(int64_t ranks) {
  for (ProgramOp program : programs) {
    WalkResult walk = program.walk([&](TransferOp transfer) {
      const MulticastSides sides = multicastSides(transfer, ranks);
      if (!sides.any())
        return WalkResult::advance();
      if (parseArch(options.arch).value_or(0) < 90) {
        transfer.emitOpError() << "cannot go through the switch on " << options.arch
                               << ": multimem needs sm_90 or later";
        return WalkResult::interrupt();
      }
      if (sides.from && !(needs.load = switchLoad(options.type, options.reduction))) {
        transfer.emitOpError() << "cannot go through the switch: it has no '"
                               << model::name(options.reduction) << "' of '" << name(options.type)
                               << "' elements";
        return WalkResult::interrupt();
      }
      needs.multicasts[transfer] = sides;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  if (needs.multicasts.empty())
    algorithm.emitWarning("multimem makes no difference: no transfer has one place of all ranks "
                          "on a side");
  return success();
}

/// Finds loops of transfers that may be moved at once.
void NeedsFinder::findLoops() {
  for (ProgramOp program : programs)
    program.walk([&](affine::AffineForOp loop) {
      TransferOp transfer = independentTransfer(loop);
      if (!transfer || needs.multicasts.contains(transfer))
        return;
      const uint64_t rows =
          llvm::divideCeil(uint64_t(loop.getConstantUpperBound() - loop.getConstantLowerBound()),
                           uint64_t(loop.getStepAsInt()));
      // Devices tell rows apart by 31 bits.
      const uint64_t count = uint64_t(transfer.getCount());
      if (rows * count >= (uint64_t(1) << 31) / count)
        return;
      needs.atOnce[loop] = transfer;
      const uint64_t operands =
          rows * count * (transfer.getFrom().size() + transfer.getTo().size());
      // As many rows at once as there are warps, or more.
      constexpr uint64_t operandsAtOnce = 64;
      needs.mostOperands = std::max(needs.mostOperands, size_t(std::min(operands, operandsAtOnce)));
      needs.turns |= operands > operandsAtOnce;
    });
}

FailureOr<Needs> NeedsFinder::run(int64_t ranks) {
  orderMemory();
  if (failed(verify()))
    return failure();
  if (options.tma && failed(verifyHardware("tma")))
    return failure();
  if (options.multimem && failed(findMulticasts(ranks)))
    return failure();
  findLoops();
  return std::move(needs);
}

FailureOr<Needs> findNeeds(AlgorithmOp algorithm, ArrayRef<ProgramOp> programs,
                           const CudaOptions &options, int64_t ranks) {
  return NeedsFinder(algorithm, programs, options).run(ranks);
}

} // namespace ccl::cuda
