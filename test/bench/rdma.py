"""What writes between hosts cost, beside perftest, in one run in the VM with Soft-RoCE.

    python3 test/bench/rdma.py --ccl build/release/bin/ccl

Rates: messages of one slot through a wire (with the signal that the slot is full, and the peer's
that it is free) beside ib_write_bw of that size. Signals: half of there and back beside ib_send_lat
with completion events (ib_write_lat has none: its receiver polls memory).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "rdma"))
import run as vm  # noqa: E402

SIZES = [64 << 10, 1 << 20, 8 << 20]
TRIES = 3


def perftest(program, size, iterations, column, more=()):
    """The median over TRIES of a column of its result, or None if it is not installed."""
    if not shutil.which(program):
        return None
    results = []
    for number in range(TRIES):
        command = [program, "-x", "1", "-F", "-s", str(size), "-n", str(iterations),
                   "-p", str(18600 + number), *more]
        server = subprocess.Popen([*command, "-d", "rxe1"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        client = None
        for _ in range(20):  # until the server listens
            client = subprocess.run([*command, "-d", "rxe0", "127.0.0.1"], capture_output=True,
                                    text=True, check=False)
            if client.returncode == 0:
                break
        server.wait(timeout=60)
        lines = [line.split() for line in client.stdout.splitlines()]
        rows = [row for row in lines if row and row[0] == str(size)]
        if not rows:
            raise SystemExit(f"{' '.join(command)}: {client.stdout}{client.stderr}")
        results.append(float(rows[-1][column]))
    return statistics.median(results)


def row(what, ours, theirs, unit, goal, ratio):
    if theirs is None:
        print(f"{what}: {ours:.1f} {unit}; perftest is not installed")
        return
    print(f"{what}: {ours:.1f} {unit}, perftest {theirs:.1f} {unit}: {ratio(ours, theirs):.2f} "
          f"(goal: {goal})", flush=True)


def inside(bench):
    times = []
    for size in SIZES:
        output = subprocess.run([bench, "rxe0", "rxe1", "2", str(size)], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        ours = json.loads(output)
        times.append(ours["signal_us"])
        theirs = perftest("ib_write_bw", size, max(20, (200 << 20) // size), 3)
        # perftest's MB are 2^20 bytes.
        row(f"writes of {size} bytes", ours["MBps"], theirs and theirs * 1.048576, "MB/s",
            ">= 0.85", lambda a, b: a / b)
    ours = statistics.median(times)
    row("signal of no bytes, beside ib_send_lat -e of 8 bytes", ours,
        perftest("ib_send_lat", 8, 1000, 4, ["-e"]), "us", "<= 1.5", lambda a, b: a / b)
    row("the same beside ib_write_lat, which polls", ours, perftest("ib_write_lat", 8, 1000, 4),
        "us", "none", lambda a, b: a / b)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ccl", type=pathlib.Path, help="of the build whose bench-put is run")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.inside)
    tool, reason = vm.find_tool()
    if not tool:
        print(f"skipped: {reason}")
        return 0
    bench = arguments.ccl.resolve().parent / "bench-put"
    os.execv(tool, [str(tool), "run", "--nics", "2", "--timeout", "300", "--", sys.executable,
                    str(pathlib.Path(__file__).resolve()), "--inside", str(bench)])


if __name__ == "__main__":
    sys.exit(main())
