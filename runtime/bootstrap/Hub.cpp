//===- Hub.cpp --------------------------------------------------------------===//
#include "runtime/bootstrap/Hub.h"

#include "runtime/Faults.h"
#include "runtime/Log.h"
#include "runtime/bootstrap/Handles.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

using namespace std::chrono_literals;

/// Ranks whose descriptors go into one message: few, because what is under way is limited
/// by RLIMIT_NOFILE for all processes of a user together.
constexpr int64_t batch = 8;
/// A caller that means it says hello at once; a dropped one may come again.
constexpr auto silence = 2s;
/// How long the hub stays to tell latecomers what went wrong.
constexpr auto farewell = 500ms;
constexpr auto crowdedPause = 2ms;

} // namespace

Hub::Hub(const JoinOptions &options, Descriptor arena, int64_t arenaBytes,
         std::vector<Descriptor> sockets)
    : options(options), arena(std::move(arena)), arenaBytes(arenaBytes),
      deadline(begin + options.timeout), byRank(size_t(options.ranks)),
      heard(size_t(options.ranks)) {
  for (Descriptor &socket : sockets) {
    callers.push_back(std::make_unique<Caller>(std::move(socket)));
    callers.back()->rank = int64_t(callers.size());
  }
}

llvm::Expected<Meeting> Hub::run() {
  faults::CloseHook hook([this] {
    if (listener)
      shutdown(listener->get(), SHUT_RDWR);
    for (const std::unique_ptr<Caller> &caller : callers)
      caller->connection.shutDown();
  });
  if (llvm::Error error = prepare())
    fail(std::move(error));
  else if (CCL_FAULT(Connect, 0))
    fail(Failure::Machine, "rank 0 was told to fail at connect", 0);
  advance();
  while (!failure && !(phase == Phase::Closing && allSent())) {
    step(deadline);
    advance();
  }
  if (dropped > 1)
    log::info(log::Subsystem::Init, 0, "{} connections of no rank dropped in all", dropped);
  if (failure)
    return tellAll();
  return makeMeeting();
}

llvm::Error Hub::prepare() {
  llvm::Expected<Descriptor> own = openOwnPidfd();
  if (!own)
    return own.takeError();
  pidfd = std::move(*own);
  const bool listens = callers.empty();
  const int64_t others = options.ranks - 1;
  if (llvm::Error error =
          checkDescriptorLimit(0, options.ranks, (listens ? 3 : 2) * others + (listens ? 4 : 0)))
    return error;
  if (!listens)
    return llvm::Error::success();
  auto opened = Listener::open(options.path);
  if (!opened)
    return opened.takeError();
  listener = std::move(*opened);
  return llvm::Error::success();
}

/// Waits until something happens, and handles all that has.
void Hub::step(Clock::time_point until) {
  std::vector<pollfd> polled;
  std::vector<Caller *> of;
  auto add = [&](int descriptor, short events, Caller *caller) {
    polled.push_back({descriptor, events, 0});
    of.push_back(caller);
  };
  if (listener)
    add(listener->get(), POLLIN, nullptr);
  for (const std::unique_ptr<Caller> &caller : callers) {
    if (caller->gone)
      continue;
    const bool writes = caller->connection.hasUnsent() && !caller->crowded;
    add(caller->connection.get(), short(POLLIN | (writes ? POLLOUT : 0)), caller.get());
    if (caller->pidfd && phase != Phase::Closing && phase != Phase::Failed)
      add(caller->pidfd.get(), POLLIN, caller.get());
    if (caller->crowded)
      until = std::min(until, Clock::now() + crowdedPause);
    if (caller->isUnknown())
      until = std::min(until, caller->since + silence);
  }
  pollUntil(polled, until);
  for (size_t i = 0; i < polled.size(); ++i) {
    Caller *caller = of[i];
    if (!caller) {
      if (polled[i].revents)
        acceptCallers();
      continue;
    }
    if (polled[i].revents && !caller->gone)
      polled[i].fd == caller->pidfd.get() ? closed(*caller) : read(*caller);
  }
  for (const std::unique_ptr<Caller> &caller : callers) {
    caller->crowded = false;
    if (!caller->gone)
      write(*caller);
    if (caller->isUnknown() && Clock::now() - caller->since >= silence)
      drop(*caller, "it said nothing");
  }
  std::erase_if(callers, [](const auto &caller) { return caller->gone && !caller->introduced; });
  checkDeadline();
}

