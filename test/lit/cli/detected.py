"""Whether the bounds of a detected machine are those of a preset.

    detected.py MACHINE PRESET

The preset has no host bridges: without the sockets the machine has no ways through them, too.
HWLOC_XMLFILE, TEST_GPUS and the libraries say what is detected.
"""
import json
import os
import subprocess
import sys

machine, preset = sys.argv[1:]
inputs = os.path.join(os.path.dirname(__file__), "Inputs")
environment = dict(os.environ, HWLOC_XMLFILE=f"{inputs}/{machine}.xml",
                   TEST_GPUS=f"{inputs}/{machine}.gpus")


def bounds(*arguments):
    out = subprocess.run(["ccl", "topo", "--bounds", "--json", *arguments], env=environment,
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    found = json.loads(out)
    assert found["ranks"] == 8 and len(found["bounds"]) == 8, out
    return {name: (bound["algbw_GBps"], bound["attained_GBps"], bound["exact"])
            for name, bound in found["bounds"].items()}


for rates in ("nominal", "effective"):
    detected = bounds("--detect", "--forbid", "cpu0,cpu1", "--rates", rates)
    expected = bounds(preset, "--rates", rates)
    assert detected == expected, (rates, detected, expected)
    # All ways count: so much more that the comparison above can fail.
    whole = bounds("--detect", "--rates", rates)
    assert whole["broadcast"][0] > expected["broadcast"][0], (whole, expected)
