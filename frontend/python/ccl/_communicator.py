"""Communicators, streams and symmetric memory."""

import operator

from . import _ccl, errors
from ._ccl import Collective as _Collective
from ._options import numpy_type, op_name, type_name, whole, wholes


def open(rank=None, size=None, socket=None, timeout=None):
    """Joins a group of processes of this machine as one rank; returns when all have come.

    Parameters
    ----------
    rank, size : int, optional
        This process' rank and the number of all; else CCL_RANK and CCL_SIZE.
    socket : path, optional
        Of the Unix socket at which they meet, in a folder that nobody else may enter (rank 0
        makes what is missing); else CCL_SOCKET.
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
    if rank is not None and whole(rank, "rank") < 0:
        raise ValueError(f"rank: {rank} is below 0")
    if size is not None and whole(size, "size") < 1:
        raise ValueError(f"size: {size} ranks; needs at least 1")
    path = "" if socket is None else _path(socket)
    return Communicator(_ccl.open(-1 if rank is None else whole(rank, "rank"),
                                  0 if size is None else whole(size, "size"), path, timeout))


def _path(socket):
    import os

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


def _empty(shape, like, name):
    """A new array with the element type of `like`."""
    import numpy

    dtype = getattr(like, "dtype", None)
    if dtype is None:
        try:
            dtype = memoryview(like).format
        except TypeError:
            raise TypeError(f"{name}: {type(like).__name__} has no buffer; pass a NumPy "
                            "array") from None
    return numpy.empty(shape, dtype)


def _shape(x):
    shape = getattr(x, "shape", None)
    if shape is not None:
        return tuple(shape)
    try:
        return memoryview(x).shape
    except TypeError:
        raise TypeError(f"x: {type(x).__name__} has no buffer; pass a NumPy array") from None


def _times(shape, ranks):
    """The shape of `ranks` such arrays, one after the other."""
    return (ranks * shape[0],) + shape[1:] if shape else (ranks,)


def _part(shape, ranks):
    """The shape of one of `ranks` equal parts."""
    if shape and shape[0] % ranks == 0:
        return (shape[0] // ranks,) + shape[1:]
    elements = 1
    for extent in shape:
        elements *= extent
    if elements % ranks:
        raise ValueError(f"x: {elements} elements cannot be cut into {ranks} equal shards, one "
                         "for each rank")
    return (elements // ranks,)


class Communicator:
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

    **Errors.** `TypeError` and `ValueError` name the argument; nothing has begun then. After
    any other error but `ccl.ArgumentError`, `ccl.ProgramError` and `ccl.UnprovedError` the
    communicator is dead: `failure` says why, and every call raises it again. `rebuild` makes a
    new one. The same goes for Ctrl-C while a call waits: it aborts the communicator and raises
    `KeyboardInterrupt`. (If the application has a SIGINT handler of its own, that runs when the
    call has returned.)

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

    # ---- collectives ----

    def _run(self, collective, x, out, *, op=None, root=0, targets=(), counts=None, receives=None,
             dtype=None, stream=None, timeout=None, algorithm="", program=None):
        self._handle.run(collective, x, out, op_name(op), whole(root, "root"), targets, counts,
                         receives, type_name(dtype), _handle_of(stream), timeout, algorithm,
                         program)
        return out

    def all_reduce(self, x, out=None, *, op="sum", **call):
        """Every rank gets the reduction of all `x`.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        out : array, optional
            As many elements as `x`; may be `x`.
        op : {"sum", "prod", "min", "max", "avg", "band", "bor", "bxor"}
            The last three take integers only.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array of the shape of `x`.
        """
        if out is None:
            out = _empty(_shape(x), x, "x")
        return self._run(_Collective.all_reduce, x, out, op=op, **call)

    def all_gather(self, x, out=None, **call):
        """Every rank gets the `x` of all ranks, in their order.

        Parameters
        ----------
        x : array
            The same number of elements on every rank. In place: its part of `out`.
        out : array, optional
            ``size`` times as many elements.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array: those of all ranks, joined along the first axis.
        """
        if out is None:
            out = _empty(_times(_shape(x), self.size), x, "x")
        return self._run(_Collective.all_gather, x, out, **call)

    def reduce_scatter(self, x, out=None, *, op="sum", **call):
        """Rank r gets shard r of the reduction of all `x`.

        Parameters
        ----------
        x : array
            ``size`` shards of equal length, the same on every rank.
        out : array, optional
            One shard. In place: its part of `x`.
        op : str
            As of `all_reduce`.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array: a part of `x` along the first axis, or flat if that axis
            cannot be cut.
        """
        if out is None:
            out = _empty(_part(_shape(x), self.size), x, "x")
        return self._run(_Collective.reduce_scatter, x, out, op=op, **call)

    def broadcast(self, x, out=None, *, root=0, **call):
        """Every rank gets the `x` of the root.

        Parameters
        ----------
        x : array
            Read on the root. On other ranks it only tells shape and type of a new array;
            with `out` it may be None there.
        out : array, optional
            As many elements; may be `x`.
        root : int
            The rank whose `x` it is.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array of the shape of `x`.
        """
        if out is None:
            out = _empty(_shape(x), x, "x")
        return self._run(_Collective.broadcast, x, out, root=root, **call)

    def reduce(self, x, out=None, *, op="sum", root=0, **call):
        """The root gets the reduction of all `x`.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        out : array, optional
            As many elements; may be `x`. Not looked at on other ranks than the root.
        op : str
            As of `all_reduce`.
        root : int
            The rank that gets the result.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array or None
            On the root `out`, or a new array of the shape of `x`; None on other ranks.
        """
        out = self._rooted(root, out, lambda: _empty(_shape(x), x, "x"))
        return self._run(_Collective.reduce, x, out, op=op, root=root, **call)

    def gather(self, x, out=None, *, root=0, **call):
        """The root gets the `x` of all ranks, in their order.

        Parameters
        ----------
        x : array
            The same number of elements on every rank. In place on the root: its part of `out`.
        out : array, optional
            ``size`` times as many elements. Not looked at on other ranks than the root.
        root : int
            The rank that gets them.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array or None
            On the root `out`, or a new array: those of all ranks, joined along the first axis.
            None on other ranks.
        """
        out = self._rooted(root, out, lambda: _empty(_times(_shape(x), self.size), x, "x"))
        return self._run(_Collective.gather, x, out, root=root, **call)

    def scatter(self, x, out=None, *, root=0, **call):
        """Rank r gets shard r of the `x` of the root.

        Parameters
        ----------
        x : array or None
            ``size`` shards of equal length. Read on the root; on other ranks it only tells
            shape and type of a new array.
        out : array, optional
            One shard. In place on the root: its part of `x`. Needed where `x` is None.
        root : int
            The rank whose `x` it is.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array: a part of `x` along the first axis, or flat if that axis
            cannot be cut.
        """
        if out is None:
            if x is None:
                raise ValueError("out: is needed where x is None, which has no shape")
            out = _empty(_part(_shape(x), self.size), x, "x")
        return self._run(_Collective.scatter, x, out, root=root, **call)

    def all_to_all(self, x, out=None, **call):
        """Shard r of every rank's `x` goes to rank r.

        Parameters
        ----------
        x : array
            ``size`` shards of equal length, the same on every rank.
        out : array, optional
            As many elements; may be `x`. Shard r came from rank r.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array of the shape of `x`.
        """
        if out is None:
            out = _empty(_shape(x), x, "x")
        return self._run(_Collective.all_to_all, x, out, **call)

    def permute(self, x, targets, out=None, **call):
        """Rank r's `x` goes to rank ``targets[r]``.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        targets : sequence of int
            A permutation of the ranks, the same everywhere.
        out : array, optional
            As many elements; may be `x`.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new array of the shape of `x`.
        """
        targets = wholes(targets, "targets")
        if sorted(targets) != list(range(self.size)):
            raise ValueError(f"targets: {targets} is no permutation of the ranks 0 to "
                             f"{self.size - 1}")
        if out is None:
            out = _empty(_shape(x), x, "x")
        return self._run(_Collective.permute, x, out, targets=targets, **call)

    def barrier(self, *, stream=None, timeout=None, algorithm=""):
        """Returns when all ranks have called it; arguments: see the class."""
        self._handle.barrier(_handle_of(stream), timeout, algorithm)

    # ---- uneven shards ----

    def all_gather_v(self, x, counts, out=None, **call):
        """Every rank gets the `x` of all ranks, of different lengths, in their order.

        Parameters
        ----------
        x : array
            ``counts[rank]`` elements.
        counts : sequence of int
            Elements of each rank's shard, the same everywhere.
        out : array, optional
            ``sum(counts)`` elements.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new flat array.
        """
        counts = wholes(counts, "counts")
        if out is None:
            out = _empty((_total(counts, "counts"),), x, "x")
        return self._run(_Collective.all_gather, x, out, counts=counts, **call)

    def reduce_scatter_v(self, x, counts, out=None, *, op="sum", **call):
        """Rank r gets shard r, of ``counts[r]`` elements, of the reduction of all `x`.

        Parameters
        ----------
        x : array
            ``sum(counts)`` elements.
        counts : sequence of int
            Elements of each rank's shard, the same everywhere.
        out : array, optional
            ``counts[rank]`` elements.
        op : str
            As of `all_reduce`.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new flat array.
        """
        counts = wholes(counts, "counts")
        if out is None:
            out = _empty((self._own(counts, "counts"),), x, "x")
        return self._run(_Collective.reduce_scatter, x, out, counts=counts, op=op, **call)

    def gather_v(self, x, counts, out=None, *, root=0, **call):
        """The root gets the `x` of all ranks, of different lengths, in their order.

        Parameters
        ----------
        x : array
            ``counts[rank]`` elements.
        counts : sequence of int
            Elements of each rank's shard, the same everywhere.
        out : array, optional
            ``sum(counts)`` elements. Not looked at on other ranks than the root.
        root : int
            The rank that gets them.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array or None
            On the root `out`, or a new flat array; None on other ranks.
        """
        counts = wholes(counts, "counts")
        out = self._rooted(root, out, lambda: _empty((_total(counts, "counts"),), x, "x"))
        return self._run(_Collective.gather, x, out, counts=counts, root=root, **call)

    def scatter_v(self, x, counts, out=None, *, root=0, **call):
        """Rank r gets shard r, of ``counts[r]`` elements, of the `x` of the root.

        Parameters
        ----------
        x : array or None
            ``sum(counts)`` elements. Read on the root; on other ranks it only tells the type
            of a new array.
        counts : sequence of int
            Elements of each rank's shard, the same everywhere.
        out : array, optional
            ``counts[rank]`` elements. Needed where `x` is None.
        root : int
            The rank whose `x` it is.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new flat array.
        """
        counts = wholes(counts, "counts")
        if out is None:
            if x is None:
                raise ValueError("out: is needed where x is None, which has no type")
            out = _empty((self._own(counts, "counts"),), x, "x")
        return self._run(_Collective.scatter, x, out, counts=counts, root=root, **call)

    def all_to_all_v(self, x, sends, receives, out=None, **call):
        """``sends[r]`` elements of `x` go to rank r, ``receives[r]`` come from it.

        Parameters
        ----------
        x : array
            ``sum(sends)`` elements, shard after shard.
        sends, receives : sequence of int
            Elements to and from each rank. What a rank sends to another is what that one
            receives from it.
        out : array, optional
            ``sum(receives)`` elements, shard after shard.
        **call
            dtype, stream, timeout, algorithm, program: see the class.

        Returns
        -------
        array
            `out`, or a new flat array.
        """
        sends, receives = wholes(sends, "sends"), wholes(receives, "receives")
        if out is None:
            out = _empty((_total(receives, "receives"),), x, "x")
        return self._run(_Collective.all_to_all, x, out, counts=sends, receives=receives, **call)

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
        self._handle.launch(program, x, out, _handle_of(stream), timeout)
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
        self._handle.launch_v(program, x, out, wholes(counts, "counts"),
                              wholes(receives, "receives"), _handle_of(stream), timeout)
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
                                    whole(root, "root"), wholes(targets, "targets"), algorithm)

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
        shape = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(
            wholes(shape, "shape"))
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

    # ---- helpers ----

    def _rooted(self, root, out, make):
        """`out` of a collective whose result only the root gets."""
        if self.rank != whole(root, "root"):
            return None
        return make() if out is None else out

    def _own(self, counts, name):
        _total(counts, name)
        if len(counts) != self.size:
            raise ValueError(f"{name}: has {len(counts)} entries, needs one for each of "
                             f"{self.size} ranks")
        return counts[self.rank]


def _handle_of(stream):
    if stream is None:
        return None
    if not isinstance(stream, Stream):
        raise TypeError(f"stream: {stream!r} is no ccl.Stream")
    return stream._handle


def _total(counts, name):
    for i, count in enumerate(counts):
        if count < 0:
            raise ValueError(f"{name}[{i}]: {count} elements; needs to be at least 0")
    return sum(counts)


class Stream:
    """Calls of one communicator, executed one after the other by a thread of the library;
    `Communicator.stream` makes them.

    All calls of a communicator, of all its streams and without any, are executed one at a
    time in the order in which they were made, which must be the same on every rank. Work that
    is to run at the same time needs a communicator of its own (`Communicator.dup`).

    In a ``with``, leaving waits, unless an exception does.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, communicator):
        self._handle = _ccl.Stream(communicator)

    def wait(self, timeout=None):
        """Waits until all calls made so far are done, and lets go of their arrays.

        Parameters
        ----------
        timeout : float, optional
            Seconds. If they go by first, `ccl.TimeoutError` is raised and the work goes on;
            else the time-outs of the calls bound the wait.

        Raises
        ------
        ccl.Error
            The first error of the stream.
        KeyboardInterrupt
            Or what else a signal handler raises; the communicator is aborted then.
        """
        self._handle.wait(timeout)

    def record(self):
        """An `Event` after all calls made so far."""
        return Event(self._handle.record())

    def after(self, event):
        """Later calls of this stream start after `event`, which may be of another stream."""
        if not isinstance(event, Event):
            raise TypeError(f"event: {event!r} is no ccl.Event")
        self._handle.after(event._handle)

    @property
    def idle(self):
        """Whether all calls made so far are done."""
        return self._handle.idle

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if value is None:
            self.wait()

    def __repr__(self):
        return f"<ccl.Stream {'idle' if self.idle else 'busy'}>"


