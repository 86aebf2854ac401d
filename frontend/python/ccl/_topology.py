"""Topologies: machines by name, from files, this one; and what no schedule on them can beat."""

import os
import typing

from . import _ccl
from ._options import number, text, whole
from ._simulation import simulate


class Link(typing.NamedTuple):
    """One direction of a link."""

    source: int
    """Node that it leaves; ranks are nodes 0 to ``ranks - 1``, switches follow."""
    destination: int
    """Node that it enters."""
    bandwidth: float
    """GB/s, 1e9 bytes a second."""
    latency: float
    """Microseconds."""


class Switch(typing.NamedTuple):
    """A node that is no rank."""

    name: str
    kind: str
    """"switch", "nic", "pcie" or "cpu"."""
    multicast: bool
    """It copies what it forwards."""
    reduce: bool
    """It adds up what it forwards."""


class NcclEstimate(typing.NamedTuple):
    """What NCCL's own model says of an algorithm with a protocol: its opinion, no measurement."""

    algorithm: str
    """"Ring", "Tree", "NVLS", ..."""
    protocol: str
    """"LL", "LL128" or "Simple"."""
    time_us: float
    algbw: float
    """GB/s, 1e9 bytes a second."""
    channels: int
    """Of its kernel."""
    threads: int
    """Of each channel."""
    taken: bool
    """This is what NCCL takes."""


def topology(source=None, *, detect=False, nodes=1, join="", rates="nominal", gpu="", pcie=0,
             nic=0.0, symbol="", forbid=(), label="<text>"):
    """A machine: ranks, switches, links. As `ccl topo` reads it.

    Parameters
    ----------
    source : str or os.PathLike
        A name that `topologies` lists ("dgx-h100:2", "torus:8x8"); a file: NCCL or RCCL topology
        XML, ``nvidia-smi topo -m`` or ``nvlink -s``, ``rocm-smi --showtopo``, an edge list, MLIR;
        or, if it has several lines, the text of such a file.
    detect : bool
        This machine, instead of `source`.
    nodes : int
        So many copies, joined by their NICs.
    join : str
        How: "rail" (""), "switch", "planes:P", "fat-tree:R[/B]" (R : 1 oversubscribed, B boxes a
        leaf), "graph:FILE".
    rates : {"nominal", "effective"}
        What makers say of links, or what NCCL counts with.
    gpu : str
        Which GPU it is, where a file does not say: "H100", "sm_90", "gfx942".
    pcie : int
        Generation of PCI Express, where a file does not say.
    nic : float
        GB/s of each NIC, where a file does not say.
    symbol : str
        Which one of a text with several ``ccl.topology``.
    forbid : str, int, or a sequence of them
        Not to use: links "0-3" (both directions), a switch "nic2", or a rank 5, which then neither
        takes part nor forwards; ranks that are left are numbered anew, in order.
    label : str
        Stands for the file in diagnostics of a text.

    Returns
    -------
    ccl.Topology

    Raises
    ------
    ccl.ProgramError
        The text is wrong; the error's text begins with ``file:line:column``.
    ccl.ArgumentError
        It cannot be read or names too little for a topology, or the options do not fit.
    """
    if (source is None) == (not detect):
        raise ValueError("source: needs a name, a path or a text, or detect=True, and not both")
    if isinstance(forbid, (str, int)):
        forbid = [forbid]
    content = None
    if source is not None:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"source: {source!r} is neither a name, a path nor a text")
        if isinstance(source, str) and "\n" in source:
            source, content = text(label, "label"), source
        source = os.fsdecode(source)
    return Topology(_ccl.open_topology(
        source, content, whole(nodes, "nodes", 63), text(join, "join"), text(rates, "rates"),
        text(gpu, "gpu"), whole(pcie, "pcie"), number(nic, "nic"), text(symbol, "symbol"),
        [str(each) for each in forbid]))


def topologies():
    """The names that `topology` knows.

    Returns
    -------
    list of (name, size, what)
        Three texts: "dgx-h100", "[boxes]", "8 H100 a box, ...". A size goes behind a colon; in
        brackets it may be left out.
    """
    return _ccl.topology_names()


