"""Runs a command with a terminal as its stdout and fails unless it ends with the given status.

    terminal.py STATUS COMMAND...
"""
import os
import pty
import subprocess
import sys

ours, theirs = pty.openpty()
status = subprocess.run(sys.argv[2:], stdout=theirs).returncode
os.close(theirs)
os.close(ours)
if status != int(sys.argv[1]):
    print(f"{sys.argv[2:]} ended with {status}, not {sys.argv[1]}", file=sys.stderr)
    sys.exit(1)
