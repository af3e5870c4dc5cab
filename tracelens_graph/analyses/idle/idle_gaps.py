"""The longest gaps in which a device did nothing, and what the thread that ended each did meanwhile."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.host_states import ends
from tracelens_graph.analyses.idle.idle import Cause, Idle, calls_of, idle_parts, leading_causes
from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Cells, first_rows
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.user_code import line_names, shown_name
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import PYTHON_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

_PART = Column("its part in the gap", "us", drop_priority=2)

IDLE_GAPS = TableSchema(
    "idle_gaps",
    "The longest gaps in which a device did nothing, one by one.",
    {
        "device": Column("index of the device", drop_priority=0),
        "gap_start_ms": Column.moment("start of the gap, as Perfetto UI shows it", "ms"),
        "gap_us": Column("its length", "us", drop_priority=0),
        "cause": Column.text("what most of it is due to, as in `idle_causes`", drop_priority=1),
        "next": Column.text("the GPU event that ends it"),
        "next_uid": Column.uid("that GPU event", drop_priority=0),
        "launch": Column.text(
            "the runtime call that launched it; absent where its launch is not in the trace", drop_priority=4
        ),
        "launch_begin_us": Column(
            "start of the launch, from the start of the gap; negative before the gap", "us", drop_priority=4
        ),
        "launch_end_us": Column(
            "end of the launch, from the start of the gap; negative where the work had been queued before",
            "us",
            drop_priority=4,
        ),
        "call": Column.text("runtime call on the launching thread in the gap", drop_priority=0),
        "call_us": _PART,
        "op": Column.text("op on the launching thread in the gap", drop_priority=0),
        "op_us": _PART,
        "frame": Column.text("module or Python function on the launching thread in the gap", drop_priority=0),
        "frame_us": _PART,
        "because": Column.text(
            "call or frame to which the largest part of the gap is due. A call that waits for the GPU costs the host "
            "its lead, so a gap may be due to a call that ended when the gap began",
            drop_priority=-1,
        ),
        "because_us": Column("time of it, and of other calls of its function, in the gap", "us", drop_priority=2),
        "line": Column.text("the user's line that it comes from", drop_priority=-1),
    },
    leads="gap_us",
)


HOST_PARTS = {"call": (Kind.RuntimeCall,), "op": (Kind.Op,), "frame": PYTHON_KINDS}
"""What is shown of the host in a gap -> the kinds that it is looked for among."""


def idle_gaps(g: Core | Window, device: int | None = None, min_us: float = 1, top: int = 20) -> Table:
    """The longest gaps in which a device did nothing, and what the launching thread did meanwhile.

    A gap lies between the first start and the last end of a device, and ends with a GPU event. The call, the op and
    the frame are those of the thread that launched it, with the longest part in the gap; of equals the innermost.
    Where that event had been launched before the gap began, the device waited for no host, and there are none.
    `because` is found by descending from the outermost calls while one function holds more than half of the part of the
    gap with its largest cause. `idle_causes` of the report splits all gaps by cause.

    Args:
        device: index of a device; by default all of them.
        min_us: shorter gaps are left out.
        top: how many gaps are shown; 0 for all.

    Raises:
        AnalysisError: `top` is negative.
    """
    w = window_of(g)
    core, c, idle = w.core, w.core.columns, idle_parts(w)
    length = idle.end - idle.start
    shown = gap_order(idle)
    shown = shown[(length[shown] >= min_us * 1000) & (device is None or c.device[idle.row[shown]] == device)]
    shown, notes = first_rows(shown, top)
    start, end, row = idle.start[shown], idle.end[shown], idle.row[shown]
    launch = launches_of(c, row)
    linked, leading = launch >= 0, leading_causes(idle)[shown]
    columns: dict[str, Cells] = {
        "device": [number if number != -1 else None for number in c.device[row].tolist()],
        "gap_start_ms": core.info.shown_ms(start), "gap_us": length[shown] / 1e3,
        "cause": [Cause(number).name for number in leading.tolist()], "next": names_of(core, row),
        "next_uid": c.uid[row], "launch": names_of(core, launch),
        "launch_begin_us": np.where(linked, (c.start_ns[launch] - start) / 1e3, np.nan),
        "launch_end_us": np.where(linked, (ends(core, launch) - start) / 1e3, np.nan),
    }  # fmt: skip
    for what, (at, part) in host_parts(core, row, start, end).items():
        columns[what] = names_of(core, at)
        columns[f"{what}_us"] = [ns / 1e3 if found >= 0 else None for found, ns in zip(at, part.tolist(), strict=True)]
    because, ns, lines = culprits(w, idle, shown)
    columns |= {"because": because, "because_us": [None if one is None else one / 1e3 for one in ns], "line": lines}
    return IDLE_GAPS.table(columns, w.titled("The longest gaps in which a device did nothing"), notes)


def culprits(w: Window, idle: Idle, gaps: Rows) -> tuple[list[str | None], list[int | None], list[str | None]]:
    """Of some gaps the call or frame that most of the largest cause is due to, its ns, and the user's line of it."""
    core = w.core
    causes = leading_causes(idle)[gaps].tolist()
    found = [culprit(core, idle, gap, Cause(cause)) for gap, cause in zip(gaps.tolist(), causes, strict=True)]
    because = np.array([row for row, _ in found], np.int64)
    names = [shown_name(core, row) if row >= 0 else None for row in because.tolist()]
    return names, [ns if row >= 0 else None for row, ns in found], [name or None for name in line_names(w, because)]


def gap_order(idle: Idle) -> np.ndarray:
    """Numbers of gaps, the longest first, then the first."""
    return np.lexsort((idle.start, idle.start - idle.end))


def host_parts(
    core: Core, row: np.ndarray, start: np.ndarray, end: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What the launching thread did most in gaps: nothing where the work had been queued before.

    Returns:
        For each key of `HOST_PARTS` the row of the call with the longest part in each gap, -1 for none, and that part,
        ns; of equals the innermost.
    """
    c, launch, calls = core.columns, launches_of(core.columns, row), calls_of(core)
    found = {what: (np.full(len(row), -1, np.int64), np.zeros(len(row), np.int64)) for what in HOST_PARTS}
    late = np.flatnonzero((launch >= 0) & (ends(core, launch) > start))
    for gap, call in zip(late.tolist(), launch[late].tolist(), strict=True):
        rows = calls.within(int(c.thread[call]), int(start[gap]), int(end[gap]))
        part = np.minimum(ends(core, rows), end[gap]) - np.maximum(c.start_ns[rows], start[gap])
        for what, kinds in HOST_PARTS.items():
            fits = np.flatnonzero((part > 0) & np.isin(c.kind[rows], kinds))
            if len(fits):
                longest = fits[np.lexsort((rows[fits], part[fits]))[-1]]
                found[what][0][gap], found[what][1][gap] = rows[longest], part[longest]
    return found
