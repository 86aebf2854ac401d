"""How close plans come to the limits, and how soon: ./dev bench synthesis

A row is one `ccl plan` in a process of its own: everything from a topology to a program that is
proved and simulated. Goals are beside what was reached; what misses one is marked, with by how
much.

    plan s, proof s, sim s   of the whole command, and of these two phases in it
    MiB                      the most memory of that process
    pcs, m                   pieces of a chunk, micro-batches
    fluid, simulated         percent of the exact bound (all_reduce on meshes: also in units of the
                             best reduce_scatter followed by the best all_gather)
    wrong                    elements that differ from a straightforward reference when the plan is
                             executed on the host with odd counts; "-": more ranks than 64
    one rank                 seconds to lower the program of one rank alone
    peer                     what the best public tool reached, with how long it took

Arguments, if there are any, are parts of the names of the cases to run.
"""
import argparse
import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

GIB = "1G"
MOST_EXECUTED = 64
IRREGULAR = 30


@dataclasses.dataclass
class Case:
    topology: str
    collective: str
    fluid: float  # percent; 0: no goal
    simulated: float
    seconds: float
    peer: str = ""
    bytes: str = GIB
    options: tuple = ()
    mebibytes: float = float("inf")
    in_halves: tuple = ()  # goals in units of the best reduce_scatter + all_gather
    one_rank: bool = False
    name: str = ""

    def title(self):
        return self.name or " ".join([self.topology, *self.options])


AG, RS, AR = "all_gather", "reduce_scatter", "all_reduce"
CASES = [
    Case("torus:8x8x8", AG, 100, 99, 1, "TACOS 99.0, 31 s"),
    Case("torus:8x8x8", RS, 100, 99, 1, "TACOS 99.0, 31 s"),
    Case("dgx-h100:64", AG, 100, 99, 10, "Canvas: 512 GPUs in 1.8 h"),
    Case("dgx-h100:64", AR, 100, 99, 10, "Canvas: 512 GPUs in 1.8 h"),
    Case("dgx-a100:64", AG, 100, 99, 10),
    Case("dgx-a100:64", AR, 100, 99, 10),
    Case("h800:64", AG, 98, 97, 10, "rail-only 91"),
    Case("gb200-nvl72:8", AG, 98, 97, 10, "rail-only 96"),
    Case("dgx-h100:2", AG, 98, 97, 10, "rail-only 96"),
    Case("dgx-h100", AR, 100, 99, 1, "trees 57.1"),
    Case("gb200-nvl72:1", AR, 100, 99, 10, "trees 50.7"),
    Case("unwb:64", AG, 98, 97, 10, "TACOS 50.7, 32 s"),
    Case("mesh:16x16", AR, 0, 0, 30, "1.00 x", in_halves=(1.78, 1.75)),
    Case("mesh:4x4", AR, 100, 98, 5, "1.00 x"),
    Case("mesh:6x6", AR, 100, 98, 5, "1.00 x"),
    Case("mi250:2", AG, 98, 97, 5, "ForestColl k = 83, or 90.4", options=("-k", "8")),
    Case("dgx-a100:2", AG, 100, 98, 1, "ForestColl height 11, 4.7 s", options=("--height", "4")),
    Case("dgx-a100:4", AG, 100, 98, 1, "ForestColl height 19, 52 s", options=("--height", "4")),
    Case("torus:16x16x16", AG, 100, 99, 10, mebibytes=2048, one_rank=True),
    Case("dgx-h100:2048", AR, 100, 99, 10, mebibytes=2048, one_rank=True),
]


def ndv2(boxes, single, double, nic, latency, nic_latency):
    """NDv2 as peers' cost models see it: GB/s of one and of two NVLinks and of a box' only NIC, and
    latencies in us. NVLink meshes; the NICs meet in a switch, two of them back to back."""
    singles = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
    doubles = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
    lines = [f'ccl.switch "nic{b}.{way}" kind "nic"' for b in range(boxes) for way in ("out", "in")]
    if boxes > 2:
        lines.append('ccl.switch "network"')

    def link(src, dst, bandwidth, us=0.0):
        lines.append(f"ccl.link {src} to {dst} bandwidth {bandwidth:.6f} latency {us:.1f}")

    for b in range(boxes):
        for pairs, bandwidth in ((singles, single), (doubles, double)):
            for i, j in pairs:
                link(8 * b + i, 8 * b + j, bandwidth, latency)
                link(8 * b + j, 8 * b + i, bandwidth, latency)
        for gpu in range(8 * b, 8 * b + 8):
            link(gpu, f'"nic{b}.out"', 1e6)
            link(f'"nic{b}.in"', gpu, 1e6)
        link(f'"nic{b}.out"', '"network"' if boxes > 2 else f'"nic{1 - b}.in"', nic, nic_latency)
        if boxes > 2:
            link('"network"', f'"nic{b}.in"', nic)
    return (f"ccl.topology @ndv2 ranks(node = {boxes}, gpu = 8) {{\n" + "\n".join(lines) + "\n}\n")