void Hub::acceptCallers() {
  // A flood must not keep us from the others.
  for (int i = 0; i < 256; ++i) {
    Descriptor socket = listener->accept();
    if (socket) {
      welcome(std::move(socket));
      continue;
    }
    const int error = errno;
    const bool isShort = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (isShort &&
        std::any_of(callers.begin(), callers.end(), [](const auto &c) { return c->isUnknown(); }))
      return dropOldest();
    if (error == EMFILE)
      fail(noDescriptorsLeft(0, options.ranks));
    else if (error != EAGAIN)
      fail(Failure::Machine,
           fmt::format("rank 0 cannot accept connections: {}", std::strerror(error)), 0);
    return;
  }
}

/// Takes a connection in, unless it is another user's.
void Hub::welcome(Descriptor socket) {
  const std::optional<PeerIdentity> identity = identityOf(socket.get());
  callers.push_back(std::make_unique<Caller>(std::move(socket)));
  Caller &caller = *callers.back();
  if (!identity || identity->uid != geteuid())
    return drop(caller, identity ? fmt::format("it is of user {}", identity->uid)
                                 : std::string("its user is unknown"));
  read(caller); // most have said hello before we look
  const auto waiting =
      std::count_if(callers.begin(), callers.end(), [](const auto &c) { return c->isUnknown(); });
  if (waiting > 64)
    dropOldest();
}

void Hub::dropOldest() {
  for (const std::unique_ptr<Caller> &caller : callers)
    if (caller->isUnknown())
      return drop(*caller, "too many say nothing");
}

void Hub::drop(Caller &caller, std::string_view why) {
  if (dropped++ == 0)
    log::info(log::Subsystem::Init, 0, "dropped a connection to {}: {}", options.path, why);
  caller.gone = true;
  caller.connection.takeSocket();
}

void Hub::read(Caller &caller) {
  while (!caller.gone) {
    switch (caller.connection.receive()) {
    case Connection::Received::Partial: return;
    case Connection::Received::Closed: return closed(caller);
    case Connection::Received::Rubbish:
      if (caller.isUnknown())
        return drop(caller, "it sent something else than a greeting");
      fail(Failure::Machine,
           fmt::format("{} sent something that is no message", nameRank(caller.rank, caller.pid)),
           caller.rank);
      caller.gone = true;
      return;
    case Connection::Received::Whole: handle(caller); break;
    }
  }
}

void Hub::handle(Caller &caller) {
  const Message &message = caller.connection.message;
  if (!caller.introduced && message.kind == Kind::Hello)
    return introduce(caller);
  if (message.protocol == protocolVersion && message.kind == Kind::Failed) {
    RuntimeError error = toError(message);
    caller.introduced = true; // it waits to hear what all are told
    hear(message.rank);
    return fail(error.category, std::move(error.message), error.culprit);
  }
  if (caller.isUnknown())
    return drop(caller, "its first message is no greeting");
  if (phase == Phase::Failed)
    return; // what it says does not matter any more
  if (message.protocol == protocolVersion && caller.introduced && phase == Phase::Exchanging &&
      message.kind == Kind::Ready) {
    caller.ready = true;
    return;
  }
  fail(Failure::Machine,
       fmt::format("{} sent an unexpected message", nameRank(caller.rank, caller.pid)),
       caller.rank);
  caller.gone = true;
}

/// What in a hello does not fit, as a sentence that names both, or "".
std::string Hub::whatDiffers(const Message &hello) const {
  const std::string version = versionOf(hello);
  if (hello.protocol != protocolVersion || version != CCL_VERSION)
    return fmt::format("rank 0 is ccl {} (protocol {}), rank {} is ccl {} (protocol {})",
                       CCL_VERSION, protocolVersion, hello.rank, version, hello.protocol);
  if (hello.ranks != options.ranks)
    return fmt::format("rank 0 wants {} ranks, rank {} wants {}", options.ranks, hello.rank,
                       hello.ranks);
  if (hello.rank < 1 || hello.rank >= options.ranks)
    return fmt::format("a process says that it is rank {} of {}", hello.rank, options.ranks);
  if (hello.arenaBytes != arenaBytes)
    return fmt::format("rank 0 has an arena of {} bytes, rank {} of {}", arenaBytes, hello.rank,
                       hello.arenaBytes);
  if (hello.slotBytes != options.member.slotBytes)
    return fmt::format("rank 0 has slots of {} bytes (CCL_SLOT_BYTES), rank {} of {}",
                       options.member.slotBytes, hello.rank, hello.slotBytes);
  return "";
}

