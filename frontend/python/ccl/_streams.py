"""Streams, events and symmetric memory."""

import math

from . import _ccl
from ._options import whole


def handle_of(stream):
    """What the extension knows a stream by; None stays."""
    if stream is None:
        return None
    if not isinstance(stream, Stream):
        raise TypeError(f"stream: {stream!r} is no ccl.Stream")
    return stream._handle


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
        elements = math.prod(shape)
        if elements * dtype.itemsize >= 1 << 63:
            raise ValueError(f"shape: {shape} has more elements than there are addresses")
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
