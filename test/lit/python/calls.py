"""Arguments, errors, streams, memory and groups, with ranks that are threads."""
import array
import gc
import sys
import threading
import time
import unittest
import weakref

import numpy as np

import ccl


def on_threads(n, body, timeout=10):
    """body(comm) on every rank; results or errors in their order, without aborting anybody."""
    found = [None] * n

    def work(rank, comm):
        try:
            found[rank] = body(comm)
        except (ccl.Error, AssertionError) as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=each)
               for each in enumerate(ccl.open_threads(n, timeout))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Arguments(unittest.TestCase):
    """What cannot be right is refused before anybody waits, and the argument is named."""

    def setUp(self):
        [self.comm] = ccl.open_threads(1)

    def refused(self, error, text, call, *args, **keywords):
        with self.assertRaisesRegex(error, text):
            call(*args, **keywords)
        # Nothing has begun: the communicator goes on.
        self.assertIsNone(self.comm.failure)
        self.assertEqual(self.comm.all_reduce(np.ones(1, np.int32))[0], 1)

    def test_arrays(self):
        comm, x = self.comm, np.ones(6, np.float32)
        run = comm.all_reduce
        self.refused(TypeError, "^x: list has no buffer", run, [1.0, 2.0])
        self.refused(TypeError, "^x: NoneType has no buffer", run, None)
        self.refused(TypeError, "^out: list has no buffer", run, x, [0] * 6)
        self.refused(ValueError, "^x: is not C-contiguous", run, np.ones((4, 4), "f4")[:, :2],
                     np.ones(8, "f4"))
        self.refused(ValueError, "^out: is not C-contiguous", run, x, np.ones(12, "f4")[::2])
        frozen = np.ones(6, np.float32)
        frozen.flags.writeable = False
        self.refused(ValueError, "^out: is read-only", run, x, frozen)
        self.refused(ValueError, "^out: has 5 elements, needs 6", run, x, np.ones(5, "f4"))
        self.refused(TypeError, "^out: holds f64, x holds f32", run, x, np.ones(6))
        memory = np.ones(12, "f4")
        self.refused(ValueError, "^out: overlaps x without being in place: x begins -12 bytes",
                     run, memory[:6], memory[3:9])
        self.assertEqual(run(frozen).tolist(), [1.0] * 6)
        crooked = np.zeros(25, np.uint8)[1:].view(np.float32)
        self.refused(ValueError, "^x: is not aligned to its elements of 4 bytes", run, crooked, x)
        self.refused(ValueError, "^out: is not aligned", run, x, crooked)

    def test_words_and_large_numbers(self):
        comm, x = self.comm, np.ones(6, np.float32)
        self.refused(TypeError, "^algorithm: 3 is no text", comm.all_reduce, x, algorithm=3)
        self.refused(TypeError, "^program: 3 is no ccl.Program", comm.all_reduce, x, program=3)
        self.refused(TypeError, "^program: None is no ccl.Program", comm.launch, None, x, x)
        self.refused(ValueError, "^root: 1099511627776 has more than 31 bits", comm.broadcast, x,
                     root=1 << 40)
        self.refused(ValueError, "^color: .* has more than 31 bits", comm.split, 1 << 31)
        self.refused(ValueError, r"^counts\[0\]: .* has more than 63 bits", comm.all_gather_v, x,
                     [1 << 63])
        self.refused(ValueError, "^shape: .* more elements than", comm.allocate, (1 << 40, 1 << 40))
        self.refused(ccl.ArgumentError, "the limit is", comm.allocate, 1 << 60)
        self.refused(ValueError, "^size: ", ccl.open_threads, 1 << 80)
        self.refused(ValueError, "^rank: .* has more than 63 bits",
                     ccl.Algorithm("a", ccl.contract.barrier(), 1).inout(1).__getitem__,
                     (1 << 80, 0))

    def test_types(self):
        run = self.comm.all_reduce
        for dtype in ("?", "u2", "c8", "M8[s]", ">f4", "S3", "O"):
            self.refused(TypeError, "^x: ", run, np.zeros(4, dtype))
        self.refused(TypeError, "dtype=\"bf16\"", run, np.zeros(4, "u2"))
        self.refused(TypeError, "^x: .* are not bf16", run, np.zeros(4, "f4"), dtype="bf16")
        self.refused(TypeError, "^x: .* are not f32", run, np.zeros(4, "f8"), dtype="f32")
        self.refused(ValueError, "^dtype: 'f33' is none of", run, np.zeros(4), dtype="f33")
        self.refused(TypeError, "^dtype: ", run, np.zeros(4), dtype=np.complex64)
        for same in ("f64", "float64", np.float64, np.dtype("f8"), float, None):
            self.assertEqual(run(np.ones(2), dtype=same).tolist(), [1.0, 1.0])
        self.refused(ValueError, "^op: 'plus' is none of sum", run, np.zeros(4), op="plus")
        self.refused(TypeError, "^op: 3 is no name", run, np.zeros(4), op=3)

    def test_numbers(self):
        comm, x = self.comm, np.zeros(4)
        self.refused(ValueError, r"^root: 1 is outside \[0, 1\)", comm.broadcast, x, root=1)
        self.refused(ValueError, r"^root: -1 is outside \[0, 1\)", comm.reduce, x, root=-1)
        self.refused(TypeError, "^root: 0.5 is no whole", comm.reduce, x, root=0.5)
        self.refused(ValueError, "^timeout: 0 seconds", comm.all_reduce, x, timeout=0)
        self.refused(ValueError, "^timeout: nan seconds", comm.barrier, timeout=float("nan"))
        self.refused(TypeError, "^timeout: str is no number", comm.barrier, timeout="long")
        self.refused(ValueError, "^counts: has 2 entries", comm.all_gather_v, x, [2, 2])
        self.refused(ValueError, r"^counts\[0\]: -4 elements", comm.all_gather_v, x, [-4])
        self.refused(ValueError, "^x: has 4 elements, needs 3", comm.all_gather_v, x, [3])
        self.refused(TypeError, r"^counts\[0\]: 'a' is no whole", comm.all_gather_v, x, ["a"])
        self.refused(ValueError, "^targets: .* no permutation", comm.permute, x, [1])
        self.refused(ccl.ArgumentError, "nothing called 'rng'", comm.all_reduce, x, algorithm="rng")
        self.refused(TypeError, "^stream: 'now' is no ccl.Stream", comm.all_reduce, x, stream="now")
        self.refused(TypeError, "unexpected keyword", comm.all_reduce, x, timeut=3)
        self.refused(ValueError, "^out: is needed where x is None", comm.scatter, None)

    def test_programs(self):
        comm, x = self.comm, np.zeros(4)
        two = ccl.generate("all_reduce", ranks=2, type="f64")
        self.refused(ccl.ArgumentError, "2 ranks", comm.launch, two, x, x)
        other = ccl.generate("all_gather", ranks=1, type="f64")
        self.refused(ccl.ArgumentError, "another collective", comm.all_reduce, x, program=other)
        mine = ccl.generate("all_reduce", ranks=1, type="f32")
        self.refused(TypeError, "^x: .* are not f32", comm.launch, mine, x, x)
        self.refused(ValueError, "^out: has 3 elements", comm.launch, mine, np.zeros(4, "f4"),
                     np.zeros(3, "f4"))

    def test_open(self):
        for error, text, call in [
                (ccl.ArgumentError, "which rank", lambda: ccl.open()),
                (ccl.ArgumentError, "how many ranks", lambda: ccl.open(0)),
                (ccl.ArgumentError, "where do the processes meet", lambda: ccl.open(0, 2)),
                (ccl.ArgumentError, "rank 2 of 2", lambda: ccl.open(2, 2, "/nowhere/s")),
                (ValueError, "^rank: -3", lambda: ccl.open(-3, 2)),
                (ValueError, "^size: 0", lambda: ccl.open(0, 0)),
                (TypeError, "^socket: 5", lambda: ccl.open(0, 1, 5)),
                (ValueError, "^timeout: -1", lambda: ccl.open(0, 1, timeout=-1)),
        ]:
            with self.assertRaisesRegex(error, text):
                call()
        with ccl.open(0, 1) as alone:
            self.assertEqual(alone.all_reduce(np.ones(3)).tolist(), [1.0] * 3)
        self.assertEqual(repr(alone), "<ccl.Communicator closed>")
        with self.assertRaisesRegex(ValueError, "closed"):
            alone.barrier()
        alone.close()

    def test_other_buffers(self):
        comm = self.comm
        out = array.array("f", [0, 0, 0])
        comm.all_reduce(array.array("f", [1, 2, 3]), out)
        self.assertEqual(list(out), [1, 2, 3])
        self.assertEqual(comm.all_reduce(bytearray(b"abc")).tobytes(), b"abc")
        self.assertEqual(comm.all_reduce(memoryview(b"abc")).tobytes(), b"abc")
        self.refused(ValueError, "^out: is read-only", comm.all_reduce, b"abc", b"abc")

    def test_shapes(self):
        comm = self.comm
        self.assertEqual(comm.all_reduce(np.ones((2, 3))).shape, (2, 3))
        self.assertEqual(comm.all_reduce(np.float64(3).reshape(())).shape, ())
        self.assertEqual(comm.all_gather(np.ones((2, 3))).shape, (2, 3))

        def work(comm):
            shapes = [comm.all_gather(np.ones((2, 3))).shape, comm.all_gather(np.ones(())).shape,
                      comm.reduce_scatter(np.ones((4, 3))).shape,
                      comm.reduce_scatter(np.ones((3, 2))).shape,
                      comm.all_to_all(np.ones((3, 2))).shape]
            try:
                comm.reduce_scatter(np.ones(3))
            except ValueError as error:
                shapes.append(str(error))
            return shapes

        wanted = [(4, 3), (2,), (2, 3), (3,), (3, 2),
                  "x: 3 elements cannot be cut into 2 equal shards, one for each rank"]
        self.assertEqual(on_threads(2, work), [wanted] * 2)

    def test_every_rank_sees_only_what_it_uses(self):
        def work(comm):
            x = np.arange(4.0) if comm.rank == 1 else None
            out = np.empty(2)
            comm.scatter(x, out, root=1)
            everything = np.arange(3.0) if comm.rank == 1 else None
            return out.tolist() + comm.broadcast(everything, np.empty(3), root=1).tolist()

        self.assertEqual(on_threads(2, work), [[0, 1, 0, 1, 2], [2, 3, 0, 1, 2]])


