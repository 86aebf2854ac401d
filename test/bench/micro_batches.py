"""What pipelines of stages gain, and how well their micro-batches are chosen: ./dev bench micro-batches

Collectives in stages, on machines whose stages take equally long, or not, or share links. Per case:

    one by one  us without a pipeline
    chosen      micro-batches that ccl-pipeline-micro-batches chooses, and their us
    best        the same of the best number up to --max, each simulated by ccl sim
    off         how far the chosen one's us are above the best's
    formula     how far the formula is from the simulation, at most, for the numbers that the pass
                looks at
    gain        of the chosen one over one by one
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

NOTE = re.compile(r"(\d+) micro-batches: ([\d.]+) us by formula, ([\d.]+) us simulated")
REMARK = re.compile(r"(\d+) micro-batches, ([\d.]+) us; one after the other ([\d.]+) us")
SLOTS = "16"  # as the planner simulates

# Name, machine (a preset, or links), collective, bytes.
CASES = [
    ("equal stages", ("torus", 4, 4, 80, 20), "reduce_scatter", 64 << 20),
    ("unequal, slow outside", ("torus", 4, 4, 80, 5), "reduce_scatter", 64 << 20),
    ("unequal, slow inside", ("torus", 4, 4, 10, 40), "all_gather", 64 << 20),
    ("odd counts", ("torus", 3, 5, 50, 10), "all_gather", 64 << 20),
    ("first and last share", ("boxes", 2, 4, 100, 25), "all_reduce", 64 << 20),
    ("small", ("boxes", 2, 4, 100, 25), "all_reduce", 1 << 20),
    ("all share one port", ("star", 2, 3, 40, 0), "all_reduce", 64 << 20),
    ("DGX H100 x4", "dgx-h100:4", "all_reduce", 256 << 20),
    ("DGX A100 x2", "dgx-a100:2", "all_gather", 256 << 20),
]


def links(kind, nodes, gpus, inside, across):
    """A topology in the text form; bandwidths in GB/s."""
    lines = [f"ccl.topology @t ranks(node = {nodes}, gpu = {gpus}) {{"]

    def link(src, dst, bandwidth, latency):
        lines.append(f"  ccl.link {src} to {dst} bandwidth {bandwidth}.0 latency {latency}.0")

    switches = {"torus": [], "star": ["all"], "boxes": ["spine"] + [f"s{n}" for n in range(nodes)]}
    lines += [f'  ccl.switch "{name}"' for name in switches[kind]]
    for rank in range(nodes * gpus):
        node, gpu = divmod(rank, gpus)
        if kind == "torus":
            link(rank, node * gpus + (gpu + 1) % gpus, inside, 1)
            link(rank, (node + 1) % nodes * gpus + gpu, across, 2)
        hubs = {"torus": [], "star": [("all", inside, 1)],
                "boxes": [(f"s{node}", inside, 1), ("spine", across, 2)]}
        for name, bandwidth, latency in hubs[kind]:
            link(rank, f'"{name}"', bandwidth, latency)
            link(f'"{name}"', rank, bandwidth, latency)
    return "\n".join(lines) + "\n}\n"


def call(*command, text=None):
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} exits with {result.returncode}:\n"
                         f"{result.stderr}")
    return result


def machine_of(ccl, source):
    if not isinstance(source, str):
        return links(*source)
    text = call(ccl, "topo", source, "-o", "-").stdout.strip()
    text = text.removeprefix("module {").removesuffix("}")
    return re.sub(r"ccl\.topology @\S+", "ccl.topology @t", text, count=1)


def measure(ccl, optimizer, case, most, folder):
    name, source, collective, size = case
    machine = machine_of(ccl, source)
    reduction = "" if collective == "all_gather" else "sum "
    text = machine + f"ccl.{collective} @it {reduction}on @t\n"
    passes = ["--ccl-decompose", f"--ccl-synthesize=bytes={size}",
              f"--ccl-pipeline-micro-batches=bytes={size} max={most} remark=true"]
    made = call(optimizer, *passes, text=text)
    chosen, us, plain = REMARK.search(made.stderr).groups()
    off = max(abs(float(formula) / float(simulated) - 1)
              for _, formula, simulated in NOTE.findall(made.stderr))
    (folder / "machine.mlir").write_text(machine)
    (folder / "made.mlir").write_text(made.stdout)
    row = {"name": name, "bytes": size, "plain_us": float(plain), "chosen": int(chosen),
           "us": float(us), "formula_off": off, "pipelined": "ccl.pipeline" in made.stdout}
    times = {}
    for batches in range(1, most + 1) if row["pipelined"] else []:
        line = call(ccl, "sim", folder / "made.mlir", "--topology", folder / "machine.mlir",
                    "--bytes", str(size), "--batch-order", "agent", "--slots", SLOTS,
                    "--micro-batches", str(batches), "--no-bound", "--json").stdout
        times[batches] = json.loads(line)["time_us"]
    row["best"] = min(times, key=times.get) if times else 1
    row["best_us"] = times[row["best"]] if times else row["plain_us"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ccl", required=True, type=pathlib.Path)
    parser.add_argument("--max", type=int, default=64, help="micro-batches (64)")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--json", action="store_true", help="one object a case")
    options = parser.parse_args()
    optimizer = options.ccl.parent / "ccl-opt"
    if not options.json:
        print(f"{'case':24}{'bytes':>11}{'one by one':>12}{'chosen':>8}{'us':>11}{'best':>6}"
              f"{'us':>11}{'off':>7}{'formula':>9}{'gain':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.only not in case[0]:
                continue
            row = measure(options.ccl, optimizer, case, options.max, pathlib.Path(folder))
            if options.json:
                print(json.dumps(row))
                continue
            us = row["us"] if row["pipelined"] else row["plain_us"]
            print(f"{row['name']:24}{row['bytes']:11}{row['plain_us']:12.1f}"
                  f"{row['chosen'] if row['pipelined'] else '-':>8}{us:11.1f}{row['best']:6}"
                  f"{row['best_us']:11.1f}{us / row['best_us'] - 1:7.1%}"
                  f"{row['formula_off']:9.1%}{row['plain_us'] / us:6.2f}x")
            sys.stdout.flush()


main()
