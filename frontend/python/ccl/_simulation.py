"""Programs simulated on topologies."""

import os
import typing

from . import _ccl
from ._builder import Algorithm
from ._options import (is_path, number, number_or_none, op_name, sizes_of, text, type_name, whole,
                       wholes)


class LinkUse(typing.NamedTuple):
    """What a link carried."""

    link: int
    """Index into `Topology.links`."""
    source: str
    """Name of the node that it leaves."""
    destination: str
    """Name of the node that it enters."""
    bytes: float
    busy_us: float


class AgentUse(typing.NamedTuple):
    """What an agent of a rank did until it ended, in microseconds; all of it adds up to
    `end_us`."""

    rank: int
    agent: int
    launch_us: float
    """Until its first instruction."""
    busy_us: float
    """Transfers, without what follows."""
    link_us: float
    """Its links were busy with other messages, or not there."""
    change_us: float
    """Of this, the fabric was changing links."""
    slot_us: float
    """No slot was free."""
    data_us: float
    """Nothing was in the slot."""
    signal_us: float
    """There was no signal."""
    batch_us: float
    """Others had not ended the micro-batch."""
    end_us: float


class PathPart(typing.NamedTuple):
    """A part of what the end of a simulation had to wait for. Each ends where the next begins."""

    kind: str
    """"launch"; "run": an instruction; "flight": a message or signal on its way; "wait": for other
    agents."""
    begin_us: float
    end_us: float
    queued_us: float
    """Of a flight: this long it waited for links."""
    change_us: float
    """Of this, until the fabric had changed its links."""
    rank: typing.Optional[int]
    """Whose instruction it is, or who sent it."""
    peer: typing.Optional[int]
    """To whom it flies."""
    what: str
    """In words."""


def simulate(self, program, bytes=None, *, counts=None, type=None, op=None, algorithm="",
             sizes=None, root=0, grid=(), targets=(), via="", slots=None, label="<text>",
             model="ccl", sharing="fifo", micro_batches=None, batch_order="rank", launch=None,
             sync=None, overhead=None, lane=None, epoch=None, curves=(), bound=True, gap=0.02,
             time_limit=60):
    """How long a program takes here, as `ccl sim` says it. It is proved first.

    Parameters
    ----------
    program : ccl.Program, ccl.Algorithm, str or os.PathLike
        What `ccl.compile` and `ccl.generate` made, or was built; a text or a path as of
        `ccl.compile`; or the name of a collective, "all_reduce", of which `algorithm` is run.
        All but the first are not compiled to code. It has as many ranks as the topology.
    bytes : int or sequence of int
        nccl-tests' size: the larger buffer. It is cut to whole elements of equal shards.
    counts : sequence of int
        Instead of it, for uneven shards: elements of every rank's shard, or, of all_to_all, of
        pair ``sender * ranks + receiver``. Fewer go around. No bound is known.
    type, op, algorithm, sizes, root, grid, targets, via, slots, label
        As of `ccl.compile` and `ccl.generate`; a `ccl.Program` has them already.
    model : str
        Cost model: "ccl", "taccl", "tacos", "teccl", "nccl:simple", ...
    sharing : {"fifo", "fair"}
        Links serve first come, first served, or all messages at once.
    micro_batches : int, optional
        Slices of every chunk; else as a launch here would cut.
    batch_order : {"rank", "agent", "barrier"}
        An agent begins its next micro-batch when all of its rank have ended this one, at once, or
        when all of all ranks have.
    launch, sync, overhead, lane, epoch : float, optional
        Instead of the model's: microseconds until the first instruction, of a signal, and of a
        message on each link; GB/s at which an agent reads what it moves; microseconds of an epoch.
    curves : sequence of str
        Measured times by kind of way, "KIND=FILE" as of ``ccl sim --curve``; of several that fit
        the last counts.
    bound : bool
        Whether the limit beside it is computed, with `gap` and `time_limit` as of
        `Topology.bound`.

    Returns
    -------
    ccl.Simulation
        Or a list of them, if `bytes` is a sequence; the program is proved once.

    Raises
    ------
    ccl.ProgramError
        The program is wrong, gets stuck, or sends where the topology has no way but through other
        ranks; the text begins with ``file:line:column`` if it has a place.
    ccl.ArgumentError
        It is for another number of ranks, or the options do not fit.
    KeyboardInterrupt
        Or what else a signal handler raises. What was begun goes on in a thread that nobody waits
        for, until it is done.
    """
    if (bytes is None) == (counts is None):
        raise ValueError("bytes: needs a size, or counts, and not both")
    one = counts is not None or isinstance(bytes, str) or not hasattr(bytes, "__iter__")
    asked = ([0] if counts is not None else [whole(bytes, "bytes", 63)] if one
             else wholes(bytes, "bytes", 63))
    numbers = [number_or_none(value, name) for name, value in (
        ("launch", launch), ("sync", sync), ("overhead", overhead), ("lane", lane),
        ("epoch", epoch))]
    options = (None if counts is None else wholes(counts, "counts", 63), text(model, "model"),
               text(sharing, "sharing"),
               0 if micro_batches is None else _positive(micro_batches, "micro_batches"),
               text(batch_order, "batch_order"), *numbers,
               [text(each, f"curves[{i}]") for i, each in enumerate(_listed(curves, "curves"))],
               bool(bound), number(gap, "gap"), time_limit)
    simulator = _simulator(self._handle, program, dict(
        type=type, op=op, algorithm=algorithm, sizes=sizes, root=root, grid=grid, targets=targets,
        via=via, slots=slots), text(label, "label"))
    runs = [Simulation(self, simulator, simulator.run(each, *options)) for each in asked]
    return runs[0] if one else runs


