//===- Stream.h - Contexts, streams and events ----------------------------------===//
#pragma once

#include "runtime/cuda/DriverApi.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ccl::cuda::shim {

struct Capture;
class Stream;

/// What a stream does in its turn. It may be called again and again: graphs keep it.
using Work = std::function<CUresult()>;

/// A device's primary context, from its first retain to its last release.
class Context {
public:
  explicit Context(int device) : device(device) {}
  const int device;

  /// The first failure of anything that ran here. As on a GPU it stays.
  CUresult error() const { return failed.load(std::memory_order_acquire); }
  void fail(CUresult result) {
    CUresult none = CUDA_SUCCESS;
    failed.compare_exchange_strong(none, result);
  }

  /// Peers that may be reached, a bit each.
  std::atomic<unsigned> peers{0};

  static std::shared_ptr<Stream> makeStream(const std::shared_ptr<Context> &context, bool blocking);
  /// The default stream.
  static std::shared_ptr<Stream> legacy(const std::shared_ptr<Context> &context);
  /// Those with work, and those that have a handle or an event.
  std::vector<std::shared_ptr<Stream>> streams();
  /// Waits until all that was submitted before is done.
  CUresult synchronize();

private:
  std::atomic<CUresult> failed{CUDA_SUCCESS};
  std::mutex mutex;
  std::vector<std::weak_ptr<Stream>> all;
  std::weak_ptr<Stream> defaultStream;
};

/// Does one piece of work after the other. It takes a thread while there is any.
class Stream : public std::enable_shared_from_this<Stream> {
public:
  Stream(std::shared_ptr<Context> context, bool blocking, bool isLegacy)
      : context(std::move(context)), blocking(blocking), isLegacy(isLegacy) {}
  const std::shared_ptr<Context> context;
  const bool blocking; ///< waits for the default stream, and that one for it
  const bool isLegacy; ///< the default stream

  /// `number`: of the work, to wait for it. Error if there is no thread for it. Waits while the
  /// queue is full.
  CUresult submit(Work work, uint64_t *number = nullptr);
  /// Number of the last work submitted.
  uint64_t last() const;
  bool isDone(uint64_t number) const;
  /// False if the process ends before it is done.
  bool waitFor(uint64_t number) const;

  // Of Captures, and under its mutex.
  std::shared_ptr<Capture> capture; ///< null: work is done and not noted
  std::vector<int> tail;            ///< nodes that the next one comes after

private:
  void drain();

  mutable std::mutex mutex;
  mutable std::condition_variable advanced;
  std::deque<Work> queue;
  uint64_t submitted = 0, completed = 0;
  bool running = false; ///< a thread is in drain()
};

/// One record of an event: done when that work of that stream is.
struct Record {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
  std::atomic<int64_t> ns{0}; ///< when it was done
};

struct Event {
  Event(std::shared_ptr<Context> context, unsigned flags)
      : context(std::move(context)), flags(flags) {}
  const std::shared_ptr<Context> context;
  const unsigned flags;

  std::mutex mutex;
  std::shared_ptr<Record> record; ///< null: never recorded
  // Recorded last in a capture: where.
  std::weak_ptr<Capture> capture;
  bool captured = false;
  std::vector<int> nodes;
};

/// What became of work that was given to a stream.
struct Enqueued {
  CUresult result = CUDA_SUCCESS;
  uint64_t number = 0;
  bool captured = false; ///< noted for a graph and not done
};

/// Submits `work` in its order with the default stream, or notes it in the stream's capture.
Enqueued enqueue(const std::shared_ptr<Stream> &stream, Work work);
/// Makes `stream` wait for work of another one. Not while it is captured.
CUresult enqueueWait(Stream &stream, const std::shared_ptr<Stream> &other, uint64_t number);

/// The stream of a handle; the default one is that of `current`.
CUresult streamOf(CUstream handle, const std::shared_ptr<Context> &current,
                  std::shared_ptr<Stream> &stream);

} // namespace ccl::cuda::shim
