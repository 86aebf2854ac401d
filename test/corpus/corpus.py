"""Checks and runs every program in folders of MSCCL XML and MSCCL++ plans.

    python3 test/corpus/corpus.py --ccl build/dev/bin/ccl [options] [FOLDER...]

One line a file: verdict, file, what. Where a folder's README.md has a table with the columns
`file` and `verdict`, ours is compared with it: an unexpected difference, a crash, a hang or a
wrong result makes the exit status 1. Differences that docs/interchange.md explains are listed
in expected.txt beside this script.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SUFFIXES = (".xml", ".json")
VERDICTS = {"ok", "wrong", "uninitialized", "race", "deadlock", "malformed", "unsupported",
            "unchecked"}
# Two of them have no common factor: one at least is not divided by the number of chunks.
COUNTS = "96,4097,8191"
# Another's words for a verdict, and ours for the same. What matches none says nothing.
WORDS = [
    (r"cap\d+-deadlock", None),  # of a size that no runtime has; the other words decide
    (r"deadlock", "deadlock"),
    (r"malformed", "malformed"),
    (r"uninit\b", "uninitialized"),
    (r"race\b", "race"),
    (r"wrong\b", "wrong"),
]
OPEN = re.compile(r"not-simulated|sim-error|post-unchecked\s*$|\bran\b", re.I)


def expectation(text):
    """The verdicts that a README's words allow; none: they leave it open."""
    allowed = set()
    rest = text
    for pattern, verdict in WORDS:
        if re.search(pattern, rest, re.I):
            rest = re.sub(pattern, "", rest, flags=re.I)
            if verdict:
                allowed.add(verdict)
            elif not re.search(r"\bok\b|wrong|race|uninit", text, re.I):
                allowed.add("ok")
    if not allowed and not OPEN.search(text) and re.match(r"ok\b", text.strip(), re.I):
        allowed.add("ok")
    return allowed


def readme_verdicts(folder):
    """Of the table `| file | ... | verdict |`: file name -> its words."""
    readme = folder / "README.md"
    if not readme.is_file():
        return {}
    found, columns = {}, None
    for line in readme.read_text(errors="replace").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            columns = None
        elif "file" in cells and "verdict" in cells:
            columns = cells.index("file"), cells.index("verdict")
        elif columns and len(cells) > max(columns):
            found[cells[columns[0]].strip("`")] = cells[columns[1]]
    return found