def _listed(values, argument):
    if isinstance(values, str):
        raise TypeError(f"{argument}: {values!r} is one text, not a sequence of them")
    return values


def _positive(value, argument):
    value = whole(value, argument, 63)
    if value < 1:
        raise ValueError(f"{argument}: {value} is below 1")
    return value


def _refuse(program, given, names):
    """Options that what is simulated cannot have."""
    for name in names:
        if given[name] or given[name] == 0 and name == "slots":
            raise ValueError(f"{name}: {program!r} has none, or has its own")


def _simulator(topology, program, given, label):
    if isinstance(program, _ccl.Program):
        _refuse(program, given, given)
        return _ccl.simulator(topology, program)
    dtype, op = type_name(given["type"] or "f32", "type"), op_name(given["op"])
    via = text(given["via"] or "", "via")
    slots = 2 if given["slots"] is None else whole(given["slots"], "slots")
    if isinstance(program, Algorithm):
        _refuse(program, given, ("algorithm", "sizes", "root", "grid", "targets"))
        return _ccl.simulator(topology, program._notes, dtype, op, via, slots)
    if not isinstance(program, (str, os.PathLike)):
        raise TypeError(f"program: {program!r} is neither a ccl.Program, a ccl.Algorithm, a text, "
                        "a path nor the name of a collective")
    kind = "path" if is_path(program) else "text"
    source = os.fsdecode(program)
    if isinstance(program, str) and source.isidentifier():
        kind = "collective"
        _refuse(source, given, ("sizes",))
    else:
        _refuse(source, given, ("root", "grid", "targets"))
    return _ccl.simulator(topology, kind, source, label, 0, dtype, op,
                          text(given["algorithm"], "algorithm"), sizes_of(given["sizes"]),
                          whole(given["root"], "root"), wholes(given["grid"], "grid"),
                          wholes(given["targets"], "targets"), via, slots)