def dgx2(bandwidth, latency, between):
    """Two DGX-2 as TE-CCL sees them: all GPUs of a box on one switch, the two switches joined."""
    lines = [f"32 34 66", "32 33 {0}\n33 32 {0}".format(between)]
    for gpu in range(32):
        lines.append(f"{gpu} {32 + gpu // 16} {bandwidth}\n{32 + gpu // 16} {gpu} {bandwidth}")
    return "\n".join(lines) + "\n"


def peer_cases(folder):
    """In the peers' own cost models, with their costs and sizes."""
    taccl = (1000 / 46, 1000 / 23, 1000 / 105, 0.7, 2.6)  # us a megabyte, its topology file
    teccl = (25, 50, 12.5, 0.7, 1.3)
    for name, text, model, size, simulated, seconds, peer in (
            ("ndv2 x2", ndv2(2, *taccl), "taccl", "16000000", 97, 2, "TACCL 88.9, 7.7 s"),
            ("ndv2 x4", ndv2(4, *taccl), "taccl", "32000000", 98, 2, "TACCL 95.2, 85 s"),
            ("ndv2 x4", ndv2(4, *teccl), "teccl", GIB, 98, 5, "TE-CCL 92.3, 222 s"),
            ("dgx2 x2", dgx2(125, 0.35, 100), "teccl", GIB, 99, 5, "TE-CCL 100, 2,700 s")):
        file = folder / f"{name}-{model}".replace(" ", "-")
        file = file.with_suffix(".txt" if text[0].isdigit() else ".mlir")
        file.write_text(text)
        yield Case(str(file), AG, 0, simulated, seconds, peer, size, ("--model", model),
                   name=f"{name}, model {model}")


