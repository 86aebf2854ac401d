//===- FlightRecorder.h - The last operations of a rank, for a post-mortem ------===//
//
// Keeps what a rank did last in all its communicators and writes it in the format of
// PyTorch's flight recorder (version 2.10 of the format), one file per rank:
//
//   python -m torch.distributed.flight_recorder.fr_trace FOLDER
//
// matches the files of all ranks and names the ranks that did not come. Additional keys of
// an entry: ccl_program, ccl_step, ccl_waits_for. All calls may come from any thread.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"
#include "runtime/plan/Plan.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ccl {

class FlightRecorder {
public:
  explicit FlightRecorder(int64_t worldRank, size_t capacity = 1024);
  ~FlightRecorder();

  /// A communicator, for the operations in it. `name` tells communicators of this rank
  /// apart and is the same on all ranks; `ranks` are ranks of the world, in order.
  uint64_t addGroup(const std::string &name, const std::string &description,
                    std::vector<int64_t> ranks);

  struct Operation {
    uint64_t group = 0;    ///< of addGroup
    uint64_t sequence = 0; ///< of the launch in its communicator, the same on all ranks
    model::Collective collective = model::Collective::Custom;
    bool uneven = false;
    int64_t inElements = 0, outElements = 0;
    ElementType type = ElementType::F32;
    std::chrono::milliseconds timeout{0};
    std::string_view program; ///< "ring (hash ab12)"
  };
  using Id = uint64_t;
  /// The caller is about to run it: state scheduled.
  Id begin(const Operation &operation);
  void started(Id id);   ///< all have come
  void completed(Id id); ///< its results are there
  /// It ended with an error; `step` and `waitsFor` say where: "micro-batch 0, instruction
  /// 5", "rank 1".
  void failed(Id id, std::string_view step, std::string_view waitsFor);

  std::string toJson() const;
  /// The same as Python pickles it, which is what fr_trace reads.
  std::string toPickle() const;
  /// Writes `prefix` + rank of the world, or JSON if `prefix` ends with ".json": "fr_.json"
  /// becomes "fr_3.json". An old file is replaced at once, or stays if this fails. The file
  /// is readable by this user only. Returns its name.
  llvm::Expected<std::string> dump(std::string_view prefix) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ccl
