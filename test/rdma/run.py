"""Runs tests that need RDMA devices in a small VM with Soft-RoCE.

    python3 test/rdma/run.py [--filter REGEX] [--list] build/dev

`./dev test` runs it, too. The VM's tool is ../shared/tools/rdma-vm/rdma-vm beside the
repository, or what CCL_RDMA_VM names; where it cannot run, every test is skipped by name. The
last line is `N passed, N failed, N skipped`, of doctest's cases, or 1 of any other program.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# "[doctest] test cases:  3 |  2 passed | 1 failed | 0 skipped"
DOCTEST = re.compile(r"test cases:\s*\d+\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")


@dataclasses.dataclass
class Test:
    name: str
    command: list  # the first is a program of the build's bin/, or a path
    vm: list = dataclasses.field(default_factory=lambda: ["--nics", "2"])
    environment: dict = dataclasses.field(default_factory=dict)
    setup: str = ""  # a line of shell before it
    expect: list = dataclasses.field(default_factory=list)  # expressions that the output matches
    seconds: int = 120  # boot included
    long: bool = False  # only if the filter says so: ./dev test rdma/long


SCRIPTS = ROOT / "test" / "rdma"
NICS = {"RDMA_TEST_NICS": "rxe0,rxe1"}
TESTS = [
    # Every case of the emulation, and what only devices can show.
    Test("rdma/verbs", ["rdma-verbs"], environment=NICS),
    Test("rdma/verbs-mtu-1024", ["rdma-verbs"], environment={**NICS, "RDMA_TEST_MTU": "1024"}),
    # Of the ports themselves: 1500 bytes of Ethernet leave 1024.
    Test("rdma/verbs-ethernet-1500", ["rdma-verbs"], ["--nics", "2", "--mtu", "1500"],
         environment=NICS),
    Test("rdma/verbs-one-nic", ["rdma-verbs", "--test-case=rdma: *"], ["--nics", "1"],
         environment={"RDMA_TEST_NICS": "rxe0,rxe0"}),
    Test("rdma/info", ["ccl", "info", "-d"], setup="ip link set port1 down",
         expect=[r"(?m)^rdma +ok +1 of 2 ports usable$",
                 r"(?m)^rxe0:1 +ok +RoCE ::ffff:10\.77\.0\.1 of nic0 \(GID index 1\), ",
                 r"(?m)^rxe1:1 +unusable +it is down: `ip link set nic1 up`"]),
    # Channels between ranks, and what goes wrong with them.
    Test("rdma/channels", ["unit-wire", "--test-case=channels:*"], environment=NICS),
    Test("rdma/channels-netem",
         ["unit-wire", "--test-case=channels: *several*,channels: tiny*,channels: 100*"],
         environment=NICS, setup="tc qdisc add dev nic0 root netem limit 10000 delay 5ms loss 2%"),
    # A wire that loses and delays: right all the same.
    Test("rdma/verbs-netem", ["rdma-verbs", "--test-case=rdma: *", "--test-case-exclude=*word*"],
         environment=NICS, setup="tc qdisc add dev nic0 root netem delay 5ms loss 2%"),
    # Communicators of two hosts with two ranks each.
    Test("rdma/collectives", ["soak", "hosts", "--in-turn"], seconds=240),
    Test("rdma/collectives-two-vms",
         [SCRIPTS / "on_vm.sh", "{bin}/soak", "hosts", "--in-turn", "--part", "1/12"],
         ["--vms", "2"]),
    Test("rdma/bytes", [SCRIPTS / "bytes.py", "--bin", "{bin}"]),
    Test("rdma/transfers", [SCRIPTS / "transfers.py", "--bin", "{bin}"]),
    Test("rdma/transfers-ethernet-1500", [SCRIPTS / "transfers.py", "--bin", "{bin}"],
         ["--nics", "2", "--mtu", "1500"]),
    Test("rdma/faults", ["soak", "faults", "--hosts", "2", "--kills", "3", "--stops", "1",
                         "--links", "3", "--programs", "3", "--link-command",
                         SCRIPTS / "link.sh"]),
    Test("rdma/long-faults", ["soak", "faults", "--hosts", "2", "--kills", "20", "--stops", "10",
                              "--links", "20", "--link-command", SCRIPTS / "link.sh"],
         seconds=600, long=True),
    Test("rdma/long-900-mib", [SCRIPTS / "transfers.py", "--bin", "{bin}", "--largest", "900"],
         ["--nics", "2", "--mem", "4G"], seconds=300, long=True),
    Test("rdma/long-collectives", ["soak", "hosts"], seconds=900, long=True),
]


def find_tool():
    """The tool's path and "", or None and why there is none."""
    named = os.environ.get("CCL_RDMA_VM")
    tool = pathlib.Path(named) if named else ROOT.parent / "shared/tools/rdma-vm/rdma-vm"
    if not os.access(tool, os.X_OK):
        return None, f"there is no {tool}; CCL_RDMA_VM names another"
    return tool, ""


