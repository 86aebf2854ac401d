//===- Capture.cpp ----------------------------------------------------------===//
#include "runtime/cuda/shim/Capture.h"

#include "runtime/cuda/shim/State.h"

#include <algorithm>

namespace ccl::cuda::shim {

thread_local CUstreamCaptureMode threadMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void join(std::vector<int> &to, const std::vector<int> &from) {
  to.insert(to.end(), from.begin(), from.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

/// Whether all that the streams of a capture do comes before `tail`.
static bool isJoined(const Capture &capture, const std::vector<int> &tail) {
  std::vector<bool> before(capture.nodes.size());
  std::vector<int> todo = tail;
  while (!todo.empty()) {
    const int node = todo.back();
    todo.pop_back();
    if (before[size_t(node)])
      continue;
    before[size_t(node)] = true;
    const std::vector<int> &after = capture.nodes[size_t(node)].after;
    todo.insert(todo.end(), after.begin(), after.end());
  }
  return std::all_of(before.begin(), before.end(), [](bool b) { return b; });
}

CUresult Captures::begin(const std::shared_ptr<Stream> &stream, CUstreamCaptureMode mode) {
  std::lock_guard lock(mutex);
  if (stream->isLegacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = nextId++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->streams.push_back(stream);
  active.push_back(capture);
  stream->capture = std::move(capture);
  stream->tail.clear();
  return CUDA_SUCCESS;
}

/// Streams are no longer captured.
void Captures::finish(Capture &capture) {
  std::erase_if(active, [&](const std::weak_ptr<Capture> &weak) {
    auto held = weak.lock();
    return !held || held.get() == &capture;
  });
  for (const std::weak_ptr<Stream> &weak : capture.streams)
    if (std::shared_ptr<Stream> stream = weak.lock()) {
      stream->capture = nullptr;
      stream->tail.clear();
    }
}

CUresult Captures::end(const std::shared_ptr<Stream> &stream, std::shared_ptr<Graph> &graph) {
  std::lock_guard lock(mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get())
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const bool joined = isJoined(*capture, stream->tail);
  finish(*capture);
  if (capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined)
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  graph = std::make_shared<Graph>();
  graph->nodes = std::move(capture->nodes);
  return CUDA_SUCCESS;
}

CUresult Captures::status(Stream &stream, CUstreamCaptureStatus &status, uint64_t &id) {
  std::lock_guard lock(mutex);
  if (const CUresult result = checkDefault(stream); result != CUDA_SUCCESS)
    return result;
  status = !stream.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  id = stream.capture ? stream.capture->id : 0;
  return CUDA_SUCCESS;
}

/// The default stream would wait for blocking streams that are captured. Under the mutex.
CUresult Captures::checkDefault(Stream &stream) {
  if (!stream.isLegacy || active.empty())
    return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Stream> &other : stream.context->streams())
    if (other->blocking && other->capture) {
      other->capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  return result;
}

CUresult Captures::note(Stream &stream, const Work &work, bool &captured) {
  std::lock_guard lock(mutex);
  captured = stream.capture != nullptr;
  if (!captured)
    return checkDefault(stream);
  Capture &capture = *stream.capture;
  if (capture.invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture.nodes.push_back({work, stream.tail});
  stream.tail = {int(capture.nodes.size()) - 1};
  return CUDA_SUCCESS;
}

CUresult Captures::record(Stream &stream, Event &event, bool &captured) {
  std::lock_guard lock(mutex);
  captured = stream.capture != nullptr;
  if (captured && stream.capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!captured)
    if (const CUresult result = checkDefault(stream); result != CUDA_SUCCESS)
      return result;
  std::lock_guard eventLock(event.mutex);
  event.captured = captured;
  if (captured) {
    event.capture = stream.capture;
    event.nodes = stream.tail;
  }
  return CUDA_SUCCESS;
}

CUresult Captures::wait(const std::shared_ptr<Stream> &stream, Event &event, bool &captured) {
  std::lock_guard lock(mutex);
  std::lock_guard eventLock(event.mutex);
  captured = stream->capture != nullptr || event.captured;
  if (!captured)
    return checkDefault(*stream);
  if (stream->isLegacy)
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!event.captured) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const std::shared_ptr<Capture> from = event.capture.lock();
  // A capture that has ended keeps no work that could be waited for.
  const bool isActive = from && std::any_of(active.begin(), active.end(),
                                            [&](const auto &weak) { return weak.lock() == from; });
  if (!isActive) {
    if (stream->capture)
      stream->capture->invalid = true;
    return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_CAPTURED_EVENT;
  }
  if (from->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!stream->capture) {
    stream->capture = from;
    stream->tail.clear();
    from->streams.push_back(stream);
  } else if (stream->capture != from) {
    stream->capture->invalid = from->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  join(stream->tail, event.nodes);
  return CUDA_SUCCESS;
}

CUresult Captures::forbid(Stream &stream) {
  std::lock_guard lock(mutex);
  if (!stream.capture)
    return checkDefault(stream);
  stream.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Captures::forbid(Context &context) {
  std::lock_guard lock(mutex);
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Stream> &stream : context.streams())
    if (stream->capture) {
      stream->capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return result;
}

CUresult Captures::unsafeCall() {
  if (threadMode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  std::lock_guard lock(mutex);
  CUresult result = CUDA_SUCCESS;
  for (const std::weak_ptr<Capture> &weak : active) {
    const std::shared_ptr<Capture> capture = weak.lock();
    if (!capture || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
      continue;
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool both = threadMode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mine || both) {
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

void Captures::leave(Stream &stream) {
  std::lock_guard lock(mutex);
  const std::shared_ptr<Capture> capture = std::move(stream.capture);
  stream.capture = nullptr;
  if (!capture)
    return;
  capture->invalid = true;
  if (capture->origin == &stream)
    finish(*capture);
}

CUstreamCaptureMode Captures::exchangeMode(CUstreamCaptureMode mode) {
  return std::exchange(threadMode, mode);
}

GraphExec::GraphExec(const Graph &graph) : nodes(graph.nodes), next(graph.nodes.size()) {
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const int before : nodes[i].after)
      next[size_t(before)].push_back(int(i));
}

namespace {

/// One launch of a graph.
class Run {
public:
  explicit Run(std::shared_ptr<const GraphExec> exec) : exec(std::move(exec)) {
    for (const Node &node : this->exec->nodes) {
      if (node.after.empty())
        ready.push_back(int(missing.size()));
      missing.push_back(node.after.size());
    }
    left = missing.size();
  }

  static CUresult all(const std::shared_ptr<Run> &self) {
    std::unique_lock lock(self->mutex);
    while (self->left > 0) {
      self->changed.wait(lock, [&] { return !self->ready.empty() || self->left == 0; });
      const std::vector<int> now = std::exchange(self->ready, {});
      const bool alone = now.size() == 1 && self->running == 0;
      self->running += now.size();
      lock.unlock();
      // Nodes that depend on nothing of each other may wait for each other: a thread for each.
      const bool started =
          !alone && state().threads.start(unsigned(now.size()), [self, now](unsigned i) {
            self->one(now[i], CUDA_SUCCESS);
          });
      if (!started)
        for (const int node : now)
          self->one(node, alone ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
      lock.lock();
    }
    // The last one out is still in one().
    self->changed.wait(lock, [&] { return self->running == 0; });
    return self->failed;
  }

private:
  /// Does a node, unless something failed.
  void one(int node, CUresult before) {
    std::unique_lock lock(mutex);
    if (failed == CUDA_SUCCESS)
      failed = before;
    if (failed == CUDA_SUCCESS) {
      lock.unlock();
      CUresult result;
      try {
        result = exec->nodes[size_t(node)].work();
      } catch (...) {
        result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
      }
      lock.lock();
      if (failed == CUDA_SUCCESS)
        failed = result;
    }
    for (const int after : exec->next[size_t(node)])
      if (--missing[size_t(after)] == 0)
        ready.push_back(after);
    --left;
    --running;
    changed.notify_all();
  }

  const std::shared_ptr<const GraphExec> exec;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<size_t> missing; ///< by node: how many it still waits for
  std::vector<int> ready;
  size_t left = 0, running = 0;
  CUresult failed = CUDA_SUCCESS;
};

} // namespace

CUresult GraphExec::run(const std::shared_ptr<const GraphExec> &exec) {
  return Run::all(std::make_shared<Run>(exec));
}

} // namespace ccl::cuda::shim
