//===- Collectives.cpp - From a call to a launch -------------------------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/Choose.h"
#include "frontend/api/State.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {
namespace {

using Impl = Communicator::Impl;

struct Buffers {
  const void *in = nullptr;
  void *out = nullptr;
  int64_t count = 0;
  std::optional<UnevenCounts> uneven = {};
};

Ranks ranksOf(const Impl &impl) {
  return {impl.member->ranks(), impl.member->isDirect(), impl.algorithm};
}

Status execute(const Impl &impl, const Chosen &chosen, const Buffers &buffers,
               Milliseconds timeout) {
  LaunchArgs args;
  args.in = buffers.in;
  args.out = buffers.out;
  args.count = buffers.count;
  args.uneven = buffers.uneven ? &*buffers.uneven : nullptr;
  args.timeout = timeout;
  args.reason = chosen.reason;
  if (llvm::Error error = impl.member->launch(chosen.program->loaded, args))
    return toError(std::move(error));
  return {};
}

/// At once, or by the stream; in its turn.
Status dispatch(const std::shared_ptr<Impl> &impl, Stream::Impl *stream, Chosen chosen,
                Buffers buffers, const Call &call) {
  const Milliseconds timeout = impl->limit(call.timeout);
  if (!stream) {
    Turn turn(impl->turns);
    return execute(*impl, chosen, buffers, timeout);
  }
  if (stream->communicator != impl)
    return argumentError("the stream is one of another communicator");
  stream->call([impl = impl.get(), chosen = std::move(chosen), buffers = std::move(buffers),
                timeout] { return execute(*impl, chosen, buffers, timeout); });
  return {};
}

/// The buffers of an uneven call; throws if there is no memory for the counts.
Buffers unevenBuffers(const void *in, void *out, std::span<const int64_t> counts,
                      std::span<const int64_t> receives) {
  UnevenCounts uneven{{counts.begin(), counts.end()}, {receives.begin(), receives.end()}};
  return {in, out, 0, std::move(uneven)};
}

} // namespace

/// What every method below does; a friend's way to the insides of the handles.
struct Communicator::Caller {
  static Status run(Communicator &self, const Request &request, Buffers buffers, const Call &call) {
    return guarded([&]() -> Status {
      if (std::optional<Error> error = refuse(self, call))
        return *error;
      if (std::optional<Error> error = refuseRequest(ranksOf(*self.impl), request))
        return *error;
      Result<Chosen> chosen = choose(ranksOf(*self.impl), request, call.algorithm,
                                     call.program ? call.program->impl : nullptr);
      if (!chosen)
        return chosen.error();
      return dispatch(self.impl, streamOf(call), std::move(*chosen), std::move(buffers), call);
    });
  }

  static Status runV(Communicator &self, const Request &request, const void *in, void *out,
                     std::span<const int64_t> counts, std::span<const int64_t> receives,
                     const Call &call) {
    return guarded(
        [&] { return run(self, request, unevenBuffers(in, out, counts, receives), call); });
  }

  static Status launch(Communicator &self, const Program &program, Buffers buffers,
                       const Call &call) {
    return guarded([&]() -> Status {
      if (std::optional<Error> error = refuse(self, call))
        return *error;
      const Plan &plan = program.impl->loaded->plan();
      if (plan.ranks() != self.impl->member->ranks())
        return argumentError(fmt::format("program {} is for {} ranks, the communicator has {}",
                                         plan.program, plan.ranks(), self.impl->member->ranks()));
      return dispatch(self.impl, streamOf(call), {program.impl, "the call"}, std::move(buffers),
                      call);
    });
  }

  static std::optional<Error> refuse(const Communicator &self, const Call &call) {
    if (call.stream)
      if (std::optional<Error> error = Stream::Impl::refuse(call.stream->impl))
        return error;
    return Impl::refuse(self.impl, call.timeout);
  }

  static Stream::Impl *streamOf(const Call &call) {
    return call.stream ? call.stream->impl.get() : nullptr;
  }
};

//===----------------------------------------------------------------------===//
// Even shards
//===----------------------------------------------------------------------===//

