"""Plans every collective for a topology and executes what comes out.

    planned.py TOPOLOGY [--convert FOLDER] [options of ccl plan]

With --convert the plan is written as MSCCL XML and as an MSCCL++ plan first, and what is read from
there is proved and executed.
"""
import subprocess
import sys

COLLECTIVES = {"all_gather": [], "reduce_scatter": ["--op", "max"], "all_reduce": [],
               "broadcast": ["-r", "1"], "reduce": ["-r", "2"],
               "scatter": ["-r", "1"], "gather": ["-r", "2"]}
# What foreign formats have a name for.
CONVERTED = ("all_gather", "reduce_scatter", "all_reduce")


def call(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def executes(file, text):
    run = call("ccl", "run", file, "--count", "1,7,1001", input=text)
    if run.returncode or "# Out of bounds values : 0 OK" not in run.stdout:
        print(file, run.stdout, run.stderr, file=sys.stderr)
        return False
    return True


def survives(folder, text, extension):
    file = f"{folder}/plan.{extension}"
    for step in (call("ccl", "convert", "-", "-o", file, input=text), call("ccl", "check", file)):
        if step.returncode:
            print(file, step.stdout, step.stderr, file=sys.stderr)
            return False
    return executes(file, None)


arguments = sys.argv[1:]
folder = None
if "--convert" in arguments:
    at = arguments.index("--convert")
    folder = arguments[at + 1]
    del arguments[at:at + 2]
failures = 0
for collective in CONVERTED if folder else COLLECTIVES:
    plan = call("ccl", "plan", "--topology", arguments[0], "--collective", collective, "--pieces",
                "3", "-o", "-", *COLLECTIVES[collective], *arguments[1:])
    if plan.returncode:
        print(collective, plan.stderr, file=sys.stderr)
        failures += 1
    elif folder:
        failures += not all([survives(folder, plan.stdout, "xml"),
                             survives(folder, plan.stdout, "json")])
    else:
        failures += not executes("-", plan.stdout)
sys.exit(failures != 0)
