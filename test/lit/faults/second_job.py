"""ccl_path: two jobs at once, with one code cache or one socket path."""
import os
import subprocess
import sys

import common
from common import JOB, Folder, await_socket, environment, expect

ccl = os.path.abspath(sys.argv[1])
small = [ccl] + JOB + ["--count", "17", "--timeout", "20"]


def start(cache, *more):
    return subprocess.Popen(small + list(more), env=environment(cache), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shared_cache():
    """All find it empty, and compile the same program."""
    for attempt in range(5):
        with Folder() as cache:
            jobs = [start(cache, "-n", "2") for _ in range(3)]
            said = [job.communicate(timeout=60) for job in jobs]
            expect([job.returncode for job in jobs] == [0, 0, 0] and
                   all(" 0 OK" in out and not err for out, err in said),
                   f"three runs and an empty cache, time {attempt}: right, without a word {[err for _, err in said]}")
            objects = os.listdir(cache)
            expect(len(objects) == 1 and objects[0].endswith(".o"),
                   f"one object is left: {objects}")
            again = start(cache, "-n", "2")
            out, err = again.communicate(timeout=60)
            expect(again.returncode == 0 and " 0 OK" in out and not err, "it is good")


def one_path(cache, folder):
    """A second rank 0 while the first waits; then the first job runs."""
    path = f"{folder}/meet/here"
    first = start(cache, "-n", "2", "--rank", "0", "--socket", path)
    expect(await_socket(path), "the first job waits for its rank 1")
    second = start(cache, "-n", "2", "--rank", "0", "--socket", path)
    err = second.communicate(timeout=60)[1]
    expect(second.returncode == 2 and f"another job uses {path} (process {first.pid}" in err and
           "give each job a path of its own" in err,
           f"a second rank 0: status {second.returncode}: {err.strip()}")
    rank1 = start(cache, "-n", "2", "--rank", "1", "--socket", path)
    said = [rank.communicate(timeout=60) for rank in (first, rank1)]
    expect((first.returncode, rank1.returncode) == (0, 0) and " 0 OK" in said[0][0],
           f"the first job is none the worse for it {[err for _, err in said]}")
    expect(not os.path.exists(path), "the path is free again")


def rank_twice(cache, folder):
    """The rank of another job that comes to this one."""
    path = f"{folder}/meet/here"
    first = start(cache, "-n", "3", "--rank", "0", "--socket", path)
    expect(await_socket(path), "the job waits for its other ranks")
    both = [start(cache, "-n", "3", "--rank", "1", "--socket", path) for _ in range(2)]
    said = [rank.communicate(timeout=60)[1] for rank in [first] + both]
    expect(all("two processes say that they are rank 1" in err for err in said) and
           [rank.returncode for rank in [first] + both] == [3, 3, 3],
           f"two ranks 1: all are told {said}")


def main():
    shared_cache()
    with Folder() as cache, Folder() as folder:
        one_path(cache, folder)
        rank_twice(cache, folder)
    common.finish()


main()