def irregular(seed):
    """An edge list: a ring and random links of three speeds, up to two switches that relay, and an
    eighth as many links (both directions) missing as there are ranks, as long as all are reached."""
    draw = random.Random(seed)
    ranks = draw.randint(8, 64)
    speed = lambda: draw.choice([25, 50, 100])
    pairs = {}

    def join(a, b, capacity):
        if a != b:
            pairs[min(a, b), max(a, b)] = pairs.get((min(a, b), max(a, b)), 0) + capacity

    for rank in range(ranks):
        join(rank, (rank + 1) % ranks, speed())
    for _ in range(ranks):
        join(draw.randrange(ranks), draw.randrange(ranks), speed())
    switches = draw.randrange(3)
    for switch in range(switches):
        port, rank = speed(), draw.randrange(4)
        while rank < ranks:
            join(rank, ranks + switch, port)
            rank += draw.randint(1, 8)
    for _ in range(ranks // 8):
        lost = draw.choice(sorted(pairs))
        capacity = pairs.pop(lost)
        if not is_connected(pairs, ranks):
            pairs[lost] = capacity
    lines = [f"{a} {b} {c}\n{b} {a} {c}" for (a, b), c in sorted(pairs.items())]
    return f"{ranks} {ranks + switches} {2 * len(lines)}\n" + "\n".join(lines) + "\n"


def is_connected(pairs, ranks):
    reached, todo = {0}, [0]
    while todo:
        node = todo.pop()
        for a, b in pairs:
            if node in (a, b):
                other = a + b - node
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
    return reached.issuperset(range(ranks))


def irregular_cases(folder):
    for seed in range(1, IRREGULAR + 1):
        file = folder / f"irregular-{seed}.txt"
        file.write_text(irregular(seed))
        for collective in (AG, AR):
            yield Case(str(file), collective, 98, 95, 20, name=f"irregular {seed}")


def call(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **more)


def halves(ccl, case):
    """GB/s of the best reduce_scatter followed by the best all_gather: no faster than their bounds."""
    result = call([ccl, "topo", case.topology, "--bounds", "--collective", AG, "--json"])
    return json.loads(result.stdout)["bounds"][AG]["algbw_GBps"] / 2


def execute(ccl, file, plan):
    if plan["ranks"] > MOST_EXECUTED:
        return "-"
    result = call([ccl, "run", str(file), "--count", "1,1001", "--iters", "1", "--json"])
    if result.returncode:
        return (result.stderr.strip().splitlines() or ["?"])[0]
    return str(sum(json.loads(line)["wrong"] for line in result.stdout.splitlines()))


def one_rank(ccl, file, plan):
    begin = time.monotonic()
    result = call([ccl, "compile", str(file), "--rank", str(plan["ranks"] // 3), "--emit",
                   "program", "-o", "/dev/null"])
    return time.monotonic() - begin if result.returncode == 0 else float("inf")


def misses(case, plan, in_halves, wrong, rank_seconds):
    """What was not reached, and by how much."""
    found = []

    def at_least(what, value, goal, unit):
        if value < goal - 0.005:
            found.append(f"{what} {goal - value:.2f}{unit} short")

    at_least("fluid", 100 * plan["fluid_ratio"], case.fluid, "")
    at_least("simulated", 100 * plan["ratio"], case.simulated, "")
    for what, value, goal in zip(("fluid", "simulated"), in_halves, case.in_halves):
        at_least(what, value, goal, " x")
    for what, value, goal in (("plan s", plan["plan_seconds"], case.seconds),
                              ("MiB", plan["peak_MiB"], case.mebibytes),
                              ("one rank s", rank_seconds or 0, 1)):
        if value > goal:
            found.append(f"{what} {value / goal:.1f} times")
    if wrong not in ("0", "-"):
        found.append(f"executed: {wrong}")
    return found


HEADER = (f"{'topology':<28} {'collective':<14} {'bytes':>6} {'plan s':>7} {'proof s':>7} "
          f"{'sim s':>6} {'MiB':>6} {'fluid':>7} {'simul.':>7} {'height':>6} {'k':>3} {'pcs':>4} "
          f"{'m':>5} {'wrong':>5}  peer; what is missed")


def measure(ccl, case, folder):
    file = folder / "plan.mlir"
    result = call([ccl, "plan", "--topology", case.topology, "--collective", case.collective,
                   "--bytes", case.bytes, *case.options, "--json", "-o", str(file)])
    start = f"{case.title():<28} {case.collective:<14} {case.bytes:>6} "
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["?"])[-1]
        print(f"{start}exits with {result.returncode}: {reason}", flush=True)
        return False
    plan = json.loads(result.stdout.splitlines()[-1])
    notes, in_halves = [case.peer] if case.peer else [], ()
    if case.in_halves:
        unit = plan["bound_algbw_GBps"] / halves(ccl, case)
        in_halves = (plan["fluid_ratio"] * unit, plan["ratio"] * unit)
        notes.append(f"{in_halves[0]:.2f} x, {in_halves[1]:.2f} x best halves")
    wrong = execute(ccl, file, plan)
    rank_seconds = one_rank(ccl, file, plan) if case.one_rank else None
    if rank_seconds is not None:
        notes.append(f"one rank {rank_seconds:.2f} s")
    if not plan["proof"]:
        notes.append("NOT PROVED")
    missed = misses(case, plan, in_halves, wrong, rank_seconds)
    notes += [f"MISSED {text}" for text in missed]
    seconds = plan["seconds"]
    print(f"{start}{plan['plan_seconds']:>7.2f} {seconds['prove']:>7.2f} "
          f"{seconds['simulate']:>6.2f} {plan['peak_MiB']:>6.0f} {100 * plan['fluid_ratio']:>7.2f} "
          f"{100 * plan['ratio']:>7.2f} {plan['height']:>6} {plan['k']:>3} {plan['pieces']:>4} "
          f"{plan['micro_batches']:>5} {wrong[:5]:>5}  {'; '.join(notes)}", flush=True)
    return not missed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ccl", required=True)
    parser.add_argument("parts", nargs="*", help="of the names of the cases to run; default: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(HEADER)
        cases = [*CASES, *peer_cases(folder), *irregular_cases(folder)]
        rows = [measure(arguments.ccl, case, folder) for case in cases
                if not arguments.parts or any(
                    part in f"{case.title()} {case.collective}" for part in arguments.parts)]
    print(f"{len(rows)} cases, {rows.count(False)} with a goal missed")
    return 1 if not rows or False in rows else 0


if __name__ == "__main__":
    sys.exit(main())
