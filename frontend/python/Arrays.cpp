//===- Arrays.cpp -----------------------------------------------------------===//
#include "frontend/python/Arrays.h"

namespace ccl::python {

static constexpr const char *typeList =
    "i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2";

DataType toDataType(std::string_view text, const char *argument) {
  if (std::optional<DataType> type = parseDataType(text))
    return *type;
  raiseValue("{}: '{}' is none of {}", argument, text, typeList);
}

Op toOp(std::string_view text) {
  if (std::optional<Op> op = parseOp(text))
    return *op;
  raiseValue("op: '{}' is none of sum, prod, min, max, avg, band, bor, bxor", text);
}

std::optional<Op> toOptionalOp(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(toOp(text));
}

Collective toCollective(std::string_view text) {
  if (std::optional<Collective> collective = parseCollective(text))
    return *collective;
  raiseValue("collective: there is no '{}'", text);
}

//===----------------------------------------------------------------------===//
// What an array says of its elements
//===----------------------------------------------------------------------===//

/// Of a buffer's format, as the struct module writes it.
static std::optional<DataType> typeOfFormat(std::string_view format, py::ssize_t size) {
  // This machine is little-endian like all that we run on.
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  if (format.size() != 1)
    return std::nullopt;
  auto bySize = [&](DataType one, DataType four, DataType eight) -> std::optional<DataType> {
    switch (size) {
    case 1: return one;
    case 4: return four;
    case 8: return eight;
    default: return std::nullopt;
    }
  };
  switch (format[0]) {
  case 'b':
  case 'i':
  case 'l':
  case 'q': return bySize(DataType::i8, DataType::i32, DataType::i64);
  case 'B':
  case 'I':
  case 'L':
  case 'Q': return bySize(DataType::u8, DataType::u32, DataType::u64);
  case 'e': return DataType::f16;
  case 'f': return DataType::f32;
  case 'd': return DataType::f64;
  default: return std::nullopt;
  }
}

/// Whether elements of that format may stand for any type of their size.
static bool isInteger(std::string_view format) {
  return !format.empty() && std::string_view("bBhH").find(format.back()) != format.npos;
}

namespace {
struct Custom {
  DataType type;
  const char *view; ///< what NumPy can see it as
};
} // namespace

/// ml_dtypes' types have no buffer, but their arrays can be looked at as integers.
static std::optional<Custom> customType(py::handle object) {
  py::object dtype = py::getattr(object, "dtype", py::none());
  if (dtype.is_none() || !py::hasattr(object, "view"))
    return std::nullopt;
  const std::string name = py::str(py::getattr(dtype, "name", py::str()));
  if (name == "bfloat16")
    return Custom{DataType::bf16, "uint16"};
  if (name == "float8_e4m3fn")
    return Custom{DataType::f8e4m3, "uint8"};
  if (name == "float8_e5m2")
    return Custom{DataType::f8e5m2, "uint8"};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Array
//===----------------------------------------------------------------------===//

static void refuseType(const char *name, std::string_view format, py::handle object,
                       std::optional<DataType> wanted) {
  if (wanted)
    raiseType("{}: its elements ('{}' of {}) are not {}", name, format, typeName(object),
              ccl::name(*wanted));
  if (format == "H" || format == "h")
    raiseType("{}: 16-bit integers cannot be reduced or moved as such; for bfloat16 in them say "
              "dtype=\"bf16\"",
              name);
  raiseType("{}: elements of format '{}' are none of {}", name, format, typeList);
}

Array Array::of(py::handle object, const char *name, bool isWritten, std::optional<DataType> type) {
  py::object source = py::reinterpret_borrow<py::object>(object);
  std::optional<Custom> custom;
  if (!PyObject_CheckBuffer(object.ptr()) || (custom = customType(object))) {
    if (!custom)
      raiseType("{}: {} has no buffer; pass a NumPy array", name, typeName(object));
    if (type && *type != custom->type)
      raiseType("{}: holds {}, but dtype says {}", name, ccl::name(custom->type), ccl::name(*type));
    source = object.attr("view")(custom->view);
    type = custom->type;
  }
  Array array;
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(source.ptr(), view.get(), PyBUF_STRIDES | PyBUF_FORMAT)) {
    py::error_already_set reason;
    raiseType("{}: {}", name, py::str(reason.value()).cast<std::string>());
  }
  array.view.reset(view.release());
  if (!PyBuffer_IsContiguous(array.view.get(), 'C'))
    raiseValue("{}: is not C-contiguous; numpy.ascontiguousarray makes a copy that is", name);
  if (isWritten && array.view->readonly)
    raiseValue("{}: is read-only", name);
  const std::string_view format = array.view->format ? array.view->format : "B";
  const py::ssize_t size = array.view->itemsize;
  std::optional<DataType> own = typeOfFormat(format, size);
  if (type && own != type && !(isInteger(format) && size_t(size) == sizeOf(*type)))
    refuseType(name, format, object, type);
  if (!type && !own)
    refuseType(name, format, object, {});
  array.elementType = type ? *type : *own;
  if (array.elements() > 0 && reinterpret_cast<uintptr_t>(array.data()) % size_t(size) != 0)
    raiseValue("{}: is not aligned to its elements of {} bytes; its copy() is", name, size);
  return array;
}

} // namespace ccl::python
