"""ccl.run: results, failing and killed ranks, nothing left behind."""
import gc
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import ccl

PROCESSES = ("spawn", "fork")
METHODS = PROCESSES + ("threads",)


def total(comm, offset, scale):
    x = np.full(5, scale * (comm.rank + offset), dtype=np.int64)
    return comm.rank, os.getpid(), comm.all_reduce(x).tolist()


def forks(comm):
    """A child drops its copies of what is open here, in all ways."""
    stream = comm.stream()
    before = comm.all_reduce(np.ones(2), stream=stream)
    event = stream.record()
    stream.wait()
    child = os.fork()
    if child == 0:
        said = []
        for call in (lambda: comm.all_reduce(np.ones(2)), lambda: stream.wait(),
                     lambda: stream.record(), lambda: comm.all_reduce(np.ones(2), stream=stream)):
            try:
                call()
            except ccl.ArgumentError as error:
                said.append("belongs to the parent" in str(error))
        try:
            with comm:
                raise ValueError("not the parent's business")
        except ValueError:
            pass
        del comm, stream, event, call
        gc.collect()
        os._exit(0 if said == [True] * 4 else 1)
    status = os.waitpid(child, 0)[1]
    after = comm.all_reduce(np.ones(2), stream=stream)
    stream.wait()
    return status, before[0], after[0]


def takes_too_much(comm):
    """More than the machine has: an error before anybody is killed for it."""
    words = pathlib.Path("/proc/meminfo").read_text().split()
    total = int(words[words.index("MemTotal:") + 1]) << 10
    try:
        comm.allocate(total + (1 << 30))
    except ccl.MachineError as error:
        return str(error)


def large(comm):
    return bytes(5000000 * (1 + comm.rank))


def fails(comm):
    if comm.rank == 1:
        raise LookupError("nothing here")
    comm.barrier()


