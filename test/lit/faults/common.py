"""What the scripts here share."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

JOB = ["run", "--collective", "all_reduce", "--iters", "1", "-w", "0", "--ranks", "processes"]
NOBODY = 65534
problems = []


def expect(good, what):
    print(f"{'fine' if good else 'wrong'}: {what}", flush=True)
    if not good:
        problems.append(what)


def skip(what, why):
    print(f"skipped: {what}: {why}", flush=True)


def finish():
    sys.exit(1 if problems else 0)


class Folder:
    """A new one that goes with its contents."""

    def __init__(self, mode=0o700, where=None):
        self.path = tempfile.mkdtemp(prefix="ccl-", dir=where)
        os.chmod(self.path, mode)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def environment(cache, **more):
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent",
            "CCL_CACHE_DIR": cache, **more}


def run(command, cache, timeout=60, **more):
    """Returns (status, stdout, stderr); a status of None is a hang."""
    try:
        done = subprocess.run(command, env=environment(cache, **more), capture_output=True,
                              text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return None, "", str(late)


def await_socket(path):
    """Until rank 0 listens there. Returns whether it does."""
    for _ in range(2000):
        if os.path.exists(path):
            return True
        time.sleep(0.01)
    return False
