"""What a server's host did while the GPU was idle between two steps: schedule, prepare, sample, detokenise, else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.idle.blame import NOBODY, Blamed, blamed, own_time, together
from tracelens_graph.analyses.idle.host_states import LAUNCH, SYNCHRONIZATION
from tracelens_graph.analyses.idle.idle import calls_of
from tracelens_graph.analyses.serving.iterations import Served
from tracelens_graph.graph.arrays import fitting, is_kind, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import merge
from tracelens_graph.graph.traversals import climb, launches_of
from tracelens_graph.schema import PYTHON_KINDS
from tracelens_graph.utils.arrays import Rows

_LOOPS = re.compile(r"event_loop|run_engine_core|run_busy_loop|run_scheduler_process")

PARTS: Mapping[str, re.Pattern[str]] = {
    "detokenise": re.compile(r"detoken", re.IGNORECASE),
    "sampling": re.compile(r"sampl|logits_processor|penal(?:ty|ties)", re.IGNORECASE),
    "prepare": re.compile(
        r": _?prepare_|: _?update_states|metadata(?:_builder)?|: _?build\b|: replay_prepare|input_batch", re.IGNORECASE
    ),
    "output": re.compile(r"process_batch_result|output_processor|update_from_output|bookkeep|stream_output"),
    "scheduler": re.compile(r"\bsched(?:ule|uler|uling)?\b|scheduler|: _?schedule|get_next_batch", re.IGNORECASE),
}
"""Work of a server's host -> how functions of Python are called that do it; the innermost such function counts."""

OTHERS = ("launch", "wait", "python", "unrecorded")
"""What else the host does: launch, wait for the GPU, other Python and ops, nothing that was recorded."""


@dataclass(frozen=True, eq=False)
class HostParts:
    """Idle time between steps by what the host did.

    Attributes:
        ns: part -> time, for all of `PARTS` and `OTHERS`; they add up to the gaps, over all devices.
        due: part -> the function that most of it is due to.
        gaps: number of gaps.
    """

    ns: Mapping[str, int]
    due: Mapping[str, Blamed]
    gaps: int

    @property
    def leads(self) -> str:
        """The part with most of the time."""
        return max(self.ns, key=lambda part: self.ns[part])


def host_parts_between(served: Served) -> HostParts:
    """What the thread that launches did in the idle gaps between iterations; each instant goes to one part."""
    core, idle, calls = served.window.core, served.idle, calls_of(served.window.core)
    c, at = core.columns, np.flatnonzero(served.between)
    start, end = idle.start[at], idle.end[at]
    launch = launches_of(c, idle.row[at])
    thread = np.where(launch >= 0, c.thread[launch], -1)
    spent = []
    for code, positions in positions_by(thread):
        gaps = merge(start[positions], end[positions])
        if code >= 0 and len(gaps[0]):
            rows = calls.within(code, int(gaps[0][0]), int(gaps[1][-1]))
            rows, own = own_time(calls, rows, gaps)
            spent.append((rows, own, own))
    rows, own, _ = together(spent)
    part = _part_of(core, rows)
    names = [*PARTS, *OTHERS]
    ns = {name: int(own[part == number].sum()) for number, name in enumerate(names)}
    ns["unrecorded"] += max(int((end - start).sum()) - sum(ns.values()), 0)
    due = {
        name: blamed(core, (rows, mine, mine)) if (mine := np.where(part == number, own, 0)).any() else NOBODY
        for number, name in enumerate(names)
    }
    return HostParts(ns, due, len(at))


def _part_of(core: Core, rows: Rows) -> np.ndarray:
    """The number of the part that each call belongs to."""
    c = core.columns
    is_python = is_kind(c.kind, PYTHON_KINDS)
    part = np.full(len(c) + 1, -1, np.int64)
    loops = fitting(core.names, c.name, _LOOPS.search)
    for number, pattern in reversed(list(enumerate(PARTS.values()))):
        part[:-1][is_python & ~loops & fitting(core.names, c.name, pattern.search)] = number
    found = part[climb(c.parent, rows, part >= 0)]
    states, others = calls_of(core).state[rows], len(PARTS)
    rest = np.select([states == LAUNCH, states == SYNCHRONIZATION], [others, others + 1], others + 2)
    return np.where(states == SYNCHRONIZATION, others + 1, np.where(found >= 0, found, rest))
