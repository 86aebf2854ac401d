//===- Builder.cpp - Algorithms written as Python loops ----------------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <ccl/builder.h>

#include <pybind11/stl.h>

#include <frameobject.h>

namespace ccl::python {
namespace {

//===----------------------------------------------------------------------===//
// The line that called
//===----------------------------------------------------------------------===//

/// Folder of the package with a slash; its own lines are not what users wrote.
std::string &packageFolder() {
  static auto *folder = new std::string;
  return *folder;
}

struct CallerLine {
  std::string file = "<python>";
  uint32_t line = 0, column = 0;
  Where where() const { return Where(file, line, column); }
};

std::string fileOf(PyCodeObject *code) {
  return py::reinterpret_borrow<py::object>(code->co_filename).cast<std::string>();
}

/// From 1, 0 if this Python does not keep them.
uint32_t columnOf(PyFrameObject *frame, PyCodeObject *code) {
#if PY_VERSION_HEX >= 0x030b0000
  int line = 0, column = -1, endLine = 0, endColumn = 0;
  if (PyCode_Addr2Location(code, PyFrame_GetLasti(frame), &line, &column, &endLine, &endColumn) &&
      column >= 0)
    return uint32_t(column) + 1;
#endif
  return 0;
}

/// The innermost line outside of the package.
CallerLine callerLine() {
  auto frame = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject *>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto *raw = reinterpret_cast<PyFrameObject *>(frame.ptr());
    auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject *>(PyFrame_GetCode(raw)));
    auto *rawCode = reinterpret_cast<PyCodeObject *>(code.ptr());
    std::string file = fileOf(rawCode);
    if (file.compare(0, packageFolder().size(), packageFolder()) != 0)
      return {std::move(file), uint32_t(PyFrame_GetLineNumber(raw)), columnOf(raw, rawCode)};
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject *>(PyFrame_GetBack(raw)));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Places and contracts
//===----------------------------------------------------------------------===//

/// A buffer with what its repr says.
struct BufferHandle {
  Buffer buffer;
  std::string name;
  int64_t chunks;
};

int64_t toIndex(py::handle object, const char *what) {
  const Py_ssize_t value = PyNumber_AsSsize_t(object.ptr(), PyExc_IndexError);
  if (value == -1 && PyErr_Occurred()) {
    const bool tooLarge = PyErr_ExceptionMatches(PyExc_IndexError);
    PyErr_Clear();
    if (tooLarge)
      raiseValue("{}: {} has more than 63 bits", what, py::str(object).cast<std::string>());
    raiseType("{}: {} is no whole number", what, typeName(object));
  }
  return value;
}

Place placeOf(const BufferHandle &self, const py::object &index) {
  if (!PyTuple_Check(index.ptr()) || PyTuple_GET_SIZE(index.ptr()) != 2)
    raiseType("{}[...]: needs two whole numbers, [rank, chunk]", self.name);
  return self.buffer(toIndex(PyTuple_GET_ITEM(index.ptr(), 0), "rank"),
                     toIndex(PyTuple_GET_ITEM(index.ptr(), 1), "chunk"));
}

std::string describe(const Contract &contract) {
  std::string text = fmt::format("<ccl.contract {}", name(contract.collective));
  if (contract.op)
    text += fmt::format(" {}", name(*contract.op));
  if (contract.root)
    text += fmt::format(" root {}", contract.root);
  return text + ">";
}

Contract customContract(const std::vector<std::array<int64_t, 4>> &rows, const std::string &op) {
  std::vector<Contract::Row> list;
  for (const auto &[outRank, outChunk, inRank, inChunk] : rows)
    list.push_back({outRank, outChunk, inRank, inChunk});
  return Contract::custom(std::move(list), toOptionalOp(op));
}

void addContracts(py::module_ &module) {
  py::class_<Contract>(module, "Contract", "What an algorithm promises; see `ccl.contract`.")
      .def("__repr__", &describe)
      .attr("__module__") = "ccl";
  module.def("contract_all_reduce",
             [](const std::string &op) { return Contract::allReduce(toOp(op)); });
  module.def("contract_all_gather", &Contract::allGather);
  module.def("contract_reduce_scatter",
             [](const std::string &op) { return Contract::reduceScatter(toOp(op)); });
  module.def("contract_broadcast", &Contract::broadcast);
  module.def("contract_reduce",
             [](const std::string &op, int root) { return Contract::reduce(toOp(op), root); });
  module.def("contract_gather", &Contract::gather);
  module.def("contract_scatter", &Contract::scatter);
  module.def("contract_all_to_all", &Contract::allToAll);
  module.def("contract_permute", &Contract::permute);
  module.def("contract_barrier", &Contract::barrier);
  module.def("contract_custom", &customContract);
}

//===----------------------------------------------------------------------===//
// Algorithms
//===----------------------------------------------------------------------===//

BufferHandle addBuffer(Algorithm &self, const std::string &role, const py::object &chunks,
                       const std::string &name) {
  const CallerLine here = callerLine();
  const int64_t count = toIndex(chunks, "chunks");
  auto add = role == "in"      ? &Algorithm::in
             : role == "out"   ? &Algorithm::out
             : role == "inout" ? &Algorithm::inout
                               : &Algorithm::scratch;
  return {(self.*add)(count, name, here.where()), name, count};
}

Program compileAlgorithm(const Algorithm &algorithm, const std::string &type, const std::string &op,
                         const std::string &via, int slots) {
  const ProgramOptions options = toOptions(0, type, op, via, slots);
  // A copy: other threads may go on writing moves meanwhile.
  Algorithm snapshot(algorithm);
  return take(withoutGil([&] { return Program::compile(snapshot, options); }));
}

} // namespace

