"""Compiling programs."""

import os

from . import _ccl
from ._builder import Algorithm
from ._options import is_path, op_name, sizes_of, text, type_name, whole, wholes


def compile(source, *, ranks=0, type="f32", op=None, algorithm="", sizes=None, via="", slots=2,
            label="<text>"):
    """Proves a program and compiles it.

    Parameters
    ----------
    source : str, os.PathLike or ccl.Algorithm
        Text in MLIR, an MSCCL XML algorithm or an MSCCL++ plan in JSON; a path, if it is a path
        object or a text of one line that ends in ".mlir", ".xml" or ".json"; or what was built
        with `ccl.Algorithm`.
    ranks : int
        Number of ranks. Of a text it binds the size parameter that `sizes` leaves open; what
        has a fixed size must have as many. 0: as the program says.
    type : str or dtype
        Type of the elements: "f32", "bf16", ``numpy.int32``.
    op : str, optional
        Instead of the reduction in the program's contract.
    algorithm : str
        Of a text with several: which one.
    sizes : dict of str to int, optional
        Size parameters of a text by name.
    via : {"", "auto", "staged", "direct"}
        How moves between ranks are lowered: through slots, from memory to memory, or as the
        compiler thinks best. "" takes CCL_VIA.
    slots : int
        Slots of every channel, 1 to 1024.
    label : str
        Stands for the file in diagnostics of a text.

    Returns
    -------
    ccl.Program

    Raises
    ------
    ccl.ProgramError
        It is wrong, or cannot be parsed; the text begins with ``file:line:column``. Of an
        `Algorithm` that is the line of Python that wrote the move.
    ccl.ArgumentError
        The options do not fit the program, or the file cannot be read.
    """
    ranks = whole(ranks, "ranks")
    if isinstance(source, Algorithm):
        if ranks not in (0, source.ranks):
            raise ValueError(f"ranks: {source!r} is written for {source.ranks} ranks, not for "
                             f"{ranks}")
        if sizes or algorithm:
            raise ValueError(f"{'sizes' if sizes else 'algorithm'}: is for texts; {source!r} is "
                             "one algorithm of fixed size")
        return source.compile(type=type, op=op, via=via, slots=slots)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source: {source!r} is neither a text, a path nor a ccl.Algorithm")
    return _ccl.compile(os.fspath(source), None if is_path(source) else text(label, "label"), ranks,
                        type_name(type, "type"), op_name(op), text(algorithm, "algorithm"),
                        sizes_of(sizes), via or "", whole(slots, "slots"))


def generate(collective, *, ranks, type="f32", op=None, algorithm="", root=0, grid=(), targets=(),
             via="", slots=2):
    """Compiles a known algorithm.

    Parameters
    ----------
    collective : str
        "all_reduce", "all_gather", ...
    ranks : int
        Number of ranks.
    type : str or dtype
        Type of the elements.
    op : str, optional
        The reduction; sum if the collective reduces and none is given.
    algorithm : str
        Name of the generator, one of ``ccl.generators(collective)``; "" takes CCL_ALGO, else
        the default.
    root : int
        The root of a collective that has one.
    grid : sequence of int
        Extents of the grid of ranks, for hierarchical generators.
    targets : sequence of int
        permute: rank r sends to ``targets[r]``; none: to the next rank.
    via, slots
        As of `ccl.compile`.

    Returns
    -------
    ccl.Program

    Raises
    ------
    ccl.ArgumentError
        There is no such generator, or it refuses; the text says why.
    """
    return _ccl.generate(collective, whole(ranks, "ranks"), type_name(type, "type"), op_name(op),
                         text(algorithm, "algorithm"), whole(root, "root"), wholes(grid, "grid"),
                         wholes(targets, "targets"), via or "", whole(slots, "slots"))


def generators(collective):
    """Names of the generators of a collective, the default first.

    Raises
    ------
    ValueError
        There is no such collective.
    """
    return _ccl.generators(collective)
