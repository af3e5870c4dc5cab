"""Every error a user can meet, each worded as one line, and the few exceptions that only leave a computation.

TraceLensGraphError
├── TraceError                    the input is not a usable trace
│   ├── NotATraceError            the file is something else; the message says what was found
│   │   ├── ExecutionTraceError   an execution trace, for which there is a loader of its own
│   │   └── XplaneError           a profile of JAX, for which there is a loader of its own
│   └── ChangedTraceError         the file is no longer the one that was loaded
├── LinkError                     a trace and an execution trace, or captures, are not of one run, or not of one rank
├── NodeNotFoundError             no node answers the question (also a KeyError)
├── AnalysisError                 a question that this graph cannot answer
│   └── NoTimesError              of an execution trace alone, which has no times (also a NotATraceError)
├── OutputError                   a file cannot be written, or not in that format
├── DatabaseError                 the database cannot be reached, refuses, or does not hold what was asked for
│   ├── ServerError               a local server cannot be set up, started or stopped
│   │   └── UnusableError         a local server starts, but not its database
│   └── LostEndsError             nodes that were written are gone again
├── ClusterError                  a Dask cluster cannot be reached, or cannot do the work
├── ExtensionError                code of the user's own fails; the message says where
├── CannotReplay                  an operation cannot be replayed, and why
├── NotAPlanError                 something is no plan of a replay
├── ForeignProgramError           a program is not as it was written, or does what none may
├── FolderError                   a folder is not one that programs were written to
├── ResultsError                  a file holds no results of programs
└── MissingExtraError             an optional package is not installed; the message names it (also an ImportError)
    └── NoTorchError              PyTorch is not installed, here or for an interpreter

UserWarning
├── IncompleteSetWarning          a set of traces lacks something; the message says what
└── DamagedTraceWarning           a trace was repaired or is not whole; the message counts what

Exception                         to leave a computation; whoever began it knows what to do
├── CannotModel                   a performance model does not apply to a call, and why
├── DamagedBytesError             bytes are not as any writer leaves them
├── KilledProcessError            a process was killed while it worked on something
├── NotAValueError                a text stands for no value (also a ValueError)
└── NoShortProgramError           a plan has no short program

BaseException
└── EndedBySignal                 the process is asked to end; nothing but the outermost caller catches it
"""

from __future__ import annotations

# typing takes longer to import than all of this, which counts at the start of every command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


class TraceLensGraphError(Exception):
    """Base of all errors raised on purpose by tracelens_graph."""


class TraceError(TraceLensGraphError):
    """The input cannot be read as a trace."""


class NotATraceError(TraceError):
    """The input is readable but not a profiler trace; the message says what it is."""


class ExecutionTraceError(NotATraceError):
    """The file is an execution trace, for which there is a loader of its own."""


class XplaneError(NotATraceError):
    """The file is a JAX/XLA profile, for which there is a loader of its own."""


class ChangedTraceError(TraceError):
    """The trace file changed during or after loading, so its content can no longer be trusted."""


class LinkError(TraceLensGraphError):
    """A trace and an execution trace, or captures, do not belong together; the message names them, and says why."""


class NodeNotFoundError(TraceLensGraphError, KeyError):
    """The graph has no node with this id."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class AnalysisError(TraceLensGraphError):
    """The question cannot be answered on this graph."""


class NoTimesError(AnalysisError, NotATraceError):
    """An execution trace alone has no times and no kernels, and the question is about them.

    Attributes:
        source: the execution trace.
    """

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.source = source

    @property
    def what(self) -> str:
        """The message without advice."""
        return f"{self.source}: is a PyTorch execution trace, which has no times and no kernels"

    def __str__(self) -> str:
        return f"{self.what}; load the profiler's trace of the same run, with et={self.source!r} to link the two"


class OutputError(TraceLensGraphError):
    """A file cannot be written, or its format is unknown."""


class DatabaseError(TraceLensGraphError):
    """The database cannot be reached, refuses, or does not hold what was asked for; the message says which."""


class ServerError(DatabaseError):
    """A local database server cannot be set up, started or stopped."""


class UnusableError(ServerError):
    """A server starts, but not its database."""


class LostEndsError(DatabaseError):
    """Nodes that were written are gone again: somebody dropped traces at the same time."""


class ClusterError(TraceLensGraphError):
    """A Dask scheduler cannot be reached, or its workers cannot do the work; the message says why."""


class ExtensionError(TraceLensGraphError):
    """An extension cannot be loaded, or its code fails; the message names file and line."""


class CannotReplay(TraceLensGraphError):  # noqa: N818 - it reads as what it says
    """An operation cannot be replayed.

    Attributes:
        reason: why, in a few words that tables group by: `shapes are not recorded`.
        remedy: what would help, in words; empty where nothing would.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class NotAPlanError(TraceLensGraphError):
    """Something is no plan; the message names the place in it."""


class ForeignProgramError(TraceLensGraphError):
    """A program is not as it was written, or does what none may."""


class FolderError(TraceLensGraphError):
    """A folder is not one that programs were written to; the message says why."""


class ResultsError(TraceLensGraphError):
    """A file holds no results; the message names file and place."""


INSTALL = "pip install '.[{}]' in a clone of tracelens_graph"
"""How an extra is installed while the package index has none of this name: see docs/releasing.md."""


class MissingExtraError(TraceLensGraphError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: {INSTALL.format(extra)}")


class NoTorchError(MissingExtraError):
    """PyTorch is not installed, here or for the interpreter that a message names."""

    def __init__(self, message: str = "PyTorch is not installed here: write a script and run it where it is") -> None:
        ImportError.__init__(self, message)


class IncompleteSetWarning(UserWarning):
    """A set of traces lacks something: files were left out, or ranks are missing, doubled, or of another job."""


class DamagedTraceWarning(UserWarning):
    """A trace was broken: it was loaded as far as possible, and the message counts what was repaired and lost."""


class CannotModel(Exception):  # noqa: N818  (no error: a model says that it does not apply, and why)
    """A model does not apply to a call; the message says why, in words for a table."""


class DamagedBytesError(Exception):
    """Bytes cannot be those that were written; who walks through them knows what is lost."""


class KilledProcessError(Exception):
    """A process was killed; `args[0]` is the list of what was worked on, or waited for it, then."""


class NotAValueError(ValueError):
    """A text that stands for no number and no list of numbers."""


class NoShortProgramError(Exception):
    """A plan has no short program."""


class EndedBySignal(BaseException):
    """The process is asked to end; its number, as `args[0]`. Nothing but the outermost caller catches it."""
