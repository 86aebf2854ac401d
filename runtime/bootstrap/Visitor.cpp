//===- Visitor.cpp ----------------------------------------------------------===//
#include "runtime/bootstrap/Visitor.h"

#include "runtime/Faults.h"
#include "runtime/bootstrap/Handles.h"
#include "runtime/bootstrap/Listener.h"

#include <algorithm>

namespace ccl::bootstrap {
namespace {

using namespace std::chrono_literals;

/// Rank 0 knows our deadline and says who is missing; this is for its words to arrive.
constexpr auto grace = 500ms;
constexpr size_t mostDescriptors = 64; ///< of one message of the hub

} // namespace

Visitor::Visitor(const JoinOptions &options, Descriptor arena, int64_t arenaBytes,
                 Descriptor socket)
    : options(options), arena(std::move(arena)), arenaBytes(arenaBytes), byPath(!socket),
      deadline(begin + options.timeout) {
  if (socket)
    connection = std::make_unique<Connection>(std::move(socket), mostDescriptors);
  meeting.rank = options.rank;
  meeting.ranks = options.ranks;
  meeting.peers.resize(size_t(options.ranks));
}

llvm::Expected<Meeting> Visitor::run() {
  faults::CloseHook hook([this] {
    if (connection)
      connection->shutDown();
  });
  llvm::Error problem = prepare();
  while (!done) {
    if (byPath) {
      if (llvm::Error e = connect()) {
        if (!problem)
          return e;
        llvm::consumeError(std::move(e)); // ours came first
        return problem;
      }
    }
    if (problem)
      return tell(std::move(problem));
    if (llvm::Error e = talk())
      return e;
    std::vector<pollfd> nothing;
    if (!done)
      pollUntil(nothing, Clock::now() + 1ms);
  }
  meeting.peers[size_t(options.rank)].arena = std::move(arena);
  meeting.peers[0].socket = connection->takeSocket();
  return std::move(meeting);
}

llvm::Error Visitor::prepare() {
  llvm::Expected<Descriptor> own = openOwnPidfd();
  if (!own)
    return own.takeError();
  pidfd = std::move(*own);
  return checkDescriptorLimit(options.rank, options.ranks, 2 * (options.ranks - 1) + 3);
}

/// Tries until somebody listens. Rank 0 may come much later than we do.
llvm::Error Visitor::connect() {
  auto pause = 1ms;
  while (true) {
    llvm::Expected<Attempt> attempt = connectTo(options.path);
    if (!attempt)
      return attempt.takeError();
    if (attempt->socket) {
      connection = std::make_unique<Connection>(std::move(attempt->socket), mostDescriptors);
      broken = false;
      wasConnected = true;
      refusedSince.reset();
      return llvm::Error::success();
    }
    const Clock::time_point now = Clock::now();
    if (wasConnected && !attempt->busy && !refusedSince)
      refusedSince = now;
    if (refusedSince && now - *refusedSince >= grace)
      return makeFailureOf(0, Failure::Machine,
                           "rank 0 ended, or gave up, before it let rank {} in at {}", options.rank,
                           options.path);
    if (now >= deadline)
      return makeFailureOf(
          0, Failure::Timeout, "timed out after {} ms: rank 0 of {} did not come: {} {}",
          millisecondsSince(begin), options.ranks,
          attempt->busy ? "too many connections wait at" : "nobody listens at", options.path);
    std::vector<pollfd> nothing;
    pollUntil(nothing, std::min(now + pause, deadline));
    pause = std::min(pause * 2, 32ms);
  }
}

Message Visitor::makeHello() const {
  Message hello = makeMessage(Kind::Hello);
  hello.rank = options.rank;
  hello.ranks = options.ranks;
  hello.arenaBytes = arenaBytes;
  hello.slotBytes = options.member.slotBytes;
  hello.remainingMs =
      std::max<int64_t>(0, std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count());
  return hello;
}

/// One conversation with the hub: sets `done`, or is to be tried again if the hub hung up
/// before it knew us (it drops the oldest when too many strangers come).
llvm::Error Visitor::talk() {
  connection->queue(makeHello(), {arena.get(), pidfd.get()});
  sendAll(deadline);
  if (CCL_FAULT(Connect, options.rank))
    return tell(makeFailureOf(options.rank, Failure::Machine, "rank {} was told to fail at connect",
                              options.rank));
  while (!done) {
    const bool sent = sendAll(deadline + grace);
    // Also after a broken send: the hub's last words may be there.
    switch (connection->receive()) {
    case Connection::Received::Whole:
      if (llvm::Error e = handle())
        return e;
      continue;
    case Connection::Received::Rubbish:
      return makeFailureOf(0, Failure::Machine, "rank 0 sent something that is no message");
    case Connection::Received::Closed:
      if (byPath && !accepted && Clock::now() < deadline)
        return llvm::Error::success();
      return lost();
    case Connection::Received::Partial: break;
    }
    if (broken && !waitForMessage(Clock::now() + grace))
      return lost();
    if (!sent || (!broken && !waitForMessage(deadline + grace)))
      return makeFailureOf(0, Failure::Timeout, "timed out after {} ms: rank 0 {}",
                           millisecondsSince(begin),
                           accepted ? "let us in and then did not answer" : "does not answer");
  }
  return llvm::Error::success();
}

llvm::Error Visitor::lost() {
  const int hubPidfd = meeting.peers[0].pidfd.get();
  const char *what = hubPidfd < 0              ? "ended, or closed its connection,"
                     : hasEnded(hubPidfd, 100) ? "ended"
                                               : "closed its connection";
  return makeFailureOf(0, Failure::Machine, "{} {} before all had met",
                       nameRank(0, meeting.peers[0].pid), what);
}

llvm::Error Visitor::handle() {
  const Message &message = connection->message;
  if (message.protocol != protocolVersion)
    return makeFailure(
        Failure::Mismatch, "rank 0 is ccl {} (protocol {}), rank {} is ccl {} (protocol {})",
        versionOf(message), message.protocol, options.rank, CCL_VERSION, protocolVersion);
  switch (message.kind) {
  case Kind::Accepted: accepted = true; return llvm::Error::success();
  case Kind::Peers: return takePeers();
  case Kind::Go:
    if (met != options.ranks)
      break;
    done = true;
    return llvm::Error::success();
  case Kind::Failed: return llvm::make_error<RuntimeError>(toError(message));
  default: break;
  }
  return makeFailureOf(0, Failure::Machine, "rank 0 sent an unexpected message");
}

/// Takes a batch of arenas and pidfds; says Ready after the last.
llvm::Error Visitor::takePeers() {
  const Message &message = connection->message;
  std::vector<Descriptor> handles = std::move(connection->descriptors);
  connection->descriptors.clear();
  if (message.first != met || message.count < 1 || message.count > options.ranks - met)
    return makeFailureOf(0, Failure::Machine, "rank 0 sent an unexpected message");
  if (connection->lostDescriptors)
    return tell(noDescriptorsLeft(options.rank, options.ranks));
  const int64_t end = met + message.count;
  const bool hasOwn = options.rank >= met && options.rank < end;
  if (handles.size() != size_t(2 * (message.count - hasOwn)))
    return tell(makeFailureOf(0, Failure::Machine, "rank 0 sent {} descriptors for {} ranks",
                              handles.size(), message.count - hasOwn));
  for (size_t next = 0; met < end; ++met) {
    if (met == options.rank)
      continue;
    PeerLink &peer = meeting.peers[size_t(met)];
    peer.arena = std::move(handles[next++]);
    peer.pidfd = std::move(handles[next++]);
    const std::optional<pid_t> pid = pidOf(peer.pidfd.get());
    std::string problem = arenaProblem(peer.arena.get(), arenaBytes);
    if (!problem.empty() || !pid)
      return tell(makeFailureOf(met, Failure::Machine, "rank {} refuses what it got of {}: {}",
                                options.rank, nameRank(met, pid.value_or(0)),
                                pid ? "the arena: " + problem : "no pidfd"));
    peer.pid = *pid;
  }
  if (met < options.ranks)
    return llvm::Error::success();
  if (CCL_FAULT(Exchange, options.rank))
    return tell(makeFailureOf(options.rank, Failure::Machine,
                              "rank {} was told to fail at exchange", options.rank));
  connection->queue(makeMessage(Kind::Ready));
  return llvm::Error::success();
}

/// Tells rank 0 what is wrong here and answers with what it tells everybody.
llvm::Error Visitor::tell(llvm::Error problem) {
  llvm::Error answer = llvm::Error::success();
  llvm::handleAllErrors(std::move(problem), [&](const RuntimeError &own) {
    const Clock::time_point end = Clock::now() + grace;
    Message message = makeFailed(own);
    message.rank = options.rank;
    connection->queue(message);
    sendAll(end);
    RuntimeError told = own;
    while (true) {
      const Connection::Received received = connection->receive();
      const bool whole = received == Connection::Received::Whole;
      if (whole && connection->message.protocol == protocolVersion &&
          connection->message.kind == Kind::Failed) {
        told = toError(connection->message);
        break;
      }
      if (!whole && (received != Connection::Received::Partial || !waitForMessage(end)))
        break;
    }
    answer = llvm::joinErrors(std::move(answer), llvm::make_error<RuntimeError>(told));
  });
  return answer;
}

bool Visitor::waitForMessage(Clock::time_point until) {
  std::vector<pollfd> one{{connection->get(), POLLIN, 0}};
  return pollUntil(one, until) > 0;
}

/// False: it did not get through in time. A broken connection counts as sent, reading tells.
bool Visitor::sendAll(Clock::time_point until) {
  while (connection->hasUnsent() && !broken) {
    switch (connection->flush()) {
    case Connection::Sent::All: return true;
    case Connection::Sent::Broken: return broken = true;
    case Connection::Sent::Blocked: break;
    case Connection::Sent::Crowded: {
      std::vector<pollfd> nothing;
      pollUntil(nothing, std::min(until, Clock::now() + 2ms));
      break;
    }
    }
    if (Clock::now() >= until)
      return false;
    std::vector<pollfd> one{{connection->get(), POLLOUT, 0}};
    pollUntil(one, until);
  }
  return true;
}

} // namespace ccl::bootstrap
