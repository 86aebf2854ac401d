"""Starts `ccl run` for ranks that meet at an address: hosts.py CCL HOSTS ARGUMENTS...

HOSTS are the names of the ranks' hosts, as in a,a,b; "-" leaves them to find that out. Prints what
rank 0 prints, then each rank's exit status and errors.
"""

import os
import socket
import subprocess
import sys

ccl, hosts, *arguments = sys.argv[1:]
hosts = hosts.split(",")
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
processes = []
for rank, host in enumerate(hosts):
    environment = os.environ | {"CCL_ADDRESS": f"127.0.0.1:{port}", "CCL_TIMEOUT": "20"}
    environment.setdefault("CCL_SECRET", "of this test")
    if host != "-":
        environment["CCL_HOST_ID"] = host
    if rank > 0 and "OTHER_SECRET" in os.environ:
        environment["CCL_SECRET"] = os.environ["OTHER_SECRET"]
    # As a launcher starts them: the rank is in the environment.
    environment |= {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(len(hosts))}
    processes.append(subprocess.Popen([ccl, "run", "-n", str(len(hosts)), *arguments], text=True,
                                      env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE))
results = [process.communicate() for process in processes]
print(results[0][0], end="")
for rank, (process, (_, errors)) in enumerate(zip(processes, results)):
    print(f"rank {rank}: status {process.returncode}: {errors.strip()}")
