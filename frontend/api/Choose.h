//===- Choose.h - Which program a collective runs ---------------------------------===//
#pragma once

#include "frontend/api/ProgramCache.h"

namespace ccl {
inline namespace jit {

/// What is to be done, however it is.
struct Request {
  Collective collective;
  DataType type = DataType::u8;
  std::optional<Op> op = {};
  int root = 0;
  std::span<const int> targets = {};
};

/// Who does it.
struct Ranks {
  int64_t count;
  bool direct;              ///< they reach each other's memory
  std::string_view setting; ///< CCL_ALGO
};

struct Chosen {
  std::shared_ptr<const Program::Impl> program;
  const char *reason = ""; ///< for CCL_COLL_TRACE
};

/// What makes no sense, whatever program runs; or nothing.
std::optional<Error> refuseRequest(const Ranks &ranks, const Request &request);
/// `given` if it fits, else what the generator makes that is called `algorithm`, or by default.
Result<Chosen> choose(const Ranks &ranks, const Request &request, const std::string &algorithm,
                      const std::shared_ptr<const Program::Impl> &given);
/// The generated program for `ranks`; `reason` says why this generator.
Result<std::shared_ptr<const Program::Impl>> generated(const Ranks &ranks, Collective collective,
                                                       ProgramOptions options, const char *&reason);

} // namespace jit
} // namespace ccl
