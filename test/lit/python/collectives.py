"""Every collective against NumPy: types, ops, counts, ranks, in place and not.

    python3 collectives.py threads|fork RANKS...
"""
import sys

import numpy as np

import ccl
from support import TYPES, check, numbers, reduced

COUNTS = (0, 1, 2, 17, 300, 4097)


def case(comm, collective, type, op, root, count, in_place):
    """One call on one rank, and what it should have done."""
    rank, n = comm.rank, comm.size
    what = (f"{collective} {op} {type.name} root {root} count {count} rank {rank} of {n} "
            f"{'in place' if in_place else 'out of place'}")
    wide = collective in ("reduce_scatter", "scatter", "all_to_all")
    inputs = [numbers(r, count * (n if wide else 1)) for r in range(n)]
    x = type.encode(inputs[rank])
    keywords = dict(type.keywords())
    if op:
        keywords["op"] = op
    if collective in ("broadcast", "reduce", "gather", "scatter"):
        keywords["root"] = root
    targets = [(r + 1 + root) % n for r in range(n)]
    if collective == "permute":
        keywords["targets"] = targets

    out = None
    if in_place and collective in ("all_gather", "gather"):
        out = type.encode(np.zeros(count * n))
        out[rank * count:(rank + 1) * count] = x
        x = out[rank * count:(rank + 1) * count]
    elif in_place and collective in ("reduce_scatter", "scatter"):
        out = x[rank * count:(rank + 1) * count]
    elif in_place:
        out = x
    before = None if in_place else x.copy()
    got = getattr(comm, collective)(x, out=out, **keywords)

    shard = slice(rank * count, (rank + 1) * count)
    source = targets.index(rank)
    if collective in ("reduce", "gather") and rank != root:
        assert got is None, what
    else:
        wanted = {
            "all_reduce": lambda: reduced(op, inputs, type),
            "reduce": lambda: reduced(op, inputs, type),
            "reduce_scatter": lambda: reduced(op, inputs, type)[shard],
            "all_gather": lambda: np.concatenate(inputs),
            "gather": lambda: np.concatenate(inputs),
            "broadcast": lambda: inputs[root],
            "scatter": lambda: inputs[root][shard],
            "all_to_all": lambda: np.concatenate([each[shard] for each in inputs]),
            "permute": lambda: inputs[source],
        }[collective]()
        check(got, type, wanted, what)
        assert got.dtype == type.dtype and (out is None or got is out), what
    if before is not None:
        assert (before == x).all(), f"{what}: x was changed"


def cases(n):
    for type in TYPES:
        yield "all_reduce", type, "sum", 0
    for op in ("prod", "min", "max", "avg"):
        for type in ("i32", "f32", "bf16"):
            yield "all_reduce", type, op, 0
    for op in ("band", "bor", "bxor"):
        for type in ("u8", "i64"):
            yield "all_reduce", type, op, 0
    for type in ("f32", "i8", "bf16"):
        yield "all_gather", type, None, 0
        yield "all_to_all", type, None, 0
        yield "reduce_scatter", type, "sum", 0
        for root in {0, n - 1}:
            yield "broadcast", type, None, root
            yield "reduce", type, "sum", root
            yield "gather", type, None, root
            yield "scatter", type, None, root
        yield "permute", type, None, 1 % n
    yield "reduce_scatter", "f64", "avg", 0
    yield "reduce", "u32", "max", 0


def work(comm):
    done = 0
    for collective, type, op, root in cases(comm.size):
        for count in COUNTS:
            for in_place in (False, True):
                case(comm, collective, TYPES[type], op, root, count, in_place)
                done += 1
    comm.barrier()
    return done


if __name__ == "__main__":
    method = sys.argv[1]
    assert len(sys.argv) > 2
    for n in map(int, sys.argv[2:]):
        done = ccl.run(work, ranks=n, method=method)
        print(f"{method}: {n} ranks, {done[0]} calls right")
        assert min(done) == max(done) > 500
