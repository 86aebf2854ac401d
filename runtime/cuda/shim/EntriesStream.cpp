//===- EntriesStream.cpp - Streams, events, captures and graphs -------------------===//
#include "runtime/cuda/shim/State.h"

#include <chrono>

using namespace ccl::cuda;
using namespace ccl::cuda::shim;

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// `body` with a stream that exists.
template <typename Body>
CUresult ofStream(CUstream handle, Body body) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    std::shared_ptr<Stream> stream;
    if (const CUresult result = streamOf(handle, context, stream); result != CUDA_SUCCESS)
      return result;
    return body(stream);
  });
}

/// `body` with an event that exists.
template <typename Body>
CUresult ofEvent(CUevent handle, Body body) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    const std::shared_ptr<Event> event = state().events.find(handle);
    return event ? body(*event) : CUDA_ERROR_INVALID_HANDLE;
  });
}

/// What the default stream stands for, too.
std::vector<std::shared_ptr<Stream>> allOf(const std::shared_ptr<Stream> &stream) {
  std::vector<std::shared_ptr<Stream>> all = {stream};
  if (stream->isLegacy)
    for (const std::shared_ptr<Stream> &other : stream->context->streams())
      if (other->blocking && other != stream)
        all.push_back(other);
  return all;
}

/// The last record of an event that may be asked for it.
CUresult recordOf(Event &event, std::shared_ptr<Record> &record) {
  {
    std::lock_guard lock(event.mutex);
    if (event.captured)
      return CUDA_ERROR_CAPTURED_EVENT;
    record = event.record;
  }
  return state().captures.unsafeCall();
}

} // namespace

