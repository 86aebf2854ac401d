"""Communicators."""

import os

from . import _ccl, errors
from ._collectives import Collectives
from ._options import numpy_type, op_name, program_of, text, type_name, whole, wholes
from ._streams import Memory, Stream, handle_of


def open(rank=None, size=None, socket=None, timeout=None, address=None):
    """Joins a group of processes as one rank; returns when all have come.

    Parameters
    ----------
    rank, size : int, optional
        This process' rank and the number of all; else CCL_RANK and CCL_SIZE.
    socket : path, optional
        Of the Unix socket at which they meet, in a folder that nobody else may enter (rank 0
        makes what is missing); else CCL_SOCKET.
    address : str, optional
        Instead of it, for processes of several hosts: ``"host:port"`` where rank 0 listens; else
        CCL_ADDRESS. All ranks know a secret of the job: CCL_SECRET or CCL_SECRET_FILE.
    timeout : float, optional
        Seconds, until all have come, and of every call that names none; else CCL_TIMEOUT, else
        ten minutes.

    Returns
    -------
    Communicator
        Best used in a ``with``: leaving it by an exception aborts the communicator, so that
        the other ranks do not wait.

    Raises
    ------
    ccl.ArgumentError
        Rank, size or socket are missing or make no sense.
    ccl.TimeoutError
        Not all came.
    ccl.MachineError
        The socket or its folder cannot be used.
    """
    if rank is None:
        rank = -1  # as the library has it
    elif (rank := whole(rank, "rank")) < 0:
        raise ValueError(f"rank: {rank} is below 0")
    if size is None:
        size = 0
    elif (size := whole(size, "size")) < 1:
        raise ValueError(f"size: {size} ranks; needs at least 1")
    path = "" if socket is None else _path(socket)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address: {address!r} is no text")
    return Communicator(_ccl.open(rank, size, path, address or "", timeout))


def _path(socket):
    try:
        return os.fsdecode(socket)
    except TypeError:
        raise TypeError(f"socket: {socket!r} is no path") from None


def open_threads(size, timeout=None):
    """A communicator whose ranks are threads of this process.

    Parameters
    ----------
    size : int
        Number of ranks.
    timeout : float, optional
        As of `open`.

    Returns
    -------
    list of Communicator
        One for each rank, in order; each is for a thread of its own.
    """
    return [Communicator(each) for each in _ccl.open_threads(whole(size, "size"), timeout)]