void Hub::hear(int64_t rank) {
  if (rank >= 0 && rank < options.ranks)
    heard[size_t(rank)] = true;
}

/// Checks a hello and takes its descriptors.
void Hub::introduce(Caller &caller) {
  const Message &hello = caller.connection.message;
  std::vector<Descriptor> handles = std::move(caller.connection.descriptors);
  caller.connection.descriptors.clear();
  const int64_t sure = caller.rank; // of a socket made before fork
  hear(hello.rank);
  if (std::string text = whatDiffers(hello); !text.empty()) {
    caller.introduced = true; // it is to be told
    return fail(Failure::Mismatch, std::move(text));
  }
  caller.introduced = true;
  caller.rank = hello.rank;
  if (sure >= 0 && sure != hello.rank)
    return fail(Failure::Mismatch,
                fmt::format("the socket of rank {} was used by rank {}", sure, hello.rank));
  if (caller.connection.lostDescriptors)
    return fail(noDescriptorsLeft(0, options.ranks));
  const std::optional<pid_t> pid = handles.size() == 2 ? pidOf(handles[1].get()) : std::nullopt;
  if (!pid)
    return fail(Failure::Machine,
                fmt::format("rank {} sent {} descriptors that are not an arena and a pidfd",
                            hello.rank, handles.size()),
                hello.rank);
  const std::string name = nameRank(hello.rank, *pid);
  if (Caller *first = byRank[size_t(hello.rank)])
    return fail(Failure::Mismatch, fmt::format("two processes say that they are rank {}: {} and {}",
                                               hello.rank, first->pid, *pid));
  if (std::string problem = arenaProblem(handles[0].get(), arenaBytes); !problem.empty())
    return fail(Failure::Machine, fmt::format("the arena of {} is refused: {}", name, problem),
                hello.rank);
  caller.arena = std::move(handles[0]);
  caller.pidfd = std::move(handles[1]);
  caller.pid = *pid;
  byRank[size_t(hello.rank)] = &caller;
  caller.connection.queue(makeMessage(Kind::Accepted));
  deadline = std::min(deadline, Clock::now() + Milliseconds(std::clamp<int64_t>(
                                                   hello.remainingMs, 0, 365LL * 86400 * 1000)));
}

/// The caller's socket or process has ended.
void Hub::closed(Caller &caller) {
  caller.gone = true;
  if (phase == Phase::Closing)
    return; // it has all it needs
  if (caller.rank < 0)
    return caller.introduced ? void() : drop(caller, "it hung up");
  if (!caller.introduced)
    return fail(
        Failure::Machine,
        fmt::format("rank {} ended, or closed its connection, before it said a word", caller.rank),
        caller.rank);
  // The socket closes a moment before the process is seen to end.
  fail(Failure::Machine,
       fmt::format("{} {} before all had met", nameRank(caller.rank, caller.pid),
                   hasEnded(caller.pidfd.get(), 100) ? "ended" : "closed its connection"),
       caller.rank);
}

void Hub::write(Caller &caller) {
  while (true) {
    // One batch after the other, so that few descriptors are under way.
    if (phase == Phase::Exchanging && !caller.connection.hasUnsent() &&
        caller.nextPeer < options.ranks)
      queueNextPeers(caller);
    if (!caller.connection.hasUnsent())
      return;
    switch (caller.connection.flush()) {
    case Connection::Sent::All: break;
    case Connection::Sent::Blocked: return;
    case Connection::Sent::Crowded: caller.crowded = true; return;
    case Connection::Sent::Broken: return read(caller); // its last words, then the end
    }
  }
}

void Hub::queueNextPeers(Caller &caller) {
  Message message = makeMessage(Kind::Peers);
  message.first = caller.nextPeer;
  message.count = std::min(batch, options.ranks - caller.nextPeer);
  std::vector<int> handles;
  for (int64_t rank = message.first; rank < message.first + message.count; ++rank) {
    if (rank == caller.rank)
      continue;
    handles.push_back(rank ? byRank[size_t(rank)]->arena.get() : arena.get());
    handles.push_back(rank ? byRank[size_t(rank)]->pidfd.get() : pidfd.get());
  }
  caller.nextPeer += message.count;
  caller.connection.queue(message, std::move(handles));
}

