//===- Capture.h - Work that is noted instead of done -----------------------------===//
#pragma once

#include "runtime/cuda/shim/Stream.h"

#include <thread>

namespace ccl::cuda::shim {

struct Node {
  Work work;
  std::vector<int> after; ///< nodes before it
};

struct Graph {
  std::vector<Node> nodes; ///< each after those it waits for
};

/// A graph that can be launched; one launch after the other.
struct GraphExec {
  explicit GraphExec(const Graph &graph);
  /// Does all nodes, those that wait for nothing of each other at once.
  static CUresult run(const std::shared_ptr<const GraphExec> &exec);

  std::vector<Node> nodes;
  std::vector<std::vector<int>> next; ///< by node: which wait for it

  std::mutex mutex;
  std::weak_ptr<Stream> lastStream; ///< of the last launch
  uint64_t lastNumber = 0;
};

/// From cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream *origin = nullptr;
  std::vector<std::weak_ptr<Stream>> streams; ///< that take part
  std::vector<Node> nodes;
  bool invalid = false;
};

/// All captures of this process. Any thread may call any function.
class Captures {
public:
  CUresult begin(const std::shared_ptr<Stream> &stream, CUstreamCaptureMode mode);
  CUresult end(const std::shared_ptr<Stream> &stream, std::shared_ptr<Graph> &graph);
  CUresult status(Stream &stream, CUstreamCaptureStatus &status, uint64_t &id);
  /// Notes work of a stream that is captured; else `captured` is false and it is to be done.
  /// Error if the default stream may not be used now.
  CUresult note(Stream &stream, const Work &work, bool &captured);
  /// An event is recorded; false if the stream is not captured.
  CUresult record(Stream &stream, Event &event, bool &captured);
  /// A stream waits for an event. `captured` is false: neither is of a capture.
  CUresult wait(const std::shared_ptr<Stream> &stream, Event &event, bool &captured);
  /// Something that a captured stream cannot do: its capture is lost. Success if it is not
  /// captured.
  CUresult forbid(Stream &stream);
  /// The same for all streams of a context.
  CUresult forbid(Context &context);
  /// A call that might wait for, or change what is captured: not allowed by the modes of this
  /// thread and of captures.
  CUresult unsafeCall();
  /// The stream ends.
  void leave(Stream &stream);
  CUstreamCaptureMode exchangeMode(CUstreamCaptureMode mode);

private:
  CUresult checkDefault(Stream &stream);
  void finish(Capture &capture);

  std::mutex mutex;
  std::vector<std::weak_ptr<Capture>> active;
  uint64_t nextId = 1;
};

} // namespace ccl::cuda::shim
