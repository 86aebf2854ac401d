"""Starts N processes as the ranks of one communicator, each with its CCL_RANK.

    python3 start.py N COMMAND...

They meet at a socket in a folder of their own. Prints their output in the order of ranks;
exits with 1 if one failed.
"""
import os
import subprocess
import sys
import tempfile

ranks, command = int(sys.argv[1]), sys.argv[2:]
with tempfile.TemporaryDirectory() as folder:
    processes = []
    for rank in range(ranks):
        environment = dict(os.environ, CCL_RANK=str(rank), CCL_SIZE=str(ranks),
                           CCL_SOCKET=os.path.join(folder, "socket"))
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
    outputs = [process.communicate(timeout=100)[0] for process in processes]
print("".join(outputs), end="")
sys.exit(1 if any(process.returncode for process in processes) else 0)
