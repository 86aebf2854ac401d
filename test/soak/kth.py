#!/usr/bin/env python3
"""The k-th call of a function fails, for every k of a small job.

`ccl run` must end with status 3 and a reason on stderr, or do without (status 0); never by a
signal, never hang, leave no process, nothing in /dev/shm and nothing half-written in the cache.
Exit status: 0 all is well, 1 something is not, 2 usage, 3 the job does not run at all.
"""
import argparse
import concurrent.futures
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# In the order of failing.c.
CALLS = ["malloc", "mmap", "memfd_create", "ftruncate", "fallocate", "fcntl", "socketpair",
         "send", "recv", "poll", "eventfd", "syscall", "dlopen", "open", "read", "write",
         "rename", "mkdir", "fork", "pthread_create", "process_vm_readv", "compile"]
JOB = ["run", "--collective", "all_reduce", "-n", "2", "--count", "17", "--ranks", "processes",
       "--iters", "1", "-w", "0"]
DEADLINE = 30.0  # seconds of one job
PR_SET_CHILD_SUBREAPER = 36


class Counts:
    """What failing.c writes."""

    def __init__(self, path):
        with open(path, "rb") as file:
            words = struct.unpack(f"{2 + 2 * len(CALLS)}Q", file.read(8 * (2 + 2 * len(CALLS))))
            self.caller = os.path.basename(file.read(256).split(b"\0")[0].decode())
        self.failed, self.before_fork = words[:2]
        self.most = dict(zip(CALLS, words[2:]))
        self.in_child = dict(zip(CALLS, words[2 + len(CALLS):]))


def adopt_orphans():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def orphans():
    """Waits for processes that the job left to this one; those that do not end are killed."""
    end = time.monotonic() + 3
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid:
            continue
        if time.monotonic() > end:
            break
        time.sleep(0.002)
    left = 0
    tasks = f"/proc/self/task/{os.getpid()}/children"
    for pid in open(tasks).read().split():
        os.kill(int(pid), signal.SIGKILL)
        os.waitpid(int(pid), 0)
        left += 1
    return left


def left_in_shared_memory(before):
    """Names that were not there and stay: programs of others make some for a moment."""
    left = set(os.listdir("/dev/shm")) - before
    end = time.monotonic() + 10
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= set(os.listdir("/dev/shm"))
    return sorted(left)


def run(options, call, k, where, cache):
    """One job. Returns (what is wrong or "", status, Counts)."""
    folder = tempfile.mkdtemp(prefix="kth-")
    try:
        counts = os.path.join(folder, "counts")
        with open(counts, "wb") as file:
            file.truncate(4096)
        code = cache or os.path.join(folder, "cache")
        if not cache:
            os.mkdir(code, 0o700)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": folder,
                       "CCL_CACHE_DIR": code, "LD_PRELOAD": options.shim, "FAILING_CALL": call,
                       "FAILING_AT": str(k), "FAILING_WHERE": where, "FAILING_COUNTS": counts}
        with open(os.path.join(folder, "out"), "w+b") as out, \
                open(os.path.join(folder, "err"), "w+b") as err:
            job = subprocess.Popen([options.ccl] + JOB, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err, start_new_session=True)
            try:
                status = job.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                status = None
            err.seek(0)
            reason = err.read().decode(errors="replace").strip()
        left = orphans()
        counted = Counts(counts)
        wrong = judge(status, reason, counted)
        if left:
            wrong = f"{left} processes were left"
        # A file that is being written has another name than one that can be used.
        rest = [name for name in os.listdir(code) if ".tmp" in name]
        if rest and not wrong and call != "rename" and status == 0:
            wrong = f"left in the cache: {rest}"
        return (f"{wrong}: {reason[-400:]}" if wrong else ""), status, counted
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(status, reason, counted):
    if status is None:
        return f"HANG: not done after {DEADLINE:g} s"
    if status < 0:
        return (f"killed by signal {-status} ({signal.Signals(-status).name}), the call came from "
                f"{counted.caller or '?'}")
    if not counted.failed and status != 0:
        return f"status {status} although nothing failed"
    if status not in (0, 3):
        # The loader speaks for itself.
        if status == 127 and "error while loading shared libraries" in reason:
            return ""
        # So does libgfortran, which the LP solver's BLAS brings along, before main.
        if status == 1 and "Operating system error" in reason and "Memory allocation" in reason:
            return ""
        return f"status {status}"
    if status == 3 and not reason:
        return "status 3 without a reason"
    return ""


