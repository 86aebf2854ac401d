"""One function on several ranks of this machine."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import traceback

from . import _ccl, errors
from ._communicator import open as _open
from ._communicator import open_threads
from ._options import whole

# After one rank failed: when the others are asked to end, and when they are made to.
_ASK, _KILL = 0.5, 0.9


def run(fn, ranks=4, *, method="spawn", args=(), timeout=30):
    """Calls ``fn(comm, *args)`` on every rank and returns the results.

    Parameters
    ----------
    fn : callable
        Its first argument is the rank's `Communicator`. With "spawn" it has to be importable:
        a function of a module or script, and the script's own calls stand below
        ``if __name__ == "__main__":``.
    ranks : int
        Number of ranks.
    method : {"spawn", "fork", "threads"}
        New processes; copies of this one, for programs without threads of their own; or
        threads of this process.
    args : sequence
        Further arguments, the same for every rank.
    timeout : float
        Seconds, of every call that names none.

    Returns
    -------
    list
        What `fn` returned, in the order of ranks.

    Raises
    ------
    Exception
        What `fn` raised in a rank, as it is, with the rank in its attribute ``rank``, and the
        rank's traceback as its cause. The communicator of the other ranks is aborted, and
        processes that have not ended a second later are killed; threads are waited for.
    ccl.MachineError
        A process ended without a result; `culprit` is its rank.

    Notes
    -----
    `fn`, `args`, results and exceptions of processes go through pipes between parent and child
    as `multiprocessing` has it (pickle). Ranks among each other exchange no pickles. They meet
    at a socket in a folder of mode 0700 that is removed afterwards. No process outlives the
    call, nor the calling thread if that is killed.
    """
    ranks = whole(ranks, "ranks")
    if ranks < 1:
        raise ValueError(f"ranks: {ranks}; needs at least 1")
    if not callable(fn):
        raise TypeError(f"fn: {fn!r} cannot be called")
    if method == "threads":
        return _run_threads(fn, ranks, tuple(args), timeout)
    if method not in ("spawn", "fork"):
        raise ValueError(f"method: {method!r} is none of 'spawn', 'fork', 'threads'")
    folder = tempfile.mkdtemp(prefix="ccl-")  # of mode 0700
    try:
        return _Processes(fn, ranks, method, tuple(args), timeout, folder).results()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---- what went wrong --------------------------------------------------------------


class _Traceback(Exception):
    """Shows the traceback of another process."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return f"\n{self.text.rstrip()}"


def _weight(rank, error):
    """Ranks that were only aborted, or that blame another one, do not know the cause."""
    if isinstance(error, errors.AbortedError):
        return 2
    return 1 if isinstance(error, errors.Error) and error.culprit != rank else 0


def _raise_first(failures, ranks):
    """Raises the error that tells most; failures are (rank, error, traceback) by time."""
    rank, error, text = min(failures, key=lambda failure: _weight(*failure[:2]))
    try:
        error.rank = rank
    except AttributeError:
        pass  # has no room for it
    if hasattr(error, "add_note"):
        error.add_note(f"in rank {rank} of {ranks} of ccl.run")
    if text:
        raise error from _Traceback(f"in rank {rank} of {ranks}:\n{text}")
    raise error


# ---- threads ----------------------------------------------------------------------


