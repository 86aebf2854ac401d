//===- Errors.cpp -----------------------------------------------------------===//
#include "frontend/python/Errors.h"

namespace ccl::python {

void raise(const Error &error) {
  py::object exception = py::module_::import("ccl.errors")
                             .attr("make")(name(error.kind), error.message, error.culprit);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

std::string typeName(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

} // namespace ccl::python
