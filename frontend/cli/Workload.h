//===- Workload.h - Inputs, the plain reference, and red zones --------------===//
//
// What `ccl run` feeds to a collective and how it judges the result. The reference
// is a loop over the definition of the collective and knows nothing of the compiler.
// Inputs are chosen so that results are exact in every order, of every type.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/cli/Lengths.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace ccl::cli {

/// Elements [first, first + length) of a rank's `out` row are the combination of the
/// equally long pieces of these inputs.
struct Piece {
  struct Source {
    int64_t rank, first;
  };
  int64_t first = 0, length = 0;
  std::vector<Source> sources;
};

/// The definition of the collective: what `out` of `rank` holds when shards have these
/// lengths. Elements in no piece are not promised.
std::vector<Piece> definition(const model::Contract &contract, int64_t rank,
                              const Lengths &lengths);

struct ValueRule;

class Workload {
public:
  /// For a program of this type whose code does this contract, with its reduction.
  Workload(model::Contract contract, ElementType type);

  const model::Contract &contract() const { return theContract; }
  int64_t elementBytes() const { return sizeOf(type); }
  int64_t inElements(int64_t rank, const Lengths &lengths) const {
    return lengths.start(RowOf::In, rank, theContract.inShards());
  }
  int64_t outElements(int64_t rank, const Lengths &lengths) const {
    return lengths.start(RowOf::Out, rank, theContract.outShards());
  }
  /// Where `in` and `out` of `rank` start in the larger buffer when launched in place.
  int64_t inOffset(int64_t rank, const Lengths &lengths) const;
  int64_t outOffset(int64_t rank, const Lengths &lengths) const;

  /// Writes the input of `rank` in round `round` from element `first` on.
  void fill(int64_t rank, uint64_t round, int64_t first, int64_t length, void *to) const;
  /// Counts elements of `data` that differ from what `fill` writes.
  int64_t countChanged(int64_t rank, uint64_t round, int64_t length, const void *data) const;
  /// Counts wrong elements of the `out` row of `rank`.
  int64_t countWrong(int64_t rank, uint64_t round, const Lengths &lengths, const void *out) const;

private:
  bool reduces() const { return theContract.reduction != model::Reduction::None; }
  ValueRule rule(int64_t rank, uint64_t round) const;
  template <typename Format>
  int64_t countWrongIn(const Piece &piece, uint64_t round, const void *out) const;

  model::Contract theContract;
  ElementType type;
  int valueBits; ///< inputs that are integers have so many bits
  int64_t few;   ///< so many ranks may have an input other than 0
};

/// Memory with a patterned red zone on both sides of a row of `bytes`.
class GuardedBuffer {
public:
  /// Reserves address space for rows of up to `maxBytes`; pages come on first use.
  explicit GuardedBuffer(int64_t maxBytes);

  /// Places a row of `bytes` and writes the red zones around it. Rows start at 64 bytes.
  char *place(int64_t bytes);
  char *data() const;
  /// Overwrites the row with a pattern that no result has.
  void poison();
  /// Elements of the red zones that were written.
  int64_t countDamaged(int64_t elementBytes) const;

  static constexpr int64_t guardBytes = 64 * 8; ///< 64 of the largest elements

private:
  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory;
  int64_t bytes = 0;
};

} // namespace ccl::cli
