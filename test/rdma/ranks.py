#!/usr/bin/env python3
"""Starts `ccl run` once for each rank of several hosts that are NICs of this machine.

    ranks.py --bin build/dev/bin --hosts 2 --per-host 2 -- --collective all_reduce --count 1,17

Rank r belongs to host r // per-host, which is called host<h> (CCL_HOST_ID) and has the NIC rxe<h>
of a virtual machine (`rdma-vm run --nics 2`). With --vms (`rdma-vm run --vms 2`) in each of them
only the ranks of that one are started, which find out by themselves where they are. Prints what
rank 0 prints; the exit status is the first that is not 0. With --wire the bytes that have left
each NIC's network device meanwhile are printed, too.
"""

import argparse
import os
import pathlib
import subprocess
import sys


def sent(host):
    """Bytes and packets that have left the device of a host's NIC."""
    folder = pathlib.Path(f"/sys/class/net/nic{host}/statistics")
    return [int((folder / name).read_text()) for name in ("tx_bytes", "tx_packets")]


def start(arguments, rank, address, more=(), prefix=()):
    host = rank // arguments.per_host
    environment = os.environ | {"CCL_SECRET": "of this test", "CCL_CACHE_DIR": "none"}
    environment |= dict(more)
    if not arguments.vms:
        environment |= {"CCL_HOST_ID": f"host{host}", "CCL_NICS": arguments.nics.format(host=host)}
    command = [*prefix, arguments.bin / "ccl", "run", "-n", str(arguments.hosts * arguments.per_host),
               "--rank", str(rank), "--address", address, *arguments.rest]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--nics", default="rxe{host}", help="CCL_NICS of a host")
    parser.add_argument("--port", type=int, default=4791 + 10000)
    parser.add_argument("--vms", action="store_true", help="each host is a virtual machine")
    parser.add_argument("--wire", action="store_true")
    parser.add_argument("rest", nargs="*")
    arguments = parser.parse_args()
    ranks = range(arguments.hosts * arguments.per_host)
    if arguments.vms:
        here = int(os.environ["RDMA_VM_RANK"])
        ranks = [r for r in ranks if r // arguments.per_host == here]
    address = f"10.77.0.1:{arguments.port}"
    before = [sent(h) for h in range(arguments.hosts)] if arguments.wire else []
    processes = [start(arguments, rank, address) for rank in ranks]
    status = 0
    for rank, process in zip(ranks, processes):
        out, err = process.communicate()
        status = status or process.returncode
        if rank == 0:
            print(out, end="")
        if process.returncode != 0 or err:
            print(f"rank {rank}, status {process.returncode}: {err}", file=sys.stderr, end="")
    for host, (number, packets) in enumerate(before):
        after = sent(host)
        print(f"host {host}: {after[0] - number} bytes, {after[1] - packets} packets")
    return status


if __name__ == "__main__":
    sys.exit(main())
