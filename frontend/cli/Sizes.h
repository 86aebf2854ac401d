//===- Sizes.h - Numbers as people type them: 64M, 8:64M:8, 2..8 ------------===//
#pragma once

#include "dialect/model/Contract.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ccl::cli {

/// "64M": a number of bytes or elements, see model::parseSize.
llvm::Expected<int64_t> parseSize(llvm::StringRef text);
/// "64.00 MiB", "8 B".
std::string formatBytes(double bytes);

/// "0,1,17,4K".
llvm::Expected<std::vector<int64_t>> parseSizeList(llvm::StringRef text);

/// "4", "2,3,4", "2..8" and mixtures; every number is at least 1.
llvm::Expected<std::vector<int64_t>> parseRanks(llvm::StringRef text);

/// "2x4".
llvm::Expected<std::vector<int64_t>> parseGrid(llvm::StringRef text);

/// "n=4": a size parameter and its value.
llvm::Expected<std::pair<std::string, int64_t>> parseBinding(llvm::StringRef text);

/// The sizes of a sweep, in bytes of the larger buffer (as in nccl-tests) or in
/// elements of one shard (nccl-tests' `count` column).
struct Sweep {
  bool inBytes = true;
  std::vector<int64_t> values;

  /// Elements of one shard for every value; `shards` is that of the larger buffer.
  std::vector<int64_t> counts(int64_t elementBytes, int64_t shards) const;
};

/// "lo:hi[:factor]" or a list. A range goes lo, lo * factor, ... and ends with hi,
/// also where no power of the factor meets it.
llvm::Expected<Sweep> parseBytes(llvm::StringRef text);

/// nccl-tests' -b -e -f -i: from `begin` by factor (if over 1) or step, never past `end`.
llvm::Expected<Sweep> sweepOf(int64_t begin, int64_t end, int64_t factor, int64_t step);

/// Bytes that nccl-tests calls the size, and what its busbw column multiplies with.
int64_t sizeInBytes(const model::Contract &contract, int64_t count, int64_t elementBytes);
double busFactor(const model::Contract &contract);

} // namespace ccl::cli