class Errors(unittest.TestCase):
    def test_classes(self):
        error = ccl.TimeoutError("late", 3)
        self.assertTrue(isinstance(error, ccl.Error) and isinstance(error, TimeoutError))
        self.assertTrue(issubclass(ccl.ArgumentError, ValueError))
        import pickle
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.culprit, again.kind),
                         (ccl.TimeoutError, "late", 3, "timeout"))

    def test_mismatch(self):
        def work(comm):
            return comm.all_reduce(np.ones(4 + comm.rank, np.float32))

        for found in on_threads(3, work):
            self.assertIsInstance(found, ccl.MismatchError)
            self.assertEqual(found.kind, "mismatch")

    def test_timeout(self):
        def work(comm):
            if comm.rank == 1:
                return go.wait(10)
            begun = time.monotonic()
            try:
                comm.barrier(timeout=0.3)
            finally:
                self.assertLess(time.monotonic() - begun, 2)
                go.set()

        go = threading.Event()
        found = on_threads(2, work)[0]
        self.assertIsInstance(found, ccl.TimeoutError)
        self.assertEqual(found.culprit, 1)

    def test_abort_and_failure(self):
        def work(comm):
            if comm.rank == 0:
                time.sleep(0.1)  # the others wait by then, or will
                comm.abort("enough")
            try:
                comm.barrier()
            except ccl.AbortedError as error:
                self.assertIsInstance(comm.failure, ccl.AbortedError)
                self.assertEqual(str(comm.failure), str(error))
                raise

        for found in on_threads(3, work):
            self.assertIsInstance(found, ccl.AbortedError)
            self.assertIn("enough", str(found))

    def test_leaving_by_an_exception_aborts(self):
        def work(comm):
            try:
                with comm:
                    if comm.rank == 1:
                        raise KeyError("my own")
                    comm.barrier()
            except KeyError:
                return "mine"

        other, mine = on_threads(2, work)
        self.assertEqual(mine, "mine")
        self.assertIsInstance(other, ccl.AbortedError)
        self.assertIn("rank 1: KeyError: 'my own'", str(other))

    def test_rebuild(self):
        def work(comm):
            if comm.rank == 0:
                comm.abort("for a test")
            try:
                comm.barrier()
            except ccl.AbortedError:
                pass
            again = comm.rebuild(timeout=5)
            return again.size, again.all_reduce(np.array([comm.rank])).tolist()

        self.assertEqual(on_threads(3, work), [(3, [3])] * 3)


