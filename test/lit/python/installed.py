"""Uses the package as `cmake --install` put it.

    python3 installed.py PREFIX
"""
import os
import pathlib
import subprocess
import sys

SCRIPT = """
import ccl, numpy
def work(comm):
    return comm.all_reduce(numpy.full(7, comm.rank)).tolist()
if __name__ == "__main__":
    assert ccl.__file__.startswith(PREFIX), ccl.__file__
    maps = open("/proc/self/maps").read()
    libraries = {line.split()[-1] for line in maps.splitlines() if "libccljit" in line}
    assert len(libraries) == 1 and libraries.pop().startswith(PREFIX), maps
    assert ccl.run(work, ranks=4) == [[6] * 7] * 4
    assert ccl.run(work, ranks=4, method="fork") == [[6] * 7] * 4
"""


def main():
    prefix = pathlib.Path(sys.argv[1]).resolve()
    [package] = prefix.glob("lib*/python3*/site-packages")
    script = prefix / "app.py"
    script.write_text(SCRIPT.replace("PREFIX", repr(str(prefix))))
    environment = dict(os.environ, PYTHONPATH=str(package))
    return subprocess.run([sys.executable, str(script)], env=environment, timeout=100).returncode


if __name__ == "__main__":
    sys.exit(main())