def environment():
    # Programs in the VM would take it for a setting of theirs.
    return {name: value for name, value in os.environ.items() if name != "CCL_RDMA_VM"}


def run_in_vm(tool, test, command):
    """Status (or "time-out") and output."""
    settings = [f"--env={name}={value}" for name, value in test.environment.items()]
    whole = [str(tool), "run", *test.vm, *settings, "--timeout", str(test.seconds), "--", *command]
    try:
        result = subprocess.run(whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace",
                                env=environment(), timeout=test.seconds + 60)
        return result.returncode, result.stdout, whole
    except subprocess.TimeoutExpired as expired:
        return "time-out", (expired.stdout or b"").decode(errors="replace"), whole


def why_not(tool):
    """Boots the VM once; "" if it works."""
    status, output, _ = run_in_vm(tool, Test("boot", [], seconds=90), ["true"])
    if status == 0:
        return ""
    lines = output.strip().splitlines()
    return f"the VM does not boot ({tool} doctor tells more): {lines[-1] if lines else status}"


def run(test, tool, tree):
    program = tree / "bin" / test.command[0]
    if not program.exists():
        print(f"FAIL: {test.name}: {program} is not built", flush=True)
        return 0, 1
    start = time.monotonic()
    words = [str(word).format(bin=tree / "bin") for word in test.command[1:]]
    command = [str(program), *words]
    if test.setup:
        command = ["sh", "-ec", test.setup + "; exec \"$@\"", "sh", *command]
    status, output, whole = run_in_vm(tool, test, command)
    found = DOCTEST.search(output)
    passed, failed = map(int, found.groups()) if found else (int(status == 0), 0)
    missing = [pattern for pattern in test.expect if not re.search(pattern, output)]
    if (status != 0 or missing) and failed == 0:
        passed, failed = passed if found else 0, 1
    print(f"{'FAIL' if failed else 'ok'}: {test.name}: {passed} passed, {failed} failed "
          f"({time.monotonic() - start:.1f} s)", flush=True)
    if failed:
        print(output, end="" if output.endswith("\n") else "\n")
        for pattern in missing:
            print(f"no line is like {pattern}")
        print(f"exit status {status}; again with: {' '.join(whole)}", flush=True)
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("tree", type=pathlib.Path)
    arguments = parser.parse_args()
    tests = [test for test in TESTS if re.search(arguments.filter, test.name) and
             (not test.long or "long" in arguments.filter)]
    if arguments.list:
        print("".join(f"{test.name}\n" for test in tests), end="")
        return 0
    passed = failed = skipped = 0
    tool, reason = find_tool() if tests else (None, "")
    if tool:
        reason = why_not(tool)
    for test in tests:
        if reason:
            print(f"skipped: {test.name}: {reason}", flush=True)
            skipped += 1
            continue
        more = run(test, tool, arguments.tree.resolve())
        passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
