"""What an algorithm promises, and `ccl.compile` proves.

Each function returns a contract for `ccl.Algorithm`.
"""

from . import _ccl
from ._options import op_name, whole, wholes

__all__ = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
           "scatter", "all_to_all", "permute", "barrier", "custom"]


def all_reduce(op="sum"):
    """Every rank ends with the reduction of all inputs."""
    return _ccl.contract_all_reduce(op_name(op))


def all_gather():
    """Every rank ends with all inputs, in the order of ranks."""
    return _ccl.contract_all_gather()


def reduce_scatter(op="sum"):
    """Rank r ends with shard r of the reduction of all inputs."""
    return _ccl.contract_reduce_scatter(op_name(op))


def broadcast(root=0):
    """Every rank ends with the root's input."""
    return _ccl.contract_broadcast(whole(root, "root"))


def reduce(op="sum", root=0):
    """The root ends with the reduction of all inputs."""
    return _ccl.contract_reduce(op_name(op), whole(root, "root"))


def gather(root=0):
    """The root ends with all inputs, in the order of ranks."""
    return _ccl.contract_gather(whole(root, "root"))


def scatter(root=0):
    """Rank r ends with shard r of the root's input."""
    return _ccl.contract_scatter(whole(root, "root"))


def all_to_all():
    """Shard r of every rank's input goes to rank r."""
    return _ccl.contract_all_to_all()


def permute(targets):
    """Rank r's input goes to rank ``targets[r]``."""
    return _ccl.contract_permute(wholes(targets, "targets"))


def barrier():
    """Nobody is done before all have come."""
    return _ccl.contract_barrier()


def custom(rows=(), op=None):
    """Anything, said row by row.

    Parameters
    ----------
    rows : iterable of (out_rank, out_chunk, in_rank, in_chunk)
        Chunk `out_chunk` of the output of `out_rank` holds the reduction of all its rows'
        chunks `in_chunk` of the input of `in_rank`. Without rows nothing is promised and only
        safety is proved.
    op : str, optional
        The reduction, if there is one.
    """
    rows = [tuple(wholes(row, f"rows[{i}]", 63)) for i, row in enumerate(rows)]
    for i, row in enumerate(rows):
        if len(row) != 4:
            raise ValueError(f"rows[{i}]: has {len(row)} numbers, needs 4: out_rank, out_chunk, "
                             "in_rank, in_chunk")
    return _ccl.contract_custom(rows, op_name(op))
