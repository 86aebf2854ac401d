"""Shards of different lengths against NumPy.

    python3 uneven.py threads|fork
"""
import sys

import numpy as np

import ccl
from support import TYPES, check, numbers, reduced


def gather_like(comm, type, counts, root):
    rank, inputs = comm.rank, [numbers(r, counts[r]) for r in range(comm.size)]
    x, all = type.encode(inputs[rank]), np.concatenate(inputs)
    what = f"{type.name} {counts} rank {rank}"
    check(comm.all_gather_v(x, counts, **type.keywords()), type, all, f"all_gather_v {what}")
    got = comm.gather_v(x, counts, root=root, **type.keywords())
    if rank == root:
        check(got, type, all, f"gather_v {what}")
    else:
        assert got is None
    # In place: x is its part of out.
    out, begin = type.encode(np.zeros(sum(counts))), sum(counts[:rank])
    part = out[begin:begin + counts[rank]]
    part[:] = x
    assert comm.all_gather_v(part, counts, out, **type.keywords()) is out
    check(out, type, all, f"all_gather_v in place {what}")


def scatter_like(comm, type, counts, root):
    rank, n = comm.rank, comm.size
    inputs = [numbers(r, sum(counts)) for r in range(n)]
    shard = slice(sum(counts[:rank]), sum(counts[:rank + 1]))
    what = f"{type.name} {counts} rank {rank}"
    x = type.encode(inputs[rank])
    for op in ("sum", "max"):
        check(comm.reduce_scatter_v(x, counts, op=op, **type.keywords()), type,
              reduced(op, inputs, type)[shard], f"reduce_scatter_v {op} {what}")
    given = x if rank == root else None
    out = np.empty(counts[rank], type.dtype)
    comm.scatter_v(given, counts, out, root=root, **type.keywords())
    check(out, type, inputs[root][shard], f"scatter_v {what}")


def all_to_all(comm, type, seed):
    rank, n = comm.rank, comm.size
    table = np.random.default_rng(seed).integers(0, 40, (n, n))  # [from, to]
    inputs = [numbers(r, int(table[r].sum())) for r in range(n)]
    begins = np.cumsum(np.pad(table, ((0, 0), (1, 0))), axis=1)
    wanted = np.concatenate([inputs[r][begins[r, rank]:begins[r, rank + 1]] for r in range(n)])
    got = comm.all_to_all_v(type.encode(inputs[rank]), table[rank], table[:, rank],
                            **type.keywords())
    check(got, type, wanted, f"all_to_all_v {type.name} {table.tolist()} rank {rank}")


def work(comm):
    n = comm.size
    patterns = [[0] * n, [1] * n, [r for r in range(n)], [17 * (n - r) for r in range(n)],
                [4097 if r == n - 1 else 0 for r in range(n)], [300 + r for r in range(n)]]
    for name in ("f32", "u8", "bf16"):
        for counts in patterns:
            gather_like(comm, TYPES[name], counts, n - 1)
            scatter_like(comm, TYPES[name], counts, n - 1)
        for seed in range(4):
            all_to_all(comm, TYPES[name], seed)
    # A program of one's own takes them as well.
    program = comm.program("all_gather", type="f32")
    counts = patterns[3]
    out = np.empty(sum(counts), np.float32)
    comm.launch_v(program, np.full(counts[comm.rank], comm.rank, np.float32), out, counts)
    assert (out == np.repeat(np.arange(n), counts)).all()
    return "right"


if __name__ == "__main__":
    for n in (1, 2, 3, 4):
        assert ccl.run(work, ranks=n, method=sys.argv[1]) == ["right"] * n
        print(f"{sys.argv[1]}: {n} ranks right")
