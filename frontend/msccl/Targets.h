//===- Targets.h - What the runtimes of MSCCL XML make of a file ----------------===//
//
// One table of limits. The reader warns of what a runtime would not take; the writer keeps
// to the limits of the runtime it writes for.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/msccl/Document.h"

#include <functional>

namespace ccl::msccl {

enum class Target : uint8_t {
  None,  ///< any program of the format; no limits
  Msccl, ///< microsoft/msccl, the first runtime
  Rccl,  ///< the executor in RCCL
  Azure  ///< msccl-executor-nccl
};
/// "msccl", "rccl", "azure".
std::optional<Target> parseTarget(std::string_view text);

struct Limits {
  Target target;
  std::string_view name; ///< as in messages
  int32_t stepsPerBlock; ///< steps, with nops
  int32_t blocksPerGpu;
  int32_t blocksPerChannel; ///< that send, or that receive
  int32_t channels;
  int32_t countBelow;             ///< `cnt` is smaller
  int32_t nodes;                  ///< elements that are kept for one gpu; 0: no limit is known
  int32_t children;               ///< of one element; 0: no limit is known
  bool isExecutor;                ///< outofplace, minBytes and maxBytes are mandatory
  bool hasFusedSteps;             ///< rcs, rrs, rrc and rrcs, in every build
  bool refusesGapsInBlocks;       ///< ids must be 0, 1, 2, ...
  std::string_view reduceScatter; ///< its word for `coll`
  std::string_view collectives;   ///< words for `coll`, with a space on each side
};
/// Of the three runtimes.
const std::array<Limits, 3> &allLimits();
const Limits *limitsOf(Target target);

/// The longest attribute that these parsers take, and how many of an element.
constexpr size_t stringLimit = 255, attributesLimit = 16;

/// Something that a runtime refuses or ignores. What lies at gpu -1 is the whole file's;
/// block -1 the gpu's; step -1 the block's. They are positions, not ids.
struct Violation {
  int32_t gpu = -1, block = -1, step = -1;
  const char *attribute = "";
  std::string text; ///< "65 steps; at most 64 in a block": without the runtime's name
};
/// Calls `report` for everything in `document` that `limits` forbid.
void checkLimits(const Document &document, const Limits &limits,
                 const std::function<void(Violation)> &report);

/// What the parsers of all three runtimes, written by hand, do not read although XML has it:
/// of each kind the first one, in the order of the text.
struct TextFinding {
  size_t offset;
  std::string text;
  size_t more = 0; ///< of this kind
};
std::vector<TextFinding> checkText(std::string_view text);

} // namespace ccl::msccl
