//===- Stream.cpp - Calls that a thread of ours executes -----------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/State.h"

#include <fmt/format.h>

namespace ccl {
inline namespace jit {

/// Waits for `ready`; false if the time-out went by. 0: as long as it takes.
template <typename Ready>
static bool await(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
                  std::chrono::milliseconds timeout, Ready ready) {
  if (timeout.count() > 0)
    return changed.wait_for(lock, timeout, ready);
  changed.wait(lock, ready);
  return true;
}

//===----------------------------------------------------------------------===//
// Event
//===----------------------------------------------------------------------===//

bool Event::done() const {
  std::lock_guard lock(impl->mutex);
  return impl->done;
}

Status Event::wait(std::chrono::milliseconds timeout) const {
  return guarded([&]() -> Status {
    if (std::optional<Error> error = refuseTimeout(timeout))
      return *error;
    std::unique_lock lock(impl->mutex);
    if (!await(impl->changed, lock, timeout, [&] { return impl->done; }))
      return Error{Error::Kind::timeout,
                   fmt::format("what is before the event is not done after {} ms", timeout.count()),
                   -1};
    return impl->status;
  });
}

//===----------------------------------------------------------------------===//
// The worker
//===----------------------------------------------------------------------===//

Stream::Impl::~Impl() {
  {
    std::lock_guard lock(mutex);
    closing = true;
    changed.notify_all();
  }
  if (worker.joinable())
    worker.join();
}

void Stream::Impl::call(std::function<Status()> body) {
  std::lock_guard lock(mutex);
  tasks.push_back({std::move(body), nullptr, std::nullopt});
  // Nothing fails any more: a ticket that nobody uses would stop everybody.
  tasks.back().ticket = communicator->turns.take();
  ++queued;
  changed.notify_all();
}

void Stream::Impl::other(Task task) {
  std::lock_guard lock(mutex);
  tasks.push_back(std::move(task));
  ++queued;
  changed.notify_all();
}

std::optional<Error> Stream::Impl::refuse(const std::shared_ptr<Impl> &impl) {
  if (!impl)
    return argumentError("the stream was moved to another object");
  if (impl->isOrphaned())
    return argumentError("this stream belongs to the parent process: a child of fork has to open "
                         "its own");
  return std::nullopt;
}

/// In a child of fork there is no worker to wait for, and what it held when the process was
/// copied stays held: then it is left as it is.
static void destroy(Stream::Impl *stream) {
  if (!stream->isOrphaned())
    delete stream;
}

static Status execute(Communicator::Impl &communicator, const Stream::Impl::Task &task) {
  if (!task.body)
    return {};
  std::optional<Turn> turn;
  if (task.ticket)
    turn.emplace(communicator.turns, *task.ticket);
  return guarded([&] { return task.body(); });
}

/// `first` is the stream's first failure up to the mark.
static void reach(Event::Impl &mark, const Status &first) {
  Status status = guarded([&] { return first; }); // without memory for a copy it says so
  std::lock_guard lock(mark.mutex);
  mark.done = true;
  mark.status = std::move(status);
  mark.changed.notify_all();
}

void Stream::Impl::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return closing || !tasks.empty(); });
    if (tasks.empty())
      return;
    Task task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    Status status = execute(*communicator, task);
    task.body = nullptr; // what it holds goes before the call counts as done
    lock.lock();
    if (first && !status)
      first = std::move(status);
    ++finished;
    changed.notify_all();
    // Not before: who sees that the mark is reached sees a stream that is idle.
    if (task.mark)
      reach(*task.mark, first);
  }
}

Result<Stream> Communicator::openStream() {
  return guarded([&]() -> Result<Stream> {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    const std::shared_ptr<Stream::Impl> stream(new Stream::Impl(impl), &destroy);
    stream->worker = std::thread([raw = stream.get()] { raw->work(); });
    return Stream(stream);
  });
}

//===----------------------------------------------------------------------===//
// Stream
//===----------------------------------------------------------------------===//

Stream::Stream(Stream &&) noexcept = default;
Stream &Stream::operator=(Stream &&) noexcept = default;
Stream::~Stream() = default;

Status Stream::wait(std::chrono::milliseconds timeout) {
  return guarded([&]() -> Status {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    if (std::optional<Error> error = refuseTimeout(timeout))
      return *error;
    std::unique_lock lock(impl->mutex);
    const uint64_t target = impl->queued;
    if (!await(impl->changed, lock, timeout, [&] { return impl->finished >= target; }))
      return Error{Error::Kind::timeout,
                   fmt::format("{} calls of the stream are not done after {} ms",
                               target - impl->finished, timeout.count()),
                   -1};
    return impl->first;
  });
}

bool Stream::idle() const {
  if (!impl || impl->isOrphaned())
    return true;
  std::lock_guard lock(impl->mutex);
  return impl->finished == impl->queued;
}

Result<Event> Stream::record() {
  return guarded([&]() -> Result<Event> {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    auto event = std::make_shared<Event::Impl>();
    impl->other({{}, event, {}});
    return Event(std::move(event));
  });
}

Status Stream::after(const Event &event) {
  return guarded([&]() -> Status {
    if (std::optional<Error> error = Impl::refuse(impl))
      return *error;
    auto awaits = [event, communicator = impl->communicator]() -> Status {
      Status status = event.wait(communicator->timeout);
      if (!status)
        communicator->member->abort(
            fmt::format("rank {}: the event that a stream waits for failed: {}",
                        communicator->member->rank(), status.error().message));
      return status;
    };
    impl->other({std::move(awaits), nullptr, {}});
    return {};
  });
}

} // namespace jit
} // namespace ccl