def _run_threads(fn, ranks, args, timeout):
    communicators = open_threads(ranks, timeout)
    results, failures = [None] * ranks, []

    def work(rank):
        try:
            with communicators[rank] as comm:
                results[rank] = fn(comm, *args)
        except BaseException as error:  # also SystemExit: the other ranks wait
            failures.append((rank, error, None))

    threads = [threading.Thread(target=work, args=(rank,), name=f"ccl rank {rank}")
               for rank in range(ranks)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C
        for comm in communicators:
            try:
                comm.abort(f"{type(error).__name__} in ccl.run")
            except ValueError:
                pass  # that rank is done and closed it
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise
    if failures:
        _raise_first(failures, ranks)
    return results


# ---- processes --------------------------------------------------------------------


# Bytes that say how long the message behind them is.
_HEADER = 8


def _portable(error):
    """The exception, or one that says the same and can be sent."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _child(pipe, parent, fn, args, rank, ranks, path, timeout):
    """A rank's process."""
    _ccl.end_with_parent()
    if os.getppid() != parent:
        os._exit(1)  # it was gone before
    try:
        with _open(rank, ranks, path, timeout) as comm:
            result = fn(comm, *args)
        message = pickle.dumps((True, result))
    except BaseException as error:
        message = pickle.dumps((False, (_portable(error), traceback.format_exc())))
    with os.fdopen(pipe.fileno(), "wb", closefd=False) as stream:
        stream.write(len(message).to_bytes(_HEADER, "little"))
        stream.write(message)
    pipe.close()


class _Rank:
    """A rank's process, and what it has sent by now.

    Whether it has ended is asked of the process itself: a child that it leaves behind keeps
    its pipe open, and multiprocessing's sentinel as well.
    """

    def __init__(self, rank, process, pipe):
        self.rank, self.process, self.pipe = rank, process, pipe
        self.end = None  # becomes readable when the process has ended
        self.sent = bytearray()
        os.set_blocking(pipe.fileno(), False)

    def start(self):
        self.process.start()
        self.end = os.pidfd_open(self.process.pid)

    def has_ended(self, seconds=0):
        return bool(multiprocessing.connection.wait([self.end], seconds))

    def receive(self):
        """(whether it is a result, what it is), or None while more has to come."""
        has_ended = self.has_ended()  # asked first: then all that it sent is here
        is_open = True
        try:
            while data := os.read(self.pipe.fileno(), 1 << 20):
                self.sent += data
            is_open = False
        except BlockingIOError:
            pass
        size = int.from_bytes(self.sent[:_HEADER], "little")
        if len(self.sent) < _HEADER or len(self.sent) < _HEADER + size:
            return None if is_open and not has_ended else (False, (self._how_it_ended(), None))
        try:
            return pickle.loads(memoryview(self.sent)[_HEADER:])
        except Exception as error:  # cannot be made here what was sent
            return False, (error, None)

    def _how_it_ended(self):
        """The error for a process that sent nothing, or too little."""
        self.has_ended(_KILL)
        code = self.process.exitcode
        if code is None:
            text = "closed its pipe without a result"
        elif code < 0:
            text = f"was killed by {signal.Signals(-code).name}"
        else:
            text = f"ended with status {code} and without a result"
        return errors.MachineError(f"rank {self.rank} {text}", self.rank)

    def close(self):
        self.pipe.close()
        if self.end is not None:
            os.close(self.end)


class _Processes:
    """The processes of one call of `run`."""

    def __init__(self, fn, ranks, method, args, timeout, folder):
        self.values = [None] * ranks
        self.failures = []
        self.deadline = None  # of those that are left, once one failed
        self.ranks = []
        context = multiprocessing.get_context(method)
        path = os.path.join(folder, "socket")
        try:
            for rank in range(ranks):
                receiver, sender = context.Pipe(duplex=False)
                with sender:
                    process = context.Process(
                        target=_child, name=f"ccl rank {rank}",
                        args=(sender, os.getpid(), fn, args, rank, ranks, path, timeout))
                    self.ranks.append(_Rank(rank, process, receiver))
                    self.ranks[-1].start()
        except BaseException:
            self._end()
            raise

    def results(self):
        try:
            waited = list(self.ranks)
            while waited and self._left() != 0:
                ready = multiprocessing.connection.wait(
                    [each for rank in waited for each in (rank.pipe, rank.end)], self._left())
                for rank in list(waited):
                    if (rank.pipe in ready or rank.end in ready) and self._take(rank):
                        waited.remove(rank)
            self._await_ends(self._left())
        finally:
            self._end()
        if self.failures:
            _raise_first(self.failures, len(self.ranks))
        return self.values

    def _left(self):
        """Seconds until those that are left are asked to end; None: not at all."""
        return None if self.deadline is None else max(0, self.deadline - time.monotonic())

    def _take(self, rank):
        """True if the rank has nothing more to say."""
        message = rank.receive()
        if message is None:
            return False
        is_result, value = message
        if is_result:
            self.values[rank.rank] = value
            return True
        self.failures.append((rank.rank, *value))
        if self.deadline is None:
            self.deadline = time.monotonic() + _ASK
        return True

    def _await_ends(self, seconds):
        """Until all processes have ended, or so many seconds have gone by (None: no limit)."""
        limit = None if seconds is None else time.monotonic() + seconds
        alive = {rank.end for rank in self.ranks if rank.end is not None}
        while alive:
            left = None if limit is None else limit - time.monotonic()
            if left is not None and left <= 0:
                return
            alive.difference_update(multiprocessing.connection.wait(alive, left))

    def _end(self):
        """Nothing is left of it afterwards."""
        for rank in self.ranks:
            if rank.process.is_alive():
                rank.process.terminate()
        self._await_ends(_KILL - _ASK)
        for rank in self.ranks:
            if rank.process.is_alive():
                rank.process.kill()
            if rank.process.pid is not None:
                rank.process.join()
            rank.close()
