//===- Communicator.cpp - Opening, splitting and ending communicators ----------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/State.h"

#include "runtime/Settings.h"
#include "runtime/hosts/HostOptions.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {

std::optional<Error> Communicator::Impl::refuse(const std::shared_ptr<Impl> &impl,
                                                Milliseconds timeout) {
  if (!impl)
    return argumentError("the communicator was moved to another object");
  return refuseTimeout(timeout);
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

/// The environment; the first call sets the log up.
static Result<Settings> readSettings() {
  llvm::Expected<Settings> settings = Settings::fromEnvironment();
  if (!settings)
    return toError(settings.takeError());
  static std::once_flag reported;
  std::call_once(reported, [&] { settings->report(); });
  return std::move(*settings);
}

/// `wanted`, or what the environment or this interface has for it.
static Milliseconds timeoutOf(Milliseconds wanted, const Settings &settings) {
  constexpr std::chrono::minutes usual(10);
  if (wanted.count())
    return wanted;
  return settings.source(Setting::Timeout) == "env" ? settings.duration(Setting::Timeout) : usual;
}

static MemberOptions memberOptions(const Settings &settings) {
  MemberOptions options;
  options.slotBytes = settings.bytes(Setting::SlotBytes);
  options.flightRecorder = settings.text(Setting::FlightRecorder);
  return options;
}

static std::optional<Error> fill(JoinOptions &join, const OpenOptions &options,
                                 const Settings &settings) {
  join.rank = options.rank >= 0 ? options.rank : settings.number(Setting::Rank);
  join.ranks = options.size != 0 ? options.size : settings.number(Setting::Size);
  if (join.rank < 0)
    return argumentError("which rank is this process? Neither an option nor CCL_RANK says it");
  if (join.ranks < 0 && options.size == 0)
    return argumentError("how many ranks are there? Neither an option nor CCL_SIZE says it");
  if (join.ranks < 1 || join.rank >= join.ranks)
    return argumentError(
        fmt::format("rank {} of {}: ranks are 0 to size - 1", join.rank, join.ranks));
  join.sockets = options.sockets;
  join.path = options.socket;
  join.address = options.address;
  if (join.sockets.empty() && join.path.empty() && join.address.empty() &&
      settings.text(Setting::Address).empty())
    join.path = settings.text(Setting::Socket);
  if (llvm::Error e = fillHostOptions(settings, join))
    return toError(std::move(e));
  if (join.sockets.empty() && join.path.empty() && join.address.empty() && join.ranks > 1)
    return argumentError("where do the processes meet? Neither an option nor CCL_SOCKET names "
                         "a socket, nor does CCL_ADDRESS say where rank 0 listens");
  return std::nullopt;
}

Result<Communicator> Communicator::open(const OpenOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings();
    if (!settings)
      return settings.error();
    JoinOptions join;
    if (std::optional<Error> error = refuseTimeout(options.timeout))
      return *error;
    if (std::optional<Error> error = fill(join, options, *settings))
      return *error;
    join.timeout = timeoutOf(options.timeout, *settings);
    join.member = memberOptions(*settings);
    const Milliseconds timeout = join.timeout;
    llvm::Expected<std::unique_ptr<Member>> member = Member::join(std::move(join));
    if (!member)
      return toError(member.takeError());
    return Communicator(
        std::make_shared<Impl>(std::move(*member), timeout, settings->text(Setting::Algo)));
  });
}

Result<std::vector<Communicator>> Communicator::openThreads(int size, const OpenOptions &options) {
  return guarded([&]() -> Result<std::vector<Communicator>> {
    Result<Settings> settings = readSettings();
    if (!settings)
      return settings.error();
    if (std::optional<Error> error = refuseTimeout(options.timeout))
      return *error;
    auto members = Member::createThreads(size, memberOptions(*settings));
    if (!members)
      return toError(members.takeError());
    std::vector<Communicator> ranks;
    for (std::unique_ptr<Member> &member : *members)
      ranks.push_back(Communicator(std::make_shared<Impl>(std::move(member),
                                                          timeoutOf(options.timeout, *settings),
                                                          settings->text(Setting::Algo))));
    return ranks;
  });
}

Communicator::Communicator(Communicator &&) noexcept = default;
Communicator &Communicator::operator=(Communicator &&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return impl ? int(impl->member->rank()) : -1; }
int Communicator::size() const { return impl ? int(impl->member->ranks()) : 0; }
bool Communicator::isDirect() const { return impl && impl->member->isDirect(); }
std::chrono::milliseconds Communicator::timeout() const {
  return impl ? impl->timeout : Milliseconds(0);
}

//===----------------------------------------------------------------------===//
// Others of the same ranks, or of some
//===----------------------------------------------------------------------===//

Result<std::optional<Communicator>> Communicator::split(int color, int key,
                                                        std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<std::optional<Communicator>> {
    if (std::optional<Error> error = Impl::refuse(impl, timeout))
      return *error;
    Turn turn(impl->turns);
    auto child = impl->member->split(color, key, impl->limit(timeout));
    if (!child)
      return toError(child.takeError());
    if (!*child)
      return std::optional<Communicator>();
    return std::optional(Communicator(std::make_shared<Impl>(std::move(*child), *impl)));
  });
}

Result<Communicator> Communicator::dup(std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<Communicator> {
    Result<std::optional<Communicator>> copy = split(0, rank(), timeout);
    if (!copy)
      return copy.error();
    return std::move(**copy);
  });
}

Result<Communicator> Communicator::rebuild(std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<Communicator> {
    if (std::optional<Error> error = Impl::refuse(impl, timeout))
      return *error;
    Turn turn(impl->turns);
    auto next = impl->member->rebuild(impl->limit(timeout));
    if (!next)
      return toError(next.takeError());
    return Communicator(std::make_shared<Impl>(std::move(*next), *impl));
  });
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

void Communicator::abort(std::string_view reason) {
  if (!impl)
    return;
  abortEngine(*impl->member, reason);
}

std::optional<Error> Communicator::failure() const {
  Status found = guarded([&]() -> Status {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    return failureOf(*impl->member);
  });
  return found ? std::nullopt : std::optional(found.error());
}

} // namespace jit
} // namespace ccl
