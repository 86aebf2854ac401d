"""The collectives of a communicator, on arrays."""

import math
import re
import textwrap

from ._ccl import Collective as _Collective
from ._options import op_name, program_of, text, type_name, whole, wholes
from ._streams import handle_of


# What the documentation of several collectives has in common, by the name that stands for it.
_SHARED = {
    "call": """\
**call
    dtype, stream, timeout, algorithm, program: see the class.""",
    "counts": """\
counts : sequence of int
    Elements of each rank's shard, the same everywhere.""",
    "op": """\
op : str
    As of `all_reduce`.""",
    "returns_like_x": """\
Returns
-------
array
    `out`, or a new array of the shape of `x`.""",
    "returns_flat": """\
Returns
-------
array
    `out`, or a new flat array.""",
    "returns_part": """\
Returns
-------
array
    `out`, or a new array: a part of `x` along the first axis, or flat if that axis
    cannot be cut.""",
}


def _documented(collectives):
    """Completes the documentation of the methods of a class."""
    for method in vars(collectives).values():
        if callable(method) and method.__doc__:  # there is none with python -OO
            method.__doc__ = re.sub(r"^( *)<(\w+)>$",
                                    lambda place: textwrap.indent(_SHARED[place[2]], place[1]),
                                    method.__doc__, flags=re.MULTILINE)
    return collectives


def _buffer(x):
    try:
        return memoryview(x)
    except TypeError:
        raise TypeError(f"x: {type(x).__name__} has no buffer; pass a NumPy array") from None


def _empty(shape, x):
    """A new array with the element type of `x`."""
    import numpy

    dtype = getattr(x, "dtype", None)
    return numpy.empty(shape, _buffer(x).format if dtype is None else dtype)


def _shape(x):
    shape = getattr(x, "shape", None)
    return _buffer(x).shape if shape is None else tuple(shape)


def _times(shape, ranks):
    """The shape of `ranks` such arrays, one after the other."""
    return (ranks * shape[0],) + shape[1:] if shape else (ranks,)


