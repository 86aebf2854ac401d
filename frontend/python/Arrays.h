//===- Arrays.h - Arrays of Python, as memory -------------------------------------===//
#pragma once

#include "frontend/python/Errors.h"

#include <memory>

namespace ccl::python {

/// What a caller passed as an array: C-contiguous elements of one type. While it lives, the
/// memory stays where it is. It is made and destroyed with the GIL.
class Array {
public:
  Array() = default;
  /// Of anything with a buffer, or an array of ml_dtypes. `name` is the argument's, for the
  /// TypeError or ValueError that says why it cannot be. `type`: what the elements are
  /// instead of what the array says: types that NumPy has not got lie in integers of the
  /// same size.
  static Array of(py::handle object, const char *name, bool isWritten,
                  std::optional<DataType> type);

  void *data() const { return view ? view->buf : nullptr; }
  int64_t elements() const { return view ? view->len / view->itemsize : 0; }
  DataType type() const { return elementType; }

private:
  struct Release {
    void operator()(Py_buffer *view) const {
      PyBuffer_Release(view);
      delete view;
    }
  };
  // Py_buffer may point into itself: it must not move.
  std::unique_ptr<Py_buffer, Release> view;
  DataType elementType = DataType::u8;
};

/// "f32" and nccl-tests' "float"; ValueError naming `argument` for what is no type.
DataType toDataType(std::string_view text, const char *argument);
Op toOp(std::string_view text);
std::optional<Op> toOptionalOp(std::string_view text); ///< "": nothing
Collective toCollective(std::string_view text);

} // namespace ccl::python
