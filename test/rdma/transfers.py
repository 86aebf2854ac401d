#!/usr/bin/env python3
"""Messages of many sizes between two hosts, over wires that are good, slow and lossy.

    transfers.py --bin build/dev/bin [--largest 900M]      (in `rdma-vm run --nics 2`)

Each host has one rank. All results are checked; on a wire that is slow or loses packets they are as
right, only later. Where little memory may be locked, the error says what to raise.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

import ranks

SIZES = [1, 2, 3, 4, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 131071, 131072, 131073,
         1 << 20, (16 << 20) + 1]


def run(arguments, sizes, iterations=1, prefix=()):
    """(exit statuses, what is wrong or "", seconds, all that was said)."""
    rest = ["--collective", "broadcast", "--algorithm", arguments.algorithm, "-d", "uint8",
            "--count", ",".join(map(str, sizes)), "-w", "0", "--iters", str(iterations), "-c", "1",
            "--in-place", "--json"]
    options = argparse.Namespace(hosts=2, per_host=1, nics="rxe{host}", vms=False,
                                 bin=arguments.bin, rest=rest)
    begun = time.monotonic()
    processes = [ranks.start(options, rank, f"10.77.0.1:{arguments.port}", prefix=prefix)
                 for rank in range(2)]
    outputs = [process.communicate() for process in processes]
    statuses = [process.returncode for process in processes]
    rows = [json.loads(line) for line in outputs[0][0].splitlines() if line.startswith("{")]
    wrong = [f"{row}" for row in rows
             if row.get("wrong") != 0]
    if len(rows) != len(sizes):
        wrong.append(f"{len(rows)} of {len(sizes)} sizes")
    said = "".join(out + err for out, err in outputs)
    return statuses, ", ".join(wrong), time.monotonic() - begun, said


class Report:
    good = True

    def say(self, good, text):
        self.good &= good
        print(f"{'ok' if good else 'WRONG'}: {text}", flush=True)

    def judge(self, name, found):
        statuses, wrong, seconds, errors = found
        good = statuses == [0, 0] and not wrong
        self.say(good, f"{name}: {seconds:.1f} s" + ("" if good else f": {statuses} {wrong} {errors}"))
        return seconds


def on_bad_wires(arguments, report):
    sizes = [1, 4097, 200000]
    usual = report.judge("a good wire", run(arguments, sizes, 3))
    for what in (["delay", "5ms"], ["loss", "2%"]):
        subprocess.run(["tc", "qdisc", "add", "dev", "nic0", "root", "netem", *what], check=True)
        seconds = report.judge(f"{' '.join(what)} on one NIC", run(arguments, sizes, 3))
        subprocess.run(["tc", "qdisc", "del", "dev", "nic0", "root"], check=True)
        if what[0] == "delay":
            report.say(seconds > usual, f"that is slower: {seconds:.2f} s instead of {usual:.2f} s")


def with_little_memory(arguments, report):
    # Who may lock memory without limit is not bound by one.
    prefix = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock",
              "prlimit", f"--memlock={64 << 10}"]
    statuses, _, seconds, errors = run(arguments, [1 << 20], prefix=prefix)
    says = [line for line in errors.splitlines() if "ulimit -l" in line]
    report.say(0 not in statuses and bool(says) and seconds < 20,
               f"ulimit -l 64, after {seconds:.1f} s: {says[0] if says else errors}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, default=14793)
    parser.add_argument("--algorithm", default="binomial")
    parser.add_argument("--largest", type=int, default=0, metavar="MIB", help="only so much, once")
    arguments = parser.parse_args()
    report = Report()
    if arguments.largest:
        report.judge(f"{arguments.largest} MiB", run(arguments, [arguments.largest << 20]))
        return 0 if report.good else 1
    report.judge(f"{len(SIZES)} sizes from 1 byte to 16 MiB and 1", run(arguments, SIZES))
    on_bad_wires(arguments, report)
    with_little_memory(arguments, report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