class Odd(Exception):
    """Cannot be sent: pickle calls it with one argument."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fails_oddly(comm):
    if comm.rank == 0:
        raise Odd(1, 2)
    comm.barrier()


def dies(comm, how):
    comm.barrier()
    if comm.rank == 1:
        how(comm)
    comm.all_reduce(np.ones(100000))
    comm.barrier()


def kill_myself(comm):
    os.kill(os.getpid(), signal.SIGKILL)


def leaves_a_child(comm, pipe):
    """Rank 1 dies and leaves a child, which holds all that was open in it."""
    comm.barrier()
    if comm.rank == 1:
        child = os.fork()
        if child == 0:
            time.sleep(100)
            os._exit(0)
        os.write(pipe, f"{child} {time.monotonic()}".encode())
        os._exit(9)
    time.sleep(60)


def exit_at_once(comm):
    os._exit(7)


def exit_as_python_does(comm):
    sys.exit(5)


class Stamped(Exception):
    """Knows when it was raised."""

    def __init__(self, message, at=None):
        super().__init__(message, at or time.monotonic())


def sleeps(comm):
    comm.barrier()
    if comm.rank == 0:
        raise Stamped("the first to fail")
    time.sleep(60)


def waits(comm):
    comm.barrier()
    if comm.rank == 0:
        raise Stamped("the first to fail")
    comm.barrier()


def stubborn(comm):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeps(comm)


def differs(comm):
    comm.all_reduce(np.ones(3 + comm.rank))


def send_no_result(comm):
    comm.barrier()
    return lambda: comm.rank


def children():
    """Processes whose parent is this one; multiprocessing's own tracker aside."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                command = (folder / "cmdline").read_bytes().split(b"\0")
                if not any(b"resource_tracker" in word for word in command):
                    found.append((folder.name, command))
        except (OSError, IndexError, ValueError):
            pass  # no process, or gone
    return found


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.before = tempfile.tempdir
        tempfile.tempdir = self.folder.name
        self.descriptors = os.listdir("/proc/self/fd")

    def tearDown(self):
        tempfile.tempdir = self.before
        self.assertEqual(os.listdir(self.folder.name), [], "the folder of the socket is left")
        self.assertEqual(children(), [])
        self.assertEqual(multiprocessing.active_children(), [])

    def fails(self, error, fn, *, method, args=(), ranks=3, match=""):
        begun = time.monotonic()
        with self.assertRaisesRegex(error, match) as caught:
            ccl.run(fn, ranks, method=method, args=args, timeout=100)
        # Nobody waited for a time-out. Machines that run tests may be slow.
        self.assertLess(time.monotonic() - begun, 50)
        return caught.exception

    def test_results(self):
        for method in METHODS:
            with self.subTest(method):
                results = ccl.run(total, ranks=3, method=method, args=(1, 10))
                self.assertEqual([each[0] for each in results], [0, 1, 2])
                self.assertEqual([each[2] for each in results], [[60] * 5] * 3)
                processes = {each[1] for each in results}
                self.assertEqual(len(processes), 1 if method == "threads" else 3)
                self.assertEqual(os.getpid() in processes, method == "threads")
        self.assertEqual(len(ccl.run(total, method="fork", args=(0, 0))), 4)

    def test_exception(self):
        for method in METHODS:
            with self.subTest(method):
                error = self.fails(LookupError, fails, method=method, match="^nothing here$")
                self.assertEqual(error.rank, 1)
                self.assertEqual(error.__notes__, ["in rank 1 of 3 of ccl.run"])
                if method != "threads":
                    self.assertIn("in fails\n", str(error.__cause__))

    def test_exception_that_cannot_be_sent(self):
        error = self.fails(RuntimeError, fails_oddly, method="fork", match="^Odd: 1 and 2$")
        self.assertEqual(error.rank, 0)

    def test_result_that_cannot_be_sent(self):
        self.fails(Exception, send_no_result, method="fork", match="(?i)pickle")

    def test_child_of_fork(self):
        for method in PROCESSES:
            self.assertEqual(ccl.run(forks, ranks=2, method=method), [(0, 2.0, 2.0)] * 2)

    def test_too_much_memory(self):
        for text in ccl.run(takes_too_much, ranks=2):
            self.assertRegex(text, "no (memory|room) for [0-9]+ bytes")

    def test_killed(self):
        for method in PROCESSES:
            with self.subTest(method):
                error = self.fails(ccl.MachineError, dies, method=method, args=(kill_myself,),
                                   match="^rank 1 was killed by SIGKILL$")
                self.assertEqual((error.culprit, error.rank), (1, 1))

    def test_ended_without_a_result(self):
        error = self.fails(ccl.MachineError, dies, method="fork", args=(exit_at_once,),
                           match="^rank 1 ended with status 7 and without a result$")
        self.assertEqual(error.culprit, 1)
        for method in ("fork", "threads"):
            self.assertEqual(self.fails(SystemExit, dies, method=method,
                                        args=(exit_as_python_does,)).code, 5)

    def test_death_is_seen_whoever_holds_the_pipe(self):
        reader, writer = os.pipe()
        try:
            error = self.fails(ccl.MachineError, leaves_a_child, method="fork", args=(writer,),
                               match="^rank 1 ended with status 9 and without a result$")
            child, at = os.read(reader, 100).split()
            # A second, and what a busy machine takes.
            self.assertLess(time.monotonic() - float(at), 6)
            os.kill(int(child), signal.SIGKILL)  # is still there
        finally:
            os.close(reader)
            os.close(writer)
        self.assertEqual((error.culprit, error.rank), (1, 1))

    def test_large_results(self):
        """Larger than a pipe holds."""
        for rank, result in enumerate(ccl.run(large, ranks=2, method="fork")):
            self.assertEqual(result, bytes(5000000 * (1 + rank)))

    def test_others_are_ended(self):
        """Within a second; also those that do not call ccl, or do not want to end."""
        for fn, method in [(waits, "threads"), (waits, "fork"), (sleeps, "fork"),
                           (stubborn, "fork")]:
            with self.subTest(fn.__name__):
                error = self.fails(Stamped, fn, method=method, match="the first to fail")
                self.assertEqual(error.rank, 0)
                # A second, and what a busy machine takes.
                self.assertLess(time.monotonic() - error.args[1], 6)

    def test_mismatch(self):
        for method in ("fork", "threads"):
            self.fails(ccl.MismatchError, differs, method=method)

    def test_arguments(self):
        for error, text, call in [
                (ValueError, "^ranks: 0", lambda: ccl.run(total, 0)),
                (TypeError, "^fn: 3 cannot be called", lambda: ccl.run(3)),
                (ValueError, "^method: 'mpi'", lambda: ccl.run(total, method="mpi")),
        ]:
            with self.assertRaisesRegex(error, text):
                call()

    def test_descriptors(self):
        ccl.run(total, 2, method="fork", args=(1, 1))
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            ccl.run(total, 2, method="fork", args=(1, 1))
            self.fails(LookupError, fails, ranks=2, method="fork")
        self.assertEqual(os.listdir("/proc/self/fd"), before)


class Orphans(unittest.TestCase):
    def test_parent_is_killed(self):
        """The ranks end with the process that called run."""
        script = f"""
import os, sys, time
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import ccl
def work(comm):
    comm.barrier()
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
ccl.run(work, 2, method="fork")
"""
        parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        parent.wait()
        parent.stdout.close()
        limit = time.monotonic() + 5
        while any(os.path.exists(f"/proc/{pid}") and not is_zombie(pid) for pid in pids):
            self.assertLess(time.monotonic(), limit, "a rank outlives its parent")
            time.sleep(0.01)


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Environment(unittest.TestCase):
    def test_separate_processes(self):
        """Rank, size and socket from the environment, as a launcher sets them."""
        script = """
import ccl, numpy
with ccl.open() as comm:
    print(comm.rank, comm.size, comm.all_reduce(numpy.array([comm.rank + 1]))[0])
"""
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(
                [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                env=dict(os.environ, CCL_RANK=str(rank), CCL_SIZE="3",
                         CCL_SOCKET=os.path.join(folder, "mine", "socket")))
                for rank in (2, 0, 1)]
            said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual(said, ["2 3 6\n", "0 3 6\n", "1 3 6\n"])


if __name__ == "__main__":
    unittest.main()
