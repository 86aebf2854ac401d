"""Plans every collective for a topology and executes what comes out.

    planned.py TOPOLOGY [options of ccl plan]
"""
import re
import subprocess
import sys

COLLECTIVES = {"all_gather": [], "reduce_scatter": ["--op", "max"], "all_reduce": [],
               "broadcast": ["-r", "1"], "reduce": ["-r", "2"]}

failures = 0
for collective, options in COLLECTIVES.items():
    plan = subprocess.run(["ccl", "plan", "--topology", sys.argv[1], "--collective", collective,
                           "--pieces", "3", "-o", "-", *options, *sys.argv[2:]],
                          capture_output=True, text=True)
    needs = re.search(r"needs (--slots) (\d+)", plan.stderr)
    slots = list(needs.groups()) if needs else []
    run = subprocess.run(["ccl", "run", "-", "--count", "1,7,1001", *slots], input=plan.stdout,
                         capture_output=True, text=True)
    if plan.returncode or run.returncode or "# Out of bounds values : 0 OK" not in run.stdout:
        print(collective, plan.stderr, run.stdout, run.stderr, file=sys.stderr)
        failures += 1
sys.exit(failures != 0)
