"""Our collectives beside those of OpenMPI and MPICH on this machine: ./dev bench host

Everything is measured in one run: the contestants take turns, in another order each time,
and what is compared is their times of the same turn. Printed is the median over all turns
of (ours / peer), under 1 where we are faster, with the smallest and the largest.

Fair means here: ranks are bound to cores where there is one for each (`ccl run` does that by
itself), and peers are told to yield where there is not; buffers are touched and calls warmed up; floats, sums, root 0, out
of place (a broadcast in place, since MPI knows no other); calls follow each other without a
barrier; the slowest rank's mean counts, on both sides. Each side runs the algorithm that it
chooses itself. Peers that are not installed are skipped by name.

The default takes about half an hour on two cores, --quick two minutes.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "mpi_collectives.c"
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
               "scatter", "all_to_all", "barrier"]
ONE_SHARD = {"all_reduce", "broadcast", "reduce"}  # the larger buffer of a rank is one shard
FULL_BYTES = [8, 128, 2 << 10, 32 << 10, 512 << 10, 8 << 20, 64 << 20, 256 << 20]
QUICK_BYTES = [8, 2 << 10, 512 << 10, 8 << 20]
LIMIT_S = 600  # of one process


class Missing(Exception):
    """A contestant cannot be run; the text says why."""


def iterations(size):
    """(warm-up, timed) calls for one size in bytes, the same for everybody."""
    if size <= 64 << 10:
        return 50, 400
    if size <= 2 << 20:
        return 10, 100
    if size <= 16 << 20:
        return 3, 20
    return 1, 4


def shards(collective, ranks):
    return 1 if collective in ONE_SHARD else ranks


def execute(command, environment):
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=LIMIT_S)
    if result.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))} exits with {result.returncode}: "
                      f"{(result.stderr or result.stdout).strip()[-600:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def clean_environment():
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("CCL_", "OMPI_", "PMIX_", "MPIR_", "PMI_", "UCX_"))}


class Ours:
    name = "ccl"

    def __init__(self, ccl, transport, algorithms, folder):
        self.ccl, self.transport, self.algorithms = ccl, transport, algorithms
        self.environment = {**clean_environment(), "CCL_CACHE_DIR": os.path.join(folder, "cache")}
        self.checked = set()
        self.used = {}

    def options(self, ranks):
        return f"--ranks {self.transport}"

    def run(self, collective, ranks, sizes):
        """Microseconds by size."""
        times = {}
        groups = {}
        for size in sizes:
            groups.setdefault(iterations(size), []).append(size)
        for (warmup, timed), group in groups.items():
            counts = [max(1, size // 4 // shards(collective, ranks)) for size in group]
            # Results are checked once, not in every turn.
            key = (collective, ranks, tuple(group))
            command = [self.ccl, "run", "--collective", collective, "-n", str(ranks),
                       "--ranks", self.transport, "--json", "--count", ",".join(map(str, counts)),
                       "--in-place" if collective == "broadcast" else "--out-of-place",
                       "-w", str(warmup), "--iters", str(timed),
                       "-c", "0" if key in self.checked else "1"]
            if collective in self.algorithms:
                command += ["--algorithm", self.algorithms[collective]]
            lines = [l for l in execute(command, self.environment) if "time_us" in l]
            if len(lines) != len(group):
                raise Missing(f"{' '.join(command)} gives {len(lines)} results for "
                              f"{len(group)} sizes")
            for size, line in zip(group, lines):
                if line["wrong"]:
                    raise SystemExit(f"wrong result: {line}")
                times[size] = line["time_us"]
                self.used[collective] = line["algorithm"]
            self.checked.add(key)
        return times


class Peer:
    def __init__(self, name, folder):
        self.name, suffix = name, {"OpenMPI": "openmpi", "MPICH": "mpich"}[name]
        compiler, self.launcher = f"mpicc.{suffix}", f"mpirun.{suffix}"
        for program in (compiler, self.launcher):
            if not shutil.which(program):
                raise Missing(f"{program} is not installed")
        self.program = os.path.join(folder, f"collectives.{suffix}")
        built = subprocess.run([compiler, "-O2", "-o", self.program, SOURCE],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode != 0:
            raise Missing(f"{compiler} cannot compile {SOURCE.name}: {built.stdout[-600:]}")

    def launch(self, ranks):
        """(Options of the launcher, variables)."""
        crowded = ranks > cores()
        if self.name == "OpenMPI":
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            if crowded:
                return root + ["--oversubscribe", "--bind-to", "none",
                               "--mca", "mpi_yield_when_idle", "1"], {}
            return root + ["--bind-to", "core"], {}
        if crowded:
            return [], {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
        return ["-bind-to", "core"], {}

    def options(self, ranks):
        arguments, variables = self.launch(ranks)
        return " ".join([f"{k}={v}" for k, v in variables.items()] + arguments) or "none"

    def run(self, collective, ranks, sizes):
        arguments, variables = self.launch(ranks)
        work = [f"{size}:{w}:{n}" for size in sizes for w, n in [iterations(size)]]
        lines = execute([self.launcher, *arguments, "-n", str(ranks), self.program, collective,
                         *work], {**clean_environment(), **variables})
        if len(lines) != len(sizes) or any(line["wrong"] for line in lines):
            raise SystemExit(f"{self.name}, {collective}, {ranks} ranks: wrong: {lines}")
        return {line["bytes"]: line["time_us"] for line in lines}


def cores():
    return len(os.sched_getaffinity(0))


def available_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def human(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def short(us):
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def ratio_text(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def measure(contestants, collective, ranks, sizes, runs, state):
    """Appends to state[name][size] one time per turn."""
    for turn in range(runs):
        first = turn % len(contestants)
        for one in contestants[first:] + contestants[:first]:
            for size, us in one.run(collective, ranks, sizes).items():
                state.setdefault(one.name, {}).setdefault(size, []).append(us)


def compare(state, size):
    """One row: medians in microseconds, and ours / peer for each peer."""
    row = {"bytes": size, "time_us": {}, "ratio": {}}
    for name, times in state.items():
        row["time_us"][name] = statistics.median(times[size])
        if name != Ours.name:
            ratios = [ours / theirs for ours, theirs in zip(state[Ours.name][size], times[size])]
            row["ratio"][name] = {"median": statistics.median(ratios), "min": min(ratios),
                                  "max": max(ratios)}
    return row


def cells(row, peers):
    yield short(row["time_us"][Ours.name])
    for peer in peers:
        ratio = row["ratio"][peer]
        yield short(row["time_us"][peer])
        yield (f"{ratio_text(ratio['median'])} "
               f"({ratio_text(ratio['min'])}-{ratio_text(ratio['max'])})")


def summary(rows, peer):
    ratios = [row["ratio"][peer]["median"] for row in rows if peer in row["ratio"]]
    if not ratios:
        return f"nothing to compare with {peer}"
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    faster = sum(r < 1 for r in ratios)
    return (f"ours / {peer}: geometric mean {ratio_text(mean)}; faster in {faster} of {len(ratios)} cases, "
            f"best {ratio_text(min(ratios))}, worst {ratio_text(max(ratios))}")


def markdown(report, peers):
    """The part of docs/performance.md that this program writes."""
    text = [f"{report['machine']}, load {report['load']:.1f} before. {report['runs']} turns; "
            f"{report['what']}.", ""]
    for ranks in report["ranks"]:
        rows = [r for r in report["rows"] if r["ranks"] == ranks]
        text += [f"### {ranks} ranks", ""]
        text += [f"Options: " + "; ".join(f"{name} `{o}`" for name, o in
                                          report["options"][str(ranks)].items()) + ".", ""]
        text += [f"- {summary(rows, peer)}" for peer in peers] + [""]
        head = ["collective", "bytes", "ccl us"]
        for peer in peers:
            head += [f"{peer} us", f"ccl / {peer}"]
        text += ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
        for row in rows:
            name = f"{row['collective']} ({row['algorithm']})"
            text.append("| " + " | ".join([name, human(row["bytes"]), *cells(row, peers)]) + " |")
        text.append("")
    for name, why in report["skipped"].items():
        text += [f"Not measured: {name}: {why}", ""]
    return "\n".join(text)


def write_page(path, text):
    page = pathlib.Path(path)
    begin, end = "<!-- bench host: begin -->", "<!-- bench host: end -->"
    old = page.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"{path} has no lines '{begin}' and '{end}'")
    page.write_text(old[:old.index(begin) + len(begin)] + "\n" + text + old[old.index(end):])


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ccl", required=True)
    parser.add_argument("--quick", action="store_true", help="3 turns, up to 8 MiB")
    parser.add_argument("--runs", type=int, help="turns (7; with --quick 3)")
    parser.add_argument("-n", "--ranks", default="2,4", help="rank counts (2,4)")
    parser.add_argument("--bytes", help="sizes of a rank's larger buffer, in bytes: 8,4096")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--transport", default="processes", choices=["processes", "threads"],
                        help="what our ranks are (processes, as the peers' are)")
    parser.add_argument("--algorithm", action="append", default=[], metavar="COLLECTIVE=NAME",
                        help="of ours, instead of the default one")
    parser.add_argument("--json", metavar="FILE", help="all numbers, each turn's included")
    parser.add_argument("--page", metavar="FILE",
                        help="write the tables between the marks in this page")
    arguments = parser.parse_args()
    arguments.runs = arguments.runs or (3 if arguments.quick else 7)
    arguments.ranks = [int(n) for n in arguments.ranks.split(",")]
    arguments.collectives = arguments.collectives.split(",")
    unknown = set(arguments.collectives) - set(COLLECTIVES)
    if unknown:
        parser.error(f"no collective {', '.join(sorted(unknown))}; there are: "
                     f"{', '.join(COLLECTIVES)}")
    if arguments.bytes:
        arguments.bytes = [int(b) for b in arguments.bytes.split(",")]
    else:
        arguments.bytes = QUICK_BYTES if arguments.quick else FULL_BYTES
    arguments.algorithm = dict(pair.split("=", 1) for pair in arguments.algorithm)
    return arguments


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder below goes, too
    skipped = {}
    with tempfile.TemporaryDirectory() as folder:
        contestants = [Ours(arguments.ccl, arguments.transport, arguments.algorithm, folder)]
        for name in ("OpenMPI", "MPICH"):
            try:
                contestants.append(Peer(name, folder))
            except Missing as why:
                skipped[name] = str(why)
        peers = [one.name for one in contestants[1:]]
        most = available_bytes() // (4 * max(arguments.ranks))
        sizes = [size for size in arguments.bytes if size <= most]
        for size in set(arguments.bytes) - set(sizes):
            skipped[human(size)] = f"{max(arguments.ranks)} ranks would need too much memory"
        report = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{cores()} cores, {available_bytes() >> 30} GiB of memory free",
            "load": os.getloadavg()[0],
            "what": f"our ranks are {arguments.transport}", "runs": arguments.runs,
            "ranks": arguments.ranks, "options": {}, "rows": [], "skipped": skipped}
        run_all(arguments, contestants, peers, sizes, report)
    for name, why in skipped.items():
        print(f"skipped {name}: {why}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    if arguments.page:
        write_page(arguments.page, markdown(report, peers))
    return 0 if report["rows"] else 1


def run_all(arguments, contestants, peers, sizes, report):
    begin, jobs = time.monotonic(), len(arguments.ranks) * len(arguments.collectives)
    done = 0
    if report["load"] > 0.5:
        print(f"# The machine is busy (load {report['load']:.1f}): this says little.",
              file=sys.stderr)
    print(f"# {report['machine']}; {report['what']}; median of {arguments.runs} turns, "
          "ccl / peer with the smallest and the largest: under 1 ccl is faster")
    for ranks in arguments.ranks:
        report["options"][str(ranks)] = {one.name: one.options(ranks) for one in contestants}
        crowded = " (fewer cores than ranks)" if ranks > cores() else ""
        print(f"\n# {ranks} ranks{crowded}: " + "; ".join(
            f"{name} with {o}" for name, o in report["options"][str(ranks)].items()))
        print(f"{'collective':<16}{'bytes':>10}{'ccl us':>12}" + "".join(
            f"{peer + ' us':>12}{'ccl / ' + peer:>26}" for peer in peers))
        for collective in arguments.collectives:
            state, own = {}, [0] if collective == "barrier" else sizes
            done += 1
            try:
                measure(contestants, collective, ranks, own, arguments.runs, state)
            except Missing as why:
                report["skipped"][f"{collective} on {ranks} ranks"] = str(why)
                print(f"{collective:<16} skipped: {why}", flush=True)
                continue
            for size in own:
                row = {"collective": collective, "ranks": ranks,
                       "algorithm": contestants[0].used[collective], **compare(state, size),
                       "turns_us": {name: times[size] for name, times in state.items()}}
                report["rows"].append(row)
                ours, *others = cells(row, peers)
                print(f"{collective:<16}{human(size):>10}{ours:>12}" + "".join(
                    f"{us:>12}{ratio:>26}" for us, ratio in zip(others[::2], others[1::2])))
            left = (time.monotonic() - begin) / done * (jobs - done)
            print(f"# {done} of {jobs}, about {left / 60:.0f} min left", file=sys.stderr, flush=True)
        rows = [row for row in report["rows"] if row["ranks"] == ranks]
        for peer in peers:
            print(f"# {summary(rows, peer)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
