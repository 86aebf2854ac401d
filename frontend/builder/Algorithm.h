//===- Algorithm.h - What a builder has recorded -------------------------------===//
#pragma once

#include <ccl/builder.h>

#include "dialect/model/Contract.h"

#include <map>
#include <tuple>

namespace ccl {
inline namespace jit {

struct [[gnu::visibility("hidden")]] Algorithm::Impl {
  /// A line that wrote something; kept once however many moves are of it.
  struct Line {
    uint32_t file, line, column;
  };
  struct BufferInfo {
    model::Role role;
    std::string name;
    int64_t chunks;
    uint32_t line;
  };
  struct Spot {
    uint32_t buffer;
    int64_t rank, chunk;
  };
  struct Move {
    Spot from, into;
    int64_t count;
    int64_t step; ///< ascends; moves with the same number are one parallel step
    uint32_t line;
    bool reduce;
  };
  struct Problem {
    uint32_t line;
    std::string message;
  };

  uint32_t lineOf(const Where &where);
  void complain(uint32_t line, std::string message);
  /// The buffer's number if it is one of ours.
  std::optional<uint32_t> find(const Place &place, std::string_view side, uint32_t line);

  uint64_t id = 0; ///< copies have the same: their buffers are each other's
  std::string name;
  Contract contract;
  int ranks = 0;
  uint32_t line = 0; ///< of the constructor
  std::vector<BufferInfo> buffers;
  std::vector<Move> moves;
  std::vector<std::string> files;
  std::vector<Line> lines;
  std::vector<Problem> problems; ///< the first few, for `compile`
  bool outOfMemory = false;
  int64_t step = 0;
  int depth = 0; ///< of open steps
  bool unmatchedEnd = false;

private:
  std::map<std::string, uint32_t, std::less<>> fileNumbers;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> lineNumbers;
};

} // namespace jit
} // namespace ccl
