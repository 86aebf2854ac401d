"""ccl_path: runs a small job where something is scarce."""
import ctypes
import errno
import os
import platform
import shutil
import subprocess
import sys

import common
from common import JOB, Folder, environment, expect, run, skip

ccl = os.path.abspath(sys.argv[1])
small = [ccl] + JOB + ["-n", "2", "--count", "17"]
large = [ccl] + JOB + ["-n", "2", "--count", "3M"]


def works(what, command, cache, **more):
    status, out, err = run(command, cache, **more)
    good = status == 0 and " 0 OK" in out
    expect(good, f"{what}: works" + ("" if good else f": status {status}: {err.strip()[-300:]}"))
    return err


def refuses(what, command, cache, *words):
    status, _, err = run(command, cache)
    expect(status == 3 and all(word in err for word in words),
           f"{what}: status {status}: {err.strip()[-300:]}")


def limited(option, value, command):
    return ["sh", "-c", f"ulimit -{option} {value} && exec \"$@\"", "sh"] + command


def can(*command):
    return shutil.which(command[0]) and subprocess.run(
        command + ("true",), capture_output=True, check=False).returncode == 0


def namespaces(cache):
    if can("unshare", "-m"):
        works("1 MiB of /dev/shm", ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1M tmpfs "
                                    "/dev/shm && exec \"$@\"", "sh"] + large, cache)
    else:
        skip("1 MiB of /dev/shm", "no mount namespace may be made")
    if not can("unshare", "--pid", "--fork"):
        return skip("another pid namespace", "none may be made")
    # Two ranks in one of their own, and two that cannot see each other's processes.
    works("a pid namespace for all", ["unshare", "--pid", "--fork"] + small, cache)
    with Folder() as folder:
        ranks = []
        for rank in range(2):
            command = small + ["--rank", str(rank), "--socket", f"{folder}/meet/here"]
            ranks.append(subprocess.Popen(
                ["unshare", "--pid", "--fork"] * rank + command, text=True,
                env=environment(cache, CCL_DEBUG="INFO"), stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))
        said = [rank.communicate(timeout=60) for rank in ranks]
        expect([rank.returncode for rank in ranks] == [0, 0],
               "a pid namespace for each: works")
        expect(any("staged" in err for _, err in said), "a pid namespace for each: says so")


class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8),
                ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filters", ctypes.POINTER(Filter))]


def forbid_reading():
    """From now on process_vm_readv ends with EPERM, as containers have it (seccomp)."""
    number = {"x86_64": 310, "aarch64": 270}[platform.machine()]
    filters = (Filter * 4)(Filter(0x20, 0, 0, 0),  # the number of the call
                           Filter(0x15, 0, 1, number), Filter(0x06, 0, 0, 0x50000 | errno.EPERM),
                           Filter(0x06, 0, 0, 0x7fff0000))
    program = Program(4, filters)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def no_ptrace(cache):
    what = "no right to read other processes"
    if platform.machine() not in ("x86_64", "aarch64"):
        return skip(what, "the number of the system call is not known")
    script = [sys.executable, __file__, "--forbid"]
    err = works(what, script + large, cache, CCL_DEBUG="INFO")
    expect("staged: process_vm_readv" in err, f"{what}: says so")


def main():
    with Folder() as cache:
        works("nothing scarce", small, cache)
        works("ulimit -l 64", limited("l", 64, large), cache)
        works("ulimit -l 0", limited("l", 0, small), cache)
        works("one core", ["taskset", "-c", str(min(os.sched_getaffinity(0)))] + small, cache)
        works("one core, 8 ranks",
              ["taskset", "-c", str(min(os.sched_getaffinity(0))), ccl] + JOB +
              ["-n", "8", "--count", "17"], cache)
        refuses("ulimit -n 8", limited("n", 8, small), cache, "RLIMIT_NOFILE", "ulimit -n")
        refuses("ulimit -n 20, 16 ranks",
                limited("n", 20, [ccl] + JOB + ["-n", "16", "--count", "17"]), cache,
                "RLIMIT_NOFILE", "ulimit -n")
        refuses("ulimit -v", limited("v", 4000000, small), cache, "ulimit -v", "GiB")
        refuses("ulimit -f", limited("f", 100, small), cache, "ulimit -f", "GiB")
        namespaces(cache)
        no_ptrace(cache)
    common.finish()


if sys.argv[1] == "--forbid":
    forbid_reading()
    os.execv(sys.argv[2], sys.argv[2:])
main()
