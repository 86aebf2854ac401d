//===- Units.cpp ---------------------------------------------------------------===//
#include "test/soak/Units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ccl::soak {

using model::Collective;
using model::Reduction;

GeneratorRequest Unit::request() const {
  GeneratorRequest request;
  request.collective = algorithm.collective;
  request.reduction = reduction;
  request.ranks = ranks;
  request.root = root;
  if (reversed)
    for (int64_t p = 0; p < ranks; ++p)
      request.targets.push_back(ranks - 1 - p);
  return request;
}

/// "lamport" tells by a float's value whether it has come.
static bool suits(std::string_view protocol, ElementType type) {
  const bool smallFloat = type >= ElementType::F16 && type != ElementType::F64;
  return protocol != "lamport" || smallFloat;
}

bool Unit::exists() const {
  return model::reduces(algorithm.collective) == (reduction != Reduction::None) &&
         (algorithm.collective != Collective::Barrier || type == ElementType::F32) &&
         suits(protocol, type) && algorithm.generator->refuses(request()).empty();
}

std::string Unit::str() const {
  std::string text = fmt::format("{}/{} {}", model::name(algorithm.collective),
                                 algorithm.generator->name.str(), name(type));
  if (reduction != Reduction::None)
    text += fmt::format(" {}", model::name(reduction));
  text += fmt::format(" {} ranks {}", ranks, via);
  if (slotBytes)
    text += fmt::format(" slots of {}", slotBytes);
  if (onShim())
    text += fmt::format(" {} on {} devices", protocol, devices);
  if (root)
    text += fmt::format(" root {}", root);
  return text;
}

std::string Unit::options() const {
  std::string text = fmt::format("--collective {} --algorithm {} -n {} -d {} --via {}",
                                 model::name(algorithm.collective), algorithm.generator->name.str(),
                                 ranks, name(type), via);
  if (reduction != Reduction::None)
    text += fmt::format(" -o {}", model::name(reduction));
  if (root)
    text += fmt::format(" -r {}", root);
  if (reversed) {
    const GeneratorRequest wanted = request();
    text += fmt::format(" --to {}", fmt::join(wanted.targets.begin(), wanted.targets.end(), ","));
  }
  if (onShim())
    text += fmt::format(" --device shim --protocol {} --cuda-devices {}", protocol,
                        devices == 1 ? "0" : "0,1,2");
  return text;
}

std::string Unit::environment() const {
  std::string text = slotBytes ? fmt::format("CCL_SLOT_BYTES={} ", slotBytes) : "";
  if (onShim())
    text += fmt::format("CCL_SHIM_SMS={} CCL_SHIM_DEVICES={} ", shimMultiprocessors, shimDevices);
  return text;
}

//===----------------------------------------------------------------------===//
// Axes of the matrix
//===----------------------------------------------------------------------===//

std::vector<Algorithm> allAlgorithms() {
  std::vector<Algorithm> all;
  for (uint32_t c = 0; c < uint32_t(Collective::Custom); ++c)
    for (const Generator &generator : generators())
      if (llvm::is_contained(generator.collectives, Collective(c)))
        all.push_back({&generator, Collective(c)});
  return all;
}

const std::vector<ElementType> &allTypes() {
  static const std::vector<ElementType> types = [] {
    std::vector<ElementType> all;
    for (uint32_t t = 0; t <= uint32_t(ElementType::F8E5M2); ++t)
      all.push_back(ElementType(t));
    return all;
  }();
  return types;
}

const std::vector<Reduction> &allReductions() {
  static const std::vector<Reduction> reductions = [] {
    std::vector<Reduction> all;
    for (uint32_t r = uint32_t(Reduction::Sum); r <= uint32_t(Reduction::Bxor); ++r)
      all.push_back(Reduction(r));
    return all;
  }();
  return reductions;
}

bool isSupported(ElementType type, Reduction reduction) {
  const bool bits =
      reduction == Reduction::Band || reduction == Reduction::Bor || reduction == Reduction::Bxor;
  return !bits || type <= ElementType::U64;
}

const std::vector<std::string> &allWays() {
  static const std::vector<std::string> ways{"auto", "staged", "direct"};
  return ways;
}

const std::vector<std::string> &allProtocols() {
  static const std::vector<std::string> protocols = [] {
    std::vector<std::string> all;
    for (uint32_t p = 0; p <= getMaxEnumValForProtocol(); ++p)
      all.push_back(stringifyProtocol(Protocol(p)).str());
    return all;
  }();
  return protocols;
}

const std::vector<int64_t> &matrixRanks() {
  static const std::vector<int64_t> ranks{1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
  return ranks;
}

const std::vector<int64_t> &matrixCounts() {
  static const std::vector<int64_t> counts{0, 1, 2, 17, 300, 4097};
  return counts;
}

//===----------------------------------------------------------------------===//
// The matrix
//===----------------------------------------------------------------------===//

namespace {

/// Lets what the matrix leaves open take turns, each of its own length.
class Turns {
public:
  void decide(Unit &unit) {
    unit.via = allWays()[size_t(number) % allWays().size()];
    unit.slotBytes = number / 3 % 4 == 1 ? smallSlotBytes : 0;
    if (model::hasRoot(unit.algorithm.collective))
      unit.root = number / 2 % unit.ranks;
    unit.reversed = unit.algorithm.collective == Collective::Permute && number / 5 % 2;
    if (unit.onShim())
      unit.devices = number / 2 % 2 ? shimDevices : 1;
    ++number;
  }

private:
  int64_t number = 0;
};

} // namespace

bool UnitFilter::takes(const Algorithm &one) const {
  auto isNamed = [](const std::string &wanted, std::string_view found) {
    return wanted.empty() || wanted == found;
  };
  return isNamed(collective, model::name(one.collective)) &&
         isNamed(algorithm, one.generator->name);
}

std::vector<int64_t> UnitFilter::rankCounts() const {
  if (!ranks.empty())
    return ranks;
  std::vector<int64_t> counts = matrixRanks();
  if (onShim)
    std::erase_if(counts, [](int64_t count) { return count > 8; });
  return counts;
}

std::vector<std::string> UnitFilter::protocolNames() const {
  if (!onShim)
    return {""};
  return protocols.empty() ? allProtocols() : protocols;
}

std::vector<int64_t> UnitFilter::deviceCounts() const {
  return onShim ? std::vector<int64_t>{1, shimDevices} : std::vector<int64_t>{1};
}

std::vector<Unit> matrixUnits(const UnitFilter &filter, std::vector<Unit> &refused) {
  std::vector<Unit> units;
  Turns turns;
  for (const Algorithm &algorithm : allAlgorithms())
    for (ElementType type : allTypes())
      for (Reduction reduction :
           model::reduces(algorithm.collective) ? allReductions() : std::vector{Reduction::None})
        for (int64_t ranks : filter.rankCounts())
          for (const std::string &protocol : filter.protocolNames()) {
            Unit unit{algorithm, type, reduction, ranks};
            unit.protocol = protocol;
            turns.decide(unit);
            if (filter.takes(algorithm) && unit.exists())
              (isSupported(type, reduction) ? units : refused).push_back(unit);
          }
  return units;
}

} // namespace ccl::soak