class Topology:
    """Ranks, switches and directed links; `topology` makes them. Immutable; any number of threads
    may use one at the same time."""

    __slots__ = ("_handle", "_links", "_switches")

    def __init__(self, handle):
        self._handle = handle
        self._links = self._switches = None

    @property
    def name(self):
        """Its name, "dgx-h100" for example."""
        return self._handle.name

    @property
    def label(self):
        """What it was made of: the name as it was given, or the file."""
        return self._handle.label

    @property
    def what(self):
        """What a file says, in words; "" of a name."""
        return self._handle.what

    @property
    def ranks(self):
        """Number of ranks."""
        return self._handle.ranks

    @property
    def axes(self):
        """The grid of ranks, dict of name to size, slowest first: {"node": 2, "gpu": 8}."""
        return self._handle.axes()

    @property
    def switches(self):
        """Tuple of `ccl.Switch`; switch i is node ``ranks + i``."""
        if self._switches is None:
            self._switches = tuple(Switch(*each) for each in self._handle.switches())
        return self._switches

    @property
    def links(self):
        """Tuple of `ccl.Link`, each one direction."""
        if self._links is None:
            self._links = tuple(Link(*each) for each in self._handle.links())
        return self._links

    @property
    def rates(self):
        """"nominal" or "effective": what the links' speeds are; None if they have one each."""
        return self._handle.rates

    @property
    def notes(self):
        """What the reader made of it, list of str."""
        return self._handle.notes

    @property
    def missing(self):
        """What the source cannot tell and what is taken instead, list of str."""
        return self._handle.missing

    @property
    def remarks(self):
        """Warnings about a text; "" if there are none."""
        return self._handle.remarks

    def node_name(self, node):
        """"rank 3", or the name of a switch.

        Raises
        ------
        ValueError
            There is no such node.
        """
        node = whole(node, "node")
        if not 0 <= node < self.ranks + len(self.switches):
            raise ValueError(f"node: {node} is outside [0, {self.ranks + len(self.switches)})")
        return self._handle.node_name(node)

    def text(self):
        """It as MLIR text, which `topology` reads."""
        return self._handle.text()

    def bound(self, collective, *, bytes=None, root=0, gap=0.02, time_limit=60):
        """What no schedule of a collective can beat, as `ccl topo --bounds` says it.

        Parameters
        ----------
        collective : str
            "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce",
            "gather" or "scatter".
        bytes : int, optional
            Size for `Bound.time_us`: nccl-tests' one, the larger buffer.
        root : int
            Of broadcast, reduce, gather and scatter.
        gap : float
            all_reduce, all_to_all: the search ends when what can be reached is this near (a part
            of the limit, 0 to 1), ...
        time_limit : float
            ... or after so many seconds, with what it has.

        Returns
        -------
        ccl.Bound
            It is remembered: asking again takes no time.

        Raises
        ------
        ccl.ArgumentError
            The collective has no bound, there is one rank only, or an option makes no sense.
        KeyboardInterrupt
            Or what else a signal handler raises. The search goes on in a thread that nobody waits
            for, until it is done.
        """
        size = _size(bytes)
        return Bound(self, self._handle.bound(text(collective, "collective"), whole(root, "root"),
                                              number(gap, "gap"), time_limit), size)

    def bounds(self, *, bytes=None, root=0, gap=0.02, time_limit=60):
        """The bounds of all collectives that have one; parameters and errors as of `bound`.

        Returns
        -------
        dict of str to ccl.Bound
            By the name of the collective; empty for one rank, which has nothing to send.
        """
        size = _size(bytes)
        found = self._handle.bounds(whole(root, "root"), number(gap, "gap"), time_limit)
        return {each.collective: Bound(self, each, size) for each in found}

    def nccl_estimates(self, collective, bytes, *, capability=None):
        """What NCCL's own model says of a call, as ``ccl sim --beside nccl`` shows it.

        Parameters
        ----------
        collective : str
            Its name, "all_reduce" for example.
        bytes : int
            nccl-tests' size: the larger buffer.
        capability : int, optional
            Compute capability, 80 for example; else of the GPU that `gpu` or the name of the
            topology tells, or 90.

        Returns
        -------
        list of ccl.NcclEstimate
            Of every algorithm and protocol that NCCL has for it, in NCCL's order; empty for
            collectives that NCCL makes of sends and receives. NCCL calculates with what links
            reach: take a topology with ``rates="effective"``.

        Raises
        ------
        ccl.ArgumentError
            NCCL is not for that GPU, or has no rings for such a topology.
        """
        wanted = 0
        if capability is not None:
            wanted = whole(capability, "capability")
            if wanted < 1:
                raise ValueError(f"capability: {wanted} is below 1")
        return [NcclEstimate(*each) for each in self._handle.nccl_estimates(
            text(collective, "collective"), _size(whole(bytes, "bytes", 63)), wanted)]

    simulate = simulate

    def __repr__(self):
        return (f"<ccl.Topology {self.name}: {self.ranks} ranks, {len(self.switches)} switches, "
                f"{len(self.links)} links>")


class Bound:
    """What no schedule of a collective can beat on a topology; `Topology.bound` makes it.

    Bandwidths are in GB/s of 1e9 bytes a second, times in microseconds. `bytes` is nccl-tests'
    size: the buffer of all_reduce, broadcast and reduce; the larger, gathered side of all_gather,
    reduce_scatter, gather and scatter; a rank's whole buffer of all_to_all.
    """

    __slots__ = ("_topology", "_handle", "bytes")

    def __init__(self, topology, handle, bytes=None):
        self._topology = topology
        self._handle = handle
        self.bytes = bytes
        """The size that `time_us` is of, or None."""

    @property
    def collective(self):
        """Its name."""
        return self._handle.collective

    @property
    def root(self):
        """The root; 0 if there is none."""
        return self._handle.root

    @property
    def algbw(self):
        """No schedule has a higher bandwidth (bytes over time), GB/s."""
        return self._handle.algbw

    @property
    def attained(self):
        """A schedule in fluid form has this bandwidth for certain, GB/s; 0: none is known."""
        return self._handle.attained

    @property
    def exact(self):
        """Whether `attained` is `algbw`."""
        return self._handle.exact

    @property
    def certificate(self):
        """Why, in a sentence."""
        return self._handle.certificate

    @property
    def num(self):
        """Numerator of the time of a byte of a shard, in lowest terms; None of all_reduce and
        all_to_all, whose limits are no cuts."""
        return self._handle.num or None

    @property
    def den(self):
        """Its denominator, or None."""
        return self._handle.den if self._handle.num else None

    @property
    def cut(self):
        """Names of the nodes on one side of the cut, tuple of str; empty if it is no cut."""
        return tuple(self._topology.node_name(node) for node in self._handle.cut)

    @property
    def time_us(self):
        """No launch of `bytes` takes less; None without `bytes`."""
        return None if self.bytes is None else self._handle.us(self.bytes)

    def time(self, bytes):
        """No launch of so many bytes takes less, in microseconds."""
        return self._handle.us(_size(bytes))

    def __repr__(self):
        return f"<ccl.Bound {self.collective}: {self.algbw:.6g} GB/s, {self.certificate}>"


def _size(bytes):
    if bytes is None:
        return None
    size = whole(bytes, "bytes", 63)
    if size < 0:
        raise ValueError(f"bytes: {size} is below 0")
    return size
