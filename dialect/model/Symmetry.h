//===- Symmetry.h - Programs that all ranks execute alike, shifted ------------===//
//
// The ranks form a grid; the shifts of its axes are a group that takes every rank to
// every other. A program is symmetric if the group acts on the chunks of each buffer,
// too, so that the instructions of rank g are those of rank 0, all shifted by g: then
// everything about rank 0 is known of all.
//
// An element of the group is the rank that rank 0 goes to. No MLIR here.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/model/Multiset.h"
#include "dialect/model/Program.h"

namespace ccl::model {

/// Something that counts [0, extent) and moves by `steps[x]` (mod extent) when rank axis
/// x moves by one.
struct ShiftedAxis {
  int64_t extent = 1;
  std::vector<int64_t> steps;
  friend bool operator==(const ShiftedAxis &, const ShiftedAxis &) = default;
};

/// Iterations of a loop that every rank executes in the same order, although the shift
/// renames them: a loop over all chunks of an axis, say. Iteration i of rank 0 is
/// iteration i + shift of another rank (digit by digit, the last runs fastest).
struct Sweep {
  int32_t agent = 0;             ///< index of the agent
  int32_t begin = 0, length = 0; ///< instructions of the first iteration
  int32_t trips = 0;             ///< iterations, back to back
  std::vector<ShiftedAxis> digits;
};

struct Symmetry {
  std::vector<int64_t> ranks;                    ///< extents of the rank grid
  std::vector<std::vector<ShiftedAxis>> buffers; ///< the chunk grid of every buffer
  std::vector<Sweep> sweeps;                     ///< of rank 0; outer ones first
};

/// The group's action. Everything must be in range.
class ShiftGroup {
public:
  explicit ShiftGroup(const Symmetry &symmetry) : symmetry(symmetry) {}

  int64_t numRanks() const;
  /// Shifts by one along each axis: all others are made of them.
  std::vector<int64_t> generators() const;
  int64_t inverse(int64_t shift) const;
  int64_t moveRank(int64_t shift, int64_t rank) const;
  int64_t moveChunk(int64_t shift, int32_t buffer, int64_t chunk) const;
  /// Whether a shift leaves the number `axes` as it is.
  bool fixes(int64_t shift, const std::vector<ShiftedAxis> &axes) const;
  /// Whether `count` chunks from `chunk` on stay adjacent and in order, wherever they go.
  bool keepsTogether(int32_t buffer, int64_t chunk, int64_t count) const;
  /// Where the ranks [low, high) go, as intervals.
  void moveRanks(int64_t shift, int64_t low, int64_t high, Multisets::Intervals &out) const;

private:
  std::vector<int64_t> coordinates(int64_t rank) const;
  void moveRanks(const std::vector<int64_t> &shift, size_t axis, int64_t base, int64_t low,
                 int64_t high, Multisets::Intervals &out) const;

  const Symmetry &symmetry;
};

/// Why this is no symmetry of the contract (and of what `in` and `out` share in place),
/// or "". Checks also that the numbers make sense.
std::string contradiction(const Symmetry &symmetry, const std::vector<Buffer> &buffers,
                          const Contract &contract, bool inPlace);

} // namespace ccl::model
