"""What goes wrong in the library.

Every error is a `ccl.Error` with a `kind`; each kind has a class of its own. Arguments that
cannot be right are found before anything begins and raise `TypeError` or `ValueError` whose
text begins with the argument's name.
"""

import builtins


class Error(Exception):
    """An error of the library.

    Attributes
    ----------
    kind : str
        "argument", "program", "unproved", "machine", "timeout", "aborted" or "mismatch".
    culprit : int or None
        Rank of the communicator that is to blame, if it is known.
    """

    kind = "machine"

    def __init__(self, message, culprit=None):
        super().__init__(message)
        self.culprit = culprit

    def __reduce__(self):
        return type(self), (self.args[0], self.culprit), self.__dict__


class ArgumentError(Error, ValueError):
    """A pointer, count, rank, type or setting makes no sense."""

    kind = "argument"


class ProgramError(Error):
    """The compiler refused the program. The text is its diagnostics: file:line:column first."""

    kind = "program"


class UnprovedError(Error):
    """The program was not proved for this form of launch."""

    kind = "unproved"


class MachineError(Error):
    """Memory, descriptors or a device ran out, or a process died."""

    kind = "machine"


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline went by."""

    kind = "timeout"


class AbortedError(Error):
    """Somebody called `abort`, or left a communicator's `with` by an exception."""

    kind = "aborted"


class MismatchError(Error):
    """Ranks asked for different things at the same time; the text says who wanted what."""

    kind = "mismatch"


_classes = {
    each.kind: each
    for each in (ArgumentError, ProgramError, UnprovedError, MachineError, TimeoutError,
                 AbortedError, MismatchError)
}


def make(kind, message, culprit):
    """The exception for an error of the C++ library; a culprit of -1 is none."""
    return _classes[kind](message, culprit if culprit >= 0 else None)