class Event:
    """A mark in a stream; `Stream.record` makes them."""

    __slots__ = ("_handle",)

    def __init__(self, handle):
        self._handle = handle

    @property
    def done(self):
        """Whether everything before the mark is done, rightly or not."""
        return self._handle.done

    def wait(self, timeout=None):
        """Waits for that; parameters and errors as of `Stream.wait`."""
        self._handle.wait(timeout)

    def __repr__(self):
        return f"<ccl.Event {'done' if self.done else 'pending'}>"


class Memory:
    """Memory that all ranks of a communicator can address; `Communicator.allocate` makes it.

    It is given back when neither this nor one of its arrays is left, on every rank.
    """

    __slots__ = ("array", "_block", "_size", "_rank")

    def __init__(self, communicator, shape, dtype, timeout):
        elements = 1
        for extent in shape:
            elements *= extent
        self._block = communicator.allocate(elements * dtype.itemsize, timeout)
        self._size = communicator.size
        self._rank = communicator.rank
        self.array = self._view(self._block, shape, dtype)
        """NumPy array of this rank's block."""

    @staticmethod
    def _view(block, shape, dtype):
        import numpy

        return numpy.ndarray(shape, dtype, buffer=block)

    def peer(self, rank):
        """NumPy array of another rank's block. What is there when is up to the application and
        its own synchronization."""
        rank = whole(rank, "rank")
        if not 0 <= rank < self._size:
            raise ValueError(f"rank: {rank} is outside [0, {self._size})")
        return self._view(self._block.peer(rank), self.array.shape, self.array.dtype)

    def __repr__(self):
        return f"<ccl.Memory {self.array.dtype}{list(self.array.shape)} on {self._size} ranks>"
