//===- Operands.cpp - What instructions of a program name -----------------------===//
#include "codegen/cuda/IndexText.h"
#include "codegen/cuda/ProgramWriter.h"

#include "codegen/host/Affine.h"
#include "codegen/host/Channels.h"
#include "dialect/Indexing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace ccl::cuda {

/// Of the ranks of a program, of a loop of constant bounds.
static std::optional<std::pair<int64_t, int64_t>> rangeOf(Value value, ProgramOp program) {
  if (value == program.getMe()) {
    const SmallVector<int64_t> ranks = program.getRankList();
    if (ranks.empty())
      return std::nullopt;
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
    return std::pair(*least, *most);
  }
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<affine::AffineForOp>(argument.getOwner()->getParentOp())
                       : affine::AffineForOp();
  if (!loop || !loop.hasConstantBounds() || argument.getArgNumber() != 0)
    return std::nullopt;
  return std::pair(loop.getConstantLowerBound(), loop.getConstantUpperBound() - 1);
}

FailureOr<SmallVector<IndexOperand>> ProgramWriter::operandsOf(Operation *op, AffineMap map,
                                                               ValueRange operands) {
  if (std::string why = host::whyNotAffine(map); !why.empty())
    return op->emitOpError() << why;
  SmallVector<IndexOperand> all;
  for (Value operand : operands) {
    IndexOperand known{names.lookup(operand), rangeOf(operand, program),
                       operand == program.getMe()};
    if (known.isRank)
      known.text = "rank()";
    if (auto constant = operand.getDefiningOp<arith::ConstantOp>())
      if (auto number = dyn_cast<IntegerAttr>(constant.getValue())) {
        known.constant = number.getInt();
        known.text = fmt::format("{}", number.getInt());
      }
    if (known.text.empty())
      return op->emitOpError("depends on an index that has no code on GPUs");
    all.push_back(std::move(known));
  }
  return all;
}

/// As code.
static std::string printCode(AffineExpr expr, unsigned numDims, ArrayRef<IndexOperand> operands) {
  SmallVector<std::string> texts;
  for (const IndexOperand &operand : operands)
    texts.push_back(operand.text);
  return printIndex(expr, numDims, texts);
}
/// As a form has it, or as code.
static std::optional<std::string> print(AffineExpr expr, unsigned numDims,
                                        ArrayRef<IndexOperand> operands, IndexForm *form) {
  return form ? form->print(expr, numDims, operands) : printCode(expr, numDims, operands);
}

