"""Checks the keys of JSON lines on standard input against the contract.

    keys.py run|check
"""
import json
import sys

KEYS = {
    "run": ["collective", "algorithm", "ranks", "bytes", "count", "type", "redop", "root",
            "in_place", "time_us", "algbw_GBps", "busbw_GBps", "wrong", "jit_ms", "start_ms"],
    "check": ["file", "verdict", "faults", "min_slots", "algorithm", "ranks", "collective", "redop",
              "forms", "moves", "instructions", "divisible", "uneven"],
}
FAULT = ["kind", "rank", "agent", "instruction", "buffer", "chunk", "have", "want", "loc",
         "message"]

lines = [json.loads(line) for line in sys.stdin]
for line in lines:
    if list(line) != KEYS[sys.argv[1]]:
        sys.exit(f"keys are {list(line)}")
    for fault in line.get("faults", []):
        if list(fault) != FAULT:
            sys.exit(f"keys of a fault are {list(fault)}")
print(f"{len(lines)} objects")
