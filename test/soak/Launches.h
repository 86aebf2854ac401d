//===- Launches.h - Launches whose results are judged ------------------------------===//
#pragma once

#include "runtime/Member.h"
#include "test/soak/Compiler.h"

namespace ccl::soak {

/// Lengths as of `ccl run --uneven`: of an all_to_all count(p, q) elements from rank p to rank q,
/// else count(0, q) in shard q. In place an all_to_all sends as much there as back.
cli::Lengths unevenLengths(const model::Contract &contract, bool inPlace,
                           llvm::function_ref<int64_t(int64_t p, int64_t q)> count);

/// "--count 17", "--uneven '1,2;3,4'".
std::string lengthsText(const cli::Lengths &lengths, int64_t ranks);

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

/// Bytes that a row needs beside its own: red zones, and an element that is not aligned.
constexpr int64_t rowMargin = 2 * 512 + 64;
/// Bytes that rows of this launch need at most, with that.
int64_t memoryBytes(const Launch &launch, int64_t rank);
/// Elements of a shard at most, if no row may have more bytes; at least 1.
int64_t mostElements(const Compiled &program, int64_t rowBytes);

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
