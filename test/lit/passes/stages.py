"""stages.py TOPOLOGY [--plan] COLLECTIVE...: what ccl-opt makes of collectives is proved, and runs.

Without --plan the stages have to stay: else the direct algorithm may be taken.
"""
import json
import pathlib
import subprocess
import sys

INPUTS = pathlib.Path(__file__).resolve().parent / "Inputs"
PASSES = ["--ccl-decompose", "--ccl-synthesize=pieces=2",
          "--ccl-pipeline-micro-batches=bytes=4194304 max=8"]
PLAN = ["--ccl-plan=pieces=2 bytes=4194304 max=8"]
COUNTS = [0, 1, 17, 4097]


def call(*command, text=None):
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} exits with {result.returncode}:\n{result.stderr}")
    return result.stdout


def main():
    topology, arguments = sys.argv[1], sys.argv[2:]
    plans = arguments[0] == "--plan"
    machine = (INPUTS / f"{topology}.mlir").read_text()
    for collective in arguments[1:] if plans else arguments:
        reduction = "sum " if "reduce" in collective else ""
        root = "root 3 " if collective in ("broadcast", "reduce_to") else ""
        op = f"ccl.{collective} @it {reduction}{root}on @t\n"
        made = call("ccl-opt", *(PLAN if plans else PASSES), text=machine + op)
        if not plans and "ccl.apply @it_" not in made:
            sys.exit(f"{topology}, {collective}: there are no stages:\n{made}")
        call("ccl-opt", "--ccl-expand-apply", "--ccl-check-algorithm", text=made)
        call("ccl", "check", "-", text=made)
        for batches in ([], ["--micro-batches", "3"]):
            run = call("ccl", "run", "-", "--count", ",".join(map(str, COUNTS)), "--iters", "1",
                       "--json", *batches, text=made)
            lines = [json.loads(line) for line in run.splitlines()]
            counts = {line["count"] for line in lines}
            if counts != set(COUNTS) or any(line["wrong"] != 0 for line in lines):
                sys.exit(f"{topology}, {collective}: wrong results:\n{run}")


main()
