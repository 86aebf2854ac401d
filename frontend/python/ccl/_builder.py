"""Algorithms written as Python loops."""

import contextlib

from . import _ccl
from ._options import op_name, type_name, whole


class Algorithm:
    """A program for all ranks, written move by move.

    The rules of moves, steps and chunks are those of the text form, docs/semantics.md. Moves
    outside of steps happen one after the other, steps too. Every move remembers the line that
    wrote it: ranks and chunks that do not exist, a second `inout` and all that the proof finds
    are `ccl.ProgramError` of `compile`, and its text begins with that line.

    Parameters
    ----------
    name : str
        Its name in messages.
    contract
        What it promises; see `ccl.contract`.
    ranks : int
        Number of ranks.

    Examples
    --------
    A ring reduce-scatter and all-gather::

        a = ccl.Algorithm("ring", ccl.contract.all_reduce("sum"), ranks=n)
        x = a.inout(chunks=n)
        for move in a.reduce, a.copy:
            for s in range(n - 1):
                with a.step():
                    for r in range(n):
                        c = (r - s + (move == a.copy)) % n
                        move(x[r, c], x[(r + 1) % n, c])
        program = a.compile()
    """

    def __init__(self, name, contract, ranks):
        if not isinstance(contract, _ccl.Contract):
            raise TypeError(f"contract: {contract!r} is none of those that ccl.contract makes")
        self._notes = _ccl.Algorithm(name, contract, whole(ranks, "ranks"))

    def inout(self, chunks, name=""):
        """The buffer in which the input is and the output will be; instead of `input` and
        `output`.

        Parameters
        ----------
        chunks : int
            Chunks on every rank. Any number of elements is cut into them.
        name : str
            For messages; "" takes "x".

        Returns
        -------
        ccl.Buffer
            ``x[rank, chunk]`` is a place in it.
        """
        return self._notes.buffer("inout", chunks, name or "x")

    def input(self, chunks, name=""):
        """The buffer of the input, at most one; `name` "" takes "in". As `inout`."""
        return self._notes.buffer("in", chunks, name or "in")

    def output(self, chunks, name=""):
        """The buffer of the output, at most one; `name` "" takes "out". As `inout`."""
        return self._notes.buffer("out", chunks, name or "out")

    def scratch(self, chunks, name=""):
        """A buffer for partial results, undefined at first; `name` "" takes "t". As `inout`."""
        return self._notes.buffer("scratch", chunks, name or "t")

    def copy(self, source, into, count=1):
        """Overwrites a place.

        Parameters
        ----------
        source, into : ccl.Place
            Where from and where to, ``x[rank, chunk]``.
        count : int
            So many adjacent chunks from there on.
        """
        self._move(self._notes.copy, source, into, count)

    def reduce(self, source, into, count=1):
        """Combines a place into what is in another one; parameters as of `copy`."""
        self._move(self._notes.reduce, source, into, count)

    @staticmethod
    def _move(note, source, into, count):
        for name, place in (("source", source), ("into", into)):
            if not isinstance(place, _ccl.Place):
                raise TypeError(f"{name}: {place!r} is no place of a buffer like x[rank, chunk]")
        note(source, into, whole(count, "count", 63))

    @contextlib.contextmanager
    def step(self):
        """The moves of the ``with`` block form one parallel step: they are independent of each
        other, which is proved. A step within a step is a part of it."""
        self._notes.begin_step()
        try:
            yield
        finally:
            self._notes.end_step()

    def compile(self, *, type="f32", op=None, via="", slots=2):
        """Proves it and compiles it; parameters, result and errors as of `ccl.compile`."""
        return self._notes.compile(type_name(type, "type"), op_name(op), via or "",
                                   whole(slots, "slots"))

    def text(self):
        """The algorithm as MLIR text.

        Raises
        ------
        ccl.ProgramError
            It cannot be written, because a place does not exist for example.
        """
        return self._notes.text()

    @property
    def name(self):
        """Its name in messages."""
        return self._notes.name

    @property
    def contract(self):
        """What it promises."""
        return self._notes.contract

    @property
    def ranks(self):
        """Number of ranks."""
        return self._notes.ranks

    @property
    def moves(self):
        """How many moves were written so far."""
        return self._notes.moves

    def __repr__(self):
        return f"<ccl.Algorithm {self.name}: {self.ranks} ranks, {self.moves} moves>"
