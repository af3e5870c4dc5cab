"""Simulated jobs as sets of traces, with the truth about them; each is simulated once per run of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tracelens_graph.analyses.critical_path.causes import Causes, causes
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


@dataclass(frozen=True)
class SimulatedJob:
    """The ranks of a job.

    Attributes:
        traces: their traces.
        truth: what is true of each.
    """

    traces: TraceSet
    truth: list[dict[str, Any]]

    @cached_property
    def causes(self) -> Causes:
        """Its points and what bound them."""
        return causes(self.traces)

    def __hash__(self) -> int:
        return id(self)


@cache
def simulated_job(**settings: Any) -> SimulatedJob:
    """The job that `simulate` makes with these settings."""
    run = simulate(**settings)
    traces = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks})
    return SimulatedJob(traces, [one.truth for one in run.ranks])
