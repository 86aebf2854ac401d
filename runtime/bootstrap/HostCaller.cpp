//===- HostCaller.cpp -------------------------------------------------------===//
#include "runtime/bootstrap/HostCaller.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

using namespace std::chrono_literals;

/// For one attempt; a host that is not there says nothing.
constexpr auto patience = 2s;
constexpr size_t mostRosterBytes = 64 << 20;

} // namespace

llvm::Expected<HostMeeting> joinHosts(const HostLinkOptions &options) {
  return HostCaller(options).run();
}

HostCaller::HostCaller(const HostLinkOptions &options)
    : options(options), deadline(begin + options.timeout), where(options.address) {}

llvm::Expected<HostMeeting> HostCaller::run() {
  auto resolved = resolve(options.address, deadline);
  if (!resolved)
    return resolved.takeError();
  addresses = std::move(*resolved);
  while (!done) {
    if (llvm::Error error = connect())
      return error;
    if (llvm::Error error = talk())
      return error;
    std::vector<pollfd> nothing;
    if (!done)
      pollUntil(nothing, Clock::now() + 5ms);
  }
  meeting.streams.push_back(std::move(stream));
  return std::move(meeting);
}

/// Tries until somebody listens. Rank 0 may come much later than we do.
llvm::Error HostCaller::connect() {
  auto pause = 1ms;
  while (true) {
    for (const HostAddress &address : addresses) {
      HostAttempt attempt = connectTo(address, std::min(deadline, Clock::now() + patience));
      if (attempt.socket) {
        if (address.text() != options.address)
          where = fmt::format("{} ({})", options.address, address.text());
        stream = std::make_unique<HostStream>(std::move(attempt.socket));
        wasConnected = true;
        refusedSince.reset();
        return llvm::Error::success();
      }
      if (attempt.error == EMFILE || attempt.error == ENFILE || attempt.error == ENOMEM)
        return makeFailureOf(options.rank, Failure::Machine, "rank {} cannot make a socket: {}{}",
                             options.rank, std::strerror(attempt.error),
                             attempt.error == EMFILE ? " (ulimit -n)" : "");
      lastError = attempt.error;
    }
    const Clock::time_point now = Clock::now();
    if (wasConnected && !refusedSince)
      refusedSince = now;
    if (refusedSince && now - *refusedSince >= hostGrace)
      return makeFailureOf(0, Failure::Machine,
                           "rank 0 ended, or gave up, before it let rank {} in at {}", options.rank,
                           where);
    if (now >= deadline)
      return noRank0();
    std::vector<pollfd> nothing;
    pollUntil(nothing, std::min(now + pause, deadline));
    pause = std::min(pause * 2, 64ms);
  }
}

llvm::Error HostCaller::noRank0() const {
  return makeFailureOf(0, Failure::Timeout,
                       "timed out after {} ms: rank 0 of {} did not come: nobody answers at {}: {}",
                       millisecondsSince(begin), options.ranks, where, std::strerror(lastError));
}

/// One conversation with rank 0: sets `done`, or is to be tried again if it hung up before it knew
/// us (it drops the oldest when too many strangers come).
llvm::Error HostCaller::talk() {
  for (auto step : {&HostCaller::greet, &HostCaller::prove}) {
    llvm::Expected<bool> goesOn = (this->*step)();
    if (!goesOn)
      return goesOn.takeError();
    if (!*goesOn)
      return Clock::now() < deadline ? llvm::Error::success() : lost();
  }
  return waitForRoster();
}

llvm::Expected<bool> HostCaller::greet() {
  llvm::Expected<Greeting> made = makeGreeting(true, options.rank, options.ranks);
  if (!made)
    return made.takeError();
  ours = *made;
  stream->queueBytes({reinterpret_cast<const char *>(&ours), sizeof ours});
  switch (hear(&theirs, sizeof theirs)) {
  case Heard::Closed: return false;
  case Heard::TooLate: return noAnswer();
  case Heard::Whole: break;
  }
  if (!isGreeting(theirs, false))
    return makeFailure(Failure::BadArgument,
                       "what listens at {} is no rank 0 of ccl: choose another port (CCL_ADDRESS)",
                       where);
  return true;
}

