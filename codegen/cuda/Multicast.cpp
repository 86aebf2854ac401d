//===- Multicast.cpp --------------------------------------------------------===//
#include "codegen/cuda/Multicast.h"

#include "codegen/host/Affine.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <set>

using namespace mlir;

namespace ccl::cuda {

//===----------------------------------------------------------------------===//
// Which transfers
//===----------------------------------------------------------------------===//

namespace {

/// A place of a buffer, by numbers.
struct Place {
  BufferOp buffer;
  SmallVector<int64_t> chunk;
  int64_t rank;

  bool isAlike(const Place &other) const { return buffer == other.buffer && chunk == other.chunk; }
};

class Looker {
public:
  Looker(TransferOp transfer, int64_t ranks)
      : transfer(transfer), program(transfer->getParentOfType<ProgramOp>()), ranks(ranks),
        from(getFromPlaces(transfer)), to(getToPlaces(transfer)) {
    for (Operation *op = transfer->getParentOp(); op != program; op = op->getParentOp())
      if (auto loop = dyn_cast<affine::AffineForOp>(op))
        loops.push_back(loop);
    std::reverse(loops.begin(), loops.end());
  }

  MulticastSides run();

private:
  std::optional<Place> placeOf(const PlaceRef &ref) const;
  std::optional<SmallVector<Place>> placesOf(ArrayRef<PlaceRef> refs) const;
  bool areAll(ArrayRef<Place> places) const;
  /// Of one iteration; false if nothing is left to find.
  bool look();
  bool lookInside(size_t depth);

  static constexpr int64_t mostLooks = 1 << 16;
  TransferOp transfer;
  ProgramOp program;
  const int64_t ranks;
  const SmallVector<PlaceRef> from, to;
  SmallVector<affine::AffineForOp> loops; ///< around it, the outermost first
  host::Environment environment;
  int64_t me = 0, looks = 0;
  MulticastSides found{true, true};
};

} // namespace

std::optional<Place> Looker::placeOf(const PlaceRef &ref) const {
  auto known = [&](AffineMap map, ValueRange operands) {
    return host::whyNotAffine(map).empty() && llvm::all_of(operands, [&](Value operand) {
             return environment.get(operand).has_value();
           });
  };
  if (ref.isChannel() || !known(ref.map, ref.operands))
    return std::nullopt;
  Place place{ref.getBuffer(), environment.evaluate(ref.map, ref.operands), me};
  if (PeerOp peer = ref.getPeer()) {
    if (!known(peer.getPeer(), peer.getPeerOperands()))
      return std::nullopt;
    place.rank = environment.evaluate(peer.getPeer(), peer.getPeerOperands()).front();
  }
  return place;
}

std::optional<SmallVector<Place>> Looker::placesOf(ArrayRef<PlaceRef> refs) const {
  SmallVector<Place> places;
  for (const PlaceRef &ref : refs) {
    std::optional<Place> place = placeOf(ref);
    if (!place)
      return std::nullopt;
    places.push_back(std::move(*place));
  }
  return places;
}

/// Whether they are one place, of every rank once.
bool Looker::areAll(ArrayRef<Place> places) const {
  std::set<int64_t> seen;
  return int64_t(places.size()) == ranks && llvm::all_of(places, [&](const Place &place) {
           return place.isAlike(places.front()) && seen.insert(place.rank).second;
         });
}

bool Looker::look() {
  if (++looks > mostLooks)
    found = {};
  std::optional<SmallVector<Place>> sources = placesOf(from), destinations = placesOf(to);
  found.from = found.from && sources && areAll(*sources);
  // Who copies its own place to all others may as well write it once more.
  if (destinations && sources && sources->size() == 1 && sources->front().rank == me)
    if (int64_t(destinations->size()) == ranks - 1)
      destinations->push_back(sources->front());
  found.to = found.to && destinations && areAll(*destinations);
  return found.any();
}

bool Looker::lookInside(size_t depth) {
  if (depth == loops.size())
    return look();
  affine::AffineForOp loop = loops[depth];
  if (!loop.hasConstantBounds())
    return false;
  for (int64_t i = loop.getConstantLowerBound(); i < loop.getConstantUpperBound();
       i += loop.getStepAsInt()) {
    environment.set(loop.getInductionVar(), i);
    if (!lookInside(depth + 1))
      return false;
  }
  return true;
}

MulticastSides Looker::run() {
  for (int64_t rank : program.getRankList()) {
    me = rank;
    if (Value value = program.getMe())
      environment.set(value, rank);
    if (!lookInside(0))
      return {};
  }
  return looks > 0 ? found : MulticastSides{};
}

MulticastSides multicastSides(TransferOp transfer, int64_t ranks) {
  const int64_t most = std::max(transfer.getFrom().size(), transfer.getTo().size());
  if (ranks < 2 || most + 1 < ranks)
    return {};
  return Looker(transfer, ranks).run();
}

//===----------------------------------------------------------------------===//
// What switches do
//===----------------------------------------------------------------------===//

/// "" for what is no operation of a switch.
static std::string switchOperation(model::Reduction reduction, bool bits) {
  switch (reduction) {
  case model::Reduction::Sum:
  case model::Reduction::Avg: return bits ? "" : "add";
  case model::Reduction::Min: return bits ? "" : "min";
  case model::Reduction::Max: return bits ? "" : "max";
  case model::Reduction::Band: return bits ? "and" : "";
  case model::Reduction::Bor: return bits ? "or" : "";
  case model::Reduction::Bxor: return bits ? "xor" : "";
  default: return "";
  }
}

std::optional<SwitchLoad> switchLoad(ElementType type, model::Reduction reduction) {
  const bool sums = reduction == model::Reduction::Sum || reduction == model::Reduction::Avg;
  auto ofFloats = [&](const char *instruction, int bytes) -> std::optional<SwitchLoad> {
    return sums ? std::optional(SwitchLoad{instruction, bytes}) : std::nullopt;
  };
  auto ofIntegers = [&](const char *name, int bits) -> std::optional<SwitchLoad> {
    const std::string number = switchOperation(reduction, false),
                      bit = switchOperation(reduction, true);
    if (!bit.empty())
      return SwitchLoad{bit + ".b" + std::to_string(bits), bits / 8};
    if (number.empty())
      return std::nullopt;
    // Sums wrap around: those of unsigned numbers are those of signed ones.
    return SwitchLoad{number + "." + (sums ? "u" : name) + std::to_string(bits), bits / 8};
  };
  switch (type) {
  case ElementType::F32: return ofFloats("add.v4.f32", 16);
  case ElementType::F16: return ofFloats("add.acc::f32.v4.f16x2", 16);
  case ElementType::BF16: return ofFloats("add.acc::f32.v4.bf16x2", 16);
  case ElementType::F64: return ofFloats("add.f64", 8);
  case ElementType::I32: return ofIntegers("s", 32);
  case ElementType::U32: return ofIntegers("u", 32);
  case ElementType::I64: return ofIntegers("s", 64);
  case ElementType::U64: return ofIntegers("u", 64);
  default: return std::nullopt;
  }
}

} // namespace ccl::cuda
