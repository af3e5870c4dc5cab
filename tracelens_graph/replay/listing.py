"""What can be replayed, as tables: by operation and arguments, and how much of the GPU time that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.kernels.shares import GRAPH_LAUNCH_CALLS
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.call_columns import argument_cells
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import OF_SIGNATURES
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.replay.calls import gpu_below
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.signatures import Charged, charge_all, signatures
from tracelens_graph.replay.tables import REPLAY_COVERAGE, REPLAY_SIGNATURES
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

BY_GRAPH = "(launched by a graph)"
OUTSIDE = "(launched outside of operations)"
UNDER_NO_OP: Mapping[str, tuple[str, str]] = {
    NO_LAUNCH: (
        "its launch is not in the trace",
        "record host and GPU together, and a step before the first that counts",
    ),
    BY_GRAPH: (
        "a captured graph launched it: operations are recorded while it is captured only",
        "--capture with a trace of the capture, or record a run without graphs",
    ),
    OUTSIDE: ("its launch is in no operation of PyTorch", "nothing: no arguments of it are recorded"),
}
"""GPU work under no operation: what stands for it in tables, where it comes from, and what would help."""
_IN_DATABASE = (
    "the database holds no signature of it, nor whether an operation launched it",
    "replay the file of the trace, which shows the cause",
)
_NO_OPS = "no operations are recorded", "record with CPU activities"
"""The last of these where the trace has no operation at all."""


def replay_signatures(g: Core | Window) -> Table:
    """What calls can be replayed, one row per operation and argument set with GPU work, the most GPU time first.

    Args:
        g: the graph, or a window of it.
    """
    return listing(Plans(signatures(charge_all(window_of(g)))))


def listing(plans: Plans, files: Mapping[int, str] | None = None) -> Table:
    """What calls of a window can be replayed, one row per operation and argument set, in the order given.

    Args:
        plans: plans of the signatures.
        files: place of a signature -> name of the program that was written of it.
    """
    found = plans.signatures
    core, c = found.core, found.core.columns
    every = range(len(found))
    gpu = [gpu_below(core, row) for row in found.rows.tolist()]
    cells = argument_cells(core, c.argset[found.rows])
    columns: dict[str, Cells] = {
        "op": found.names,
        "input_dims": cells["Input Dims"],
        "input_types": cells["Input type"],
        "concrete_inputs": cells["Concrete Inputs"],
        "calls": found.calls,
        "time_us": found.charged_ns / 1e3,
        "percent": found.percent,
        "could_be_won_us": found.won_ns / 1e3,
        "percent_of_roof": 100 * (1 - found.won_ns / np.maximum(found.charged_ns, 1)),
        "median_us": found.median_ns / 1e3,
        "kernels": [[core.names[code] for code in c.name[rows].tolist()] for rows in gpu],
        "kernel": [core.names[c.name[rows[np.argmax(c.dur_ns[rows])]]] if len(rows) else "" for rows in gpu],
        "uid": c.uid[found.rows],
        "plan": [plans[place].state for place in every],
        "why": [plans[place].why for place in every],
        "remedy": [plans[place].remedy for place in every],
        "file": [(files or {}).get(place, "") for place in every],
    }
    return REPLAY_SIGNATURES.table(columns, found.window.titled("Operations to replay"))


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
        why = one.why if one.state == "no" else ""
        row = rows.setdefault((name, one.state, why), _Row(one.remedy, int(c.uid[found.rows[place]])))
        row.signatures += 1
        row.calls += int(found.calls[place])
        row.gpu_events += int(found.gpu_events[place])
        row.ns += int(found.charged_ns[place])
    uncharged = charged.uncharged
    origin = _origins(core, uncharged)
    outside = UNDER_NO_OP[OUTSIDE] if (c.kind == Kind.Op).any() else _NO_OPS
    if core.info.inferred == OF_SIGNATURES:
        outside = _IN_DATABASE
    reasons = {**UNDER_NO_OP, OUTSIDE: core.framework.uncharged or outside}
    for number, (name, (why, remedy)) in enumerate(reasons.items()):
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


def _origins(core: Core, gpu: Rows) -> Rows:
    """For each GPU event under no operation the position in `UNDER_NO_OP` of where it comes from."""
    c = core.columns
    is_graph = np.array([name.startswith(GRAPH_LAUNCH_CALLS) for name in core.names], bool)
    if not len(gpu):
        return np.zeros(0, np.int64)
    above = climb(c.parent, c.parent[gpu], is_graph[c.name])
    found: Rows = np.where(c.parent[gpu] < 0, 0, np.where(above >= 0, 1, 2))
    return found