/// Goes to the next phase if this one is over.
void Hub::advance() {
  if (failure)
    return;
  if (phase == Phase::Gathering && std::count(byRank.begin(), byRank.end(), nullptr) == 1) {
    phase = Phase::Exchanging;
    listener.reset();
    if (CCL_FAULT(Exchange, 0))
      return fail(Failure::Machine, "rank 0 was told to fail at exchange", 0);
    for (size_t rank = 1; rank < byRank.size(); ++rank)
      write(*byRank[rank]);
  }
  if (phase == Phase::Exchanging &&
      std::all_of(byRank.begin() + 1, byRank.end(), [](Caller *c) { return c->ready; })) {
    phase = Phase::Closing;
    for (size_t rank = 1; rank < byRank.size(); ++rank)
      byRank[rank]->connection.queue(makeMessage(Kind::Go));
    for (size_t rank = 1; rank < byRank.size(); ++rank)
      write(*byRank[rank]);
  }
}

void Hub::checkDeadline() {
  if (failure || Clock::now() < deadline)
    return;
  std::vector<int64_t> missing, silent;
  bool crowded = false;
  for (int64_t rank = 1; rank < options.ranks; ++rank) {
    Caller *caller = byRank[size_t(rank)];
    if (!caller)
      missing.push_back(rank);
    else if (phase == Phase::Exchanging ? !caller->ready : caller->connection.hasUnsent())
      silent.push_back(rank);
    crowded |= caller && caller->crowded;
  }
  const std::string after = fmt::format("timed out after {} ms: ", millisecondsSince(begin));
  if (!missing.empty())
    return fail(Failure::Timeout,
                fmt::format("{}{} of {} did not come{}", after, nameRanks(missing), options.ranks,
                            listener ? " to " + options.path : ""),
                missing[0]);
  fail(Failure::Timeout,
       fmt::format("{}{} came and then did not answer{}", after, nameRanks(silent),
                   crowded ? "; too many file descriptors are under way: raise RLIMIT_NOFILE "
                             "(ulimit -n)"
                           : ""),
       silent.empty() ? -1 : silent[0]);
}

void Hub::fail(Failure category, std::string text, int64_t culprit) {
  if (!failure)
    failure = std::make_unique<RuntimeError>(category, std::move(text), culprit);
}

void Hub::fail(llvm::Error error) {
  llvm::handleAllErrors(std::move(error),
                        [this](const RuntimeError &e) { fail(e.category, e.message, e.culprit); });
}

bool Hub::allSent() const {
  return std::all_of(callers.begin(), callers.end(),
                     [](const auto &c) { return c->gone || !c->connection.hasUnsent(); });
}

/// Whether every rank that may still come has been told.
bool Hub::allTold() const {
  return allSent() && (!listener || failure->category == Failure::Timeout ||
                       std::count(heard.begin() + 1, heard.end(), false) == 0);
}

/// Tells everybody the failure, also those who come only now.
llvm::Error Hub::tellAll() {
  phase = Phase::Failed;
  const Clock::time_point end = Clock::now() + farewell;
  do {
    for (const std::unique_ptr<Caller> &caller : callers)
      if (!caller->gone && !caller->told && (caller->introduced || caller->rank >= 0)) {
        caller->connection.queue(makeFailed(*failure));
        caller->told = true;
        write(*caller);
      }
    if (allTold())
      break;
    step(end);
  } while (Clock::now() < end);
  return llvm::make_error<RuntimeError>(*failure);
}

Meeting Hub::makeMeeting() {
  Meeting meeting;
  meeting.rank = 0;
  meeting.ranks = options.ranks;
  meeting.peers.resize(size_t(options.ranks));
  meeting.peers[0].arena = std::move(arena);
  for (size_t rank = 1; rank < byRank.size(); ++rank) {
    Caller &caller = *byRank[rank];
    meeting.peers[rank] = {std::move(caller.arena), std::move(caller.pidfd),
                           caller.connection.takeSocket(), caller.pid};
  }
  return meeting;
}

} // namespace ccl::bootstrap