FailureOr<std::string> ProgramWriter::printBound(affine::AffineForOp loop, bool upper) {
  AffineMap map = upper ? loop.getUpperBoundMap() : loop.getLowerBoundMap();
  auto operands =
      operandsOf(loop, map, upper ? loop.getUpperBoundOperands() : loop.getLowerBoundOperands());
  if (failed(operands))
    return failure();
  std::string text;
  for (AffineExpr result : map.getResults()) {
    const std::string bound = printCode(result, map.getNumDims(), *operands);
    text =
        text.empty() ? bound : fmt::format("{}({}, {})", upper ? "smaller" : "larger", text, bound);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

FailureOr<std::optional<std::string>> ProgramWriter::printChannel(ChannelOp channel,
                                                                  IndexForm *form) {
  AffineMap map = channel.getPeer();
  auto operands = operandsOf(channel, map, channel.getPeerOperands());
  if (failed(operands))
    return failure();
  std::optional<std::string> peer = print(map.getResult(0), map.getNumDims(), *operands, form);
  if (!peer)
    return peer;
  return std::optional(fmt::format("{}, {}", host::familyOf(kernel, channel), *peer));
}

LogicalResult
ProgramWriter::writeChannels(ArrayRef<ChannelOp> channels,
                             llvm::function_ref<void(size_t, size_t, StringRef, StringRef)> use) {
  size_t begin = 0;
  IndexForm form;
  SmallVector<std::string> rows;
  auto end = [&] {
    if (rows.empty())
      return;
    const std::string table = fmt::format("channels{}", tables++);
    line() << fmt::format("static __device__ const Channels {}[] = {{{}}};\n", table,
                          fmt::join(rows, ", "));
    use(begin, begin + rows.size(), table, form.arguments());
    begin += rows.size();
    rows.clear();
    form = IndexForm();
  };
  for (ChannelOp channel : channels) {
    FailureOr<std::optional<std::string>> row = printChannel(channel, &form);
    if (succeeded(row) && !*row) {
      end();
      row = printChannel(channel, &form);
    }
    if (failed(row) || !*row)
      return failure();
    rows.push_back(fmt::format("{{{}}}", **row));
  }
  end();
  return success();
}

LogicalResult ProgramWriter::nameChannels(Block &block) {
  SmallVector<ChannelOp> named;
  for (ChannelOp channel : block.getOps<ChannelOp>())
    if (llvm::any_of(channel->getUsers(), [&](Operation *user) {
          return isa<TransferOp>(user) && (withProxies || !user->getParentOfType<ProxyOp>());
        }))
      named.push_back(channel);
  if (named.empty())
    return success();
  const int first = channels;
  std::string numbers;
  for (ChannelOp channel : named) {
    std::string &name = names[channel];
    name = fmt::format("{}{}", channel.getDirection() == Direction::To ? "to" : "from", channels);
    numbers += numbers.empty() ? fmt::format("{} = {}", name, channels) : ", " + name;
    ++channels;
  }
  line() << fmt::format("enum {{ {} }};\n", numbers);
  return writeChannels(named, [&](size_t begin, size_t, StringRef table, StringRef arguments) {
    line() << fmt::format("name({}, {}{});\n", size_t(first) + begin, table.str(), arguments.str());
  });
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

FailureOr<std::optional<std::string>>
ProgramWriter::printOperand(TransferOp op, const PlaceRef &place, bool all, IndexForm *form) {
  if (place.isChannel())
    return std::optional(
        fmt::format("slot({}, {})", names.lookup(place.base),
                    stringifyProtocol(place.base.getDefiningOp<ChannelOp>().getProtocol()).str()));
  auto operands = operandsOf(op, place.map, place.operands);
  if (failed(operands))
    return failure();
  BufferOp buffer = place.getBuffer();
  const AffineExpr position = linearize(place.map.getResults(), *buffer.getChunkShape());
  std::optional<std::string> chunk = print(position, place.map.getNumDims(), *operands, form);
  if (!chunk)
    return chunk;
  const std::string &name = bufferNames[size_t(buffers.lookup(buffer))];
  if (all)
    return std::optional(fmt::format("atAll({}, {})", name, *chunk));
  PeerOp peer = place.getPeer();
  if (!peer)
    return std::optional(fmt::format("at({}, {})", name, *chunk));
  AffineMap map = peer.getPeer();
  operands = operandsOf(op, map, peer.getPeerOperands());
  if (failed(operands))
    return failure();
  std::optional<std::string> rank = print(map.getResult(0), map.getNumDims(), *operands, form);
  if (!rank)
    return rank;
  return std::optional(fmt::format("at({}, {}, {})", name, *chunk, *rank));
}

FailureOr<std::optional<std::string>> ProgramWriter::printOperands(TransferOp op, IndexForm *form) {
  SmallVector<PlaceRef> from = getFromPlaces(op), to = getToPlaces(op);
  const MulticastSides all = multicasts.lookup(op);
  if (all.from)
    from.truncate(1);
  if (all.to)
    to.truncate(1);
  std::string text;
  for (auto [places, isAll] : {std::pair(ArrayRef(from), all.from), {ArrayRef(to), all.to}})
    for (const PlaceRef &place : places) {
      FailureOr<std::optional<std::string>> operand = printOperand(op, place, isAll, form);
      if (failed(operand) || !*operand)
        return operand;
      text += (text.empty() ? "" : ", ") + **operand;
    }
  return std::optional(text);
}

} // namespace ccl::cuda
