//===- Streams.cpp - Streams and events --------------------------------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

namespace ccl::python {

using std::chrono::milliseconds;

StreamHandle::StreamHandle(const std::shared_ptr<Communicator> &communicator)
    : communicator(communicator),
      stream(std::make_unique<Stream>(take(communicator->openStream()))) {}

StreamHandle::~StreamHandle() {
  withoutGil([&] { stream.reset(); });
}

void StreamHandle::keep(Array in, Array out) {
  drop();
  Result<Event> end = stream->record();
  kept.push_back({end ? std::optional(*end) : std::nullopt, std::move(in), std::move(out)});
}

void StreamHandle::drop() {
  while (!kept.empty() && (kept.front().end ? kept.front().end->done() : stream->idle()))
    kept.pop_front();
}

/// The event's status; what a signal handler raises ends the communicator, too: else the
/// calls would go on with nobody waiting for them.
static void waitFor(const Event &event, const std::shared_ptr<Communicator> &communicator,
                    const py::object &seconds) {
  const milliseconds timeout = toTimeout(seconds);
  bool isDone = false;
  try {
    isDone = untilDone(timeout, [&](milliseconds slice) {
      Status ignored = event.wait(slice);
      (void)ignored; // of the wait, or of the event: asked below
      return event.done();
    });
  } catch (py::error_already_set &) {
    communicator->abort(
        fmt::format("rank {} was interrupted while it waited", communicator->rank()));
    throw;
  }
  if (!isDone)
    raise({Error::Kind::timeout,
           fmt::format("not done after {:g} s; the work goes on", double(timeout.count()) / 1000),
           -1});
  check(event.wait());
}

void addStreams(py::module_ &module) {
  using Handle = std::shared_ptr<StreamHandle>;
  struct EventHandle {
    Event event;
    std::shared_ptr<Communicator> communicator;
  };
  py::class_<EventHandle>(module, "Event")
      .def_property_readonly("done", [](const EventHandle &self) { return self.event.done(); })
      .def("wait", [](const EventHandle &self, const py::object &timeout) {
        waitFor(self.event, self.communicator, timeout);
      });

  py::class_<StreamHandle, Handle>(module, "Stream")
      .def(py::init([](const CommunicatorHandle &communicator) {
        return std::make_shared<StreamHandle>(communicator.get());
      }))
      .def("wait",
           [](const Handle &self, const py::object &timeout) {
             waitFor(take((**self).record()), self->owner(), timeout);
             self->drop();
           })
      .def("record",
           [](const Handle &self) { return EventHandle{take((**self).record()), self->owner()}; })
      .def("after",
           [](const Handle &self, const EventHandle &event) { check((**self).after(event.event)); })
      .def_property_readonly("idle", [](const Handle &self) { return (**self).idle(); });
}

} // namespace ccl::python