llvm::Expected<bool> HostCaller::prove() {
  const Digest proof = proveCaller(options.secret, ours, theirs);
  stream->queueBytes({reinterpret_cast<const char *>(proof.data()), proof.size()});
  Verdict verdict{};
  switch (hear(&verdict, sizeof verdict)) {
  case Heard::Closed: return false;
  case Heard::TooLate: return noAnswer();
  case Heard::Whole: break;
  }
  if (llvm::Error error = judge(verdict))
    return error;
  return true;
}

llvm::Error HostCaller::judge(const Verdict &verdict) {
  if (verdict.kind == Verdict::Refused)
    return makeFailureOf(options.rank, Failure::Mismatch,
                         "rank {} was refused at {}: the secret differs from rank 0's (CCL_SECRET)",
                         options.rank, where);
  if (!isEqual(verdict.proof, proveRank0(options.secret, ours, theirs, verdict)) ||
      (verdict.kind != Verdict::Fits && verdict.kind != Verdict::Failed))
    return makeFailureOf(0, Failure::Mismatch,
                         "what listens at {} does not know the secret of rank {} (CCL_SECRET)",
                         where, options.rank);
  if (verdict.kind == Verdict::Failed)
    return llvm::make_error<RuntimeError>(
        toError(verdict.category, verdict.culprit,
                {verdict.text, strnlen(verdict.text, sizeof verdict.text)}));
  accepted = true;
  Presence presence;
  presence.entry.host = options.host;
  presence.entry.pid = getpid();
  presence.remaining =
      std::max(Milliseconds(0), std::chrono::ceil<Milliseconds>(deadline - Clock::now()));
  stream->queue(Frame::make(FrameType::Present, options.rank,
                            std::make_shared<const std::string>(encodePresent(presence))));
  stream->setLimits(mostRosterBytes, 0);
  return llvm::Error::success();
}

llvm::Error HostCaller::waitForRoster() {
  while (true) {
    (void)stream->flush(); // whether it is broken, reading tells
    switch (stream->receive()) {
    case HostStream::Received::Closed: return lost();
    case HostStream::Received::Partial:
      if (!wait(deadline + hostGrace))
        return noAnswer();
      continue;
    case HostStream::Received::Whole:
      if (stream->frame.header.type == FrameType::Failed)
        if (std::optional<RuntimeError> error = decodeFailed(*stream->frame.body))
          return llvm::make_error<RuntimeError>(*error);
      if (stream->frame.header.type == FrameType::Roster &&
          decodeRoster(*stream->frame.body, options.ranks, meeting)) {
        done = true;
        return llvm::Error::success();
      }
      [[fallthrough]];
    case HostStream::Received::Rubbish:
      return makeFailureOf(0, Failure::Machine, "rank 0 sent an unexpected message");
    }
  }
}

llvm::Error HostCaller::noAnswer() const {
  return makeFailureOf(0, Failure::Timeout, "timed out after {} ms: rank 0 {} at {}",
                       millisecondsSince(begin),
                       accepted ? "let us in and then did not answer" : "does not answer", where);
}

llvm::Error HostCaller::lost() const {
  return makeFailureOf(0, Failure::Machine,
                       "rank 0 ended, or closed its connection, before all had met at {}", where);
}

/// Sends what is queued and reads `n` bytes.
HostCaller::Heard HostCaller::hear(void *to, size_t n) {
  while (true) {
    (void)stream->flush();
    switch (stream->receiveBytes(to, n)) {
    case HostStream::Received::Whole: return Heard::Whole;
    case HostStream::Received::Partial:
      if (!wait(deadline + hostGrace))
        return Heard::TooLate;
      continue;
    default: return Heard::Closed;
    }
  }
}

/// For the stream to be ready. False: too late.
bool HostCaller::wait(Clock::time_point until) {
  const short events = short(POLLIN | (stream->unsentBytes() > 0 ? POLLOUT : 0));
  std::vector<pollfd> one{{stream->get(), events, 0}};
  return pollUntil(one, until) > 0;
}

} // namespace ccl::bootstrap
