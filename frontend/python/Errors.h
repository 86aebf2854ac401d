//===- Errors.h - From the library's errors to Python's exceptions ---------------===//
//
// Everything here needs the GIL.
//===----------------------------------------------------------------------===//
#pragma once

#include <ccl/ccl.h>

#include <pybind11/pybind11.h>

#include <fmt/format.h>

namespace ccl::python {

namespace py = pybind11;

/// Throws the exception of ccl/errors.py that belongs to the error's kind.
[[noreturn]] void raise(const Error &error);

inline void check(const Status &status) {
  if (!status)
    raise(status.error());
}
template <typename T>
T take(Result<T> result) {
  if (!result)
    raise(result.error());
  return std::move(*result);
}

/// A wrong argument; the text begins with its name.
template <typename... T>
[[noreturn]] void raiseValue(fmt::format_string<T...> format, T &&...values) {
  throw py::value_error(fmt::format(format, std::forward<T>(values)...));
}
template <typename... T>
[[noreturn]] void raiseType(fmt::format_string<T...> format, T &&...values) {
  throw py::type_error(fmt::format(format, std::forward<T>(values)...));
}

/// "list", "numpy.ndarray": what kind of thing was passed.
std::string typeName(py::handle object);

} // namespace ccl::python
