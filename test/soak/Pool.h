//===- Pool.h - Compiled programs to choose from ---------------------------------------===//
#pragma once

#include "test/soak/Compiler.h"

#include <map>

namespace ccl::soak {

/// Some programs for every number of ranks that a communicator of `ranks`, or a part of it, has.
class Pool {
public:
  /// The same for the same seed; numPrograms(n) for n ranks, which is at least 1. `onHosts`: ranks
  /// may be on several. Fails if one
  /// does not compile.
  static llvm::Expected<Pool> make(int64_t ranks, uint64_t seed,
                                   llvm::function_ref<int64_t(int64_t)> numPrograms,
                                   bool onHosts = false);

  const std::vector<Compiled> &ofRanks(int64_t ranks) const { return programs.at(ranks); }
  int64_t size() const;

private:
  std::map<int64_t, std::vector<Compiled>> programs;
};

} // namespace ccl::soak
