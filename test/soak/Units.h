//===- Units.h - Everything that can be compiled -------------------------------===//
//
// A unit is one program for one element type, reduction and number of ranks: the part of the
// conformance matrix that costs a compilation. Counts, forms and kinds of ranks are launches of
// it.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/generators/Generators.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace ccl::soak {

/// A generator for one of its collectives.
struct Algorithm {
  const Generator *generator = nullptr;
  model::Collective collective = model::Collective::AllReduce;
};

struct Unit {
  Algorithm algorithm;
  ElementType type = ElementType::F32;
  model::Reduction reduction = model::Reduction::None;
  int64_t ranks = 1;
  std::string via = "auto";
  int64_t slotBytes = 0; ///< 0: the default
  int64_t root = 0;
  bool reversed = false;  ///< permute: rank p sends to ranks - 1 - p
  std::string protocol{}; ///< "": ranks of the host; else of channels, on the stand-in for GPUs
  int64_t devices = 1;    ///< of the stand-in
  bool wires = false;     ///< ranks may be on several hosts

  bool onShim() const { return !protocol.empty(); }

  GeneratorRequest request() const;
  /// Whether the generator takes it and it says nothing that does not matter: `reduction` is None
  /// if it does not reduce, `type` is float if it has no elements, as a barrier.
  bool exists() const;
  /// "all_reduce/ring float sum 4 ranks staged".
  std::string str() const;
  /// What `ccl run` needs for the same program: "--collective all_reduce ...".
  std::string options() const;
  /// "CCL_SLOT_BYTES=4096 " or "".
  std::string environment() const;
};

/// Every generator for every L0 collective.
std::vector<Algorithm> allAlgorithms();
/// All element types and all reductions.
const std::vector<ElementType> &allTypes();
const std::vector<model::Reduction> &allReductions();
/// Whether this type has this reduction: only integers have bits.
bool isSupported(ElementType type, model::Reduction reduction);
/// auto, staged, direct.
const std::vector<std::string> &allWays();
/// Of channels, on GPUs.
const std::vector<std::string> &allProtocols();
/// 1 to 8, 12, 16.
const std::vector<int64_t> &matrixRanks();
/// 0, 1, 2, 17, 300, 4097.
const std::vector<int64_t> &matrixCounts();
/// Slots that are smaller than the largest counts, so that these take several micro-batches.
constexpr int64_t smallSlotBytes = 4096;

/// Blocks of kernels that run at once on the stand-in, and how many GPUs it has.
constexpr int64_t shimMultiprocessors = 256, shimDevices = 3;

/// Which units of the matrix; empty: all.
struct UnitFilter {
  std::vector<int64_t> ranks;
  std::string collective, algorithm;
  bool onShim = false;
  std::vector<std::string> protocols; ///< on the stand-in

  bool takes(const Algorithm &one) const;
  /// `ranks`, or those of the matrix; on the stand-in up to 8, which share two cores.
  std::vector<int64_t> rankCounts() const;
  /// {""} on the host.
  std::vector<std::string> protocolNames() const;
  /// 1, and on the stand-in 3.
  std::vector<int64_t> deviceCounts() const;
};
/// The matrix: every generator with every type, reduction and number of ranks. What the matrix
/// does not ask for (via, slots, root, devices) takes turns. `refused` gets the pairs of type and
/// reduction that do not exist.
std::vector<Unit> matrixUnits(const UnitFilter &filter, std::vector<Unit> &refused);

} // namespace ccl::soak
