#!/usr/bin/env python3
"""Compares what leaves the NICs with what the algorithms' definitions say.

    bytes.py --bin build/dev/bin        (in `rdma-vm run --nics 2`)

Two hosts of two ranks each. What a communicator says of itself at its end, bytes in so many writes,
has to be what the algorithm needs between hosts; and the bytes that the NIC's network device has
sent have to be these and exact headers. Then the hierarchical all-reduce, of which only a part goes
between hosts, has to be faster than the flat ring.
"""

import argparse
import json
import pathlib
import re
import sys
import time

import ranks

SENT = re.compile(r"has sent to other hosts: (\d+) bytes in (\d+) writes, (\d+) packets, "
                  r"(\d+) immediates, (\d+) flags")
FLOAT = 4
HOSTS, PER_HOST = 2, 2
N = HOSTS * PER_HOST
# Of every packet: Ethernet, IPv4, UDP, and of InfiniBand the base transport header and the CRC.
PACKET = 14 + 20 + 8 + 12 + 4
RETH, IMMEDIATE, AETH, FLAG = 16, 4, 4, 8

# What a host sends to the other in one launch, if a shard has `s` bytes.
CASES = [
    # One rank of a host has the edge to the other: each of the 2 (n - 1) steps a part of n.
    ("all_reduce", ["ring"], lambda s: 2 * (N - 1) * s // N),
    # Both ranks have a half that they reduce with their peer: 2 (2 - 1) steps of half of that.
    ("all_reduce", ["hierarchical", "--grid", "2x2"], lambda s: PER_HOST * 2 * (s // 2 // 2)),
    ("all_gather", ["ring"], lambda s: (N - 1) * s),
    ("reduce_scatter", ["ring"], lambda s: (N - 1) * s),
    ("all_to_all", ["pairwise"], lambda s: PER_HOST * (N - PER_HOST) * s),
    ("permute", ["one_shot"], lambda s: s),
]


def run(arguments, collective, algorithm, count, iterations):
    """(JSON of rank 0, launches, per host: said and device's bytes and packets)."""
    rest = ["--collective", collective, "--algorithm", *algorithm, "--count", str(count), "-w", "0",
            "--iters", str(iterations), "-c", "1", "--out-of-place", "--json"]
    options = argparse.Namespace(hosts=HOSTS, per_host=PER_HOST, nics="rxe{host}", vms=False,
                                 bin=arguments.bin, rest=rest)
    before = [ranks.sent(host) for host in range(HOSTS)]
    address = f"10.77.0.1:{arguments.port}"
    debug = {"CCL_DEBUG": "INFO", "CCL_DEBUG_SUBSYS": "INIT", "CCL_COLL_TRACE": "1"}
    processes = [ranks.start(options, rank, address, debug) for rank in range(N)]
    said = [[0] * 5 for _ in range(HOSTS)]
    launches, result = 0, None
    for rank, process in enumerate(processes):
        out, err = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"rank {rank} ended with {process.returncode}: {out}{err}")
        for match in SENT.finditer(err):
            host = rank // PER_HOST
            said[host] = [a + int(b) for a, b in zip(said[host], match.groups())]
        if rank == 0:
            launches = err.count("INFO COLL #")
            result = json.loads(out.splitlines()[-1])
    devices = [[a - b for a, b in zip(ranks.sent(host), before[host])] for host in range(HOSTS)]
    return result, launches, list(zip(said, devices))


def check(name, expected, launches, host, said, device):
    """Prints a line; whether all is as it should be."""
    payload, writes, packets, immediates, flags = said
    sent, sent_packets = device
    acknowledgements = sent_packets - packets - flags
    headers = (RETH * writes + IMMEDIATE * immediates + (RETH + FLAG) * flags +
               PACKET * sent_packets + AETH * acknowledgements)
    good = payload == expected * launches and sent == payload + headers and acknowledgements >= 0
    print(f"{'ok' if good else 'WRONG'}: {name}, host {host}: {payload} bytes in {launches} launches"
          f" (defined: {expected * launches}), {writes} writes, {packets} packets, {flags} flags,"
          f" {acknowledgements} acknowledgements; the device sent {sent} bytes, headers and those:"
          f" {payload + headers}", flush=True)
    return good


def silence():
    """Waits until IPv6 has said all that it says of itself when a device appears."""
    for host in range(HOSTS):
        pathlib.Path(f"/proc/sys/net/ipv6/conf/nic{host}/router_solicitations").write_text("0")
    for _ in range(10):
        before = [ranks.sent(host) for host in range(HOSTS)]
        time.sleep(2)
        if before == [ranks.sent(host) for host in range(HOSTS)]:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, default=14792)
    parser.add_argument("--count", type=int, default=98304,
                        help="elements of a shard, of 4 bytes; what is not in anybody's row travels"
                        " in whole cache lines, so that slices had better be of these")
    arguments = parser.parse_args()
    silence()
    good = True
    for collective, algorithm, defined in CASES:
        name = f"{collective}/{algorithm[0]}"
        result, launches, hosts = run(arguments, collective, algorithm, arguments.count, 2)
        if result["wrong"] != 0 or launches == 0:
            print(f"WRONG: {name}: {result}, {launches} launches")
            good = False
        for host, (said, device) in enumerate(hosts):
            good &= check(name, defined(arguments.count * FLOAT), launches, host, said, device)
    times = {}
    for algorithm in (["ring"], ["hierarchical", "--grid", "2x2"]):
        result, _, _ = run(arguments, "all_reduce", algorithm, 1000000, 7)
        times[algorithm[0]] = result["time_us"]
    ratio = times["ring"] / times["hierarchical"]
    print(f"{'ok' if ratio > 1 else 'WRONG'}: all_reduce of 4 MB: ring {times['ring']:.0f} us, "
          f"hierarchical {times['hierarchical']:.0f} us: {ratio:.2f} times as fast")
    return 0 if good and ratio > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