namespace ccl::cuda {

extern "C" {

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
      return CUDA_ERROR_INVALID_VALUE;
    *stream = state().streams.add(Context::makeStream(context, flags == CU_STREAM_DEFAULT));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter([&] {
    // What it still has to do is done, and keeps it.
    const std::shared_ptr<Stream> gone = state().streams.take(stream);
    if (!gone)
      return CUDA_ERROR_INVALID_HANDLE;
    state().captures.leave(*gone);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (const CUresult result = state().captures.forbid(*stream); result != CUDA_SUCCESS)
      return result;
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    for (const std::shared_ptr<Stream> &one : allOf(stream))
      if (!one->waitFor(one->last()))
        return CUDA_ERROR_DEINITIALIZED;
    return stream->context->error();
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (const CUresult result = state().captures.forbid(*stream); result != CUDA_SUCCESS)
      return result;
    if (const CUresult result = state().captures.unsafeCall(); result != CUDA_SUCCESS)
      return result;
    for (const std::shared_ptr<Stream> &one : allOf(stream))
      if (!one->isDone(one->last()))
        return CUDA_ERROR_NOT_READY;
    return stream->context->error();
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (!context)
      return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(state().primaryMutex);
    *context = state().primary[stream->context->device].handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent eventHandle, unsigned flags) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    const std::shared_ptr<Event> event = state().events.find(eventHandle);
    if (!event)
      return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0)
      return CUDA_ERROR_NOT_SUPPORTED;
    bool captured = false;
    const CUresult result = state().captures.wait(stream, *event, captured);
    if (result != CUDA_SUCCESS || captured)
      return result;
    std::shared_ptr<Record> record;
    {
      std::lock_guard lock(event->mutex);
      record = event->record;
    }
    return record ? enqueueWait(*stream, record->stream, record->number) : CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    uint64_t id = 0;
    return status ? state().captures.status(*stream, *status, id) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                   unsigned long *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, size_t *numDependencies) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (!status)
      return CUDA_ERROR_INVALID_VALUE;
    if (graph || dependencies || numDependencies)
      return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t number = 0;
    const CUresult result = state().captures.status(*stream, *status, number);
    if (id)
      *id = number;
    return result;
  });
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    return state().captures.begin(stream, mode);
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (!graph)
      return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    std::shared_ptr<Graph> made;
    const CUresult result = state().captures.end(stream, made);
    if (result == CUDA_SUCCESS)
      *graph = state().graphs.add(std::move(made));
    return result;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  return enter([&] {
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    *mode = state().captures.exchangeMode(*mode);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    if (!exec)
      return CUDA_ERROR_INVALID_VALUE;
    if (flags != 0)
      return CUDA_ERROR_NOT_SUPPORTED;
    const std::shared_ptr<Graph> from = state().graphs.find(graph);
    if (!from)
      return CUDA_ERROR_INVALID_VALUE;
    *exec = state().execs.add(std::make_shared<shim::GraphExec>(*from));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream streamHandle) {
  return ofStream(streamHandle, [&](const std::shared_ptr<Stream> &stream) {
    const std::shared_ptr<shim::GraphExec> exec = state().execs.find(handle);
    if (!exec)
      return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(exec->mutex);
    CUstreamCaptureStatus status;
    uint64_t id;
    if (const CUresult result = state().captures.status(*stream, status, id);
        result != CUDA_SUCCESS)
      return result;
    // A graph does not run twice at once.
    const std::shared_ptr<Stream> before = exec->lastStream.lock();
    if (before && status == CU_STREAM_CAPTURE_STATUS_NONE)
      if (const CUresult result = enqueueWait(*stream, before, exec->lastNumber);
          result != CUDA_SUCCESS)
        return result;
    const Enqueued done = enqueue(stream, [exec] { return shim::GraphExec::run(exec); });
    if (done.result == CUDA_SUCCESS && !done.captured) {
      exec->lastStream = stream;
      exec->lastNumber = done.number;
    }
    return done.result;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return enter([&] { return state().execs.take(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return enter(
      [&] { return state().graphs.take(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return enterContext([&](const std::shared_ptr<Context> &context) {
    const bool shared = flags & CU_EVENT_INTERPROCESS;
    if (!event || flags > 7 || (shared && !(flags & CU_EVENT_DISABLE_TIMING)))
      return CUDA_ERROR_INVALID_VALUE;
    if (shared)
      return CUDA_ERROR_NOT_SUPPORTED;
    *event = state().events.add(std::make_shared<shim::Event>(context, flags));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return enter(
      [&] { return state().events.take(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

CUresult cuEventRecord(CUevent handle, CUstream streamHandle) {
  return ofStream(streamHandle, [&](const std::shared_ptr<Stream> &stream) {
    const std::shared_ptr<Event> event = state().events.find(handle);
    if (!event || event->context != stream->context)
      return CUDA_ERROR_INVALID_HANDLE;
    bool captured = false;
    const CUresult result = state().captures.record(*stream, *event, captured);
    if (result != CUDA_SUCCESS || captured)
      return result;
    auto record = std::make_shared<Record>();
    record->stream = stream;
    // The work must not hold the record: that holds the stream, and that the work.
    const Enqueued done = enqueue(stream, [weak = std::weak_ptr(record)] {
      if (const std::shared_ptr<Record> record = weak.lock())
        record->ns = now();
      return CUDA_SUCCESS;
    });
    record->number = done.number;
    if (done.result == CUDA_SUCCESS) {
      std::lock_guard lock(event->mutex);
      event->record = std::move(record);
    }
    return done.result;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return ofEvent(handle, [&](shim::Event &event) {
    std::shared_ptr<Record> record;
    const CUresult result = recordOf(event, record);
    if (result != CUDA_SUCCESS || !record)
      return result;
    if (!record->stream->waitFor(record->number))
      return CUDA_ERROR_DEINITIALIZED;
    return record->stream->context->error();
  });
}

CUresult cuEventQuery(CUevent handle) {
  return ofEvent(handle, [&](shim::Event &event) {
    std::shared_ptr<Record> record;
    const CUresult result = recordOf(event, record);
    if (result != CUDA_SUCCESS || !record)
      return result;
    return record->stream->isDone(record->number) ? record->stream->context->error()
                                                  : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return enterContext([&](const std::shared_ptr<Context> &) {
    int64_t times[2];
    const CUevent handles[2] = {start, end};
    for (int i = 0; i < 2; ++i) {
      const std::shared_ptr<Event> event = state().events.find(handles[i]);
      if (!event || event->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
      std::shared_ptr<Record> record;
      if (const CUresult result = recordOf(*event, record); result != CUDA_SUCCESS)
        return result;
      if (!record)
        return CUDA_ERROR_INVALID_HANDLE;
      if (!record->stream->isDone(record->number))
        return CUDA_ERROR_NOT_READY;
      times[i] = record->ns;
    }
    if (!milliseconds)
      return CUDA_ERROR_INVALID_VALUE;
    *milliseconds = float(double(times[1] - times[0]) / 1e6);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  return ofStream(handle, [&](const std::shared_ptr<Stream> &stream) {
    if (!function)
      return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream,
                   [function, data] {
                     function(data);
                     return CUDA_SUCCESS;
                   })
        .result;
  });
}

} // extern "C"
} // namespace ccl::cuda
