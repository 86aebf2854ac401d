//===- HostRelay.cpp --------------------------------------------------------===//
#include "runtime/bootstrap/HostRelay.h"

#include "runtime/bootstrap/HostMeeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {
namespace {

using namespace std::chrono_literals;

/// Frames of one peer before it is others' turn.
constexpr int turn = 64;
constexpr auto mostFarewell = 5s;
/// What one who is not silent may seem to be.
constexpr auto usualSilence = 2 * HostLink::heartbeat;

int64_t toNanoseconds(Clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

void ring(int wake) {
  const uint64_t one = 1;
  while (write(wake, &one, sizeof one) < 0 && errno == EINTR)
    ;
}

} // namespace

HostRelay::HostRelay(int64_t rank, int64_t ranks, std::vector<std::unique_ptr<HostStream>> made,
                     Descriptor wake)
    : rank(rank), ranks(ranks), streams(std::move(made)), wake(std::move(wake)),
      lastHeard(size_t(ranks)), isOver(size_t(ranks)), hasNoted(size_t(ranks)),
      sentAtBeat(streams.size()) {
  isOver[size_t(rank)] = true;
  for (int64_t who = 0; who < ranks; ++who)
    heard(who, Clock::now());
  for (const std::unique_ptr<HostStream> &stream : streams)
    if (stream)
      stream->setLimits(HostLink::mostBytes, size_t(ranks));
}

//===----------------------------------------------------------------------===//
// Any thread
//===----------------------------------------------------------------------===//

void HostRelay::post(Frame frame) {
  bool wasEmpty = false;
  {
    std::lock_guard lock(mutex);
    wasEmpty = posted.empty();
    posted.push_back(std::move(frame));
  }
  if (wasEmpty)
    ring(wake.get());
}

Milliseconds HostRelay::silence(int64_t who) const {
  if (who == rank)
    return Milliseconds(0);
  const int64_t last = lastHeard[size_t(who)].load(std::memory_order_relaxed);
  return Milliseconds(std::max<int64_t>(0, toNanoseconds(Clock::now()) - last) / 1'000'000);
}

void HostRelay::stop() {
  stopping.store(true, std::memory_order_release);
  ring(wake.get());
}

void HostRelay::closeInChild() {
  for (const std::unique_ptr<HostStream> &stream : streams)
    if (stream)
      stream->close();
  wake.reset();
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

void HostRelay::run(HostLink::Listener &told) {
  listener = &told;
  Clock::time_point nextBeat = Clock::now();
  while (!stopping.load(std::memory_order_acquire)) {
    takePosted();
    if (Clock::now() >= nextBeat) {
      beat();
      nextBeat = Clock::now() + HostLink::heartbeat;
    }
    look(nextBeat);
  }
  farewell();
}

HostStream *HostRelay::streamOf(int64_t peer) const {
  if (peer < 0 || peer >= int64_t(streams.size()))
    return nullptr;
  HostStream *stream = streams[size_t(peer)].get();
  return stream && stream->get() >= 0 ? stream : nullptr;
}

void HostRelay::takePosted() {
  std::vector<Frame> frames;
  {
    std::lock_guard lock(mutex);
    frames.swap(posted);
  }
  for (Frame &frame : frames) {
    if (isHub())
      distribute(frame, 0);
    else if (HostStream *stream = streamOf(0))
      stream->queue(std::move(frame));
  }
}

/// On rank 0: one copy of a message to each of its targets.
void HostRelay::distribute(const Frame &frame, int64_t from) {
  for (uint32_t target : frame.targets) {
    if (target == 0 && from != 0) {
      listener->onMessage(from, frame.header.kind, *frame.body);
    } else if (HostStream *stream = streamOf(target)) {
      Frame copy = Frame::make(FrameType::Message, from, frame.body);
      copy.header.kind = frame.header.kind;
      stream->queue(std::move(copy));
    }
  }
}

/// Waits until something happens or `until`, and handles it.
void HostRelay::look(Clock::time_point until) {
  std::vector<pollfd> polled{{wake.get(), POLLIN, 0}};
  std::vector<int64_t> of{-1};
  for (size_t i = 0; i < streams.size(); ++i) {
    const int64_t peer = rankOf(i);
    write(peer);
    HostStream *stream = streamOf(peer);
    if (!stream)
      continue;
    const bool writes = stream->unsentBytes() > 0;
    polled.push_back({stream->get(), short(POLLIN | (writes ? POLLOUT : 0)), 0});
    of.push_back(peer);
  }
  pollUntil(polled, until);
  if (polled[0].revents) {
    uint64_t count = 0;
    (void)!::read(wake.get(), &count, sizeof count);
  }
  for (size_t i = 1; i < polled.size(); ++i)
    if (polled[i].revents & ~POLLOUT)
      read(of[i]);
}

void HostRelay::write(int64_t peer) {
  HostStream *stream = streamOf(peer);
  if (!stream || stream->unsentBytes() == 0)
    return;
  (void)stream->flush(); // whether it is broken, reading tells
  if (stream->unsentBytes() > HostLink::mostUnsent)
    lose(peer, fmt::format("it does not take what is sent to it: over {} MiB wait",
                           HostLink::mostUnsent >> 20));
}

void HostRelay::read(int64_t peer) {
  const bool wasStopping = stopping.load(std::memory_order_relaxed);
  for (int i = 0; i < turn && stopping.load(std::memory_order_relaxed) == wasStopping; ++i) {
    HostStream *stream = streamOf(peer);
    if (!stream)
      return;
    const HostStream::Received received = stream->receive();
    heard(peer, stream->lastHeard);
    switch (received) {
    case HostStream::Received::Partial: return;
    case HostStream::Received::Whole:
      handle(peer, stream->frame);
      stream->frame.body.reset(); // the next may be long in coming
      break;
    case HostStream::Received::Rubbish: return lose(peer, "it sent something that is no message");
    case HostStream::Received::Closed: {
      const std::string_view whose = peer == 0 ? "its connection" : "its connection to rank 0";
      const bool isPlain = stream->error == 0 || stream->error == ECONNRESET;
      return lose(peer, isPlain ? fmt::format("{} was closed", whose)
                                : fmt::format("{} broke: {}", whose, std::strerror(stream->error)));
    }
    }
  }
}

void HostRelay::handle(int64_t peer, const Frame &frame) {
  if (!(isHub() ? handleOfPeer(peer, frame) : handleOfRank0(frame)))
    lose(peer, "it sent something that is no message");
}

/// On rank 0. False: nobody says that.
bool HostRelay::handleOfPeer(int64_t peer, const Frame &frame) {
  switch (frame.header.type) {
  case FrameType::Message:
    if (std::any_of(frame.targets.begin(), frame.targets.end(),
                    [&](uint32_t target) { return target >= ranks || target == peer; }))
      return false;
    distribute(frame, peer);
    return true;
  case FrameType::Heartbeat: return true; // that it came is all
  case FrameType::Left: leave(peer); return true;
  case FrameType::Noted: hasNoted[size_t(peer)] = true; return true;
  default: return false;
  }
}

bool HostRelay::handleOfRank0(const Frame &frame) {
  const int64_t who = frame.header.rank;
  if (who >= ranks || who == rank)
    return false;
  switch (frame.header.type) {
  case FrameType::Message: listener->onMessage(who, frame.header.kind, *frame.body); return true;
  case FrameType::Heartbeat: hearBeat(frame); return true;
  case FrameType::Left: leave(who); return true;
  case FrameType::Gone: lose(who, printable(*frame.body)); return true;
  case FrameType::Leaving:
    // What this rank has said so far goes first.
    takePosted();
    streamOf(0)->queue(Frame::make(FrameType::Noted, rank));
    return true;
  default: return false;
  }
}

//===----------------------------------------------------------------------===//
// Who is there
//===----------------------------------------------------------------------===//

void HostRelay::heard(int64_t who, Clock::time_point when) {
  lastHeard[size_t(who)].store(toNanoseconds(when), std::memory_order_relaxed);
}

/// Says that we are there, and on rank 0 who has not been heard of, and looks for hosts that are
/// not there any more.
void HostRelay::beat() {
  std::vector<Silent> silent;
  for (int64_t who = 1; isHub() && who < ranks; ++who)
    if (const Milliseconds time = silence(who); time > usualSilence)
      silent.push_back({uint32_t(who), uint32_t(std::min<int64_t>(time.count(), UINT32_MAX))});
  const auto body = std::make_shared<const std::string>(encodeSilent(silent));
  for (size_t i = 0; i < streams.size(); ++i) {
    const int64_t peer = rankOf(i);
    HostStream *stream = streamOf(peer);
    if (!stream)
      continue;
    if (silence(peer) > HostLink::longSilence && stream->isDeaf(HostLink::longSilence)) {
      lose(peer,
           fmt::format("its host has not answered for {} s", HostLink::longSilence.count() / 1000));
      continue;
    }
    // One that takes nothing has one waiting already.
    if (stream->unsentBytes() == 0 || stream->sentBytes() != sentAtBeat[i])
      stream->queueFirst(Frame::make(FrameType::Heartbeat, rank, body));
    sentAtBeat[i] = stream->sentBytes();
  }
}

void HostRelay::hearBeat(const Frame &frame) {
  const Clock::time_point now = Clock::now();
  std::vector<Clock::time_point> last(size_t(ranks), now);
  for (const Silent &silent : decodeSilent(*frame.body))
    if (silent.rank < ranks)
      last[silent.rank] = now - Milliseconds(silent.milliseconds);
  for (int64_t who = 1; who < ranks; ++who)
    heard(who, last[size_t(who)]);
}

void HostRelay::tellOthers(FrameType type, int64_t about, const Body &body) {
  for (int64_t peer = 1; peer < ranks; ++peer)
    if (HostStream *stream = peer == about ? nullptr : streamOf(peer))
      stream->queue(Frame::make(type, about, body));
}

void HostRelay::leave(int64_t who) {
  if (isOver[size_t(who)])
    return;
  isOver[size_t(who)] = true;
  if (HostStream *stream = streamOf(who))
    stream->close();
  if (isHub())
    tellOthers(FrameType::Left, who, nullptr);
  listener->onLeft(who);
}

void HostRelay::lose(int64_t who, const std::string &how) {
  if (isOver[size_t(who)])
    return;
  isOver[size_t(who)] = true;
  if (HostStream *stream = streamOf(who))
    stream->close();
  if (isHub())
    tellOthers(FrameType::Gone, who, std::make_shared<const std::string>(how));
  listener->onGone(who, how);
  if (who != 0)
    return;
  for (int64_t other = 1; other < ranks; ++other)
    if (!isOver[size_t(other)]) {
      isOver[size_t(other)] = true;
      listener->onGone(other, "it was reached over rank 0, which is gone: " + how);
    }
}

/// On rank 0, which may be through with an operation before others have what some rank said of it:
/// passes on what all have sent before they heard that it leaves. Nobody is told of it here.
void HostRelay::passOnTheLast() {
  struct Nobody final : HostLink::Listener {
    void onMessage(int64_t, uint32_t, llvm::StringRef) override {}
    void onGone(int64_t, const std::string &) override {}
    void onLeft(int64_t) override {}
  } nobody;
  listener = &nobody;
  for (int64_t peer = 1; peer < ranks; ++peer)
    if (HostStream *stream = streamOf(peer))
      stream->queue(Frame::make(FrameType::Leaving));
  const Clock::time_point end = Clock::now() + mostFarewell;
  Clock::time_point progress = Clock::now();
  uint64_t notedBefore = 0;
  while (true) {
    uint64_t noted = 0, open = 0;
    for (int64_t peer = 1; peer < ranks; ++peer)
      if (streamOf(peer)) {
        ++open;
        noted += hasNoted[size_t(peer)];
      }
    const Clock::time_point now = Clock::now();
    if (std::exchange(notedBefore, noted) != noted)
      progress = now;
    if (noted == open || now >= std::min(end, progress + hostGrace))
      return;
    look(std::min(end, progress + hostGrace));
  }
}

void HostRelay::farewell() {
  takePosted();
  if (isHub())
    passOnTheLast();
  for (size_t i = 0; i < streams.size(); ++i)
    if (HostStream *stream = streamOf(rankOf(i)))
      stream->queue(Frame::make(FrameType::Left, rank));
  const Clock::time_point end = Clock::now() + mostFarewell;
  Clock::time_point progress = Clock::now();
  uint64_t sentBefore = 0;
  while (true) {
    std::vector<pollfd> polled;
    std::vector<HostStream *> of;
    uint64_t sent = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      HostStream *stream = streamOf(rankOf(i));
      if (!stream)
        continue;
      if (stream->flush() == HostStream::Sent::All)
        stream->finish();
      sent += stream->sentBytes();
      polled.push_back(
          {stream->get(), short(POLLIN | (stream->unsentBytes() > 0 ? POLLOUT : 0)), 0});
      of.push_back(stream);
    }
    const Clock::time_point now = Clock::now();
    if (std::exchange(sentBefore, sent) != sent)
      progress = now;
    if (of.empty() || now >= std::min(end, progress + hostGrace))
      break;
    pollUntil(polled, std::min(end, progress + hostGrace));
    for (size_t i = 0; i < polled.size(); ++i)
      if ((polled[i].revents & ~POLLOUT) && of[i]->discard() == HostStream::Received::Closed)
        of[i]->close();
  }
  for (const std::unique_ptr<HostStream> &stream : streams)
    if (stream)
      stream->close();
}

} // namespace ccl::bootstrap
