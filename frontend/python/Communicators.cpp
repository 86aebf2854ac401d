//===- Communicators.cpp - Communicators and symmetric memory ----------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <pybind11/stl.h>

#include <cmath>

namespace ccl::python {

using std::chrono::milliseconds;

std::chrono::milliseconds toTimeout(const py::object &seconds, const char *name) {
  if (seconds.is_none())
    return milliseconds(0);
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    raiseType("{}: {} is no number of seconds", name, typeName(seconds));
  }
  constexpr double most = 1e9;
  if (!(value > 0) || value > most)
    raiseValue("{}: {} seconds; needs to be over 0 and at most {}", name, value, most);
  return milliseconds(int64_t(std::ceil(value * 1000)));
}

const std::shared_ptr<Communicator> &CommunicatorHandle::get() const {
  if (!communicator)
    throw py::value_error("the communicator is closed");
  return communicator;
}

static CommunicatorHandle wrap(Communicator communicator) {
  return {std::make_shared<Communicator>(std::move(communicator))};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// One rank's block of symmetric memory; its buffer is what NumPy's arrays lie on.
struct Block {
  std::shared_ptr<Memory> memory;
  int rank; ///< -1: one's own
};

static py::buffer_info describe(const Block &block) {
  void *start = block.rank < 0 ? block.memory->data() : block.memory->peer(block.rank);
  return py::buffer_info(static_cast<uint8_t *>(start), py::ssize_t(block.memory->size()));
}

static Block allocate(const CommunicatorHandle &self, size_t bytes, const py::object &seconds) {
  const auto communicator = self.get();
  const milliseconds timeout = toTimeout(seconds);
  return {std::make_shared<Memory>(
              take(blocking(communicator, [&] { return communicator->allocate(bytes, timeout); }))),
          -1};
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

static CommunicatorHandle open(int rank, int size, const std::string &socket,
                               const std::string &address, const py::object &seconds) {
  OpenOptions options;
  options.rank = rank;
  options.size = size;
  options.socket = socket;
  options.address = address;
  options.timeout = toTimeout(seconds);
  return wrap(take(abandonable([options] { return Communicator::open(options); })));
}

static std::vector<CommunicatorHandle> openThreads(int size, const py::object &seconds) {
  OpenOptions options;
  options.timeout = toTimeout(seconds);
  std::vector<Communicator> opened = take(Communicator::openThreads(size, options));
  std::vector<CommunicatorHandle> handles;
  for (Communicator &communicator : opened)
    handles.push_back(wrap(std::move(communicator)));
  return handles;
}

static std::optional<CommunicatorHandle> split(const CommunicatorHandle &self, int color, int key,
                                               const py::object &seconds) {
  const auto communicator = self.get();
  const milliseconds timeout = toTimeout(seconds);
  std::optional<Communicator> child =
      take(blocking(communicator, [&] { return communicator->split(color, key, timeout); }));
  return child ? std::optional(wrap(std::move(*child))) : std::nullopt;
}

static CommunicatorHandle dup(const CommunicatorHandle &self, const py::object &seconds) {
  const auto communicator = self.get();
  const milliseconds timeout = toTimeout(seconds);
  return wrap(take(blocking(communicator, [&] { return communicator->dup(timeout); })));
}

static CommunicatorHandle rebuild(const CommunicatorHandle &self, const py::object &seconds) {
  const milliseconds timeout = toTimeout(seconds);
  return wrap(take(abandonable(
      [communicator = self.get(), timeout] { return communicator->rebuild(timeout); })));
}

static std::shared_ptr<Program> program(const CommunicatorHandle &self,
                                        const std::string &collectiveName, const std::string &type,
                                        const std::string &op, int root, std::vector<int> targets,
                                        const std::string &algorithm) {
  const auto communicator = self.get();
  const Collective collective = toCollective(collectiveName);
  ProgramOptions options;
  options.type = toDataType(type, "type");
  options.op = toOptionalOp(op);
  options.root = root;
  options.targets = std::move(targets);
  options.algorithm = algorithm;
  return std::make_shared<Program>(
      take(withoutGil([&] { return communicator->program(collective, std::move(options)); })));
}

/// (kind, message, culprit) of what ended the communicator, or None.
static py::object failure(const CommunicatorHandle &self) {
  std::optional<Error> error = self.get()->failure();
  if (!error)
    return py::none();
  return py::make_tuple(name(error->kind), error->message, error->culprit);
}

void addCommunicators(py::module_ &module) {
  py::class_<Block>(module, "Block", py::buffer_protocol())
      .def_buffer([](Block &block) { return describe(block); })
      .def("peer", [](const Block &self, int rank) { return Block{self.memory, rank}; });

  py::class_<CommunicatorHandle> communicator(module, "Communicator");
  communicator.def_property_readonly(
      "rank", [](const CommunicatorHandle &self) { return self.get()->rank(); });
  communicator.def_property_readonly(
      "size", [](const CommunicatorHandle &self) { return self.get()->size(); });
  communicator.def_property_readonly("timeout", [](const CommunicatorHandle &self) {
    return double(self.get()->timeout().count()) / 1000;
  });
  communicator.def_property_readonly(
      "is_direct", [](const CommunicatorHandle &self) { return self.get()->isDirect(); });
  communicator.def("split", &split);
  communicator.def("dup", &dup);
  communicator.def("rebuild", &rebuild);
  communicator.def("allocate", &allocate);
  communicator.def("program", &program);
  communicator.def("failure", &failure);
  communicator.def("abort", [](const CommunicatorHandle &self, const std::string &reason) {
    const auto communicator = self.get();
    withoutGil([&] { communicator->abort(reason); });
  });
  communicator.def("close", [](CommunicatorHandle &self) { self.communicator.reset(); });
  communicator.def_property_readonly(
      "is_closed", [](const CommunicatorHandle &self) { return !self.communicator; });
  addCollectives(module, communicator);

  module.def("open", &open);
  module.def("open_threads", &openThreads);
}

} // namespace ccl::python
