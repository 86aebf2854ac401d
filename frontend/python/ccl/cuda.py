"""Communicators of GPUs.

Buffers are arrays with ``__cuda_array_interface__`` (CuPy, Numba, PyTorch), or addresses, which
are integers, with `type` and `count`. Nothing of these packages is needed. Calls are queued in
CUDA streams and return; `CudaCommunicator.synchronize` waits and says how they ended.
"""

from . import _ccl
from ._options import whole

__all__ = ["CudaCommunicator", "open", "open_local"]

_TYPES = {"i1": "i8", "u1": "u8", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64",
          "f2": "f16", "f4": "f32", "f8": "f64"}


def open(communicator, device, timeout=None, instances=0, checked=False):
    """A communicator of GPUs on top of one of the host: this process is one rank, with one GPU.

    Parameters
    ----------
    communicator : ccl.Communicator
        Of processes; it may be used as before.
    device : int
        Ordinal of the GPU.
    timeout : float, optional
        Seconds; else that of `communicator`.
    instances : int, optional
        Thread blocks of an agent, a power of two; 0: by the size.
    checked : bool, optional
        Compare every launch, not only the first of its kind.
    """
    return CudaCommunicator(_ccl.cuda_open(communicator._handle, whole(device, "device"), timeout,
                                           whole(instances, "instances"), bool(checked)))


def open_local(ranks, devices, timeout=None, instances=0):
    """All ranks in this process; rank r on ``devices[r % len(devices)]``. Its calls take lists of
    buffers, one for each rank."""
    return CudaCommunicator(_ccl.cuda_open_local(
        whole(ranks, "ranks"), [whole(each, "devices") for each in devices], timeout,
        whole(instances, "instances")))


class _Buffer:
    """Address, elements and type of what a user passed; elements and type may be None."""

    def __init__(self, value, name):
        self.elements = self.type = None
        if value is None:
            self.address = 0
        elif isinstance(value, int):
            if value < 0:
                raise ValueError(f"{name}: {value} is no address")
            self.address = value
        elif hasattr(value, "__cuda_array_interface__"):
            self._take(value.__cuda_array_interface__, name)
        else:
            raise TypeError(f"{name}: {type(value).__name__} is neither an address nor an array "
                            "with __cuda_array_interface__")

    def _take(self, interface, name):
        self.address = int(interface["data"][0] or 0)
        size = int(interface["typestr"][2:])
        self.type = _TYPES.get(interface["typestr"][1:])
        self.elements = 1
        expected = []
        for extent in reversed(interface["shape"]):
            expected.insert(0, self.elements * size)
            self.elements *= extent
        strides = interface.get("strides")
        if strides is not None and self.elements > 0:
            for extent, stride, wanted in zip(interface["shape"], strides, expected):
                if extent > 1 and stride != wanted:
                    raise ValueError(f"{name}: the array is not contiguous")


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class CudaCommunicator:
    """Ranks on GPUs. `open` and `open_local` make them."""

    def __init__(self, handle):
        self._handle = handle

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.abort(f"{kind.__name__}: {error}")
        self.close()

    @property
    def size(self):
        """Number of ranks."""
        return self._handle.size

    @property
    def ranks(self):
        """Those of this process."""
        return self._handle.ranks

    def all_reduce(self, x, out, op="sum", **options):
        """Every rank's `out` becomes the reduction of all `x`. Options of every collective:
        `type` and `count` (elements of one shard) where buffers do not tell them, `stream` (the
        integer of a CUstream; else one of the communicator's), `timeout`, `algorithm`."""
        self._run("all_reduce", x, out, op=op, **options)

    def all_gather(self, x, out, **options):
        """`out` has the `x` of all ranks, in order."""
        self._run("all_gather", x, out, **options)

    def reduce_scatter(self, x, out, op="sum", **options):
        """`out` is this rank's shard of the reduction of all `x`."""
        self._run("reduce_scatter", x, out, shard_of_out=True, op=op, **options)

    def broadcast(self, x, out, root=0, **options):
        """`out` becomes the root's `x`."""
        self._run("broadcast", x, out, shard_of_out=True, root=root, **options)

    def reduce(self, x, out, op="sum", root=0, **options):
        """The root's `out` becomes the reduction of all `x`."""
        self._run("reduce", x, out, op=op, root=root, **options)

    def gather(self, x, out, root=0, **options):
        """The root's `out` has the `x` of all ranks."""
        self._run("gather", x, out, root=root, **options)

    def scatter(self, x, out, root=0, **options):
        """`out` is this rank's shard of the root's `x`."""
        self._run("scatter", x, out, shard_of_out=True, root=root, **options)

    def all_to_all(self, x, out, count=None, **options):
        """Shard r of `x` goes to rank r."""
        buffer = _Buffer(_listed(x)[0], "x")
        if count is None and buffer.elements is not None:
            if buffer.elements % self.size:
                raise ValueError(f"x: {buffer.elements} elements are no shards for {self.size} "
                                 "ranks")
            count = buffer.elements // self.size
        self._run("all_to_all", x, out, count=count, **options)

    def launch(self, program, x, out, count, stream=None, timeout=None):
        """Runs a program of one's own; it is compiled for the GPU when it is first used."""
        pairs = self._pairs(x, out)
        self._handle.launch(program, [(a.address, b.address) for a, b in pairs],
                            whole(count, "count"), stream, timeout)

    def allocate(self, size, timeout=None):
        """Memory of so many bytes on every rank, that all reach: (address, bytes, addresses of all
        ranks). It lives as long as the communicator."""
        return self._handle.allocate(whole(size, "size"), timeout)

    def register(self, x, size=None, timeout=None):
        """The same for memory that exists, which is kept until all ranks have closed. `size` in
        bytes is for an address."""
        buffer = _Buffer(x, "x")
        if size is None:
            if buffer.elements is None:
                raise ValueError("size: how many bytes are at the address?")
            size = buffer.elements * int(x.__cuda_array_interface__["typestr"][2:])
        return self._handle.register(buffer.address, whole(size, "size"), timeout)

    def synchronize(self):
        """Waits for all calls, and raises what went wrong."""
        self._handle.synchronize()

    def abort(self, reason="aborted"):
        """Ends every call of every rank."""
        self._handle.abort(str(reason))

    @property
    def failure(self):
        """(kind, message, culprit) of what ended the communicator, or None."""
        return self._handle.failure()

    def close(self):
        """Waits for what was launched, and gives everything back."""
        self._handle.close()

    def _pairs(self, x, out):
        ins, outs = _listed(x), _listed(out)
        if len(ins) != len(outs) or len(ins) != len(self.ranks):
            raise ValueError(f"x, out: buffers of {len(ins)} and {len(outs)} ranks; needs "
                             f"{len(self.ranks)}")
        return [(_Buffer(a, "x"), _Buffer(b, "out")) for a, b in zip(ins, outs)]

    def _run(self, collective, x, out, shard_of_out=False, op="", root=0, type=None, count=None,
             stream=None, timeout=None, algorithm=""):
        pairs = self._pairs(x, out)
        for pair in pairs:
            for buffer in pair:
                type = type or buffer.type
        shard = pairs[0][1 if shard_of_out else 0]
        if count is None:
            count = shard.elements
        if type is None or count is None:
            raise ValueError("type, count: needed where buffers are addresses")
        self._handle.run(getattr(_ccl.Collective, collective),
                         [(a.address, b.address) for a, b in pairs], whole(count, "count"),
                         str(type), op, whole(root, "root"), stream, timeout, algorithm)
