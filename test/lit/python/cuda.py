"""Ranks on GPUs of several processes and of one, without a package for GPUs."""
import ctypes
import os

import ccl

COUNT = 1001
SHIM = os.path.join(os.path.dirname(ccl.__file__), "..", "..", "bin", "libccljit-cuda-shim.so")
os.environ["CCL_CUDA_LIBRARY"] = os.path.realpath(SHIM)


class Array:
    """What CuPy and PyTorch show of theirs."""

    def __init__(self, address, shape, strides=None):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape,
                                         "typestr": "<i4", "strides": strides, "version": 3}


def ints(address, count):
    return (ctypes.c_int32 * count).from_address(address)


def refused(kind, call, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def work(comm):
    gpus = ccl.cuda.open(comm, comm.rank % 2, timeout=30)
    size, rank = comm.size, comm.rank
    assert gpus.size == size and gpus.ranks == [rank]
    x, bytes, peers = gpus.allocate(COUNT * 4)
    assert bytes == COUNT * 4 and len(peers) == size and peers[rank] == x
    out = gpus.allocate(COUNT * 4 * size)[0]
    mine, result = ints(x, COUNT), ints(out, COUNT * size)
    for i in range(COUNT):
        mine[i] = i + rank
    gpus.all_reduce(Array(x, (COUNT,)), Array(out, (COUNT,)))
    gpus.synchronize()
    assert result[:COUNT] == [i * size + size * (size - 1) // 2 for i in range(COUNT)]
    gpus.all_reduce(x, out, op="max", type="i32", count=COUNT)
    gpus.synchronize()
    assert result[7] == 7 + size - 1
    gpus.all_gather(Array(x, (7, 11), (44, 4)), Array(out, (7, 11 * size)))
    gpus.synchronize()
    assert result[:77 * size] == [i + r for r in range(size) for i in range(77)]
    gpus.broadcast(x, out, root=1, type="i32", count=5)
    gpus.synchronize()
    assert result[:5] == [1, 2, 3, 4, 5]
    program = ccl.generate("all_gather", ranks=size, type="i32")
    gpus.launch(program, x, out, 9)
    gpus.synchronize()
    assert result[:9 * size] == [i + r for r in range(size) for i in range(9)]
    refused(ValueError, lambda: gpus.all_reduce(x, out), "type, count")
    refused(ValueError, lambda: gpus.all_reduce(Array(x, (3, 3), (4, 12)), out), "contiguous")
    refused(TypeError, lambda: gpus.all_reduce("x", out), "x: str is neither an address")
    refused(ccl.MismatchError, lambda: gpus.all_reduce(x, out, type="i32", count=3 + rank),
            "disagree on the count")
    assert gpus.failure[0] == "mismatch"
    gpus.close()
    refused(ValueError, gpus.synchronize, "closed")
    return rank


if __name__ == "__main__":
    assert ccl.run(work, ranks=2, method="spawn") == [0, 1]
    with ccl.cuda.open_local(3, [0, 1]) as local:
        assert local.ranks == [0, 1, 2]
        refused(ValueError, lambda: local.all_reduce(1, 1, type="i32", count=1), "needs 3")
        refused(ccl.ArgumentError, lambda: local.allocate(4), "several processes")
