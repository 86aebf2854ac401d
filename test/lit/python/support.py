"""Element types and references for the tests of the Python package."""
import numpy as np


def _decode_f8(code, exponent_bits, bias):
    mantissa_bits = 7 - exponent_bits
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias)
    return sign * (1 + mantissa) * 2.0 ** (exponent - bias)


class Type:
    """One element type: how numbers get into arrays of it, and out."""

    def __init__(self, name, dtype, says=None):
        self.name, self.dtype, self.says = name, np.dtype(dtype), says

    def keywords(self):
        return {"dtype": self.says} if self.says else {}

    def encode(self, values):
        return np.asarray(values).astype(self.dtype)

    def decode(self, array):
        return array.astype(np.float64)


class BFloat16(Type):
    def encode(self, values):
        return (np.asarray(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def decode(self, array):
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Float8(Type):
    def __init__(self, name, exponent_bits, bias):
        super().__init__(name, np.uint8, name)
        self.table = np.array([_decode_f8(code, exponent_bits, bias) for code in range(256)])

    def encode(self, values):
        # Only what is exact and not negative.
        values = np.asarray(values, dtype=np.float64)
        codes = np.searchsorted(self.table[:0x78], values)
        assert (self.table[codes] == values).all()
        return codes.astype(np.uint8)

    def decode(self, array):
        return self.table[array]


TYPES = {each.name: each for each in [
    Type("i8", "i1"), Type("u8", "u1"), Type("i32", "i4"), Type("u32", "u4"), Type("i64", "i8"),
    Type("u64", "u8"), Type("f16", "f2"), BFloat16("bf16", "u2", "bf16"), Type("f32", "f4"),
    Type("f64", "f8"), Float8("f8e4m3", 4, 7), Float8("f8e5m2", 5, 15)]}

OPS = {
    "sum": lambda all: np.sum(all, axis=0),
    "prod": lambda all: np.prod(all, axis=0),
    "min": lambda all: np.min(all, axis=0),
    "max": lambda all: np.max(all, axis=0),
    "avg": lambda all: np.sum(all, axis=0) / len(all),
    "band": lambda all: np.bitwise_and.reduce(np.asarray(all, dtype=np.int64)),
    "bor": lambda all: np.bitwise_or.reduce(np.asarray(all, dtype=np.int64)),
    "bxor": lambda all: np.bitwise_xor.reduce(np.asarray(all, dtype=np.int64)),
}


def numbers(rank, count, most=3):
    """What rank `rank` gives: whole numbers below `most`, so that every type is exact."""
    return np.random.default_rng([rank, count]).integers(0, most, count)


def reduced(op, inputs, type):
    """The reduction as the element type has it; averages of integers are truncated."""
    result = OPS[op](inputs)
    if op == "avg" and type.dtype.kind in "iu" and not type.says:
        return np.trunc(result)
    return result


def check(got, type, wanted, what):
    """`got` is an array of the type; `wanted` are numbers."""
    found = type.decode(got).ravel()
    assert found.shape == np.shape(wanted), f"{what}: {found.shape}, wanted {np.shape(wanted)}"
    # Averages are not exact in every type.
    tolerance = {"bf16": 1e-2, "f16": 1e-3, "f8e4m3": 0.1, "f8e5m2": 0.2}.get(type.name, 1e-6)
    right = np.isclose(found, wanted, rtol=tolerance if "avg" in what else 0, atol=0)
    if not right.all():
        where = int(np.argmin(right))
        raise AssertionError(f"{what}: element {where} is {found[where]}, wanted {wanted[where]}")