def read_expected(path):
    """Lines `PATTERN  VERDICT[,VERDICT]  REASON`: (pattern, verdicts, reason)."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(None, 2)
        if len(parts) != 3 or not set(parts[1].split(",")) <= VERDICTS:
            sys.exit(f"{path}:{number}: expected: PATTERN  VERDICT[,VERDICT]  REASON")
        rows.append((parts[0], set(parts[1].split(",")), parts[2]))
    return rows


def one_line(text, width=150):
    text = " ".join(text.split())
    return text if len(text) <= width else text[:width - 3] + "..."


class Result:
    def __init__(self, file):
        self.file = file
        self.verdict, self.what, self.problem = "?", "", ""
        self.launches = 0
        self.seconds = 0.0


class Corpus:
    def __init__(self, arguments, cache):
        self.ccl = str(arguments.ccl.resolve())
        self.timeout, self.most_ranks = arguments.timeout, arguments.ranks
        self.runs = not arguments.no_run
        self.device = arguments.device
        self.archs = [arch for arch in arguments.arch.split(",") if arch]
        self.compiled = []  # (milliseconds, bytes, spilled bytes, what)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CCL_")}
        self.environment["CCL_CACHE_DIR"] = cache
        self.environment["CCL_SHIM_SMS"] = "256"  # a program of many blocks is no fault

    def call(self, result, *command):
        """Standard output and status, or None with `problem` set."""
        try:
            done = subprocess.run([self.ccl, *command], capture_output=True, text=True,
                                  errors="replace", timeout=self.timeout, stdin=subprocess.DEVNULL,
                                  env=self.environment)
        except subprocess.TimeoutExpired:
            result.problem = f"hang: ccl {command[0]} takes over {self.timeout} s"
            return None
        if done.returncode not in (0, 1):
            result.problem = (f"crash: ccl {command[0]} ends with {done.returncode}: "
                              + one_line(done.stderr[-400:]))
            return None
        return done

    def check(self, result):
        done = self.call(result, "check", str(result.file), "--json")
        if done is None:
            return 0
        try:
            report = json.loads(done.stdout.strip().splitlines()[0])
            result.verdict = report["verdict"]
        except (ValueError, IndexError, KeyError) as error:
            result.problem = f"crash: ccl check prints no verdict: {error!r}: " + one_line(done.stderr)
            return 0
        if result.verdict not in VERDICTS:
            result.problem = f"crash: unknown verdict '{result.verdict}'"
        if (done.returncode == 0) != (result.verdict in ("ok", "unchecked")):
            result.problem = f"crash: verdict {result.verdict}, exit status {done.returncode}"
        ranks = report.get("ranks", 0)
        if report["faults"]:
            fault = report["faults"][0]
            place = re.sub(r".*/", "", fault.get("loc") or "").removeprefix(result.file.name + ":")
            result.what = one_line(f"{place}: {fault['message']}")
            if not re.match(r"\d+:\d+", place):
                result.problem = f"no place: the fault's is '{fault.get('loc')}'"
        else:
            result.what = f"{ranks} ranks, least slots {report.get('min_slots', 0)}"
            if result.verdict not in ("ok", "unchecked"):
                result.problem = f"crash: verdict {result.verdict} without a fault"
        return ranks

    def run(self, result):
        done = self.call(result, "run", str(result.file), "--json", "--count", COUNTS,
                         "--iters", "1", "-w", "0", "--device", self.device)
        if done is None:
            return
        try:
            lines = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        except ValueError:
            lines = []
        launches = [line for line in lines if "wrong" in line]
        result.launches = len(launches)
        wrong = [line for line in launches if line["wrong"] != 0]
        if wrong:
            result.problem = f"wrong result: {wrong[0]['wrong']} elements of {wrong[0]['count']}"
        elif launches and result.verdict == "unchecked" and not any(l["count"] for l in launches):
            result.what += f"; {len(launches)} launches"  # there are no buffers
        elif done.returncode != 0 or {l["count"] for l in launches} != {96, 4097, 8191}:
            result.problem = f"does not run: status {done.returncode}: " + \
                one_line(done.stderr or done.stdout)
        else:
            result.what += f"; {len(launches)} launches, 0 wrong"

    def compile(self, result):
        """For GPUs, whatever machine this is; never from a cache."""
        for arch in self.archs:
            done = self.call(result, "compile", str(result.file), "--emit", "cubin", "--arch", arch,
                             "--json", "-o", os.devnull)
            if done is None:
                return
            if done.returncode != 0:
                result.problem = f"does not compile for {arch}: " + one_line(done.stderr)
                return
            stats = json.loads(done.stdout)
            spilled = sum(kernel["spill_bytes"] for kernel in stats["kernels"])
            self.compiled.append((stats["nvrtc_ms"], stats["cubin_bytes"], spilled,
                                  f"{result.file.name} for {arch}"))
            result.what += f"; {arch} {stats['nvrtc_ms']:.0f} ms, {stats['cubin_bytes']} bytes"
            if spilled:
                result.what += f", {spilled} spilled"

    def judge(self, file):
        result = Result(file)
        start = time.monotonic()
        ranks = self.check(result)
        if self.runs and not result.problem and result.verdict in ("ok", "unchecked") \
                and ranks <= self.most_ranks:
            self.run(result)
        if not result.problem and result.verdict in ("ok", "unchecked") \
                and ranks <= self.most_ranks:
            self.compile(result)
        result.seconds = time.monotonic() - start
        return result


def files_in(folder, most_bytes):
    found = sorted(f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
    return [f for f in found if not most_bytes or f.stat().st_size <= most_bytes]


def compare(result, words, expected, used):
    """How our verdict differs, unexpectedly or as explained; twice "" if it does not."""
    allowed = expectation(words)
    if not allowed or result.verdict in allowed:
        return "", ""
    text = f"{result.file.name}: {result.verdict}, README says {words}"
    for row, (pattern, verdicts, reason) in enumerate(expected):
        if fnmatch.fnmatch(result.file.name, pattern) and result.verdict in verdicts:
            used.add(row)
            return "", f"{text} ({reason})"
    return text, ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--ccl", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one call")
    parser.add_argument("--ranks", type=int, default=16, help="what has more is not run")
    parser.add_argument("--max-bytes", type=int, default=0, help="only files up to this size")
    parser.add_argument("--device", default="host", help="of ccl run: host, shim or cuda")
    parser.add_argument("--arch", default="", help="sm_80,sm_90a: compile for these by NVRTC, too")
    parser.add_argument("--no-run", action="store_true", help="only check")
    parser.add_argument("--expected", type=pathlib.Path, default=HERE / "expected.txt")
    arguments = parser.parse_args()
    if not arguments.folders:
        corpus = HERE.parent.parent.parent / "shared" / "corpus"
        arguments.folders = [f for f in (corpus / "msccl-xml", corpus / "mscclpp-json")
                             if f.is_dir()]
        if not arguments.folders:
            print("corpus: no folder given, and there is no ../shared/corpus", file=sys.stderr)
            return 2
    for folder in arguments.folders:
        if not folder.is_dir():
            print(f"corpus: {folder} is no folder", file=sys.stderr)
            return 2

    expected, used = read_expected(arguments.expected), set()
    totals, differences, known, problems = collections.Counter(), [], [], []
    compared = files = launches = ran = 0
    start, slowest = time.monotonic(), None
    with tempfile.TemporaryDirectory() as cache, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        corpus = Corpus(arguments, cache)
        for folder in arguments.folders:
            words = readme_verdicts(folder)
            for result in pool.map(corpus.judge, files_in(folder, arguments.max_bytes)):
                files += 1
                totals[result.verdict] += 1
                launches += result.launches
                ran += result.launches > 0
                if slowest is None or result.seconds > slowest.seconds:
                    slowest = result
                print(f"{result.verdict:13}  {result.file.relative_to(folder)}  {result.what}",
                      flush=True)
                if result.problem:
                    problems.append(f"{result.file.name}: {result.problem}")
                    print(f"  {result.problem}", flush=True)
                    continue
                its = words.get(result.file.name, "")
                compared += bool(expectation(its))
                difference, explained = compare(result, its, expected, used)
                differences += [difference] if difference else []
                known += [explained] if explained else []
    if corpus.compiled:
        times = sorted(corpus.compiled)
        print(f"\n{len(times)} compiled by NVRTC: median {times[len(times) // 2][0]:.0f} ms, slowest "
              f"{times[-1][0]:.0f} ms ({times[-1][3]}), largest "
              f"{max(size for _, size, _, _ in times)} bytes, "
              f"{sum(spilled > 0 for _, _, spilled, _ in times)} spill")
    for title, lines in (("differences that are explained", known),
                         ("unexpected differences", differences), ("problems", problems)):
        if lines:
            print(f"\n{title}:")
            print("\n".join("  " + line for line in lines))
    if files == 0:
        print("corpus: no files", file=sys.stderr)
        return 2
    print(f"\n{files} files: " + ", ".join(f"{n} {v}" for v, n in sorted(totals.items())))
    print(f"{compared} compared with a README: {len(known)} explained and {len(differences)} "
          f"unexpected differences")
    print(f"{ran} programs ran, {launches} launches; {len(problems)} problems; "
          f"{time.monotonic() - start:.0f} s, slowest {slowest.file.name} {slowest.seconds:.1f} s")
    return 1 if differences or problems else 0


if __name__ == "__main__":
    sys.exit(main())
