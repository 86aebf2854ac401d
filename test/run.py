"""Runs the unit tests, lit and test/rdma/ in one or more build trees and prints the sum.

    python3 test/run.py [--filter REGEX] [--jobs N] build/dev [build/asan ...]

In the first tree everything runs; in the others (the sanitizers) what was built
there and the lit tests under execution/ and examples/ that are not heavy. The last
line is `N passed, N failed, N skipped`: lit tests plus doctest test cases, those in
VMs (test/rdma/run.py) included.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

LIT = "/usr/lib/llvm-19/build/utils/lit/lit.py"
# "[doctest] test cases:  3 |  2 passed | 1 failed | 0 skipped"
DOCTEST = re.compile(r"test cases:\s*\d+\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped")
RDMA_SUM = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
LIT_PASSED = {"PASS", "FLAKYPASS", "XFAIL"}
LIT_SKIPPED = {"UNSUPPORTED", "SKIPPED"}
# libLLVM and libMLIR come from the distribution, not instrumented: a container that they
# and we both fill would look overflown, what they take from an allocator of LLVM's poisoned.
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_leaks=1:allow_user_poisoning=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}
SANITIZED_LIT = r"^ccl :: (execution|examples)/(?!.*heavy)"


class Sum:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped


def unit_tests(tree):
    """Names and commands of the tests that CMake knows and that are built, but lit."""
    listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=tree, check=True,
                             stdout=subprocess.PIPE)
    tests = {t["name"]: t.get("command", []) for t in json.loads(listing.stdout)["tests"]}
    return {name: command for name, command in sorted(tests.items()) if name != "lit"}


def run_units(tree, total, pattern, everything):
    for name, command in unit_tests(tree).items():
        if not command or not os.path.exists(command[0]):
            if not everything:
                continue
            print(f"FAIL: {name}: not built")
            total.add(0, 1, 0)
            continue
        chosen = []
        if pattern and not re.search(pattern, name):
            cases = subprocess.run([command[0], "--list-test-cases", "--no-colors=true"],
                                   stdout=subprocess.PIPE, text=True).stdout.splitlines()
            # In doctest's patterns a comma separates, so it becomes a wildcard.
            chosen = [c.replace("\\", "*").replace(",", "*") for c in cases
                      if not c.startswith(("[doctest]", "=====")) and re.search(pattern, c)]
            if not chosen:
                continue
            command = command + ["--test-case=" + ",".join(chosen)]
        start = time.monotonic()
        try:
            result = subprocess.run(command + ["--no-colors=true"], cwd=tree, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    errors="replace", timeout=600)
            output, status = result.stdout, result.returncode
        except subprocess.TimeoutExpired as expired:
            output, status = (expired.stdout or b"").decode(errors="replace"), "time-out"
        found = DOCTEST.search(output)
        passed, failed, skipped = map(int, found.groups()) if found else (0, 0, 0)
        # A crash or a sanitizer's report is a failure that doctest did not count.
        if status != 0 and failed == 0:
            failed = 1
        if not found and status == 0:
            passed = 1
        total.add(passed, failed, 0 if chosen else skipped)
        seconds = time.monotonic() - start
        print(f"{'FAIL' if failed else 'ok'}: {name}: {passed} passed, {failed} failed "
              f"({seconds:.1f} s)", flush=True)
        if failed:
            print(output, end="" if output.endswith("\n") else "\n")
            print(f"exit status {status}; again with: {' '.join(command)}")


def run_lit(tree, total, pattern, jobs):
    config = tree / "test" / "lit"
    if not (config / "lit.site.cfg.py").exists():
        print(f"FAIL: {tree} has no lit configuration")
        total.add(0, 1, 0)
        return
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "lit.json"
        command = [sys.executable, LIT, "--verbose", "--succinct", f"--workers={jobs}",
                   "--order=smart", "--ignore-fail", "--allow-empty-runs",
                   "--output", str(report)]
        if pattern:
            command += ["--filter", pattern]
        if os.environ.get("CI") == "true" or not sys.stdout.isatty():
            command += ["--no-progress-bar"]
        status = subprocess.run(command + [str(config)]).returncode
        if status != 0 or not report.exists():
            print(f"FAIL: lit ended with {status}")
            total.add(0, 1, 0)
            return
        for test in json.loads(report.read_text())["tests"]:
            code = test["code"]
            if code != "EXCLUDED":  # by the filter
                total.add(code in LIT_PASSED, code not in LIT_PASSED | LIT_SKIPPED,
                          code in LIT_SKIPPED)


def run_rdma(tree, total, pattern):
    """Tests in VMs; their output passes through, but for the sum."""
    command = [sys.executable, str(pathlib.Path(__file__).parent / "rdma" / "run.py"),
               "--filter", pattern, str(tree)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        last = ""
        for line in process.stdout:
            found = RDMA_SUM.fullmatch(line.strip())
            last = found or last
            if not found:
                print(line, end="", flush=True)
    if not last:
        print(f"FAIL: test/rdma/run.py ended with {process.returncode}")
        total.add(0, 1, 0)
        return
    total.add(*map(int, last.groups()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("trees", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        re.compile(arguments.filter)
    except re.error as error:
        print(f"'{arguments.filter}' is no regular expression: {error}", file=sys.stderr)
        return 2

    os.environ.update(SANITIZER_ENVIRONMENT)
    total = Sum()
    for index, tree in enumerate(arguments.trees):
        tree = tree.resolve()
        start = time.monotonic()
        print(f"== {tree.name}", flush=True)
        run_units(tree, total, arguments.filter, everything=index == 0)
        run_lit(tree, total, arguments.filter if index == 0 else SANITIZED_LIT, arguments.jobs)
        if index == 0:
            run_rdma(tree, total, arguments.filter)
        print(f"== {tree.name}: {time.monotonic() - start:.0f} s", flush=True)
    if total.passed + total.failed + total.skipped == 0:
        print(f"no test matches '{arguments.filter}'", file=sys.stderr)
        return 2
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
