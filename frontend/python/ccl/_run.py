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
    pipe.send_bytes(message)
    pipe.close()


class _Processes:
    """The processes of one call of `run`."""

    def __init__(self, fn, ranks, method, args, timeout, folder):
        self.ranks = ranks
        self.values = [None] * ranks
        self.failures = []
        self.deadline = None  # of those that are left, once one failed
        self.processes, self.pipes = [], {}
        context = multiprocessing.get_context(method)
        path = os.path.join(folder, "socket")
        try:
            for rank in range(ranks):
                receiver, sender = context.Pipe(duplex=False)
                self.pipes[receiver] = rank
                process = context.Process(
                    target=_child, name=f"ccl rank {rank}",
                    args=(sender, os.getpid(), fn, args, rank, ranks, path, timeout))
                process.start()
                sender.close()
                self.processes.append(process)
        except BaseException:
            self._end()
            raise

    def results(self):
        try:
            while self.pipes:
                wait = None if self.deadline is None else self.deadline - time.monotonic()
                if wait is not None and wait <= 0:
                    break
                for pipe in multiprocessing.connection.wait(list(self.pipes), wait):
                    self._receive(pipe)
            for process in self.processes:
                process.join(max(0, _KILL - _ASK) if self.failures else None)
        finally:
            self._end()
        if self.failures:
            _raise_first(self.failures, self.ranks)
        return self.values

    def _receive(self, pipe):
        """A rank's result, or the end of its process."""
        rank = self.pipes.pop(pipe)
        try:
            is_result, value = pickle.loads(pipe.recv_bytes())
        except EOFError:
            is_result, value = False, (self._ended(rank), None)
        except Exception as error:  # cannot be made here what was sent
            is_result, value = False, (error, None)
        pipe.close()
        if is_result:
            self.values[rank] = value
            return
        self.failures.append((rank, *value))
        if self.deadline is None:
            self.deadline = time.monotonic() + _ASK

    def _ended(self, rank):
        """Why a process is gone that sent nothing."""
        process = self.processes[rank]
        process.join(_KILL)
        code = process.exitcode
        if code is None:
            text = "closed its pipe without a result"
        elif code < 0:
            text = f"was killed by {signal.Signals(-code).name}"
        else:
            text = f"ended with status {code} and without a result"
        return errors.MachineError(f"rank {rank} {text}", rank)

    def _end(self):
        """Nothing is left of it afterwards."""
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        limit = time.monotonic() + _KILL - _ASK
        for process in self.processes:
            process.join(max(0, limit - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self.pipes:
            pipe.close()

