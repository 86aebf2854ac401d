#!/usr/bin/env python3
"""Looks for what is wrong with ranks on GPUs, on a machine that has none.

    python3 test/soak/cuda.py --bin build/dev/bin [options] [WHAT...]

Kernels run on this machine's processor (`ccl run --device shim`), and NVRTC, if it is here,
compiles them for GPUs. WHAT (default: all of it):

  matrix    soak matrix --device shim, in --parts; --from PART goes on where a run ended
  random    programs of seeds, as algorithms and as programs of several blocks
  examples  examples/, on several numbers of ranks, with every protocol
  corpus    test/corpus/corpus.py, if there is a collection
  extremes  long blocks, many blocks, many peers, chunks of few bytes
  large     soak large --device shim: buffers of 5 GiB (takes 12.5 GiB of memory)

Each says what is wrong in a line with the command that does it again, then a summary. Exit
status: 0 nothing is wrong, 1 something is, 2 usage.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import cuda_extremes

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ALL = ["examples", "random", "extremes", "large", "corpus", "matrix"]
TYPES = ["float", "int8", "double", "bfloat16", "uint32", "half", "int64", "f8e4m3", "int32",
         "uint8", "uint64", "f8e5m2"]
# That say by a word of the data whether it has come.
LAMPORT = {"float", "half", "bfloat16", "f8e4m3", "f8e5m2"}
COUNTS = "0,1,96,4097,8191"
# Enough blocks for every program; GPUs that ranks can be shared out to.
SHIM = {"CCL_SHIM_SMS": "256", "CCL_SHIM_DEVICES": "3"}


class Finding(Exception):
    """What is wrong, and the command that does it again."""


class Sums:
    def __init__(self):
        self.programs = self.launches = self.cubins = self.spilled = 0

    def add(self, other):
        self.programs += other.programs
        self.launches += other.launches
        self.cubins += other.cubins
        self.spilled += other.spilled


def again(command):
    """The command as a person types it."""
    return " ".join([*(f"{k}={v}" for k, v in SHIM.items()), shlex.join(map(str, command))])


class Soak:
    def __init__(self, arguments, folder):
        self.bin = arguments.bin.resolve()
        self.archs = [arch for arch in arguments.arch.split(",") if arch]
        self.runs = not arguments.no_run
        self.timeout = arguments.timeout
        self.most_spilled = arguments.most_spilled
        self.jobs = arguments.jobs
        self.folder = pathlib.Path(folder)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CCL_")}
        self.environment.update(SHIM, CCL_CACHE_DIR=str(self.folder),
                                CCL_SHIM_WARPS=str(arguments.warps))
        for name in ("CCL_NVRTC_LIBRARY", "CCL_SHIM_CXX"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        help = self.call("ccl", "run", "--help")
        self.protocols = re.search(r"--protocol TEXT:\{([a-z0-9,]+)\}", help)[1].split(",")

    def call(self, *command):
        """What it wrote to stdout."""
        try:
            done = subprocess.run([self.bin / command[0], *map(str, command[1:])],
                                  capture_output=True, text=True, errors="replace",
                                  timeout=self.timeout, stdin=subprocess.DEVNULL,
                                  env=self.environment)
        except subprocess.TimeoutExpired:
            raise Finding(f"hang: over {self.timeout} s: {again(command)}") from None
        # 1 with a result: elements are wrong, and it says how many.
        if done.returncode not in (0, 1 if command[1] == "run" and done.stdout else 0):
            said = " ".join((done.stderr or done.stdout).split())[:400]
            raise Finding(f"failed: status {done.returncode}: {said}: {again(command)}")
        return done.stdout

    def run(self, sums, source, protocol, *options):
        """`ccl run` on the stand-in; every element is judged. `source`: arguments that name the
        program, the type and so on."""
        if not self.runs:
            return
        command = ["ccl", "run", *source, "--device", "shim", "--protocol", protocol, "--json",
                   "--iters", "0", "-w", "0", *options]
        launches = [json.loads(line) for line in self.call(*command).splitlines()]
        for error in (line["error"]["message"] for line in launches if "error" in line):
            raise Finding(f"failed: {error}: {again(command)}")
        launches = [launch for launch in launches if "wrong" in launch]
        if not launches:
            raise Finding(f"failed: nothing was launched: {again(command)}")
        sums.launches += len(launches)
        for launch in launches:
            if launch["wrong"]:
                raise Finding(f"wrong: {launch['wrong']} elements of {launch['count']}: "
                              + again(command))

    def compile(self, sums, source, protocol):
        """For GPUs, whatever machine this is. What is `simple` must not spill."""
        for arch in self.archs:
            command = ["ccl", "compile", *source, "--emit", "cubin", "--arch", arch, "--json",
                       "--protocol", protocol, "-o", os.devnull]
            stats = json.loads(self.call(*command))
            spilled = sum(kernel["spill_bytes"] for kernel in stats["kernels"])
            sums.cubins += 1
            if spilled:
                sums.spilled += 1
                if protocol == "simple" and spilled > self.most_spilled:
                    raise Finding(f"spilled: {spilled} bytes: {again(command)}")

    def all(self, title, works):
        """Calls each of `works` with sums, several at a time, and says what they found."""
        start, total, findings = time.monotonic(), Sums(), 0

        def one(work):
            sums, finding = Sums(), None
            try:
                work(sums)
            except Finding as found:
                finding = str(found)
            return sums, finding

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for sums, finding in pool.map(one, works):
                total.add(sums)
                if finding:
                    findings += 1
                    print(finding, flush=True)
        print(f"{title}: {total.programs} programs, {total.launches} launches, {total.cubins} "
              f"compiled for GPUs, {total.spilled} spill, {findings} wrong, "
              f"{time.monotonic() - start:.0f} s", flush=True)
        return findings

    def write(self, name, text):
        file = self.folder / name
        file.write_text(text)
        return file

    # ---- what there is ----------------------------------------------------

    def random(self, seeds):
        """Seed s as algorithm and as program; what else there is to choose takes turns."""
        def work(seed, level, style):
            def go(sums):
                name = f"random-{seed}-{level}{style}.mlir"
                arguments = ["--level", level] + (["--" + style] if style else [])
                made = f"random-program {seed} {shlex.join(map(str, arguments))} > {name}: "
                try:
                    file = self.write(name, self.call("random-program", seed, *arguments))
                    sums.programs += 1
                    source, protocols = [file, "-d", TYPES[seed // 3 % len(TYPES)]], self.protocols
                    protocol = protocols[(seed // len(TYPES) + level) % len(protocols)]
                    if protocol == "lamport" and source[2] not in LAMPORT:
                        protocol = "ll"
                    self.run(sums, source, protocol, "--count", COUNTS,
                             "--instances", 2 ** (seed // 2 % 3), "--micro-batches", seed // 3 % 4,
                             "--cuda-devices", "0,1,2" if seed % 2 else "0")
                    self.compile(sums, source, protocol)
                    if protocol != "simple":
                        self.compile(sums, source, "simple")
                except Finding as found:
                    raise Finding(made + str(found)) from None
                file.unlink()
            return go

        works = [work(seed, level, style) for seed in seeds
                 for level, style in ((1, ""), (2, ("", "connections", "direct")[seed % 3]))]
        return self.all(f"random, seeds {seeds.start} to {seeds.stop - 1}", works)

    def examples(self):
        def work(file, protocol):
            def go(sums):
                sums.programs += 1
                # The last algorithm is the one that others are applied in.
                sized = "(%n: index)" in file.read_text().rpartition("ccl.algorithm")[2]
                for ranks in (2, 4, 8) if sized else (None,):
                    source = [file, "-n", ranks] if ranks else [file]
                    self.run(sums, source, protocol, "--count", COUNTS)
                    if ranks in (4, None):
                        self.compile(sums, source, protocol)
            return go

        return self.all("examples", [work(file, protocol)
                                     for file in sorted((ROOT / "examples").glob("*.mlir"))
                                     for protocol in self.protocols])

    def extremes(self):
        return self.all("extremes", cuda_extremes.works(self))

    def large(self):
        return subprocess.run([self.bin / "soak", "large", "--device", "shim"],
                              env=self.environment).returncode != 0

    def corpus(self):
        corpus = ROOT.parent / "shared" / "corpus"
        if not corpus.is_dir():
            print("corpus: skipped: there is no ../shared/corpus", flush=True)
            return 0
        command = [sys.executable, ROOT / "test" / "corpus" / "corpus.py", "--ccl",
                   self.bin / "ccl", "--device", "shim", "--arch", ",".join(self.archs),
                   "--jobs", self.jobs]
        return subprocess.run(list(map(str, command)), env=self.environment).returncode != 0

    def matrix(self, parts, first):
        """Part by part: where it ended, --from goes on."""
        findings = 0
        for part in range(first, parts + 1):
            done = subprocess.run([self.bin / "soak", "matrix", "--device", "shim", "--jobs",
                                   str(self.jobs), "--part", f"{part}/{parts}"],
                                  env=self.environment, stdout=subprocess.PIPE, text=True)
            lines = done.stdout.splitlines()
            for line in lines[:-1]:
                if re.match(r"wrong|failed|refused|accepted", line):
                    print(line)
            print(f"matrix, part {part} of {parts}: {lines[-1] if lines else 'nothing said'}",
                  flush=True)
            findings += done.returncode != 0
        return findings


def parse_seeds(text):
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if not found or int(found[2]) < 1:
        raise argparse.ArgumentTypeError(f"expected FIRST:COUNT such as 0:200, got {text}")
    return range(int(found[1]), int(found[1]) + int(found[2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=", ".join(ALL))
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="of a build tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one call")
    parser.add_argument("--seeds", type=parse_seeds, default=range(200),
                        help="FIRST:COUNT of random (default 0:200)")
    parser.add_argument("--arch", default="sm_80,sm_90a", help="compile for these by NVRTC, too")
    parser.add_argument("--most-spilled", type=int, default=0,
                        help="bytes that a kernel without flags in its data may spill")
    parser.add_argument("--no-run", action="store_true", help="only compile for --arch")
    parser.add_argument("--warps", type=int, default=0,
                        help="of a block on the stand-in (slow); 0: one thread")
    parser.add_argument("--parts", type=int, default=100, help="of the matrix")
    parser.add_argument("--from", type=int, default=1, dest="first", help="part of the matrix")
    arguments = parser.parse_intermixed_args()
    if unknown := set(arguments.what) - set(ALL):
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(ALL)}")
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(arguments, folder)
        if soak.archs and not has_nvrtc(soak):
            print("NVRTC: skipped: there is no libnvrtc here", flush=True)
            soak.archs = []
        findings = 0
        for what in [w for w in ALL if not arguments.what or w in arguments.what]:
            if what == "random":
                findings += soak.random(arguments.seeds)
            elif what == "matrix":
                findings += soak.matrix(arguments.parts, arguments.first)
            else:
                findings += getattr(soak, what)()
    return 1 if findings else 0


def has_nvrtc(soak):
    done = subprocess.run([soak.bin / "ccl", "compile", ROOT / "examples" / "ring_all_reduce.mlir",
                           "-n", "2", "--emit", "cubin", "--arch", "sm_80", "-o", os.devnull],
                          capture_output=True, text=True, env=soak.environment)
    return "cannot be loaded" not in done.stderr and "libnvrtc" not in done.stderr


if __name__ == "__main__":
    sys.exit(main())
