"""Collective communication, compiled: proved programs on NumPy arrays.

>>> import ccl, numpy
>>> def work(comm):
...     x = numpy.full(1000, comm.rank, dtype="f4")
...     return comm.all_reduce(x)[0]
>>> ccl.run(work, ranks=4, method="threads")
[6.0, 6.0, 6.0, 6.0]

`open` and `run` make communicators, whose methods are the collectives. `compile` and
`Algorithm` make programs of one's own. `topology` makes machines, with what no schedule on them
can beat, and simulates programs there. The errors are in `ccl.errors`.
"""

import os as _os

from . import _ccl

# Lines of these files are not what a user wrote.
_ccl.set_package_folder(_os.path.join(_os.path.dirname(__file__), ""))

from . import contract, cuda, errors
from ._builder import Algorithm
from ._ccl import Buffer, Contract, Place, Program
from ._communicator import Communicator, open, open_threads
from ._programs import compile, generate, generators
from ._run import run
from ._simulation import AgentUse, LinkUse, PathPart, Simulation
from ._streams import Event, Memory, Stream
from ._topology import Bound, Link, NcclEstimate, Switch, Topology, topologies, topology
from .errors import (AbortedError, ArgumentError, Error, MachineError, MismatchError,
                     ProgramError, TimeoutError, UnprovedError)

__version__ = _ccl.version

__all__ = [
    "AgentUse", "Algorithm", "Bound", "Buffer", "Communicator", "Contract", "Event", "Link",
    "LinkUse", "Memory", "NcclEstimate", "PathPart", "Place", "Program", "Simulation", "Stream",
    "Switch", "Topology", "compile", "contract", "cuda", "errors", "generate", "generators", "open",
    "open_threads", "run", "topologies", "topology", "AbortedError", "ArgumentError", "Error",
    "MachineError", "MismatchError", "ProgramError", "TimeoutError", "UnprovedError",
]
