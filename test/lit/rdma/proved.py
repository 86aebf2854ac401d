"""Every algorithm that the library has for some ranks, on hosts of several shapes, all ways."""

import itertools
import subprocess
import sys

ccl = sys.argv[1]
collectives = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
               "gather", "scatter"]


def run(*arguments):
    return subprocess.run([ccl, *arguments], capture_output=True, text=True, check=False)


def algorithms(collective):
    """Named by the message about one that does not exist."""
    text = run("check", "--collective", collective, "-n", "4", "--algorithm", "?").stderr
    names = text.split("there are: ")[1] if "there are: " in text else text
    return [name.strip(" .,\n") for name in names.split(":")[-1].split(",")]


proved = 0
for collective in collectives:
    for algorithm in algorithms(collective):
        for (ranks, hosts), via in itertools.product(
                [("4", "2"), ("6", "0,0,0,1,1,2"), ("8", "4")], ["staged", "direct", "auto"]):
            grid = ["--grid", {"4": "2x2", "6": "3x2", "8": "2x4"}[ranks]]
            done = run("check", "--collective", collective, "--algorithm", algorithm, "-n", ranks,
                       "--hosts", hosts, "--via", via,
                       *(grid if algorithm == "hierarchical" else []))
            if "needs" in done.stderr and done.returncode != 0:
                continue  # not for so many ranks
            if done.returncode != 0 or ": ok: " not in done.stdout:
                sys.exit(f"{collective} {algorithm} -n {ranks} --hosts {hosts} --via {via}: "
                         f"{done.stdout}{done.stderr}")
            proved += 1
print(proved, "proved")
sys.exit(0 if proved > 100 else f"only {proved} cases")
