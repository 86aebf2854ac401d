//===- Launches.h - Launches whose results are judged ------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "test/soak/Compiler.h"

namespace ccl::soak {

/// What all ranks of a launch agree on.
struct Launch {
  const Compiled *program = nullptr;
  cli::Lengths lengths;
  bool inPlace = false;
  uint64_t round = 0; ///< inputs differ from round to round
  int64_t microBatches = 0;
  Milliseconds timeout = defaultTimeout;

  /// The `ccl run` that does the same.
  std::string command(std::string_view ranksAre) const;
};

/// Where a rank has its rows.
struct Memory {
  char *in = nullptr; ///< null: ordinary memory of the LaunchingRank; else `bytes` there
  char *out = nullptr;
  int64_t bytes = 0;
  int64_t shift = 0; ///< elements from a cache line boundary
};

struct Findings {
  int64_t wrong = 0;   ///< elements of results
  int64_t damaged = 0; ///< elements of red zones
  int64_t changed = 0; ///< elements of an input that is not the result
  bool any() const { return wrong || damaged || changed; }
  std::string str() const;
};

/// Bytes that rows of this launch need at most, with red zones.
int64_t memoryBytes(const Launch &launch, int64_t rank);

/// One rank's buffers.
class LaunchingRank {
public:
  /// For launches of which each buffer takes at most so much, see memoryBytes.
  explicit LaunchingRank(int64_t maxBytes);

  /// Fills, launches and judges at once when the launch returns: a rank that returns too early,
  /// or whose memory is still read by others after that, has wrong results.
  llvm::Expected<Findings> run(Member &member, const Launch &launch, const Memory &memory = {});

private:
  class Row;
  void prepare(Member &member, const Launch &launch, const Memory &memory, Row &first, Row &second,
               LaunchArgs &args);

  int64_t maxBytes;
  std::unique_ptr<char[]> storage;
};

} // namespace ccl::soak
