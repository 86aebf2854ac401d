"""Takes an algorithm through another format and back; proof and results must stay.

    round_trip.py SUFFIX FOLDER FILE [OPTION...]

FILE becomes FOLDER/1.SUFFIX, that FOLDER/2.mlir, that FOLDER/3.SUFFIX. Each is proved, and
run with several counts, out of place and in place. Of XML the first and the last are the same
text, but for whether they may be launched in place: programs may, where the moves that they
were made from had not said enough. OPTIONs are for the first conversion.
"""
import json
import pathlib
import re
import subprocess
import sys

COUNTS = "0,1,17,4097"


def ccl(*words):
    done = subprocess.run(["ccl", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ccl {' '.join(map(str, words))}: status {done.returncode}\n"
                 f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def proof(file, *options):
    """What `ccl check` says about the one program of `file`, but for its size and slots."""
    said = json.loads(ccl("check", file, "--json", *options))
    if said["verdict"] != "ok":
        sys.exit(f"{file}: {said['verdict']}")
    return said["ranks"]


def runs(file):
    lines = [json.loads(line)
             for line in ccl("run", file, "--count", COUNTS, "--iters", 1, "--json").splitlines()]
    wrong = [line for line in lines if line["wrong"] != 0]
    if wrong or len(lines) != 2 * len(COUNTS.split(",")):
        sys.exit(f"{file}: {len(lines)} results, wrong: {wrong}")


def main():
    suffix, folder, source, *options = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ranks = proof(source, *options)
    names = [folder / name for name in (f"1.{suffix}", "2.mlir", f"3.{suffix}")]
    for name in names:
        ccl("convert", source, "-o", name, *options)
        source, options = name, []
        if proof(name) != ranks:
            sys.exit(f"{name}: not {ranks} ranks")
        runs(name)
    if suffix == "xml":
        first, last = (re.sub(r'inplace="."', "", name.read_text(), count=1)
                       for name in (names[0], names[2]))
        if first != last:
            sys.exit(f"{names[0]} and {names[2]} differ")
    print(f"{pathlib.Path(sys.argv[3]).name}: same proof and results on {ranks} ranks")


if __name__ == "__main__":
    main()