void addBuilder(py::module_ &module) {
  addContracts(module);
  py::class_<Place>(module, "Place", "One chunk of one buffer on one rank.")
      .def_readonly("rank", &Place::rank, "The rank.")
      .def_readonly("chunk", &Place::chunk, "Number of the chunk on that rank.")
      .def("__repr__",
           [](const Place &p) { return fmt::format("<ccl.Place [{}, {}]>", p.rank, p.chunk); })
      .attr("__module__") = "ccl";
  py::class_<BufferHandle>(
      module, "Buffer", "A buffer that every rank owns a part of: ``x[rank, chunk]`` is a place.")
      .def("__getitem__", &placeOf, py::arg("place"), "The place of [rank, chunk].")
      .def_readonly("name", &BufferHandle::name, "Its name in messages.")
      .def_readonly("chunks", &BufferHandle::chunks, "Chunks on every rank.")
      .def("__repr__",
           [](const BufferHandle &self) {
             return fmt::format("<ccl.Buffer {}[rank, {} chunks]>", self.name, self.chunks);
           })
      .attr("__module__") = "ccl";

  py::class_<Algorithm>(module, "Algorithm")
      .def(py::init([](const std::string &name, const Contract &contract, int ranks) {
        const CallerLine here = callerLine();
        return Algorithm(name, contract, ranks, here.where());
      }))
      .def("buffer", &addBuffer)
      .def("copy",
           [](Algorithm &self, const Place &from, const Place &into, int64_t count) {
             const CallerLine here = callerLine();
             self.copy(from, into, count, here.where());
           })
      .def("reduce",
           [](Algorithm &self, const Place &from, const Place &into, int64_t count) {
             const CallerLine here = callerLine();
             self.reduce(from, into, count, here.where());
           })
      .def("begin_step", &Algorithm::beginStep)
      .def("end_step", &Algorithm::endStep)
      .def_property_readonly("name", &Algorithm::name)
      .def_property_readonly("contract", &Algorithm::contract)
      .def_property_readonly("ranks", &Algorithm::ranks)
      .def_property_readonly("moves", &Algorithm::moves)
      .def("text", [](const Algorithm &self) { return take(self.text()); })
      .def("compile", &compileAlgorithm);
  module.def("set_package_folder", [](const std::string &folder) { packageFolder() = folder; });
}

} // namespace ccl::python
