"""ccl in one process with others: import orders, symbols, a second LLVM, other arrays."""
import glob
import inspect
import subprocess
import sys
import unittest

USE = """
import numpy as np
def use(ccl):
    [comm] = ccl.open_threads(1)
    assert comm.all_reduce(np.ones(3, "f4")).tolist() == [1, 1, 1]
    try:
        ccl.compile("nonsense")
    except ccl.ProgramError:
        pass
"""


def python(*lines):
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True,
                            text=True, timeout=100)
    if result.returncode:
        raise AssertionError(f"exit {result.returncode}\n{result.stderr}")
    return result.stdout


class Imports(unittest.TestCase):
    def test_both_orders(self):
        python("import numpy, ccl", USE, "use(ccl)")
        python("import ccl, numpy", USE, "use(ccl)")

    def test_numpy_is_not_needed_to_compile(self):
        python("import sys", "sys.modules['numpy'] = None", "import ccl, array",
               "ccl.generate('all_reduce', ranks=3)",
               "[comm] = ccl.open_threads(1)",
               "out = array.array('d', [0])",
               "comm.all_reduce(array.array('d', [2]), out)",
               "assert out[0] == 2")

    def test_nothing_is_exported(self):
        """Neither LLVM's symbols nor ours are seen by what is loaded later."""
        python("import ccl, ctypes", "everything = ctypes.CDLL(None)",
               "for name in ('LLVMContextCreate', '_ZN4llvm11LLVMContextC1Ev',",
               "             'PyInit__ccl', '_ZN3ccl3jit7versionEv'):",
               "    try: getattr(everything, name)",
               "    except AttributeError: continue",
               "    raise SystemExit(name + ' is exported')")

    def test_another_llvm(self):
        others = [path for path in glob.glob("/usr/lib/*-linux-gnu/libLLVM-1*.so.1")
                  if "-19" not in path]
        if not others:
            self.skipTest("no other LLVM here")
        for path in others:
            load = f"import ctypes; ctypes.CDLL({path!r}, ctypes.RTLD_GLOBAL).LLVMContextCreate()"
            python(load, "import ccl", USE, "use(ccl)")
            python("import ccl", USE, load, "use(ccl)")

    def test_end_with_everything_open(self):
        """At the end of the interpreter nothing hangs or crashes."""
        python("import ccl, numpy", "comms = ccl.open_threads(2, timeout=1)",
               "stream = comms[0].stream()",
               "comms[0].all_reduce(numpy.ones(4), stream=stream)",
               "mark = stream.record()")

    def test_public_names(self):
        import ccl
        for name in ccl.__all__:
            self.assertTrue(getattr(ccl, name).__doc__, f"{name} has no documentation")
        for of in (ccl.Communicator, ccl.Stream, ccl.Event, ccl.Memory, ccl.Algorithm, ccl.Program):
            for name in dir(of):
                value = getattr(of, name)
                if not name.startswith("_") and callable(value):
                    self.assertTrue(value.__doc__, f"{of.__name__}.{name} has no documentation")
                    # Shared paragraphs stand where the names of them did.
                    self.assertNotRegex(value.__doc__, "(?m)^ *<")
        told = inspect.getdoc(ccl.Communicator.all_gather_v)
        for each in ("counts : sequence of int\n    Elements of", "**call\n    dtype, stream",
                     "Returns\n-------\narray\n    `out`, or a new flat"):
            self.assertIn(each, told)
        self.assertRegex(ccl.__version__, r"^\d+\.\d+\.\d+$")


class OtherTypes(unittest.TestCase):
    def test_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("no ml_dtypes here")
        import numpy as np

        import ccl
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            dtype = np.dtype(getattr(ml_dtypes, name))

            def work(comm):
                x = np.array([1, 2, comm.rank], dtype)
                total = comm.all_reduce(x)
                comm.all_reduce(x, x)
                memory = comm.allocate(4, dtype)
                assert memory.array.dtype == dtype
                return total.dtype == dtype, total.astype(float).tolist(), (x == total).all()

            self.assertEqual(ccl.run(work, 2, method="threads"), [(True, [2, 4, 1], True)] * 2)


if __name__ == "__main__":
    unittest.main()