class Communicator(Collectives):
    """This rank's part in a group of ranks. `open`, `open_threads`, `split`, `dup` and
    `rebuild` make them.

    **Arrays.** `x` is what this rank gives, `out` what it gets: C-contiguous NumPy arrays, or
    anything else with a buffer. Without `out` a new array is made and returned. NumPy's int8,
    uint8, int32, uint32, int64, uint64, float16, float32 and float64 are taken as they are,
    and so are ml_dtypes' bfloat16, float8_e4m3fn and float8_e5m2. Without ml_dtypes those lie
    in uint16 and uint8 arrays, and ``dtype="bf16"`` ("f8e4m3", "f8e5m2") says so. In place is
    ``out=x``, or one lies in the other as docs/semantics.md has it. Shapes do not matter, only
    the number of elements.

    **Arguments of every collective**

    out : array, optional
        Where the result goes.
    dtype : str or dtype, optional
        Type of the elements, where the arrays cannot say it.
    stream : Stream, optional
        The call returns at once and the stream executes it. The arrays are kept until it is
        done, and must stay as they are.
    timeout : float, optional
        Seconds; else the communicator's.
    algorithm : str
        Name of the generator, one of `ccl.generators`; "" takes CCL_ALGO, else the default.
    program : Program, optional
        Runs instead of a generated one; it must be for this collective, number of ranks, type,
        op and root.

    **Order.** All operations except the properties, `stream`, `program`, `abort` and `close`
    are *collective*: all ranks call them in the same order with the same counts, type, op and
    root; if they do not, all get `ccl.MismatchError`.

    **Errors.** `TypeError` and `ValueError` name the argument; nothing has begun then, nor has
    it with most `ccl.ArgumentError` and with `ccl.ProgramError`. After an error of a call that
    has begun the communicator is dead: `failure` says why, and every call raises it again.
    `rebuild` makes a new one. The same goes for Ctrl-C while a call waits: it aborts the
    communicator and raises `KeyboardInterrupt`. (If the application has a SIGINT handler of its
    own, that runs when the call has returned.)

    **Threads.** Any method may be called at any time; calls are executed one at a time. The
    GIL is not held while a call waits.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, handle):
        self._handle = handle

    # ---- facts ----

    @property
    def rank(self):
        """This rank, 0 to ``size - 1``."""
        return self._handle.rank

    @property
    def size(self):
        """Number of ranks."""
        return self._handle.size

    @property
    def timeout(self):
        """Seconds, of every call that names none."""
        return self._handle.timeout

    @property
    def is_direct(self):
        """Whether ranks can read each other's ordinary memory; else data goes through slots,
        or lies in what `allocate` returns."""
        return self._handle.is_direct

    @property
    def failure(self):
        """The `ccl.Error` that every call raises, None while there is none."""
        found = self._handle.failure()
        return errors.make(*found) if found else None

    def __repr__(self):
        if self._handle.is_closed:
            return "<ccl.Communicator closed>"
        return f"<ccl.Communicator rank {self.rank} of {self.size}>"

    # ---- programs ----

    def launch(self, program, x=None, out=None, *, stream=None, timeout=None):
        """Runs any program for `size` ranks.

        Parameters
        ----------
        program : Program
            The same on every rank.
        x : array, optional
            ``program.in_shards`` shards of equal length; None where the rank has nothing to
            give. Of a type that NumPy has not got, integers of the same size.
        out : array, optional
            ``program.out_shards`` shards of the same length; None where the rank has nothing
            to get.
        stream, timeout
            See the class.

        Returns
        -------
        array or None
            `out`.
        """
        self._handle.launch(program_of(program, False), x, out, handle_of(stream), timeout)
        return out

    def launch_v(self, program, x, out, counts, receives=(), *, stream=None, timeout=None):
        """Runs a program with uneven shards.

        Parameters
        ----------
        program : Program
            Of all_gather, reduce_scatter, gather, scatter or all_to_all.
        x, out : array or None
            As of the collective's uneven form.
        counts : sequence of int
            Elements of each rank's shard; of all_to_all what this rank sends to each.
        receives : sequence of int
            all_to_all: what this rank receives from each.
        stream, timeout
            See the class.

        Returns
        -------
        array or None
            `out`.
        """
        self._handle.launch_v(program_of(program, False), x, out, wholes(counts, "counts", 63),
                              wholes(receives, "receives", 63), handle_of(stream), timeout)
        return out

    def program(self, collective, *, type="f32", op=None, root=0, targets=(), algorithm=""):
        """The `Program` that a collective of this communicator runs, compiled if need be.

        Parameters
        ----------
        collective : str
            "all_reduce", ...
        type, op, root, targets, algorithm
            As of `ccl.generate`.
        """
        return self._handle.program(collective, type_name(type, "type"), op_name(op),
                                    whole(root, "root"), wholes(targets, "targets"),
                                    text(algorithm, "algorithm"))

    # ---- streams and memory ----

    def stream(self):
        """A `Stream` of this communicator, with a thread of its own."""
        return Stream(self._handle)

    def allocate(self, shape, dtype="f32", *, timeout=None):
        """Memory that all ranks can address: collectives use it without copies between
        processes. Collective.

        Parameters
        ----------
        shape : int or sequence of int
            The same number of bytes on every rank.
        dtype : str or dtype
            "f32", ``numpy.float64``; types that NumPy has not got lie in integers.
        timeout : float, optional
            Seconds; else the communicator's.

        Returns
        -------
        Memory
            Its `array` is undefined at first.
        """
        shape = (whole(shape, "shape", 63),) if hasattr(shape, "__index__") else tuple(
            wholes(shape, "shape", 63))
        if any(extent < 0 for extent in shape):
            raise ValueError(f"shape: {shape} has a negative extent")
        return Memory(self._handle, shape, numpy_type(dtype), timeout)

    # ---- groups ----

    def split(self, color, key=0, *, timeout=None):
        """A communicator of the ranks with the same color. Collective.

        Parameters
        ----------
        color : int or None
            Which group; None or a negative number: none.
        key : int
            Ranks are ordered by it, then by their rank here.
        timeout : float, optional
            Seconds; else the communicator's.

        Returns
        -------
        Communicator or None
            It does not depend on this one afterwards.
        """
        child = self._handle.split(-1 if color is None else whole(color, "color"),
                                   whole(key, "key"), timeout)
        return Communicator(child) if child is not None else None

    def dup(self, *, timeout=None):
        """A communicator of the same ranks. Collective."""
        return Communicator(self._handle.dup(timeout))

    def rebuild(self, *, timeout=None):
        """After a failure: a communicator of those ranks that ask for it in time, in their old
        order. It waits for each that is not known to be dead.

        Parameters
        ----------
        timeout : float, optional
            Seconds; else the communicator's.
        """
        return Communicator(self._handle.rebuild(timeout))

    # ---- ends ----

    def abort(self, reason="abort() was called"):
        """Ends every present and future call of every rank with `reason`."""
        self._handle.abort(str(reason))

    def close(self):
        """Lets go of the communicator; does not wait for others. Closing twice is fine."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if value is not None and not self._handle.is_closed:
            self.abort(f"rank {self.rank}: {kind.__name__}: {value}")
        self.close()
