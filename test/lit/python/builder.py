"""Algorithms written in Python: right ones run, wrong ones name the line that wrote them."""
import inspect
import unittest

import numpy as np

import ccl

HERE = __file__


def line(offset=0):
    """Number of the line that calls, plus an offset."""
    return inspect.currentframe().f_back.f_lineno + offset


def ring(n, first=0, op="sum"):
    a = ccl.Algorithm("ring", ccl.contract.all_reduce(op), ranks=n)
    x = a.inout(chunks=n)
    for move, shift in (a.reduce, 0), (a.copy, 1):
        for s in range(first, n - 1):
            with a.step():
                for r in range(n):
                    c = (r - s + shift) % n
                    move(x[r, c], x[(r + 1) % n, c])
    return a


class Right(unittest.TestCase):
    def test_runs(self):
        for n in (2, 3, 4):
            program = ring(n).compile(type="i32")

            def work(comm):
                x = np.arange(10 * comm.rank, 10 * comm.rank + 7, dtype=np.int32)
                comm.launch(program, x, x)
                return x.tolist()

            wanted = sum(np.arange(10 * r, 10 * r + 7) for r in range(n)).tolist()
            self.assertEqual(ccl.run(work, ranks=n, method="threads"), [wanted] * n)

    def test_input_and_output(self):
        a = ccl.Algorithm("gather", ccl.contract.all_gather(), ranks=3)
        source, into, spare = a.input(1), a.output(3), a.scratch(2, "spare")
        for r in range(3):
            for q in range(3):
                a.copy(source[r, 0], into[q, r])
        a.copy(source[0, 0], spare[1, 1])
        program = ccl.compile(a, type=np.float64)
        self.assertEqual((program.collective, program.ranks, program.type, program.op),
                         ("all_gather", 3, "f64", None))

        def work(comm):
            out = np.empty(15)
            return comm.launch(program, np.full(5, float(comm.rank)), out).tolist()

        wanted = np.repeat([0.0, 1.0, 2.0], 5).tolist()
        self.assertEqual(ccl.run(work, ranks=3, method="threads"), [wanted] * 3)

    def test_instead_of_a_collective(self):
        program = ring(2).compile(type="f32", op="max")
        self.assertEqual(program.op, "max")

        def work(comm):
            x = np.full(4, comm.rank, np.float32)
            return comm.all_reduce(x, op="max", program=program).tolist()

        self.assertEqual(ccl.run(work, ranks=2, method="threads"), [[1.0] * 4] * 2)

    def test_custom_contract(self):
        # Rank 0 gets the sum of what 1 and 2 have.
        rows = [(0, 0, 1, 0), (0, 0, 2, 0)]
        a = ccl.Algorithm("sum_of_two", ccl.contract.custom(rows, "sum"), ranks=3)
        source, into = a.input(1), a.output(1)
        a.copy(source[1, 0], into[0, 0])
        a.reduce(source[2, 0], into[0, 0])
        self.assertEqual(a.compile().collective, "custom")

    def test_says_what_it_is(self):
        a = ring(3)
        self.assertEqual(repr(a), "<ccl.Algorithm ring: 3 ranks, 12 moves>")
        x = ccl.Algorithm("a", ccl.contract.broadcast(1), 2).inout(4, "data")
        self.assertEqual(repr(x), "<ccl.Buffer data[rank, 4 chunks]>")
        self.assertEqual(repr(x[1, 3]), "<ccl.Place [1, 3]>")
        self.assertEqual(repr(ccl.contract.reduce("max", root=2)),
                         "<ccl.contract reduce max root 2>")
        self.assertEqual(repr(a.compile(type="bf16")),
                         "<ccl.Program ring: all_reduce sum bf16, 3 ranks>")
        self.assertIn("ccl.algorithm @ring implements #ccl.contract<all_reduce, sum>", a.text())