def _part(shape, ranks):
    """The shape of one of `ranks` equal parts."""
    if shape and shape[0] % ranks == 0:
        return (shape[0] // ranks,) + shape[1:]
    elements = math.prod(shape)
    if elements % ranks:
        raise ValueError(f"x: {elements} elements cannot be cut into {ranks} equal shards, one "
                         "for each rank")
    return (elements // ranks,)


def _total(counts, name):
    for i, count in enumerate(counts):
        if count < 0:
            raise ValueError(f"{name}[{i}]: {count} elements; needs to be at least 0")
    return sum(counts)


@_documented
class Collectives:
    """What `Communicator` inherits; its documentation has the arguments of all."""

    __slots__ = ()

    def _run(self, collective, x, out, *, op=None, root=0, targets=(), counts=None, receives=None,
             dtype=None, stream=None, timeout=None, algorithm="", program=None):
        self._handle.run(collective, x, out, op_name(op), whole(root, "root"), targets, counts,
                         receives, type_name(dtype), handle_of(stream), timeout,
                         text(algorithm, "algorithm"), program_of(program))
        return out

    def all_reduce(self, x, out=None, *, op="sum", **call):
        """Every rank gets the reduction of all `x`.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        out : array, optional
            As many elements as `x`; may be `x`.
        op : {"sum", "prod", "min", "max", "avg", "band", "bor", "bxor"}
            The last three take integers only.
        <call>

        <returns_like_x>
        """
        if out is None:
            out = _empty(_shape(x), x)
        return self._run(_Collective.all_reduce, x, out, op=op, **call)

    def all_gather(self, x, out=None, **call):
        """Every rank gets the `x` of all ranks, in their order.

        Parameters
        ----------
        x : array
            The same number of elements on every rank. In place: its part of `out`.
        out : array, optional
            ``size`` times as many elements.
        <call>

        Returns
        -------
        array
            `out`, or a new array: those of all ranks, joined along the first axis.
        """
        if out is None:
            out = _empty(_times(_shape(x), self.size), x)
        return self._run(_Collective.all_gather, x, out, **call)

    def reduce_scatter(self, x, out=None, *, op="sum", **call):
        """Rank r gets shard r of the reduction of all `x`.

        Parameters
        ----------
        x : array
            ``size`` shards of equal length, the same on every rank.
        out : array, optional
            One shard. In place: its part of `x`.
        <op>
        <call>

        <returns_part>
        """
        if out is None:
            out = _empty(_part(_shape(x), self.size), x)
        return self._run(_Collective.reduce_scatter, x, out, op=op, **call)

    def broadcast(self, x, out=None, *, root=0, **call):
        """Every rank gets the `x` of the root.

        Parameters
        ----------
        x : array
            Read on the root. On other ranks it only tells shape and type of a new array;
            with `out` it may be None there.
        out : array, optional
            As many elements; may be `x`.
        root : int
            The rank whose `x` it is.
        <call>

        <returns_like_x>
        """
        if out is None:
            out = _empty(_shape(x), x)
        return self._run(_Collective.broadcast, x, out, root=root, **call)

    def reduce(self, x, out=None, *, op="sum", root=0, **call):
        """The root gets the reduction of all `x`.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        out : array, optional
            As many elements; may be `x`. Not looked at on other ranks than the root.
        <op>
        root : int
            The rank that gets the result.
        <call>

        Returns
        -------
        array or None
            On the root `out`, or a new array of the shape of `x`; None on other ranks.
        """
        out = self._rooted(root, out, lambda: _empty(_shape(x), x))
        return self._run(_Collective.reduce, x, out, op=op, root=root, **call)

    def gather(self, x, out=None, *, root=0, **call):
        """The root gets the `x` of all ranks, in their order.

        Parameters
        ----------
        x : array
            The same number of elements on every rank. In place on the root: its part of `out`.
        out : array, optional
            ``size`` times as many elements. Not looked at on other ranks than the root.
        root : int
            The rank that gets them.
        <call>

        Returns
        -------
        array or None
            On the root `out`, or a new array: those of all ranks, joined along the first axis.
            None on other ranks.
        """
        out = self._rooted(root, out, lambda: _empty(_times(_shape(x), self.size), x))
        return self._run(_Collective.gather, x, out, root=root, **call)

    def scatter(self, x, out=None, *, root=0, **call):
        """Rank r gets shard r of the `x` of the root.

        Parameters
        ----------
        x : array or None
            ``size`` shards of equal length. Read on the root; on other ranks it only tells
            shape and type of a new array.
        out : array, optional
            One shard. In place on the root: its part of `x`. Needed where `x` is None.
        root : int
            The rank whose `x` it is.
        <call>

        <returns_part>
        """
        if out is None:
            if x is None:
                raise ValueError("out: is needed where x is None, which has no shape")
            out = _empty(_part(_shape(x), self.size), x)
        return self._run(_Collective.scatter, x, out, root=root, **call)

    def all_to_all(self, x, out=None, **call):
        """Shard r of every rank's `x` goes to rank r.

        Parameters
        ----------
        x : array
            ``size`` shards of equal length, the same on every rank.
        out : array, optional
            As many elements; may be `x`. Shard r came from rank r.
        <call>

        <returns_like_x>
        """
        if out is None:
            out = _empty(_shape(x), x)
        return self._run(_Collective.all_to_all, x, out, **call)

    def permute(self, x, targets, out=None, **call):
        """Rank r's `x` goes to rank ``targets[r]``.

        Parameters
        ----------
        x : array
            The same number of elements on every rank.
        targets : sequence of int
            A permutation of the ranks, the same everywhere.
        out : array, optional
            As many elements; may be `x`.
        <call>

        <returns_like_x>
        """
        targets = wholes(targets, "targets")
        if sorted(targets) != list(range(self.size)):
            raise ValueError(f"targets: {targets} is no permutation of the ranks 0 to "
                             f"{self.size - 1}")
        if out is None:
            out = _empty(_shape(x), x)
        return self._run(_Collective.permute, x, out, targets=targets, **call)

    def barrier(self, *, stream=None, timeout=None, algorithm=""):
        """Returns when all ranks have called it; arguments: see the class."""
        self._handle.barrier(handle_of(stream), timeout, algorithm)

    # ---- uneven shards ----

    def all_gather_v(self, x, counts, out=None, **call):
        """Every rank gets the `x` of all ranks, of different lengths, in their order.

        Parameters
        ----------
        x : array
            ``counts[rank]`` elements.
        <counts>
        out : array, optional
            ``sum(counts)`` elements.
        <call>

        <returns_flat>
        """
        counts = wholes(counts, "counts", 63)
        if out is None:
            out = _empty((_total(counts, "counts"),), x)
        return self._run(_Collective.all_gather, x, out, counts=counts, **call)

    def reduce_scatter_v(self, x, counts, out=None, *, op="sum", **call):
        """Rank r gets shard r, of ``counts[r]`` elements, of the reduction of all `x`.

        Parameters
        ----------
        x : array
            ``sum(counts)`` elements.
        <counts>
        out : array, optional
            ``counts[rank]`` elements.
        <op>
        <call>

        <returns_flat>
        """
        counts = wholes(counts, "counts", 63)
        if out is None:
            out = _empty((self._own(counts),), x)
        return self._run(_Collective.reduce_scatter, x, out, counts=counts, op=op, **call)

    def gather_v(self, x, counts, out=None, *, root=0, **call):
        """The root gets the `x` of all ranks, of different lengths, in their order.

        Parameters
        ----------
        x : array
            ``counts[rank]`` elements.
        <counts>
        out : array, optional
            ``sum(counts)`` elements. Not looked at on other ranks than the root.
        root : int
            The rank that gets them.
        <call>

        Returns
        -------
        array or None
            On the root `out`, or a new flat array; None on other ranks.
        """
        counts = wholes(counts, "counts", 63)
        out = self._rooted(root, out, lambda: _empty((_total(counts, "counts"),), x))
        return self._run(_Collective.gather, x, out, counts=counts, root=root, **call)

    def scatter_v(self, x, counts, out=None, *, root=0, **call):
        """Rank r gets shard r, of ``counts[r]`` elements, of the `x` of the root.

        Parameters
        ----------
        x : array or None
            ``sum(counts)`` elements. Read on the root; on other ranks it only tells the type
            of a new array.
        <counts>
        out : array, optional
            ``counts[rank]`` elements. Needed where `x` is None.
        root : int
            The rank whose `x` it is.
        <call>

        <returns_flat>
        """
        counts = wholes(counts, "counts", 63)
        if out is None:
            if x is None:
                raise ValueError("out: is needed where x is None, which has no type")
            out = _empty((self._own(counts),), x)
        return self._run(_Collective.scatter, x, out, counts=counts, root=root, **call)

    def all_to_all_v(self, x, sends, receives, out=None, **call):
        """``sends[r]`` elements of `x` go to rank r, ``receives[r]`` come from it.

        Parameters
        ----------
        x : array
            ``sum(sends)`` elements, shard after shard.
        sends, receives : sequence of int
            Elements to and from each rank. What a rank sends to another is what that one
            receives from it.
        out : array, optional
            ``sum(receives)`` elements, shard after shard.
        <call>

        <returns_flat>
        """
        sends, receives = wholes(sends, "sends", 63), wholes(receives, "receives", 63)
        if out is None:
            out = _empty((_total(receives, "receives"),), x)
        return self._run(_Collective.all_to_all, x, out, counts=sends, receives=receives, **call)

    # ---- helpers ----

    def _rooted(self, root, out, make):
        """`out` of a collective whose result only the root gets."""
        if self.rank != whole(root, "root"):
            return None
        return make() if out is None else out

    def _own(self, counts):
        _total(counts, "counts")
        if len(counts) != self.size:
            raise ValueError(f"counts: has {len(counts)} entries, needs one for each of "
                             f"{self.size} ranks")
        return counts[self.rank]
