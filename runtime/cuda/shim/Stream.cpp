//===- Stream.cpp -----------------------------------------------------------===//
#include "runtime/cuda/shim/Stream.h"

#include "runtime/cuda/shim/State.h"

#include <algorithm>
#include <chrono>

namespace ccl::cuda::shim {

std::shared_ptr<Stream> Context::makeStream(const std::shared_ptr<Context> &context,
                                            bool blocking) {
  auto stream = std::make_shared<Stream>(context, blocking, false);
  std::lock_guard lock(context->mutex);
  std::erase_if(context->all, [](const std::weak_ptr<Stream> &s) { return s.expired(); });
  context->all.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Context::legacy(const std::shared_ptr<Context> &context) {
  std::lock_guard lock(context->mutex);
  std::shared_ptr<Stream> stream = context->defaultStream.lock();
  if (!stream) {
    stream = std::make_shared<Stream>(context, true, true);
    context->defaultStream = stream;
    context->all.push_back(stream);
  }
  return stream;
}

std::vector<std::shared_ptr<Stream>> Context::streams() {
  std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Stream>> found;
  for (const std::weak_ptr<Stream> &weak : all)
    if (std::shared_ptr<Stream> stream = weak.lock())
      found.push_back(std::move(stream));
  return found;
}

CUresult Context::synchronize() {
  for (const std::shared_ptr<Stream> &stream : streams())
    if (!stream->waitFor(stream->last()))
      return CUDA_ERROR_DEINITIALIZED;
  return error();
}

CUresult Stream::submit(Work work, uint64_t *number) {
  // As many as a GPU's stream holds: work of a communicator that has failed is not endless.
  constexpr size_t mostQueued = 1024;
  constexpr auto look = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex);
  while (queue.size() >= mostQueued && !state().stopping)
    advanced.wait_for(lock, look);
  queue.push_back(std::move(work));
  if (!running) {
    if (!state().threads.start(1, [self = shared_from_this()](unsigned) { self->drain(); })) {
      queue.pop_back();
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    running = true;
  }
  ++submitted;
  if (number)
    *number = submitted;
  return CUDA_SUCCESS;
}

uint64_t Stream::last() const {
  std::lock_guard lock(mutex);
  return submitted;
}

bool Stream::isDone(uint64_t number) const {
  std::lock_guard lock(mutex);
  return completed >= number;
}

bool Stream::waitFor(uint64_t number) const {
  constexpr auto look = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex);
  while (!advanced.wait_for(lock, look, [&] { return completed >= number; }))
    if (state().stopping)
      return false;
  return true;
}

void Stream::drain() {
  std::unique_lock lock(mutex);
  while (!queue.empty()) {
    Work work = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    CUresult result = CUDA_SUCCESS;
    if (context->error() == CUDA_SUCCESS && !state().stopping) {
      try {
        result = work();
      } catch (...) {
        result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
      }
    }
    if (result != CUDA_SUCCESS)
      context->fail(result);
    work = nullptr; // who waits for it may count on what it held being gone
    lock.lock();
    ++completed;
    advanced.notify_all();
  }
  running = false;
}

CUresult enqueueWait(Stream &stream, const std::shared_ptr<Stream> &other, uint64_t number) {
  if (other.get() == &stream || other->isDone(number))
    return CUDA_SUCCESS;
  return stream.submit(
      [other, number] { return other->waitFor(number) ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED; });
}

/// The default stream waits for all blocking streams of its context, and they for it.
static CUresult orderWithDefault(Stream &stream) {
  if (!stream.blocking)
    return CUDA_SUCCESS;
  for (const std::shared_ptr<Stream> &other : stream.context->streams()) {
    if (!other->blocking || other->isLegacy == stream.isLegacy)
      continue;
    if (const CUresult result = enqueueWait(stream, other, other->last()); result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

Enqueued enqueue(const std::shared_ptr<Stream> &stream, Work work) {
  Enqueued done;
  done.result = state().captures.note(*stream, work, done.captured);
  if (done.result != CUDA_SUCCESS || done.captured)
    return done;
  done.result = orderWithDefault(*stream);
  if (done.result == CUDA_SUCCESS)
    done.result = stream->submit(std::move(work), &done.number);
  return done;
}

CUresult streamOf(CUstream handle, const std::shared_ptr<Context> &current,
                  std::shared_ptr<Stream> &stream) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == streamPerThread)
    return CUDA_ERROR_NOT_SUPPORTED;
  stream =
      !number || number == streamLegacy ? Context::legacy(current) : state().streams.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  return stream->context->error();
}

} // namespace ccl::cuda::shim