class Wrong(unittest.TestCase):
    def refused(self, algorithm, at, *texts):
        """It is refused, and its text begins with that line of this file."""
        with self.assertRaises(ccl.ProgramError) as caught:
            algorithm.compile()
        text = str(caught.exception)
        self.assertTrue(text.startswith(f"{HERE}:{at}:"), text)
        for each in texts:
            self.assertIn(each, text)
        self.assertEqual(caught.exception.kind, "program")

    def test_too_few_steps(self):
        a = ccl.Algorithm("short", ccl.contract.reduce("sum", root=0), ranks=3)
        x = a.inout(1)
        for r in range(1, 2):  # one too few
            a.reduce(x[r, 0], x[0, 0]); at = line()
        self.refused(a, at, "reduce sum is not met", "the contribution of rank 2", "a.reduce(x[r")

    def test_never_written(self):
        a = ccl.Algorithm("lazy", ccl.contract.broadcast(), ranks=2)
        a.inout(1); at = line()
        self.refused(a, at, "broadcast is not met")

    def test_counted_twice(self):
        a = ccl.Algorithm("twice", ccl.contract.reduce("sum", root=0), ranks=2)
        x = a.inout(1)
        a.reduce(x[1, 0], x[0, 0])
        a.reduce(x[1, 0], x[0, 0]); at = line()
        self.refused(a, at, "counted twice")

    def test_columns(self):
        a = ccl.Algorithm("twice", ccl.contract.reduce("sum", root=0), ranks=2)
        x = a.inout(1)
        a.reduce(x[1, 0], x[0, 0]); a.reduce(x[1, 0], x[0, 0]); at = line()
        self.refused(a, f"{at}:37")

    def test_a_conflict(self):
        a = ccl.Algorithm("against", ccl.contract.all_reduce("sum"), ranks=2)
        x = a.inout(1)
        with a.step():
            a.reduce(x[0, 0], x[1, 0]); first = line()
            a.reduce(x[1, 0], x[0, 0])
        with self.assertRaises(ccl.ProgramError) as caught:
            a.compile()
        self.assertRegex(str(caught.exception), f"^{HERE}:({first}|{first + 1}):")

    def test_no_such_place(self):
        a = ccl.Algorithm("outside", ccl.contract.all_gather(), ranks=2)
        x = a.inout(2)
        a.copy(
            x[0, 0],
            x[5, 0])
        self.refused(a, line(-3), "rank 5 is outside [0, 2)")
        b = ccl.Algorithm("outside", ccl.contract.all_gather(), ranks=2)
        y = b.inout(2)
        b.copy(y[0, -1], y[1, 0])
        self.refused(b, line(-1), "-1")

    def test_another_algorithms_buffer(self):
        a = ccl.Algorithm("one", ccl.contract.all_gather(), ranks=2)
        b = ccl.Algorithm("two", ccl.contract.all_gather(), ranks=2)
        x, y = a.inout(2), b.inout(2)
        a.copy(x[0, 0], y[1, 0])
        self.refused(a, line(-1), "another algorithm")

    def test_two_inouts(self):
        a = ccl.Algorithm("two", ccl.contract.all_gather(), ranks=2)
        a.inout(2)
        with self.assertRaises(ccl.ProgramError) as caught:
            a.inout(2)
            a.compile()
        self.assertRegex(str(caught.exception), f"^{HERE}:[0-9]+:")

    def test_in_a_helper(self):
        def send(a, x, r):
            a.copy(x[r, 0], x[r + 7, 0])

        a = ccl.Algorithm("helper", ccl.contract.broadcast(), ranks=2)
        send(a, a.inout(1), 0)
        self.refused(a, line(-4), "rank 7")

    def test_many_moves(self):
        # Long programs are kept as a table, which has lines as well.
        a = ccl.Algorithm("long", ccl.contract.broadcast(), ranks=2)
        x, t = a.inout(1), a.scratch(1)
        for _ in range(20001):
            a.copy(x[0, 0], x[1, 0])
        self.assertEqual(a.moves, 20001)
        a.copy(t[1, 0], x[0, 0]); at = line()
        self.refused(a, at, "never written")

    def test_arguments(self):
        a = ccl.Algorithm("a", ccl.contract.all_gather(), 2)
        x = a.inout(2)
        for error, text, call in [
                (TypeError, r"x\[\.\.\.\]: needs two", lambda: x[0]),
                (TypeError, "chunk: float", lambda: x[0, 0.5]),
                (TypeError, "into: 3 is no place", lambda: a.copy(x[0, 0], 3)),
                (TypeError, "count: 'two'", lambda: a.copy(x[0, 0], x[1, 0], "two")),
                (TypeError, "chunks: str", lambda: a.scratch("three")),
                (TypeError, "contract: 'all_gather'", lambda: ccl.Algorithm("a", "all_gather", 2)),
                (TypeError, "targets: 3", lambda: ccl.contract.permute(3)),
                (ValueError, r"rows\[0\]: has 3", lambda: ccl.contract.custom([(1, 2, 3)])),
                (ValueError, "op: 'plus'", lambda: ccl.contract.all_reduce("plus")),
                (ValueError, "ranks: .* for 2 ranks, not for 3", lambda: ccl.compile(a, ranks=3)),
                (ValueError, "via: 'air'", lambda: a.compile(via="air")),
                (TypeError, "source: 5 is neither", lambda: ccl.compile(5)),
        ]:
            with self.assertRaisesRegex(error, text):
                call()


