"""Ctrl-C while a call waits."""
import os
import signal
import tempfile
import threading
import time
import unittest

import numpy as np

import ccl


class Interrupt(unittest.TestCase):
    def setUp(self):
        # Whoever starts tests may have it ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def soon(self, number=signal.SIGINT):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), number))
        timer.start()
        self.addCleanup(timer.join)

    def interrupted(self, call):
        self.soon()
        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            call()
        self.assertLess(time.monotonic() - begun, 2)

    def test_calls(self):
        """The communicator is aborted: the others do not wait, either."""
        for call in (lambda comm: comm.barrier(), lambda comm: comm.all_reduce(np.ones(1000)),
                     lambda comm: comm.allocate(100), lambda comm: comm.split(0),
                     lambda comm: comm.dup()):
            comm, other = ccl.open_threads(2, timeout=20)
            self.interrupted(lambda: call(comm))
            self.assertIsInstance(comm.failure, ccl.AbortedError)
            with self.assertRaisesRegex(ccl.AbortedError, r"rank 0 was interrupted \(SIGINT\)"):
                other.barrier()
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_streams(self):
        comm, other = ccl.open_threads(2, timeout=20)
        stream = comm.stream()
        comm.barrier(stream=stream)
        self.interrupted(stream.wait)
        with self.assertRaisesRegex(ccl.AbortedError, "rank 0 was interrupted"):
            other.barrier()

    def test_open(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine", "socket")
            self.interrupted(lambda: ccl.open(0, 2, path, timeout=20))

    def test_simulations(self):
        """What was begun goes on, and nobody waits for it."""
        machine = ccl.topology("ring:16")
        slow = dict(algorithm="ring", micro_batches=1 << 16, bound=False)
        self.interrupted(lambda: machine.simulate("all_reduce", 1 << 30, **slow))

    def test_another_thread_is_not_interrupted(self):
        comm, other = ccl.open_threads(2, timeout=20)
        done = []
        thread = threading.Thread(target=lambda: done.append(other.barrier()))
        thread.start()
        self.interrupted(lambda: time.sleep(10))
        comm.barrier()
        thread.join()
        self.assertEqual(done, [None])

    def test_own_handler(self):
        """It runs when the call has returned; the call is not ended."""
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append("signal"))
        comm, other = ccl.open_threads(2, timeout=20)

        def late():
            time.sleep(0.5)
            other.barrier()

        thread = threading.Thread(target=late)
        thread.start()
        self.soon()
        comm.barrier()
        thread.join()
        self.assertEqual(seen, ["signal"])
        self.assertIsNone(comm.failure)

    def test_handler_that_raises(self):
        """Streams look for every signal."""
        def handler(*_):
            raise RuntimeError("my alarm")

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        comm, _ = ccl.open_threads(2, timeout=20)
        stream = comm.stream()
        comm.barrier(stream=stream)
        self.soon(signal.SIGALRM)
        with self.assertRaisesRegex(RuntimeError, "my alarm"):
            stream.wait()

    def test_ignored(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        comm, other = ccl.open_threads(2, timeout=0.5)
        self.soon()
        with self.assertRaises(ccl.TimeoutError):
            comm.barrier()

    def test_after_fork(self):
        """The thread that watches is not in a forked child; it gets one of its own."""
        comm, _ = ccl.open_threads(2, timeout=20)
        self.interrupted(comm.barrier)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                comm, _ = ccl.open_threads(2, timeout=20)
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                comm.barrier()
            except KeyboardInterrupt:
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
