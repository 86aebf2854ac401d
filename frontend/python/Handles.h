//===- Handles.h - What Python's objects hold --------------------------------------===//
//
// The library's handles must not be destroyed while another thread uses them. So Python's
// objects hold shared pointers; a call takes its own with the GIL and keeps it while it runs.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/python/Arrays.h"

#include <chrono>
#include <deque>
#include <memory>

namespace ccl::python {

struct CommunicatorHandle {
  std::shared_ptr<Communicator> communicator; ///< null once it was closed
  /// Throws ValueError if it was closed.
  const std::shared_ptr<Communicator> &get() const;
};

/// A stream, and the arrays of its calls.
class StreamHandle {
public:
  explicit StreamHandle(const std::shared_ptr<Communicator> &communicator);
  StreamHandle(const StreamHandle &) = delete;
  /// Waits for what was queued.
  ~StreamHandle();

  /// Keeps the arrays of a call that was just queued until it is done.
  void keep(Array in, Array out);
  /// Lets go of the arrays of calls that are done.
  void drop();
  Stream &operator*() const { return *stream; }
  const std::shared_ptr<Communicator> &owner() const { return communicator; }

private:
  struct Kept {
    std::optional<Event> end; ///< nothing: none could be made; until the stream is idle
    Array in, out;
  };
  std::shared_ptr<Communicator> communicator;
  std::unique_ptr<Stream> stream;
  std::deque<Kept> kept; ///< touched with the GIL only
};

/// Seconds to what the library takes; None is 0. ValueError, which begins with the argument's
/// name, if it is not over 0.
std::chrono::milliseconds toTimeout(const py::object &seconds, const char *name = "timeout");

/// What texts, generators and builders have in common; "" is the default.
ProgramOptions toOptions(int ranks, const std::string &type, const std::string &op,
                         const std::string &via, int slots);

void addCommunicators(py::module_ &module);
void addCollectives(py::module_ &module, py::class_<CommunicatorHandle> &communicator);
void addStreams(py::module_ &module);
void addPrograms(py::module_ &module);
void addBuilder(py::module_ &module);
void addCuda(py::module_ &module);
void addTopologies(py::module_ &module);

} // namespace ccl::python
