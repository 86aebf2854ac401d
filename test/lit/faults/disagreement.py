"""ccl_path: three ranks, started one by one, of which the last wants something else."""
import os
import subprocess
import sys
import time

import common
from common import JOB, Folder, environment, expect

ccl = os.path.abspath(sys.argv[1])
# What rank 2 says after the same options, and what must be in everybody's error.
cases = [
    (["--count", "18"], "ranks 0 and 2 disagree on the count: 17 and 18"),
    (["--count", "17", "-d", "int32"], "ranks 0 and 2 disagree on the element type: float and int32"),
    (["--count", "17", "-o", "max"], "ranks 0 and 2 disagree on the reduction: sum and max"),
    (["--count", "17", "--algorithm", "recursive_doubling"],
     "ranks 0 and 2 disagree on the program: ring_all_reduce"),
    (["--count", "17", "--in-place"], "ranks 0 and 2 disagree on the form"),
    (["--count", "17", "--collective", "reduce_scatter"],
     "ranks 0 and 2 disagree on the collective: all_reduce and reduce_scatter"),
    (["--count", "17", "--iters", "2"], "ranks 0 and 2 disagree on the operation"),
    (["--count", "17", "-n", "4"], "rank 0 wants 3 ranks, rank 2 wants 4"),
]


def command(rank, path, options):
    both = ["-n", "3"] * ("-n" not in options)
    job = list(JOB)
    for name in ("--collective", "--iters"):
        if name in options:
            at = job.index(name)
            del job[at:at + 2]
    return [ccl] + job + both + ["--rank", str(rank), "--socket", path, "--timeout", "20"] + options


def one(options, text, cache, folder):
    path = f"{folder}/meet/here"
    wanted = [["--count", "17"], ["--count", "17"], options]
    begun = time.monotonic()
    ranks = [subprocess.Popen(command(rank, path, more), env=environment(cache), text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
             for rank, more in enumerate(wanted)]
    said = [rank.communicate(timeout=60)[1].strip() for rank in ranks]
    seconds = time.monotonic() - begun
    what = " ".join(options)
    expect(all(text in line for line in said), f"{what}: {said[0] if len(set(said)) == 1 else said}")
    expect(len(set(said)) == 1, f"{what}: the same for all")
    expect([rank.returncode for rank in ranks] == [3, 3, 3], f"{what}: status 3")
    return seconds


def main():
    with Folder() as cache, Folder() as folder:
        for options, text in cases:
            one(options, text, cache, folder)  # compiles
            seconds = one(options, text, cache, folder)
            # With starting the processes, which takes longer.
            expect(seconds < 1, f"{' '.join(options)}: known after {seconds:.2f} s")
    common.finish()


main()
