"""How long a first result takes: ./dev bench start

Three numbers, each the median of several fresh processes, against their limits:

    start       process start to the first result, code cache empty
    jit         of that, generating code (after the libraries are loaded)
    cached jit  the same, in a second process that finds the code in the cache
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
LIMITS = {"start": 150.0, "jit": 60.0, "cached jit": 5.0}


def run(ccl, arguments, cache):
    """One process; its first result line and the milliseconds seen from outside."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CCL_")}
    environment["CCL_CACHE_DIR"] = cache
    begin = time.monotonic()
    result = subprocess.run([ccl, "run", *arguments, "--json"], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    outside = (time.monotonic() - begin) * 1000
    if result.returncode != 0:
        raise SystemExit(f"ccl run {' '.join(arguments)} exits with {result.returncode}:\n"
                         f"{result.stdout}{result.stderr}")
    return json.loads(result.stdout.splitlines()[0]), outside


def measure(ccl, arguments, runs):
    samples = {name: [] for name in LIMITS}
    samples["process"] = []
    run(ccl, arguments, "none")  # the libraries come into the page cache
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            # Made by ccl itself, with the rights that it wants.
            cache = os.path.join(folder, "cache")
            cold, outside = run(ccl, arguments, cache)
            warm, _ = run(ccl, arguments, cache)
        samples["start"].append(cold["start_ms"])
        samples["jit"].append(cold["jit_ms"])
        samples["cached jit"].append(warm["jit_ms"])
        samples["process"].append(outside)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ccl", required=True)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("-n", "--ranks", default="4")
    parser.add_argument("examples", nargs="*", help="files of examples/; default: all")
    arguments = parser.parse_args()
    files = [pathlib.Path(f) for f in arguments.examples] or sorted(EXAMPLES.glob("*.mlir"))

    columns = [f"{name} <{limit:.0f}" for name, limit in LIMITS.items()] + ["process"]
    print(f"milliseconds, median (slowest) of {arguments.runs} processes; "
          "process: as seen from outside, with its end")
    print(f"{'example':<24}" + "".join(f"{c:>20}" for c in columns))
    late = 0
    for file in files:
        # The last algorithm is the one that runs; without a size parameter it has its
        # own number of ranks.
        open_size = re.findall(r"^ccl\.algorithm @[\w.]+(\(?)", file.read_text(), re.MULTILINE)[-1]
        ranks = ["-n", arguments.ranks] if open_size else []
        samples = measure(arguments.ccl, [str(file), *ranks, "--count", "1024", "--iters", "1"],
                          arguments.runs)
        cells = []
        for name, values in samples.items():
            median = statistics.median(values)
            over = median >= LIMITS.get(name, float("inf"))
            late += over
            cells.append(f"{median:.1f} ({max(values):.1f}){' !' if over else '  '}")
        print(f"{file.stem:<24}" + "".join(f"{c:>20}" for c in cells), flush=True)
    print(f"{late} over the limit")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