class Groups(unittest.TestCase):
    def test_split_and_dup(self):
        def work(comm):
            child = comm.split(comm.rank % 2, key=-comm.rank)
            nobody = comm.split(None if comm.rank == 0 else 5)
            twin = comm.dup()
            comm.close()
            return (child.size, child.rank, child.all_reduce(np.array([twin.rank])).tolist(),
                    nobody if nobody is None else nobody.size)

        self.assertEqual(on_threads(4, work), [(2, 1, [2], None), (2, 1, [4], 3), (2, 0, [2], 3),
                                               (2, 0, [4], 3)])


class Streams(unittest.TestCase):
    def test_order_and_events(self):
        def work(comm):
            with comm.stream() as stream:
                x = np.full(1000, comm.rank + 1.0)
                total = comm.all_reduce(x, stream=stream)
                both = comm.all_gather(total[:2], stream=stream)
                mark = stream.record()
                mark.wait(timeout=10)
                self.assertTrue(mark.done)
                self.assertTrue(stream.idle)
                comm.barrier(stream=stream)
            self.assertTrue(stream.idle)
            return total.sum(), both.tolist()

        self.assertEqual(on_threads(2, work), [(3000.0, [3.0] * 4)] * 2)

    def test_arrays_are_kept(self):
        """They may be dropped at once; the stream holds them until it is done with them."""
        class Watched(np.ndarray):
            pass

        def work(comm):
            stream = comm.stream()
            x = np.full(5, 1.0).view(Watched)
            alive = weakref.ref(x)
            if comm.rank == 0:
                comm.all_reduce(x, stream=stream)
                del x
                gc.collect()
                self.assertIsNotNone(alive())
                go.set()
            else:
                go.wait(10)
                comm.all_reduce(x, stream=stream)
                del x
            stream.wait()
            gc.collect()
            return alive() is None

        go = threading.Event()
        self.assertEqual(on_threads(2, work), [True, True])

    def test_arguments_at_once_and_errors_later(self):
        def work(comm):
            stream = comm.stream()
            with self.assertRaisesRegex(ValueError, "^out: has 1"):
                comm.all_reduce(np.ones(2), np.ones(1), stream=stream)
            comm.all_reduce(np.ones(2 + comm.rank), stream=stream)
            with self.assertRaises(ccl.MismatchError):
                stream.wait()
            return "seen"

        self.assertEqual(on_threads(2, work), ["seen"] * 2)

    def test_after(self):
        def work(comm):
            twin = comm.dup()
            first, second = comm.stream(), twin.stream()
            x = np.full(3, 1.0)
            comm.all_reduce(x, x, stream=first)
            second.after(first.record())
            twin.all_reduce(x, x, stream=second)
            second.wait()
            with self.assertRaisesRegex(ccl.ArgumentError, "another communicator"):
                comm.barrier(stream=second)
            return x.tolist()

        self.assertEqual(on_threads(2, work), [[4.0] * 3] * 2)

    def test_wait_in_vain(self):
        def work(comm):
            if comm.rank == 1:
                go.wait(10)
                return comm.barrier()
            stream = comm.stream()
            comm.barrier(stream=stream)
            with self.assertRaisesRegex(ccl.TimeoutError, "the work goes on"):
                stream.wait(timeout=0.05)
            self.assertFalse(stream.idle)
            go.set()
            stream.wait()

        go = threading.Event()
        self.assertEqual(on_threads(2, work), [None, None])

    def test_dropped_while_busy(self):
        def work(comm):
            comm.all_reduce(np.ones(100), stream=comm.stream())

        self.assertEqual(on_threads(2, work), [None, None])


