//===- Choose.cpp ----------------------------------------------------------------------===//
#include "frontend/api/Choose.h"

#include "frontend/api/Border.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl {
inline namespace jit {

std::optional<Error> refuseRequest(const Ranks &ranks, const Request &request) {
  const int64_t size = ranks.count;
  if (!isValid(request.type) || (request.op && !isValid(*request.op)))
    return argumentError(fmt::format("{}: there is no such type or op", name(request.collective)));
  if (request.root < 0 || request.root >= size)
    return argumentError(fmt::format("{}: root {} is outside [0, {})", name(request.collective),
                                     request.root, size));
  return std::nullopt;
}

/// Why `program` does not do what the call says, or nothing.
static std::optional<Error> misfit(const Program::Impl &program, const Request &request,
                                   int64_t size) {
  const Plan &plan = program.loaded->plan();
  const model::Contract &contract = plan.contract;
  auto unlike = [&](std::string what) {
    return argumentError(fmt::format("program {} ({} {} on {} ranks) cannot run {}: {}",
                                     plan.program, contract.str(), name(plan.type), plan.ranks(),
                                     name(request.collective), what));
  };
  const bool bothAllToAll =
      request.collective == Collective::allToAll && model::isAllToAll(contract.collective);
  if (toPublic(contract.collective) != request.collective && !bothAllToAll)
    return unlike("it is for another collective");
  if (plan.ranks() != size)
    return unlike(fmt::format("the communicator has {} ranks", size));
  if (toPublic(plan.type) != request.type && request.collective != Collective::barrier)
    return unlike(fmt::format("the data is {}", name(request.type)));
  if (request.op && toPublic(contract.reduction) != request.op)
    return unlike(fmt::format("the op is {}", name(*request.op)));
  if (model::hasRoot(contract.collective) && contract.root != request.root)
    return unlike(fmt::format("the root is {}", request.root));
  if (request.collective == Collective::permute &&
      !std::equal(contract.targets.begin(), contract.targets.end(), request.targets.begin(),
                  request.targets.end()))
    return unlike("it has other targets");
  return std::nullopt;
}

Result<std::shared_ptr<const Program::Impl>>
generated(const Ranks &ranks, Collective collective, ProgramOptions options, const char *&reason) {
  Result<std::string> algorithm =
      chooseGenerator(collective, options.algorithm, std::string(ranks.setting), reason);
  if (!algorithm)
    return algorithm.error();
  options.algorithm = *algorithm;
  options.ranks = int(ranks.count);
  // What peers cannot read goes through slots.
  if (!ranks.direct)
    options.via = ProgramOptions::Via::staged;
  return cachedProgram(collective, options);
}

Result<Chosen> choose(const Ranks &ranks, const Request &request, const std::string &algorithm,
                      const std::shared_ptr<const Program::Impl> &given) {
  if (given) {
    if (std::optional<Error> error = misfit(*given, request, ranks.count))
      return *error;
    return Chosen{given, "the call"};
  }
  ProgramOptions options;
  options.type = request.type;
  options.op = request.op;
  options.root = request.root;
  options.algorithm = algorithm;
  options.targets.assign(request.targets.begin(), request.targets.end());
  const char *reason = "";
  Result<std::shared_ptr<const Program::Impl>> program =
      generated(ranks, request.collective, std::move(options), reason);
  if (!program)
    return program.error();
  return Chosen{*program, reason};
}

} // namespace jit
} // namespace ccl
