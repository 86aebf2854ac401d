"""Ctrl-C, once a plan says that it is at work, gives the best so far."""
import signal
import subprocess
import sys

plan = subprocess.Popen(["ccl", "plan", "--topology", "mi250:2", "--collective", "all_gather",
                         "-k", "64", "--pieces", "1", "--agents", "1"],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
progress = plan.stderr.readline()
plan.send_signal(signal.SIGINT)
out, err = plan.communicate()
print(progress, out, err)
sys.exit(plan.returncode)
