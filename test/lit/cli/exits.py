"""Runs a command and fails unless it ends with the given status.

    exits.py STATUS COMMAND...
"""
import subprocess
import sys

status = subprocess.run(sys.argv[2:]).returncode
if status != int(sys.argv[1]):
    print(f"{sys.argv[2:]} ended with {status}, not {sys.argv[1]}", file=sys.stderr)
    sys.exit(1)