Status Communicator::allReduce(const void *in, void *out, int64_t count, DataType type, Op op,
                               const Call &call) {
  return Caller::run(*this, {Collective::allReduce, type, op}, {in, out, count}, call);
}
Status Communicator::allGather(const void *in, void *out, int64_t count, DataType type,
                               const Call &call) {
  return Caller::run(*this, {Collective::allGather, type, {}}, {in, out, count}, call);
}
Status Communicator::reduceScatter(const void *in, void *out, int64_t count, DataType type, Op op,
                                   const Call &call) {
  return Caller::run(*this, {Collective::reduceScatter, type, op}, {in, out, count}, call);
}
Status Communicator::broadcast(const void *in, void *out, int64_t count, DataType type, int root,
                               const Call &call) {
  return Caller::run(*this, {Collective::broadcast, type, {}, root}, {in, out, count}, call);
}
Status Communicator::reduce(const void *in, void *out, int64_t count, DataType type, Op op,
                            int root, const Call &call) {
  return Caller::run(*this, {Collective::reduce, type, op, root}, {in, out, count}, call);
}
Status Communicator::gather(const void *in, void *out, int64_t count, DataType type, int root,
                            const Call &call) {
  return Caller::run(*this, {Collective::gather, type, {}, root}, {in, out, count}, call);
}
Status Communicator::scatter(const void *in, void *out, int64_t count, DataType type, int root,
                             const Call &call) {
  return Caller::run(*this, {Collective::scatter, type, {}, root}, {in, out, count}, call);
}
Status Communicator::allToAll(const void *in, void *out, int64_t count, DataType type,
                              const Call &call) {
  return Caller::run(*this, {Collective::allToAll, type, {}}, {in, out, count}, call);
}
Status Communicator::permute(const void *in, void *out, int64_t count, DataType type,
                             std::span<const int> targets, const Call &call) {
  return guarded([&]() -> Status {
    if (targets.empty())
      return argumentError("permute needs one target for each rank");
    return Caller::run(*this, {Collective::permute, type, {}, 0, targets}, {in, out, count}, call);
  });
}
Status Communicator::barrier(const Call &call) {
  return Caller::run(*this, {Collective::barrier}, {}, call);
}

//===----------------------------------------------------------------------===//
// Uneven shards
//===----------------------------------------------------------------------===//

Status Communicator::allGatherV(const void *in, void *out, std::span<const int64_t> counts,
                                DataType type, const Call &call) {
  return Caller::runV(*this, {Collective::allGather, type, {}}, in, out, counts, {}, call);
}
Status Communicator::reduceScatterV(const void *in, void *out, std::span<const int64_t> counts,
                                    DataType type, Op op, const Call &call) {
  return Caller::runV(*this, {Collective::reduceScatter, type, op}, in, out, counts, {}, call);
}
Status Communicator::gatherV(const void *in, void *out, std::span<const int64_t> counts,
                             DataType type, int root, const Call &call) {
  return Caller::runV(*this, {Collective::gather, type, {}, root}, in, out, counts, {}, call);
}
Status Communicator::scatterV(const void *in, void *out, std::span<const int64_t> counts,
                              DataType type, int root, const Call &call) {
  return Caller::runV(*this, {Collective::scatter, type, {}, root}, in, out, counts, {}, call);
}
Status Communicator::allToAllV(const void *in, std::span<const int64_t> sends, void *out,
                               std::span<const int64_t> receives, DataType type, const Call &call) {
  return Caller::runV(*this, {Collective::allToAll, type, {}}, in, out, sends, receives, call);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Status Communicator::launch(const Program &program, const void *in, void *out, int64_t count,
                            const Call &call) {
  return Caller::launch(*this, program, {in, out, count}, call);
}
Status Communicator::launchV(const Program &program, const void *in, void *out,
                             std::span<const int64_t> counts, std::span<const int64_t> receives,
                             const Call &call) {
  return guarded([&] {
    return Caller::launch(*this, program, unevenBuffers(in, out, counts, receives), call);
  });
}

Result<Program> Communicator::program(Collective collective, ProgramOptions options) {
  return guarded([&]() -> Result<Program> {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    if (!isValid(collective))
      return argumentError("there is no such collective");
    const char *reason = "";
    return Program::Impl::handle(generated(ranksOf(*impl), collective, std::move(options), reason));
  });
}

} // namespace jit
} // namespace ccl