class Simulation:
    """A launch of a program on a topology; `Topology.simulate` makes it.

    Bandwidths are in GB/s of 1e9 bytes a second, times in microseconds. What happened when is
    not kept: the first of `critical_path`, `trace`, `html` and their like simulates again.
    """

    __slots__ = ("_topology", "_simulator", "_handle", "_links", "_agents")

    def __init__(self, topology, simulator, handle):
        self._topology = topology
        self._simulator = simulator
        self._handle = handle
        self._links = self._agents = None

    @property
    def program(self):
        """Name of the algorithm."""
        return self._simulator.name

    @property
    def collective(self):
        """What it does, "all_reduce" for example."""
        return self._simulator.collective

    @property
    def bytes(self):
        """nccl-tests' size: at most what was asked for."""
        return self._handle.bytes

    @property
    def count(self):
        """Elements of a shard; of the longest."""
        return self._handle.count

    @property
    def micro_batches(self):
        """Slices of every chunk."""
        return self._handle.micro_batches

    @property
    def model(self):
        """Name of the cost model. Figures of different models cannot be compared."""
        return self._handle.model

    @property
    def time_us(self):
        """Until the last agent has ended and the last message arrived."""
        return self._handle.us

    @property
    def algbw(self):
        """`bytes` over `time_us`, GB/s."""
        return self._handle.algbw

    @property
    def busbw(self):
        """nccl-tests' bus bandwidth, GB/s."""
        return self._handle.busbw

    @property
    def bound_us(self):
        """No launch of `bytes` takes less; None if no limit was computed."""
        return self._handle.bound_us if self._handle.bound else None

    @property
    def bound_algbw(self):
        """No schedule has a higher bandwidth, GB/s; None if no limit was computed."""
        return self._handle.bound.algbw if self._handle.bound else None

    @property
    def certificate(self):
        """Why, in a sentence; None if no limit was computed."""
        return self._handle.bound.certificate if self._handle.bound else None

    @property
    def ratio(self):
        """`bound_us` over `time_us`, at most 1; None if no limit was computed."""
        return self._handle.ratio if self._handle.bound else None

    @property
    def messages(self):
        """How many messages there were."""
        return self._handle.messages

    @property
    def events(self):
        """How many events were simulated."""
        return self._handle.events

    @property
    def links(self):
        """Tuple of `ccl.LinkUse`, of the links that carried something."""
        if self._links is None:
            name, links = self._topology.node_name, self._topology.links
            self._links = tuple(
                LinkUse(i, name(links[i].source), name(links[i].destination), carried, busy)
                for i, carried, busy in self._handle.links())
        return self._links

    @property
    def agents(self):
        """Tuple of `ccl.AgentUse`, of all agents of all ranks."""
        if self._agents is None:
            self._agents = tuple(AgentUse(*each) for each in self._handle.agents())
        return self._agents

    @property
    def idle(self):
        """Why agents did nothing, dict of reason to microseconds, all agents together: "link",
        "slot", "data", "signal", "batch", and of "link" "change"; see `ccl.AgentUse`."""
        return {reason: sum(getattr(each, reason + "_us") for each in self.agents)
                for reason in ("link", "change", "slot", "data", "signal", "batch")}

    @property
    def critical_path(self):
        """What the end had to wait for, from time 0 to `time_us`: list of `ccl.PathPart`."""
        return [PathPart(kind, *times, None if rank < 0 else rank, None if peer < 0 else peer, what)
                for kind, *times, rank, peer, what in self._handle.critical_path()]

    def trace(self):
        """For chrome://tracing or Perfetto: JSON text."""
        return self._handle.trace()

    def html(self):
        """A page with the topology, the timeline and tables; it refers to no other file."""
        return self._handle.html()

    def write_trace(self, path):
        """Writes `trace` to a file, which has all of it or is as it was before.

        Raises
        ------
        ccl.MachineError
            It cannot be written.
        """
        self._handle.write_trace(os.fsdecode(path))

    def write_html(self, path):
        """Writes `html` to a file; as `write_trace`."""
        self._handle.write_html(os.fsdecode(path))

    def __repr__(self):
        beside = "" if self.ratio is None else f", {100 * self.ratio:.3g} % of the bound"
        return (f"<ccl.Simulation {self.program} on {self._topology.name}: {self.bytes} bytes in "
                f"{self.time_us:.6g} us, {self.algbw:.6g} GB/s{beside}>")
