"""Arguments in the form that the extension takes."""

import operator
import os

from ._ccl import Program

# NumPy's and ml_dtypes' names of what the library calls otherwise.
_TYPES = {
    "int8": "i8", "uint8": "u8", "int32": "i32", "uint32": "u32", "int64": "i64",
    "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}
_NUMPY = {ours: theirs for theirs, ours in _TYPES.items()}
# Types that NumPy has not got lie in integers of their size.
_NUMPY.update(bf16="uint16", f8e4m3="uint8", f8e5m2="uint8")


def type_name(dtype, argument="dtype"):
    """The library's name of a type given by name, NumPy dtype or scalar type; "" for None."""
    if dtype is None:
        return ""
    if isinstance(dtype, str):
        return _TYPES.get(dtype, dtype)
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if name in ("float", "int"):  # Python's own, as NumPy takes them
        return {"float": "f64", "int": "i64"}[name]
    if name not in _TYPES:
        raise TypeError(f"{argument}: {dtype!r} is no element type of ccl")
    return _TYPES[name]


def numpy_type(dtype):
    """The NumPy dtype of arrays that hold `dtype`; what is one already stays."""
    import numpy

    if not isinstance(dtype, str):
        return numpy.dtype(dtype)
    name = type_name(dtype)
    return numpy.dtype(_NUMPY.get(name, name))


def op_name(op):
    """A reduction's name; "" for None."""
    if op is None:
        return ""
    if not isinstance(op, str):
        raise TypeError(f'op: {op!r} is no name like "sum"')
    return op


def whole(value, argument, bits=31):
    """A whole number of so many bits and a sign."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}: {value!r} is no whole number") from None
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(f"{argument}: {number} has more than {bits} bits")
    return number


def wholes(values, argument, bits=31):
    """A list of whole numbers."""
    try:
        values = list(values)
    except TypeError:
        raise TypeError(f"{argument}: {values!r} is no sequence of whole numbers") from None
    return [whole(value, f"{argument}[{i}]", bits) for i, value in enumerate(values)]


def number(value, argument):
    """A real number."""
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{argument}: {value!r} is no number")
    return float(value)


def number_or_none(value, argument):
    """A real number; None stays."""
    return None if value is None else number(value, argument)


def sizes_of(sizes):
    """Size parameters by name, as pairs."""
    return [(str(name), whole(size, f"sizes[{name!r}]", 63))
            for name, size in (sizes or {}).items()]


def is_path(source):
    """Whether a text or path object stands for a file that holds a program."""
    return isinstance(source, os.PathLike) or (
        source.endswith((".mlir", ".xml", ".json")) and "\n" not in source)


def text(value, argument):
    """A text."""
    if not isinstance(value, str):
        raise TypeError(f"{argument}: {value!r} is no text")
    return value


def program_of(value, or_none=True):
    """A program."""
    if not (value is None and or_none) and not isinstance(value, Program):
        raise TypeError(f"program: {value!r} is no ccl.Program")
    return value
