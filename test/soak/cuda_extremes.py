"""Programs at the edges of what kernels are made for: see works()."""

# 300 transfers in one block; 40 blocks on every rank; 33 peers; chunks of 3 bytes.
INSTRUCTIONS = 300
BLOCKS = 40
PEERS = 33


def exchange(name, blocks, chunks):
    """An all_gather of two ranks, as programs: each sends its chunks one by one and receives the
    other's, in `blocks` blocks that have channels of their own."""
    lines = [f"ccl.algorithm @{name} implements #ccl.contract<all_gather> lowered {{",
             f"  %in = ccl.buffer in ranks(2) chunks({chunks})",
             f"  %out = ccl.buffer out ranks(2) chunks({2 * chunks})",
             "}"]
    for rank in (0, 1):
        peer = 1 - rank
        lines += [f"ccl.program @{name}.{rank} of @{name} ranks({rank}) {{",
                  f"  %in = ccl.buffer in chunks({chunks})",
                  f"  %out = ccl.buffer out chunks({2 * chunks})"]
        for block in range(blocks):
            lines += [f"  %to{block} = ccl.channel to {peer} tag {block} slots 2",
                      f"  %from{block} = ccl.channel from {peer} tag {block} slots 2"]
        for block in range(blocks):
            lines += [f"  ccl.block {block} {{"]
            for chunk in range(block, chunks, blocks):
                lines += [f"    ccl.transfer from %in[{chunk}] to %to{block}",
                          f"    ccl.transfer from %from{block} to "
                          f"%out[{peer * chunks + chunk}]",
                          f"    ccl.transfer from %in[{chunk}] to %out[{rank * chunks + chunk}]"]
            lines += ["  }"]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def works(soak):
    """What Soak.all() calls: each program runs on the stand-in and is compiled for GPUs."""
    ring = ["--collective", "all_reduce", "--algorithm", "ring", "-n", 4]
    programs = [
        ([soak.write("long.mlir", exchange("long", 1, INSTRUCTIONS // 3))], "1,300,4097,30011"),
        ([soak.write("blocks.mlir", exchange("blocks", BLOCKS, 2 * BLOCKS))], "1,300,4097,30011"),
        (["--collective", "all_to_all", "-n", PEERS + 1], "1,17,300"),
        # A chunk of four has 3 bytes, or one more or less.
        ([*ring, "-d", "int8"], "11,12,13,24"),
        ([*ring, "-d", "uint8", "--via", "direct"], "11,12,13,24"),
        (["--collective", "all_reduce", "-n", 3], "10556587"),
    ]
    return [work(soak, source, counts, protocol)
            for source, counts in programs for protocol in soak.protocols
            if protocol != "lamport" or "-d" not in source]


def work(soak, source, counts, protocol):
    def go(sums):
        sums.programs += 1
        soak.run(sums, source, protocol, "--count", counts)
        soak.compile(sums, source, protocol)
    return go
