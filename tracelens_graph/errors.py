"""Every error a user can meet, each worded as one line.

TraceLensGraphError
├── TraceError            the input is not a usable trace
│   ├── NotATraceError    the file is something else; the message says what was found
│   │   ├── ExecutionTraceError  an execution trace, for which there is a loader of its own
│   │   └── XplaneError          a profile of JAX, for which there is a loader of its own
│   └── ChangedTraceError the file is no longer the one that was loaded
├── LinkError             a trace and an execution trace are not of one run, or not of one rank
├── NodeNotFoundError     no node answers the question (also a KeyError)
├── AnalysisError         a question that this graph cannot answer
│   └── NoTimesError      of an execution trace alone, which has no times (also a NotATraceError)
├── OutputError           a file cannot be written, or not in that format
├── DatabaseError         the database cannot be reached, refuses, or does not hold what was asked for
│   └── ServerError       a local server cannot be set up, started or stopped
├── ClusterError          a Dask cluster cannot be reached, or cannot do the work
├── ExtensionError        code of the user's own fails; the message says where
└── MissingExtraError     an optional package is not installed; the message names the extra

IncompleteSetWarning      a set of traces lacks something; the message says what
DamagedTraceWarning       a trace was repaired or is not whole; the message counts what

Exception, to leave a computation; whoever began it knows what to do
├── CannotModel           a performance model does not apply to a call, and why
└── DamagedBytesError     bytes are not as any writer leaves them
"""

from __future__ import annotations


class TraceLensGraphError(Exception):
    """Base of all errors raised on purpose by tracelens_graph."""


class TraceError(TraceLensGraphError):
    """The input cannot be read as a trace."""


class NotATraceError(TraceError):
    """The input is readable but is no profiler trace; the message says what it is."""


class ExecutionTraceError(NotATraceError):
    """The file is an execution trace, for which there is a loader of its own."""


class XplaneError(NotATraceError):
    """The file is a JAX/XLA profile, for which there is a loader of its own."""


class ChangedTraceError(TraceError):
    """The trace file changed while it was loaded or after, so what is read of it now cannot be trusted."""


class LinkError(TraceLensGraphError):
    """A trace and an execution trace are not of one program or rank; the message names both files and the share."""


class NodeNotFoundError(TraceLensGraphError, KeyError):
    """No node of the graph has the identity that was asked for."""

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
    """A file cannot be written, or the format asked for is none of ours."""


class DatabaseError(TraceLensGraphError):
    """The database cannot be reached, refuses, or does not hold what was asked for; the message says which."""


class ServerError(DatabaseError):
    """A local database server cannot be set up, started or stopped."""


class ClusterError(TraceLensGraphError):
    """A Dask scheduler cannot be reached, or its workers cannot do the work; the message says why."""


class ExtensionError(TraceLensGraphError):
    """An extension cannot be loaded, or its code fails; the message names file and line."""


class MissingExtraError(TraceLensGraphError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'tracelens_graph[{extra}]'")


class IncompleteSetWarning(UserWarning):
    """A set of traces lacks something: files were left out, or ranks are missing, doubled, or of another job."""


class DamagedTraceWarning(UserWarning):
    """A trace was broken: it was loaded as far as possible, and the message counts what was repaired and lost."""


class CannotModel(Exception):  # noqa: N818  (no error: a model says that it does not apply, and why)
    """A model does not apply to a call; the message says why, in words for a table."""


class DamagedBytesError(Exception):
    """Bytes cannot be those that were written; who walks through them knows what is lost."""