class Texts(unittest.TestCase):
    TEXT = """
ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
  affine.for %s = 1 to %n {
    ccl.reduce %x[%s, 0] into %x[0, 0]
  }
  affine.for %s = 1 to %n {
    ccl.copy %x[0, 0] into %x[%s, 0]
  }
}
"""

    def test_text(self):
        program = ccl.compile(self.TEXT, ranks=3, type="i64")
        self.assertEqual((program.name, program.ranks, program.type), ("ring", 3, "i64"))
        self.assertTrue(program.proved_in_place)
        self.assertIn("ccl.program", program.text("program"))
        with self.assertRaisesRegex(ValueError, "stage: 'object'"):
            program.text("object")

    def test_wrong_text_names_its_line(self):
        wrong = self.TEXT.replace("%s = 1 to %n", "%s = 2 to %n", 1)
        with self.assertRaisesRegex(ccl.ProgramError, r"^my\.mlir:\d+:\d+: error: "):
            ccl.compile(wrong, ranks=3, label="my.mlir")
        with self.assertRaisesRegex(ccl.ProgramError, r"^<text>:1:1: error: "):
            ccl.compile("nonsense")

    def test_files(self):
        import pathlib
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.mlir")
            path.write_text(self.TEXT)
            self.assertEqual(ccl.compile(path, sizes={"n": 2}).hash,
                             ccl.compile(str(path), ranks=2).hash)
            path.write_text("nonsense")
            with self.assertRaisesRegex(ccl.ProgramError, f"^{path}:1:1: error: "):
                ccl.compile(path)
        with self.assertRaisesRegex(ccl.ArgumentError, "cannot read 'missing.mlir'"):
            ccl.compile("missing.mlir")

    def test_generators(self):
        self.assertEqual(ccl.generators("all_reduce")[0], "ring")
        program = ccl.generate("broadcast", ranks=5, root=2, type="u8")
        self.assertEqual((program.collective, program.ranks, program.root), ("broadcast", 5, 2))
        with self.assertRaisesRegex(ccl.ArgumentError, "nothing called 'rng'"):
            ccl.generate("all_reduce", ranks=2, algorithm="rng")
        with self.assertRaisesRegex(ValueError, "collective: there is no 'all_educe'"):
            ccl.generators("all_educe")
        # Not every type has every op.
        with self.assertRaises(ccl.Error) as caught:
            ccl.generate("all_reduce", ranks=2, type="f32", op="bxor")
        self.assertIn("bxor", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
