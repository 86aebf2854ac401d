"""ccl_path: what another user may do to a job of this one, and the other way round."""
import ctypes
import os
import socket
import stat
import subprocess
import sys

import common
from common import JOB, NOBODY, Folder, await_socket, environment, expect, run, skip

ccl = os.path.abspath(sys.argv[1])
small = [ccl] + JOB + ["-n", "2", "--count", "17", "--timeout", "20"]
as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def start(rank, path, cache, before=()):
    return subprocess.Popen(list(before) + small + ["--rank", str(rank), "--socket", path],
                            env=environment(cache, CCL_DEBUG="INFO"), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def other_user(*attempts):
    """Makes every attempt as that user. Returns what each came to: "" or an exception's name."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        results = []
        for attempt in attempts:
            try:
                attempt()
                results.append("")
            except OSError as error:
                results.append(type(error).__name__)
        os.write(write, ",".join(results).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read().split(",")


def connect(path):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(10)
        caller.connect(path)
        caller.sendall(b"x" * 64)
        return caller.recv(1)  # nothing: it hung up


def peek(pid):
    """process_vm_readv of one byte."""
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    libc = ctypes.CDLL(None, use_errno=True)
    to = ctypes.create_string_buffer(1)
    mine, theirs = Part(ctypes.addressof(to), 1), Part(ctypes.addressof(to), 1)
    if libc.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")


def strangers(folder, cache):
    """Another user tries a job that waits for its second rank."""
    path = f"{folder}/meet/here"
    rank0 = start(0, path, cache)
    if not await_socket(path):
        return expect(False, f"rank 0 listens: {rank0.communicate(timeout=30)[1][-300:]}")
    expect(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700, "the folder is 0700")
    arenas = [f"/proc/{rank0.pid}/fd/{number}" for number in os.listdir(f"/proc/{rank0.pid}/fd")
              if "memfd:ccl" in os.readlink(f"/proc/{rank0.pid}/fd/{number}")]
    expect(arenas, "rank 0 has shared memory")
    objects = [f"{cache}/{name}" for name in os.listdir(cache)]
    expect(objects, "there is something in the cache")
    tries = {"connect": lambda: connect(path), "map": lambda: os.open(arenas[0], os.O_RDWR),
             "map for reading": lambda: os.open(arenas[0], os.O_RDONLY),
             "read memory": lambda: open(f"/proc/{rank0.pid}/mem", "rb"),
             "peek": lambda: peek(rank0.pid), "read the cache": lambda: open(objects[0], "rb"),
             "list the cache": lambda: os.listdir(cache)}
    for what, result in zip(tries, other_user(*tries.values())):
        expect(result == "PermissionError", f"another user may not {what}: {result}")
    # Even if somebody opens the folder.
    os.chmod(folder, 0o711)
    os.chmod(os.path.dirname(path), 0o711)
    os.chmod(path, 0o777)
    result = other_user(lambda: connect(path))[0]
    expect(result in ("", "ConnectionResetError", "BrokenPipeError"),
           f"with the folder open another user is hung up on: {result}")
    status, _, err = run(small + ["--rank", "1", "--socket", path], cache)
    expect(status not in (0, None) and "meet" in err,
           f"a folder that others may enter is refused: {err.strip()[-200:]}")
    os.chmod(os.path.dirname(path), 0o700)
    rank1 = start(1, path, cache)
    said = rank0.communicate(timeout=60)[1]
    rank1.communicate(timeout=60)
    expect((rank0.returncode, rank1.returncode) == (0, 0), "the job goes on")
    expect(f"of user {NOBODY}" in said, "rank 0 says who was hung up on")


def foreign_hub(folder, cache):
    """Rank 0 is another user's."""
    if os.stat(ccl).st_mode & 0o005 != 0o005:
        return skip("rank 0 of another user", "it cannot execute ccl")
    os.chmod(folder, 0o755)
    home = f"{folder}/theirs"
    os.mkdir(home, 0o700)
    os.chown(home, NOBODY, NOBODY)
    os.mkdir(f"{home}/cache", 0o700)
    os.chown(f"{home}/cache", NOBODY, NOBODY)
    path = f"{home}/meet/here"
    rank0 = start(0, path, f"{home}/cache", as_nobody)
    if not await_socket(path):
        return expect(False, f"rank 0 of another user: {rank0.communicate(timeout=30)[1][-300:]}")
    status, _, err = run(small + ["--rank", "1", "--socket", path], cache)
    expect(status not in (0, None) and "user" in err,
           f"rank 0 of another user is not trusted: status {status}: {err.strip()[-200:]}")
    rank0.kill()
    rank0.communicate()


def caches(folder, good):
    for mode in (0o770, 0o707, 0o777):
        bad = f"{folder}/cache-{mode:o}"
        os.mkdir(bad)
        os.chmod(bad, mode)
        status, out, err = run(small, bad)
        expect(status == 0 and " 0 OK" in out and "cache" in err,
               f"a cache with mode {mode:o} is not used: {err.strip()[-200:]}")
        expect(not os.listdir(bad), "nothing is written there")
    # An object that somebody changed is not executed.
    name = next(name for name in os.listdir(good) if os.path.isfile(f"{good}/{name}"))
    with open(f"{good}/{name}", "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff" * 50)
    status, out, _ = run(small, good)
    expect(status == 0 and " 0 OK" in out, "a damaged object is compiled again")


def main():
    # Not below a folder that the other user may not enter.
    with Folder(where="/tmp") as folder, Folder(where="/tmp") as cache:
        status, _, err = run(small, cache)
        expect(status == 0, f"the job runs {err[-300:]}")
        if os.geteuid() == 0:
            strangers(folder, cache)
            with Folder(where="/tmp") as other:
                foreign_hub(other, cache)
        else:
            skip("another user", "only root can become one")
        caches(folder, cache)
    common.finish()


main()
