"""Runs the libFuzzer targets one after another and judges what they found.

    python3 test/fuzz/fuzz.py --build build/fuzz [--runs N] [--seconds S] [TARGET...]

Inputs to start from are test/fuzz/seeds/TARGET, what earlier runs found interesting
(BUILD/corpus/TARGET) and, if it lies beside the repository, ../shared/corpus. A crash, a leak,
a hang, or an input that takes over a second is written to BUILD/found and makes the exit
status 1.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGETS = ["xml", "json", "plan", "mlir"]
SHARED = {"xml": "msccl-xml", "json": "mscclpp-json"}
# Larger inputs only cost time.
MAX_LENGTH = {"xml": 2048, "json": 2560, "plan": 4096, "mlir": 2048}
ENVIRONMENT = {
    # libLLVM and libMLIR come from the distribution, not instrumented: a container that they
    # and we both fill would look overflown, and LLVM's allocators poisoned where they are not.
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_leaks=1:allow_user_poisoning=0:"
                    "allocator_may_return_null=1:"
                    # Faster: what is new is found again anyway.
                    "malloc_context_size=2:quarantine_size_mb=2:max_malloc_fill_size=64",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
SLOW = 1.0


def seconds_of(program, file):
    """The best of three: the machine may be busy."""
    best = float("inf")
    for _ in range(3):
        start = time.monotonic()
        subprocess.run([program, "-runs=1", str(file)], capture_output=True,
                       env={**os.environ, **ENVIRONMENT})
        best = min(best, time.monotonic() - start)
    start = time.monotonic()
    subprocess.run([program, "-runs=0"], capture_output=True, env={**os.environ, **ENVIRONMENT})
    return best - (time.monotonic() - start)


def judge(target, program, output, status, found, before):
    """What is wrong, as lines."""
    wrong = []
    for file in sorted(set(found.glob(f"{target}-*")) - before):
        kind = file.name[len(target) + 1:].split("-")[0]
        if kind == "slow":
            seconds = seconds_of(program, file)
            if seconds <= SLOW:
                file.unlink()
                continue
            wrong.append(f"takes {seconds:.1f} s: {file}")
        else:
            wrong.append(f"{kind}: {file}")
    if status != 0 and not wrong:
        wrong.append(f"ended with {status}")
    if wrong:
        about = [line for line in output.splitlines()
                 if re.search(r"ERROR|runtime error|SUMMARY|does not hold|^\s+#\d+ ", line)]
        wrong += ["  " + line.strip() for line in about[:30]]
    return wrong


def fuzz(target, arguments):
    build = arguments.build
    program = str(build / "bin" / f"fuzz-{target}")
    if not os.path.exists(program):
        print(f"{target}: {program} is not built")
        return False
    found = build / "found"
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.glob(f"{target}-*"))
    with tempfile.TemporaryDirectory() as scratch:
        kept = pathlib.Path(scratch) if arguments.fresh else build / "corpus" / target
        kept.mkdir(parents=True, exist_ok=True)
        seeds = ROOT / "test" / "fuzz" / "seeds" / target
        folders = [kept] + ([seeds] if seeds.is_dir() else [])  # of `plan` it makes its own
        if target == "mlir":
            folders.append(ROOT / "examples")
        shared = ROOT.parent / "shared" / "corpus" / SHARED.get(target, "-")
        if shared.is_dir() and not arguments.fresh:
            folders.append(shared)
        command = [program, f"-runs={arguments.runs}", f"-seed={arguments.seed}",
                   f"-max_len={MAX_LENGTH[target]}", "-timeout=20", "-report_slow_units=1",
                   "-rss_limit_mb=2560", "-print_final_stats=1", "-detect_leaks=1",
                   f"-artifact_prefix={found}/{target}-"]
        if arguments.seconds:
            command.append(f"-max_total_time={arguments.seconds}")
        log = pathlib.Path(arguments.log or scratch) / f"fuzz-{target}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        with log.open("w") as said:
            done = subprocess.run(command + [str(f) for f in folders], stdout=subprocess.DEVNULL,
                                  stderr=said, env={**os.environ, **ENVIRONMENT})
        seconds = time.monotonic() - start
        output = log.read_text(errors="replace")
    wrong = judge(target, program, output, done.returncode, found, before)
    stat = {name: int(value) for name, value in re.findall(r"stat::(\w+):\s*(\d+)", output)}
    runs = stat.get("number_of_executed_units", 0)
    cover = re.findall(r"cov: (\d+)", output)
    print(f"{target}: {runs} executions, {runs / max(seconds, 1e-3):.0f} a second, "
          f"{cover[-1] if cover else 0} edges, {stat.get('peak_rss_mb', 0)} MiB, "
          f"slowest under {stat.get('slowest_unit_time_sec', 0) + 1} s: "
          + ("nothing found" if not wrong else "FOUND"), flush=True)
    for line in wrong:
        print("  " + line, flush=True)
    # A run that ended early has shown nothing.
    if not wrong and not arguments.seconds and runs < arguments.runs:
        print(f"  only {runs} of {arguments.runs} executions")
        return False
    return not wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, help="executions (default: 10,000,000; mlir 200,000)")
    parser.add_argument("--seconds", type=int, default=0, help="stop a target after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true",
                        help="start from the seeds in the repository alone, keep nothing")
    parser.add_argument("--log", type=pathlib.Path, help="folder for what libFuzzer says")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    for target in arguments.targets:
        if target not in TARGETS:
            print(f"fuzz: no target '{target}'; there are: {', '.join(TARGETS)}", file=sys.stderr)
            return 2
    good, runs = True, arguments.runs
    for target in arguments.targets or TARGETS:
        arguments.runs = runs or (200_000 if target == "mlir" else 10_000_000)
        good &= fuzz(target, arguments)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
