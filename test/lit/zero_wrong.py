"""Judges what `ccl run --json` prints on standard input.

    ccl run ... --json | python3 zero_wrong.py --ranks 2,3 --counts 0,17 --forms out,in

Fails unless there is a line for every combination, each with "wrong": 0. Prints how
many lines there were, for FileCheck.
"""
import argparse
import itertools
import json
import sys


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=numbers, required=True)
    parser.add_argument("--counts", type=numbers, required=True)
    parser.add_argument("--forms", default="out,in")
    arguments = parser.parse_args()
    forms = [{"out": False, "in": True}[form] for form in arguments.forms.split(",")]

    missing = set(itertools.product(arguments.ranks, arguments.counts, forms))
    lines = bad = 0
    for line in sys.stdin:
        if not line.strip():
            continue
        result = json.loads(line)
        if "error" in result:
            print(f"error: {line.strip()}")
            return 1
        lines += 1
        if result["wrong"] != 0:
            bad += 1
            print(f"wrong: {line.strip()}")
        missing.discard((result["ranks"], result["count"], bool(result["in_place"])))
    for ranks, count, in_place in sorted(missing):
        print(f"missing: {ranks} ranks, count {count}, {'in' if in_place else 'out of'} place")
    print(f"{lines} results, {bad} with wrong elements, {len(missing)} missing")
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main())
