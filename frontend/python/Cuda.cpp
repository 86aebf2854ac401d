//===- Cuda.cpp - Communicators of GPUs -------------------------------------------===//
//
// Buffers are addresses here; ccl/cuda.py finds them in what users have.
//===----------------------------------------------------------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <ccl/cuda.h>

#include <pybind11/stl.h>

namespace ccl::python {

namespace {

struct CudaHandle {
  std::shared_ptr<CudaCommunicator> communicator; ///< null once it was closed
  const std::shared_ptr<CudaCommunicator> &get() const {
    if (!communicator)
      throw py::value_error("the communicator is closed");
    return communicator;
  }
};

using Addresses = std::vector<std::pair<uintptr_t, uintptr_t>>; ///< in and out of each rank

std::vector<CudaBuffer> toBuffers(const Addresses &addresses) {
  std::vector<CudaBuffer> buffers;
  for (const auto &[in, out] : addresses)
    buffers.push_back({reinterpret_cast<const void *>(in), reinterpret_cast<void *>(out)});
  return buffers;
}

CudaCall toCall(std::optional<uintptr_t> stream, const py::object &timeout, std::string algorithm) {
  CudaCall call;
  if (stream)
    call.stream = reinterpret_cast<void *>(*stream);
  call.timeout = toTimeout(timeout);
  call.algorithm = std::move(algorithm);
  return call;
}

CudaHandle openProcess(const CommunicatorHandle &host, int device, const py::object &timeout,
                       int instances, bool checked) {
  const auto communicator = host.get();
  const CudaOptions options{toTimeout(timeout), instances, checked};
  return {std::make_shared<CudaCommunicator>(take(blocking(
      communicator, [&] { return CudaCommunicator::open(*communicator, device, options); })))};
}

CudaHandle openLocal(int ranks, const std::vector<int> &devices, const py::object &timeout,
                     int instances) {
  const CudaOptions options{toTimeout(timeout), instances, false};
  return {std::make_shared<CudaCommunicator>(
      take(withoutGil([&] { return CudaCommunicator::openLocal(ranks, devices, options); })))};
}

Status dispatch(CudaCommunicator &gpus, Collective collective, CudaBuffers buffers, int64_t count,
                DataType type, Op op, int root, const CudaCall &call) {
  switch (collective) {
  case Collective::allReduce: return gpus.allReduce(buffers, count, type, op, call);
  case Collective::allGather: return gpus.allGather(buffers, count, type, call);
  case Collective::reduceScatter: return gpus.reduceScatter(buffers, count, type, op, call);
  case Collective::broadcast: return gpus.broadcast(buffers, count, type, root, call);
  case Collective::reduce: return gpus.reduce(buffers, count, type, op, root, call);
  case Collective::gather: return gpus.gather(buffers, count, type, root, call);
  case Collective::scatter: return gpus.scatter(buffers, count, type, root, call);
  default: return gpus.allToAll(buffers, count, type, call);
  }
}

void run(const CudaHandle &self, Collective collective, const Addresses &addresses, int64_t count,
         const std::string &type, const std::string &op, int root, std::optional<uintptr_t> stream,
         const py::object &timeout, const std::string &algorithm) {
  const auto gpus = self.get();
  const DataType elements = toDataType(type, "type");
  const Op reduction = toOptionalOp(op).value_or(Op::sum);
  const std::vector<CudaBuffer> buffers = toBuffers(addresses);
  const CudaCall call = toCall(stream, timeout, algorithm);
  check(withoutGil([&] {
    return dispatch(*gpus, collective, std::span<const CudaBuffer>(buffers), count, elements,
                    reduction, root, call);
  }));
  runSignalHandlers();
}

void launch(const CudaHandle &self, const std::shared_ptr<Program> &program,
            const Addresses &addresses, int64_t count, std::optional<uintptr_t> stream,
            const py::object &timeout) {
  const auto gpus = self.get();
  const std::vector<CudaBuffer> buffers = toBuffers(addresses);
  const CudaCall call = toCall(stream, timeout, "");
  check(withoutGil(
      [&] { return gpus->launch(*program, std::span<const CudaBuffer>(buffers), count, call); }));
  runSignalHandlers();
}

/// (address, bytes, addresses of all ranks).
py::tuple toTuple(const CudaMemory &memory) {
  std::vector<uintptr_t> peers;
  for (void *peer : memory.peers)
    peers.push_back(reinterpret_cast<uintptr_t>(peer));
  return py::make_tuple(reinterpret_cast<uintptr_t>(memory.data), memory.size, peers);
}

py::tuple allocate(const CudaHandle &self, size_t bytes, const py::object &seconds) {
  const auto gpus = self.get();
  const auto timeout = toTimeout(seconds);
  return toTuple(take(withoutGil([&] { return gpus->allocate(bytes, timeout); })));
}

py::tuple registerBuffer(const CudaHandle &self, uintptr_t address, size_t bytes,
                         const py::object &seconds) {
  const auto gpus = self.get();
  const auto timeout = toTimeout(seconds);
  return toTuple(take(withoutGil(
      [&] { return gpus->registerBuffer(reinterpret_cast<void *>(address), bytes, timeout); })));
}

py::object failure(const CudaHandle &self) {
  std::optional<Error> error = self.get()->failure();
  if (!error)
    return py::none();
  return py::make_tuple(name(error->kind), error->message, error->culprit);
}

} // namespace

void addCuda(py::module_ &module) {
  py::class_<CudaHandle>(module, "CudaCommunicator")
      .def_property_readonly("size", [](const CudaHandle &self) { return self.get()->size(); })
      .def_property_readonly("ranks", [](const CudaHandle &self) { return self.get()->ranks(); })
      .def("run", &run)
      .def("launch", &launch)
      .def("allocate", &allocate)
      .def("register", &registerBuffer)
      .def("synchronize",
           [](const CudaHandle &self) {
             const auto gpus = self.get();
             check(withoutGil([&] { return gpus->synchronize(); }));
             runSignalHandlers();
           })
      .def("abort",
           [](const CudaHandle &self, const std::string &reason) {
             const auto gpus = self.get();
             withoutGil([&] { gpus->abort(reason); });
           })
      .def("failure", &failure)
      .def("close", [](CudaHandle &self) {
        auto last = std::exchange(self.communicator, nullptr);
        withoutGil([&] { last.reset(); });
      });
  module.def("cuda_open", &openProcess);
  module.def("cuda_open_local", &openLocal);
}

} // namespace ccl::python
