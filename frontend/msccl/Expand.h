//===- Expand.h - Instructions of a rank as steps of the format ----------------------===//
//
// A transfer combines any number of places and messages into any number of places and
// messages; a step has at most one of each kind. What does not fit becomes several steps,
// with scratch in between where nothing else may hold an intermediate result.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"
#include "frontend/msccl/Lanes.h"

namespace ccl::msccl {

/// A step before blocks are known, or what orders the steps of two agents.
struct Op {
  enum class Kind : uint8_t { Step, Signal, Wait };
  Kind kind = Kind::Step;
  Step step;                    ///< its peers are those of the lanes; Signal, Wait: only a loc
  int32_t recv = -1, send = -1; ///< lanes
  int32_t channel = -1;         ///< Signal, Wait: of the rank, to itself
};

/// Where the buffers of a program lie in i, o and s.
class Layout {
public:
  explicit Layout(const interchange::Foreign &foreign);

  struct Place {
    Buf buf;
    int64_t chunk;
    friend bool operator==(const Place &, const Place &) = default;
  };
  Place place(const model::Operand &operand) const;
  /// A number for each chunk of memory: places that may be one memory have one number.
  int64_t cell(int32_t rank, const Place &place) const;
  int64_t scratchChunks() const { return scratch; }
  /// As `gpu` states them.
  int64_t inChunks() const { return in; }
  int64_t outChunks() const { return out; }

private:
  const interchange::Foreign &foreign;
  std::vector<int64_t> base; ///< of scratch buffers, by buffer
  int64_t in = 0, out = 0, scratch = 0;
  Buf whole = Buf::Scratch; ///< what stands for an `inout` buffer; Scratch: there is none
};

/// The ops of every agent of a rank, in order. `scratch`: its chunks, grown as needed.
std::vector<std::vector<Op>> expand(const interchange::Foreign &foreign, const Layout &layout,
                                    const Lanes &lanes, int32_t rank, int64_t &scratch);

} // namespace ccl::msccl
