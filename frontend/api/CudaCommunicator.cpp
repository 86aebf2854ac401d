//===- CudaCommunicator.cpp - Ranks on GPUs ---------------------------------------------===//
#include <ccl/cuda.h>

#include "frontend/api/Border.h"
#include "frontend/api/Choose.h"
#include "frontend/api/State.h"
#include "runtime/Settings.h"
#include "runtime/cuda/CudaGroup.h"
#include "runtime/cuda/DeviceArch.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {

struct [[gnu::visibility("hidden")]] CudaCommunicator::Impl {
  const cuda::Driver &driver;
  std::unique_ptr<cuda::CudaGroup> group;
  std::string arch, algorithm;
  Milliseconds timeout;
  Turns turns;

  static std::optional<Error> refuse(const std::shared_ptr<Impl> &impl,
                                     Milliseconds timeout = Milliseconds(0)) {
    if (!impl)
      return argumentError("the communicator was moved to another object");
    return refuseTimeout(timeout);
  }
  Milliseconds limit(Milliseconds wanted) const { return wanted.count() ? wanted : timeout; }
  Ranks ranks() const { return {group->ranks(), true, algorithm}; }
};

namespace {

/// What every communicator of GPUs begins with.
struct Opening {
  Settings settings;
  const cuda::Driver *driver = nullptr;
  cuda::CudaGroupOptions options;
  std::string arch;
};

Result<Opening> prepareOpening(int device, const CudaOptions &options) {
  llvm::Expected<Settings> settings = Settings::fromEnvironment();
  if (!settings)
    return toError(settings.takeError());
  if (std::optional<Error> error = refuseTimeout(options.timeout))
    return *error;
  if (options.instances < 0)
    return argumentError(fmt::format("{} instances: a power of two, or 0", options.instances));
  llvm::Expected<const cuda::Driver *> driver = cuda::Driver::get();
  if (!driver)
    return toError(driver.takeError());
  Opening opening{std::move(*settings), *driver, {}, {}};
  opening.options.slotBytes = opening.settings.bytes(Setting::SlotBytes);
  opening.options.instances =
      options.instances > 0 ? options.instances
                            : std::max<int64_t>(0, opening.settings.number(Setting::CudaInstances));
  opening.options.checked = options.checked;
  cuda::CUdevice handle = 0;
  if (llvm::Error e =
          (*driver)->check((*driver)->cuDeviceGet(&handle, device), "find GPU {}", device))
    return argumentError(llvm::toString(std::move(e)));
  llvm::Expected<std::string> arch = cuda::deviceArch(**driver, handle);
  if (!arch)
    return toError(arch.takeError());
  opening.arch = *arch;
  return opening;
}

/// The counts of the ranks of this process, as CudaLaunchOptions wants them.
Result<std::vector<UnevenCounts>> unevenCounts(int64_t size, size_t here,
                                               std::span<const int64_t> counts,
                                               std::span<const int64_t> receives) {
  const size_t rows = receives.empty() ? 1 : here;
  if (counts.size() != rows * size_t(size) ||
      (!receives.empty() && receives.size() != counts.size()))
    return argumentError(
        fmt::format("uneven shards of {} ranks: {} counts{}", size, counts.size(),
                    receives.empty() ? "" : fmt::format(" and {} to receive", receives.size())));
  std::vector<UnevenCounts> result(rows);
  for (size_t r = 0; r < rows; ++r) {
    const auto cut = [&](std::span<const int64_t> all) {
      return all.empty() ? all : all.subspan(r * size_t(size), size_t(size));
    };
    const auto sent = cut(counts), received = cut(receives);
    result[r].counts.assign(sent.begin(), sent.end());
    result[r].receives.assign(received.begin(), received.end());
  }
  return result;
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Result<CudaCommunicator> CudaCommunicator::open(Communicator &host, int device,
                                                const CudaOptions &options) {
  return guarded([&]() -> Result<CudaCommunicator> {
    if (std::optional<Error> error = Communicator::Impl::refuse(host.impl, options.timeout))
      return *error;
    const Milliseconds timeout = host.impl->limit(options.timeout);
    Turn turn(host.impl->turns);
    auto member = host.impl->member->duplicate(timeout);
    if (!member)
      return toError(member.takeError());
    Result<Opening> opening = prepareOpening(device, options);
    if (!opening) { // the others need not wait
      (*member)->abort(opening.error().message);
      return opening.error();
    }
    auto group = cuda::CudaGroup::join(*opening->driver, std::move(*member), device,
                                       opening->options, timeout);
    if (!group)
      return toError(group.takeError());
    return CudaCommunicator(std::shared_ptr<Impl>(new Impl{
        *opening->driver, std::move(*group), opening->arch, host.impl->algorithm, timeout, {}}));
  });
}

Result<CudaCommunicator> CudaCommunicator::openLocal(int ranks, std::span<const int> devices,
                                                     const CudaOptions &options) {
  return guarded([&]() -> Result<CudaCommunicator> {
    if (devices.empty())
      return argumentError("a communicator of GPUs needs one at least");
    Result<Opening> opening = prepareOpening(devices.front(), options);
    if (!opening)
      return opening.error();
    auto group = cuda::CudaGroup::create(*opening->driver, ranks, {devices.data(), devices.size()},
                                         opening->options);
    if (!group)
      return toError(group.takeError());
    const Settings &settings = opening->settings;
    Milliseconds timeout = options.timeout;
    if (timeout.count() == 0)
      timeout = settings.source(Setting::Timeout) == "env" ? settings.duration(Setting::Timeout)
                                                           : Milliseconds(std::chrono::minutes(10));
    return CudaCommunicator(std::shared_ptr<Impl>(new Impl{*opening->driver,
                                                           std::move(*group),
                                                           opening->arch,
                                                           settings.text(Setting::Algo),
                                                           timeout,
                                                           {}}));
  });
}

CudaCommunicator::CudaCommunicator(CudaCommunicator &&) noexcept = default;
CudaCommunicator &CudaCommunicator::operator=(CudaCommunicator &&) noexcept = default;
CudaCommunicator::~CudaCommunicator() = default;

int CudaCommunicator::size() const { return impl ? int(impl->group->ranks()) : 0; }
std::vector<int> CudaCommunicator::ranks() const {
  if (!impl)
    return {};
  const std::vector<int64_t> local = impl->group->localRanks();
  return {local.begin(), local.end()};
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

struct CudaCommunicator::Caller {
  struct Counts {
    int64_t count = 0;
    std::span<const int64_t> shards{}, receives{};
  };

  static Status run(CudaCommunicator &self, const Request &request, CudaBuffers buffers,
                    const Counts &counts, const CudaCall &call) {
    return guarded([&]() -> Status {
      if (std::optional<Error> error = Impl::refuse(self.impl, call.timeout))
        return *error;
      const Ranks ranks = self.impl->ranks();
      if (std::optional<Error> error = refuseRequest(ranks, request))
        return *error;
      Result<Chosen> chosen =
          choose(ranks, request, call.algorithm, call.program ? call.program->impl : nullptr);
      if (!chosen)
        return chosen.error();
      return launch(*self.impl, *chosen, buffers, counts, call);
    });
  }

  static Status launch(Impl &impl, const Chosen &chosen, CudaBuffers buffers, const Counts &counts,
                       const CudaCall &call) {
    Result<std::shared_ptr<cuda::LoadedCudaProgram>> program =
        chosen.program->onGpus(impl.driver, impl.arch);
    if (!program)
      return program.error();
    std::vector<cuda::CudaLaunchArgs> args;
    for (const CudaBuffer &buffer : buffers.get())
      args.push_back({buffer.in, buffer.out});
    std::vector<UnevenCounts> uneven;
    if (!counts.shards.empty()) {
      Result<std::vector<UnevenCounts>> made =
          unevenCounts(impl.group->ranks(), args.size(), counts.shards, counts.receives);
      if (!made)
        return made.error();
      uneven = std::move(*made);
    }
    std::vector<cuda::CUstream> streams;
    for (void *stream : call.streams)
      streams.push_back(static_cast<cuda::CUstream>(stream));
    if (streams.empty() && call.stream)
      streams.push_back(static_cast<cuda::CUstream>(*call.stream));
    cuda::CudaLaunchOptions options;
    options.count = counts.count;
    options.uneven = uneven;
    options.streams = streams;
    options.timeout = impl.limit(call.timeout);
    options.reason = chosen.reason;
    Turn turn(impl.turns);
    if (llvm::Error error = impl.group->launch(*program, args, options))
      return toError(std::move(error));
    return {};
  }

  static Status launch(CudaCommunicator &self, const Program &program, CudaBuffers buffers,
                       int64_t count, const CudaCall &call) {
    return guarded([&]() -> Status {
      if (std::optional<Error> error = Impl::refuse(self.impl, call.timeout))
        return *error;
      return launch(*self.impl, {program.impl, "the call"}, buffers, {count}, call);
    });
  }
};

Status CudaCommunicator::allReduce(CudaBuffers buffers, int64_t count, DataType type, Op op,
                                   const CudaCall &call) {
  return Caller::run(*this, {Collective::allReduce, type, op}, buffers, {count}, call);
}
Status CudaCommunicator::allGather(CudaBuffers buffers, int64_t count, DataType type,
                                   const CudaCall &call) {
  return Caller::run(*this, {Collective::allGather, type, {}}, buffers, {count}, call);
}
Status CudaCommunicator::reduceScatter(CudaBuffers buffers, int64_t count, DataType type, Op op,
                                       const CudaCall &call) {
  return Caller::run(*this, {Collective::reduceScatter, type, op}, buffers, {count}, call);
}
Status CudaCommunicator::broadcast(CudaBuffers buffers, int64_t count, DataType type, int root,
                                   const CudaCall &call) {
  return Caller::run(*this, {Collective::broadcast, type, {}, root}, buffers, {count}, call);
}
Status CudaCommunicator::reduce(CudaBuffers buffers, int64_t count, DataType type, Op op, int root,
                                const CudaCall &call) {
  return Caller::run(*this, {Collective::reduce, type, op, root}, buffers, {count}, call);
}
Status CudaCommunicator::gather(CudaBuffers buffers, int64_t count, DataType type, int root,
                                const CudaCall &call) {
  return Caller::run(*this, {Collective::gather, type, {}, root}, buffers, {count}, call);
}
Status CudaCommunicator::scatter(CudaBuffers buffers, int64_t count, DataType type, int root,
                                 const CudaCall &call) {
  return Caller::run(*this, {Collective::scatter, type, {}, root}, buffers, {count}, call);
}
Status CudaCommunicator::allToAll(CudaBuffers buffers, int64_t count, DataType type,
                                  const CudaCall &call) {
  return Caller::run(*this, {Collective::allToAll, type, {}}, buffers, {count}, call);
}
Status CudaCommunicator::allGatherV(CudaBuffers buffers, std::span<const int64_t> counts,
                                    DataType type, const CudaCall &call) {
  return Caller::run(*this, {Collective::allGather, type, {}}, buffers, {0, counts}, call);
}
Status CudaCommunicator::reduceScatterV(CudaBuffers buffers, std::span<const int64_t> counts,
                                        DataType type, Op op, const CudaCall &call) {
  return Caller::run(*this, {Collective::reduceScatter, type, op}, buffers, {0, counts}, call);
}
Status CudaCommunicator::gatherV(CudaBuffers buffers, std::span<const int64_t> counts,
                                 DataType type, int root, const CudaCall &call) {
  return Caller::run(*this, {Collective::gather, type, {}, root}, buffers, {0, counts}, call);
}
Status CudaCommunicator::scatterV(CudaBuffers buffers, std::span<const int64_t> counts,
                                  DataType type, int root, const CudaCall &call) {
  return Caller::run(*this, {Collective::scatter, type, {}, root}, buffers, {0, counts}, call);
}
Status CudaCommunicator::allToAllV(CudaBuffers buffers, std::span<const int64_t> sends,
                                   std::span<const int64_t> receives, DataType type,
                                   const CudaCall &call) {
  return Caller::run(*this, {Collective::allToAll, type, {}}, buffers, {0, sends, receives}, call);
}
Status CudaCommunicator::launch(const Program &program, CudaBuffers buffers, int64_t count,
                                const CudaCall &call) {
  return Caller::launch(*this, program, buffers, count, call);
}

//===----------------------------------------------------------------------===//
// Memory, waiting and failing
//===----------------------------------------------------------------------===//

static Result<CudaMemory> toMemory(llvm::Expected<SymmetricBuffer> buffer) {
  if (!buffer)
    return toError(buffer.takeError());
  return CudaMemory{buffer->local, size_t(buffer->bytes), std::move(buffer->peers)};
}

static Error onlyProcesses() {
  return argumentError("symmetric memory is for ranks in several processes: those of one process "
                       "reach each other's");
}

Result<CudaMemory> CudaCommunicator::allocate(size_t bytes, std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<CudaMemory> {
    if (std::optional<Error> error = Impl::refuse(impl, timeout))
      return *error;
    if (!impl->group->processes())
      return onlyProcesses();
    Turn turn(impl->turns);
    return toMemory(
        impl->group->allocate(int64_t(std::min<size_t>(bytes, INT64_MAX)), impl->limit(timeout)));
  });
}

Result<CudaMemory> CudaCommunicator::registerBuffer(void *data, size_t bytes,
                                                    std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<CudaMemory> {
    if (std::optional<Error> error = Impl::refuse(impl, timeout))
      return *error;
    if (!impl->group->processes())
      return onlyProcesses();
    Turn turn(impl->turns);
    return toMemory(impl->group->registerBuffer(data, int64_t(std::min<size_t>(bytes, INT64_MAX)),
                                                impl->limit(timeout)));
  });
}

Status CudaCommunicator::synchronize() {
  return guarded([&]() -> Status {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    Turn turn(impl->turns);
    if (llvm::Error error = impl->group->synchronize())
      return toError(std::move(error));
    return {};
  });
}

void CudaCommunicator::abort(std::string_view reason) {
  if (!impl)
    return;
  abortEngine(*impl->group, reason);
}

std::optional<Error> CudaCommunicator::failure() const {
  Status found = guarded([&]() -> Status {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    return failureOf(*impl->group);
  });
  return found ? std::nullopt : std::optional(found.error());
}

} // namespace jit
} // namespace ccl
