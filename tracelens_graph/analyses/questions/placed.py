"""Traces as they stand in a database: each in a run, under a name, with labels, in the order of pushing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core


@dataclass(frozen=True)
class Placed:
    """A trace and its place.

    Attributes:
        core: the graph.
        run: name of the run.
        name: name of the trace, unique in its run.
        labels: `key=value`, as the user gave them.
    """

    core: Core
    run: str
    name: str
    labels: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Run and name in one text."""
        return f"{self.run}/{self.name}"

    def value_of(self, key: str) -> str | None:
        """The value of the first label with this key; None if there is none."""
        return next((label[len(key) + 1 :] for label in self.labels if label.startswith(f"{key}=")), None)


def last(traces: Sequence[Placed]) -> Placed:
    """The trace that was pushed last.

    Raises:
        AnalysisError: there is none.
    """
    if not traces:
        raise AnalysisError("there are no traces")
    return traces[-1]


def pair(traces: Sequence[Placed], a: str | None, b: str | None) -> tuple[Placed, Placed]:
    """Two traces to be compared.

    Args:
        traces: in the order in which they were pushed.
        a: path, name or id of one; by default the one that was pushed before the other.
        b: path, name or id of the other; by default the one that was pushed last.

    Raises:
        AnalysisError: there are not two such traces, or a name is that of several.
    """
    other = last(traces) if b is None else _called(traces, b)
    if a is not None:
        one = _called(traces, a)
        if one is other:
            raise AnalysisError(f"{other.path} is compared with itself")
        return one, other
    earlier = traces[: traces.index(other)]
    if not earlier:
        raise AnalysisError(f"no trace was pushed before {other.path}")
    return earlier[-1], other


def _called(traces: Sequence[Placed], what: str) -> Placed:
    """The trace of this id or path, else of this name."""
    exact = [trace for trace in traces if what == trace.path or what == trace.core.trace_id]
    found = exact or [trace for trace in traces if trace.name == what]
    if len(found) != 1:
        said = f"{what} is the name of several traces" if found else f"no trace is called {what!r} among"
        raise AnalysisError(f"{said}: {', '.join(trace.path for trace in found or traces)}")
    return found[0]