class Memory(unittest.TestCase):
    def test_peers(self):
        def work(comm):
            memory = comm.allocate((2, 3), "f64")
            memory.array[:] = comm.rank
            comm.barrier()
            seen = [memory.peer(r)[0, 0] for r in range(comm.size)]
            comm.barrier()
            comm.all_reduce(memory.array, memory.array)
            with self.assertRaisesRegex(ValueError, r"^rank: 3 is outside \[0, 3\)"):
                memory.peer(3)
            return seen, memory.array.tolist(), memory.peer(0).shape

        self.assertEqual(on_threads(3, work), [([0, 1, 2], [[3.0] * 3] * 2, (2, 3))] * 3)

    def test_array_outlives_everything(self):
        def work(comm):
            array = comm.allocate(1000, np.int32).array
            comm.close()
            array[:] = 7
            gc.collect()
            return int(array.sum())

        self.assertEqual(on_threads(2, work), [7000] * 2)

    def test_types(self):
        [comm] = ccl.open_threads(1)
        self.assertEqual(comm.allocate(3, "bf16").array.dtype, np.uint16)
        self.assertEqual(comm.allocate(3, "f8e5m2").array.dtype, np.uint8)
        self.assertEqual(comm.allocate(0).array.shape, (0,))
        self.assertEqual(repr(comm.allocate((2, 4))), "<ccl.Memory float32[2, 4] on 1 ranks>")
        with self.assertRaisesRegex(ValueError, "^shape: .* negative"):
            comm.allocate(-1)

    def test_different_sizes(self):
        for found in on_threads(2, lambda comm: comm.allocate(100000 * (1 + comm.rank))):
            self.assertIsInstance(found, ccl.MismatchError)


class Threads(unittest.TestCase):
    def test_gil_is_not_held(self):
        """A rank that waits lets the others run Python."""
        def work(comm):
            if comm.rank == 0:
                return comm.barrier(timeout=20)
            for _ in range(10):
                sys.stdout.flush()
                time.sleep(0.01)
            return comm.barrier(timeout=20)

        self.assertEqual(on_threads(2, work), [None] * 2)


if __name__ == "__main__":
    unittest.main()