def one(task):
    options, call, k, where, cache = task
    wrong, status, counted = run(options, call, k, where, cache)
    return call, k, where, wrong, status, counted.failed


def numbers(options, call, counted, where, cold):
    """Which k of this call are tried."""
    most = counted.most[call] if where == "all" else counted.in_child[call]
    if call != "malloc" or options.all:
        return list(range(1, most + 1, 1 if options.all or call != "malloc" else options.stride))
    # What comes after the compilation is ours, and there are few.
    first = counted.before_fork if where == "all" and not cold else most + 1
    if where == "children":
        first = 1 if not cold else most + 1
    few = list(range(options.seed % options.stride + 1, min(first, most + 1), options.stride))
    return few + (list(range(first, most + 1)) if not options.sample else [])


def plan(options, warm):
    """All (call, k, where, cache)."""
    tasks = []
    for cache in (warm, None):
        wrong, status, counted = run(options, "", 0, "all", cache)
        if status != 0:
            print(f"the job does not run: status {status}: {wrong}")
            sys.exit(3)
        for call in options.calls or CALLS:
            for where in ("all", "children"):
                if cache is None and where == "children":
                    continue  # children begin when the compilation is over
                for k in numbers(options, call, counted, where, cache is None):
                    tasks.append((options, call, k, where, cache))
    if options.sample and options.sample < len(tasks):
        step = len(tasks) / options.sample
        tasks = [tasks[int(i * step)] for i in range(options.sample)]
    return tasks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ccl", required=True, help="the command")
    parser.add_argument("--shim", required=True, help="failing.so")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--calls", nargs="*", choices=CALLS, help="only these functions")
    parser.add_argument("--all", action="store_true", help="every k of malloc, too")
    parser.add_argument("--stride", type=int, default=13,
                        help="of malloc during the compilation every so many (default: 13)")
    parser.add_argument("--sample", type=int, help="only so many, spread over everything")
    parser.add_argument("--seed", type=int, default=0, help="where the strides begin")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.ccl, options.shim = os.path.abspath(options.ccl), os.path.abspath(options.shim)

    adopt_orphans()
    shared = set(os.listdir("/dev/shm"))
    begun = time.monotonic()
    warm = tempfile.mkdtemp(prefix="kth-warm-")
    try:
        run(options, "", 0, "all", warm)  # fills the cache
        tasks = plan(options, warm)
        wrong, fine, refused, unreached = 0, 0, 0, 0
        made = {}
        with concurrent.futures.ProcessPoolExecutor(options.jobs,
                                                    initializer=adopt_orphans) as pool:
            for call, k, where, text, status, failed in pool.map(one, tasks, chunksize=4):
                made[call] = made.get(call, 0) + 1
                fine += status == 0
                refused += status == 3
                unreached += failed == 0
                if text:
                    wrong += 1
                    print(f"wrong: {call} {k} of {where}: {text}", flush=True)
                elif options.verbose:
                    print(f"fine: {call} {k} of {where}: status {status}", flush=True)
    finally:
        shutil.rmtree(warm, ignore_errors=True)
    seconds = time.monotonic() - begun
    if left := left_in_shared_memory(shared):
        wrong += 1
        print(f"wrong: left in /dev/shm: {left}")
    print(", ".join(f"{call} {count}" for call, count in made.items()))
    print(f"{len(tasks)} failures in {seconds:.0f} s: {wrong} wrong; {refused} "
          f"ended with status 3 and a reason, {fine} did no harm, {unreached} were not reached")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
