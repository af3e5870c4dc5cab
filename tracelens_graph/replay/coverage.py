"""How much of the GPU time can be replayed, what keeps the rest from it, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.kernels.graph_launches import GRAPH_LAUNCH_CALLS
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.signatures import Charged, charge_all, signatures
from tracelens_graph.replay.tables import REPLAY_COVERAGE
from tracelens_graph.tables.table import Table

BY_GRAPH = "(launched by a graph)"
OUTSIDE = "(launched outside of operations)"
UNDER_NO_OP: Mapping[str, tuple[str, str]] = {
    NO_LAUNCH: (
        "its launch is not in the trace",
        "record host and GPU together, and a step before the first that counts",
    ),
    BY_GRAPH: (
        "a captured graph launched it: operations are recorded while it is captured only",
        "record a run without graphs, or the capture",
    ),
    OUTSIDE: ("no operation is recorded around its launch", "record with CPU activities"),
}
"""GPU work under no operation: what stands for it in tables, where it comes from, and what would help."""


def replay_coverage(g: Core | Window) -> Table:
    """Which GPU time can be replayed, by operation and by what keeps it from being replayed, the most first.

    The rows hold every GPU event once.

    Args:
        g: the graph, or a window of it.
    """
    charged = charge_all(window_of(g))
    return coverage(charged, Plans(signatures(charged)))


def coverage(charged: Charged, plans: Plans) -> Table:
    """As `replay_coverage`.

    Args:
        charged: the GPU work of the window.
        plans: plans of `signatures(charged)`.
    """
    found = plans.signatures
    core, c = found.core, found.core.columns
    rows: dict[tuple[str, str, str], _Row] = {}
    for place, name in enumerate(found.names):
        one = plans[place]
        why = one.why if one.plan is None else ""
        row = rows.setdefault((name, one.state, why), _Row(one.remedy, int(c.uid[found.rows[place]])))
        row.signatures += 1
        row.calls += int(found.calls[place])
        row.gpu_events += int(found.gpu_events[place])
        row.ns += int(found.charged_ns[place])
    uncharged = charged.uncharged
    origin = _origins(core, uncharged)
    told = {**UNDER_NO_OP, OUTSIDE: core.framework.uncharged or UNDER_NO_OP[OUTSIDE]}
    for number, (name, (why, remedy)) in enumerate(told.items()):
        events = uncharged[origin == number]
        if len(events):
            longest = int(events[np.argmax(c.dur_ns[events])])
            row = rows[name, "no", why] = _Row(remedy, int(c.uid[longest]))
            row.gpu_events, row.ns = len(events), int(c.dur_ns[events].sum())
    order = sorted(rows, key=lambda key: (-rows[key].ns, key))
    whole = int(c.dur_ns[charged.window.gpu_rows].sum())
    kept = [rows[key] for key in order]
    columns: dict[str, Cells] = {
        "op": [key[0] for key in order],
        "signatures": [row.signatures for row in kept],
        "calls": [row.calls for row in kept],
        "gpu_events": [row.gpu_events for row in kept],
        "time_us": [row.ns / 1e3 for row in kept],
        "percent": [100 * row.ns / whole if whole else 0.0 for row in kept],
        "uid": [row.uid for row in kept],
        "plan": [key[1] for key in order],
        "why": [key[2] for key in order],
        "remedy": [row.remedy for row in kept],
    }
    title = charged.window.titled("GPU time that can be replayed, and what keeps the rest from it")
    return REPLAY_COVERAGE.table(columns, title)


@dataclass
class _Row:
    remedy: str
    uid: int
    signatures: int = 0
    calls: int = 0
    gpu_events: int = 0
    ns: int = 0


def _origins(core: Core, gpu: np.ndarray) -> np.ndarray:
    """For each GPU event under no operation the position in `UNDER_NO_OP` of where it comes from."""
    c = core.columns
    is_graph = np.array([name.startswith(GRAPH_LAUNCH_CALLS) for name in core.names], bool)
    if not len(gpu):
        return np.zeros(0, np.int64)
    above = climb(c.parent, c.parent[gpu], is_graph[c.name])
    found: np.ndarray = np.where(c.parent[gpu] < 0, 0, np.where(above >= 0, 1, 2))
    return found
