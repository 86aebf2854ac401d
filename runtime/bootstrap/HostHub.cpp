//===- HostHub.cpp ----------------------------------------------------------===//
#include "runtime/bootstrap/HostHub.h"

#include "runtime/Log.h"
#include "runtime/Memory.h"
#include "runtime/bootstrap/Handles.h"
#include "runtime/bootstrap/HostAddress.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

/// Callers that have not proved themselves yet.
constexpr int64_t mostUnknown = 256;

} // namespace

llvm::Expected<HostMeeting> gatherHosts(const HostLinkOptions &options) {
  return HostHub(options).run();
}

HostHub::HostHub(const HostLinkOptions &options)
    : options(options), deadline(begin + options.timeout), byRank(size_t(options.ranks)),
      heard(size_t(options.ranks)) {}

llvm::Expected<HostMeeting> HostHub::run() {
  if (llvm::Error error = prepare())
    return error;
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

llvm::Error HostHub::prepare() {
  if (!fillRandom(&job, sizeof job))
    return makeFailure(Failure::Machine, "no random numbers: {}", std::strerror(errno));
  if (llvm::Error error = checkDescriptorLimit(0, options.ranks, options.ranks + 4))
    return error;
  auto addresses = resolve(options.address, deadline);
  if (!addresses)
    return addresses.takeError();
  llvm::Expected<Descriptor> made = listenAt(*addresses, options.address);
  if (!made)
    return made.takeError();
  listener = std::move(*made);
  ownAddress = HostAddress::ofSocket(listener.get()).host();
  return llvm::Error::success();
}

/// Waits until something happens, and handles all that has.
void HostHub::step(Clock::time_point until) {
  std::vector<pollfd> polled;
  std::vector<Caller *> of;
  if (listener) {
    polled.push_back({listener.get(), POLLIN, 0});
    of.push_back(nullptr);
  }
  for (const std::unique_ptr<Caller> &caller : callers) {
    if (caller->gone)
      continue;
    const bool writes = caller->stream.unsentBytes() > 0;
    polled.push_back({caller->stream.get(), short(POLLIN | (writes ? POLLOUT : 0)), 0});
    of.push_back(caller.get());
    if (caller->isUnknown() || caller->stage == Stage::End)
      until = std::min(until, caller->since + hostSilence);
  }
  pollUntil(polled, until);
  for (size_t i = 0; i < polled.size(); ++i) {
    if (!polled[i].revents)
      continue;
    if (!of[i])
      acceptCallers();
    else if (!of[i]->gone)
      read(*of[i]);
  }
  const Clock::time_point now = Clock::now();
  for (const std::unique_ptr<Caller> &caller : callers) {
    if (!caller->gone)
      write(*caller);
    if (now - caller->since < hostSilence)
      continue;
    if (caller->isUnknown())
      drop(*caller, "it did not say who it is");
    else if (caller->stage == Stage::End)
      caller->gone = true;
  }
  std::erase_if(callers, [](const auto &c) { return c->gone && c->rank < 0; });
  checkDeadline();
}

void HostHub::acceptCallers() {
  // A flood must not keep us from the others.
  for (int i = 0; i < 256; ++i) {
    const int number = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (number >= 0) {
      callers.push_back(std::make_unique<Caller>(Descriptor(number)));
      Caller &caller = *callers.back();
      caller.entry.address = HostAddress::ofPeer(number).host();
      read(caller); // most have said something before we look
      if (std::count_if(callers.begin(), callers.end(),
                        [](const auto &c) { return c->isUnknown(); }) > mostUnknown)
        dropOldest();
      continue;
    }
    const int error = errno;
    const bool isShort = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (isShort &&
        std::any_of(callers.begin(), callers.end(), [](const auto &c) { return c->isUnknown(); }))
      return dropOldest();
    if (error == EMFILE)
      return fail(noDescriptorsLeft(0, options.ranks));
    if (isShort)
      return fail(Failure::Machine,
                  fmt::format("rank 0 cannot accept connections: {}", std::strerror(error)), 0);
    // What else there is concerns one connection, which is gone again.
    if (error == EAGAIN)
      return;
  }
}

void HostHub::dropOldest() {
  for (const std::unique_ptr<Caller> &caller : callers)
    if (caller->isUnknown())
      return drop(*caller, "too many do not say who they are");
}

void HostHub::drop(Caller &caller, std::string_view why) {
  if (dropped++ == 0)
    log::info(log::Subsystem::Init, 0, "dropped a connection of {} to {}: {}", caller.entry.address,
              options.address, why);
  caller.gone = true;
  caller.stream.close();
}

//===----------------------------------------------------------------------===//
// What callers say
//===----------------------------------------------------------------------===//

void HostHub::read(Caller &caller) {
  using Received = HostStream::Received;
  while (!caller.gone) {
    Received received = Received::Partial;
    switch (caller.stage) {
    case Stage::Greeting:
      received = caller.stream.receiveBytes(&caller.theirs, sizeof caller.theirs);
      if (received == Received::Whole)
        greet(caller);
      break;
    case Stage::Proof:
      received = caller.stream.receiveBytes(caller.proof.data(), caller.proof.size());
      if (received == Received::Whole)
        judge(caller);
      break;
    case Stage::Misfit:
    case Stage::End: received = caller.stream.discard(); break;
    case Stage::Present:
    case Stage::Nothing: return readFrames(caller);
    }
    if (received == Received::Closed)
      return closed(caller);
    if (received != Received::Whole)
      return;
  }
}

void HostHub::readFrames(Caller &caller) {
  using Received = HostStream::Received;
  const Received received = caller.stream.receive();
  if (received == Received::Partial)
    return;
  if (received == Received::Closed)
    return closed(caller);
  const bool isPresent =
      received == Received::Whole && caller.stream.frame.header.type == FrameType::Present;
  if (isPresent && caller.stage == Stage::Present)
    return present(caller);
  fail(Failure::Machine,
       fmt::format("{} sent an unexpected message", nameRank(caller.rank, pid_t(caller.entry.pid))),
       caller.rank);
}

void HostHub::greet(Caller &caller) {
  if (!isGreeting(caller.theirs, true))
    return drop(caller, "it sent something else than a greeting");
  llvm::Expected<Greeting> ours = makeGreeting(false, 0, options.ranks);
  if (!ours)
    return fail(ours.takeError());
  caller.ours = *ours;
  caller.stream.queueBytes({reinterpret_cast<const char *>(&caller.ours), sizeof caller.ours});
  caller.stage = Stage::Proof;
  write(caller);
}

/// It has said its proof. Before this nothing of its greeting may be used.
void HostHub::judge(Caller &caller) {
  if (!isEqual(caller.proof, proveCaller(options.secret, caller.theirs, caller.ours)))
    return refuse(caller);
  const Greeting &theirs = caller.theirs;
  if (theirs.rank >= 0 && theirs.rank < options.ranks)
    heard[size_t(theirs.rank)] = true;
  caller.stage = Stage::Misfit;
  if (std::string text = whatDiffers(theirs); !text.empty())
    return fail(Failure::Mismatch, std::move(text));
  if (Caller *first = byRank[size_t(theirs.rank)])
    return fail(Failure::Mismatch,
                fmt::format("two processes say that they are rank {}: one of {} and one of {}",
                            theirs.rank, first->entry.address, caller.entry.address));
  if (phase == Phase::Failed)
    return;
  caller.rank = theirs.rank;
  byRank[size_t(theirs.rank)] = &caller;
  Verdict verdict{};
  verdict.kind = Verdict::Fits;
  sendVerdict(caller, verdict);
  caller.stream.setLimits(2 * mostHostBytes, 0);
  caller.stage = Stage::Present;
}

void HostHub::refuse(Caller &caller) {
  if (refused++ == 0)
    log::warn(log::Subsystem::Init, 0,
              "refused a process of {} that says it is rank {}: its secret differs from ours "
              "(CCL_SECRET)",
              caller.entry.address, caller.theirs.rank);
  Verdict verdict{};
  verdict.kind = Verdict::Refused;
  caller.stream.queueBytes({reinterpret_cast<const char *>(&verdict), sizeof verdict});
  caller.stage = Stage::End;
  caller.since = Clock::now();
  write(caller);
}

/// What in a greeting does not fit, as a sentence that names both, or "".
std::string HostHub::whatDiffers(const Greeting &greeting) const {
  const std::string version = versionOf(greeting);
  if (greeting.protocol != hostProtocol || version != CCL_VERSION)
    return fmt::format("rank 0 is ccl {} (protocol {}), rank {} is ccl {} (protocol {})",
                       CCL_VERSION, hostProtocol, greeting.rank, version, greeting.protocol);
  if (greeting.ranks != options.ranks)
    return fmt::format("rank 0 wants {} ranks, rank {} wants {}", options.ranks, greeting.rank,
                       greeting.ranks);
  if (greeting.rank < 1 || greeting.rank >= options.ranks)
    return fmt::format("a process says that it is rank {} of {}", greeting.rank, options.ranks);
  return "";
}

void HostHub::sendVerdict(Caller &caller, Verdict verdict) {
  verdict.proof = proveRank0(options.secret, caller.theirs, caller.ours, verdict);
  caller.stream.queueBytes({reinterpret_cast<const char *>(&verdict), sizeof verdict});
  caller.hasVerdict = true;
}

void HostHub::present(Caller &caller) {
  std::optional<Presence> presence = decodePresent(*caller.stream.frame.body);
  if (!presence)
    return fail(Failure::Machine, fmt::format("rank {} sent an unexpected message", caller.rank),
                caller.rank);
  caller.entry.host = std::move(presence->entry.host);
  caller.entry.pid = presence->entry.pid;
  caller.stage = Stage::Nothing;
  // The most impatient decides.
  deadline = std::min(deadline, Clock::now() + presence->remaining);
}

void HostHub::closed(Caller &caller) {
  caller.gone = true;
  if (phase == Phase::Closing || caller.stage == Stage::End || caller.stage == Stage::Misfit)
    return;
  if (caller.rank < 0)
    return drop(caller, "it hung up");
  fail(Failure::Machine,
       fmt::format("{} of {} ended, or closed its connection, before all had met",
                   nameRank(caller.rank, pid_t(caller.entry.pid)), caller.entry.address),
       caller.rank);
}

void HostHub::write(Caller &caller) {
  if (caller.stream.unsentBytes() > 0)
    (void)caller.stream.flush(); // whether it is broken, reading tells
  if (caller.stage == Stage::End && caller.stream.unsentBytes() == 0)
    caller.stream.finish();
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// Goes to the next phase if this one is over.
void HostHub::advance() {
  if (failure || phase != Phase::Gathering ||
      !std::all_of(byRank.begin() + 1, byRank.end(),
                   [](Caller *c) { return c && c->stage == Stage::Nothing; }))
    return;
  phase = Phase::Closing;
  listener.reset();
  std::erase_if(callers, [](const auto &c) { return c->rank < 0; });
  std::vector<HostEntry> entries{{options.host, ownAddress, getpid()}};
  for (size_t rank = 1; rank < byRank.size(); ++rank)
    entries.push_back(byRank[rank]->entry);
  const auto roster = std::make_shared<const std::string>(encodeRoster(job, entries));
  for (size_t rank = 1; rank < byRank.size(); ++rank) {
    byRank[rank]->stream.queue(Frame::make(FrameType::Roster, 0, roster));
    write(*byRank[rank]);
  }
}

void HostHub::checkDeadline() {
  if (failure || Clock::now() < deadline)
    return;
  std::vector<int64_t> missing, silent;
  for (int64_t rank = 1; rank < options.ranks; ++rank) {
    Caller *caller = byRank[size_t(rank)];
    if (!caller)
      missing.push_back(rank);
    else if (phase == Phase::Gathering ? caller->stage != Stage::Nothing
                                       : caller->stream.unsentBytes() > 0)
      silent.push_back(rank);
  }
  if (missing.empty() && silent.empty())
    return;
  const std::string after = fmt::format("timed out after {} ms: ", millisecondsSince(begin));
  if (missing.empty())
    return fail(Failure::Timeout,
                fmt::format("{}{} came and then did not answer", after, nameRanks(silent)),
                silent[0]);
  const std::string others = refused == 0
                                 ? ""
                                 : fmt::format("; {} that came had another secret (CCL_SECRET)",
                                               refused == 1 ? "one" : fmt::format("{}", refused));
  fail(Failure::Timeout,
       fmt::format("{}{} of {} did not come to {}{}", after, nameRanks(missing), options.ranks,
                   options.address, others),
       missing[0]);
}

void HostHub::fail(Failure category, std::string text, int64_t culprit) {
  if (!failure)
    failure = std::make_unique<RuntimeError>(category, std::move(text), culprit);
}

void HostHub::fail(llvm::Error error) {
  llvm::handleAllErrors(std::move(error),
                        [this](const RuntimeError &e) { fail(e.category, e.message, e.culprit); });
}

bool HostHub::allSent() const {
  return std::all_of(callers.begin(), callers.end(),
                     [](const auto &c) { return c->gone || c->stream.unsentBytes() == 0; });
}

/// Whether every rank that may still come has been told, and has taken it in.
bool HostHub::allTold() const {
  const bool allHaveHungUp = std::all_of(callers.begin(), callers.end(),
                                         [](const auto &c) { return c->gone || c->isUnknown(); });
  return allHaveHungUp && (failure->category == Failure::Timeout ||
                           std::count(heard.begin() + 1, heard.end(), false) == 0);
}

/// Tells the failure to a caller that has proved itself.
void HostHub::tell(Caller &caller) {
  if (caller.hasVerdict) {
    caller.stream.queue(Frame::make(FrameType::Failed, 0,
                                    std::make_shared<const std::string>(encodeFailed(*failure))));
  } else {
    Verdict verdict{};
    verdict.kind = Verdict::Failed;
    verdict.category = int64_t(failure->category);
    verdict.culprit = failure->culprit;
    copyText(verdict.text, failure->message);
    sendVerdict(caller, verdict);
  }
  caller.stage = Stage::End;
  caller.since = Clock::now();
  write(caller);
}

/// Tells everybody the failure, also those who come only now.
llvm::Error HostHub::tellAll() {
  phase = Phase::Failed;
  const Clock::time_point end = Clock::now() + hostGrace;
  do {
    for (const std::unique_ptr<Caller> &caller : callers)
      if (!caller->gone && !caller->isUnknown() && caller->stage != Stage::End)
        tell(*caller);
    if (allTold())
      break;
    step(end);
  } while (Clock::now() < end);
  return llvm::make_error<RuntimeError>(*failure);
}

HostMeeting HostHub::makeMeeting() {
  HostMeeting meeting;
  meeting.job = job;
  meeting.entries.push_back({options.host, ownAddress, getpid()});
  meeting.streams.push_back(nullptr);
  for (size_t rank = 1; rank < byRank.size(); ++rank) {
    meeting.entries.push_back(byRank[rank]->entry);
    meeting.streams.push_back(std::make_unique<HostStream>(std::move(byRank[rank]->stream)));
  }
  return meeting;
}

} // namespace ccl::bootstrap
