"""What each step's time went to, every moment of it once: the GPU's work before the host's, the host's before nothing.

The rules are those of PyTorch's profiler plugin for TensorBoard. A step begins on the host, but not before the one
before it is over, and ends with the last of its GPU work, but not before it ends on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    COMPUTATION,
    MEMCPY,
    fitting_names,
    gpu_classes,
    percent,
)
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.graph.membership import process_of_thread
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, step_number, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Ns, Rows

_PARTS = {
    "kernel": "a kernel runs that is not communication",
    "communication": "a communication kernel runs, and none of the others",
    "memcpy": "a copy runs, and no kernel",
    "memset": "a fill runs, and no kernel or copy",
    "runtime": "the host is in a call of the runtime, and the GPU does nothing",
    "data_loader": "the host waits for the data loader, in no call of the runtime, and the GPU does nothing",
    "op": "the host is in an op, and none of the columns above applies",
    "other": "nothing of the above is recorded",
}
"""What a moment counts for, the first that fits, and when."""

STEP_BREAKDOWN = TableSchema(
    "step_breakdown",
    "What each step's time went to: kernels, communication, copies, runtime calls, the data loader, ops, the rest.",
    {
        "name": Column.key("step; the last row is their mean", "step"),
        "step": Column("number of the step"),
        "pid": Column.text("process of the step"),
        "start_ms": Column.moment(
            "start, not before the end of the step before, as Perfetto UI shows it", "ms", heading="start ms"
        ),
        "step_ms": Column(
            "time to the end of the step on the host or of its GPU work, whichever is later", "ms", heading="step ms"
        ),
        **{
            f"{part}_ms": Column(f"time in which {when}", "ms", heading=f"{part} ms".replace("_", " "))
            for part, when in _PARTS.items()
        },
        **{f"{part}_percent": Column(f"{part}_ms as share of step_ms", "%") for part in _PARTS},
        "uid": Column.instance("uid of the step"),
    },
    ordered=True,
)

MEAN = "(mean)"

FOREIGN_PERCENT = 10
"""Share of a step from which GPU work that no step launched is noted."""
_NOTES = 3

DATA_LOADER = "enumerate(DataLoader)#"
"""How the range begins in which PyTorch waits for the next batch; in old versions it is an op."""


def step_bounds(w: Window) -> tuple[Rows, Ns, Ns]:
    """Rows of the steps of a window, by process and start, and where each begins and ends, ns.

    Steps of one process never overlap here: what is launched in one step and runs in the next belongs to the first.
    Bounds are those that steps have in the whole trace.
    """
    core, c = w.core, w.core.columns
    steps = rows_of_kind(c, (Kind.Step,))
    process = process_of_thread(core.threads)[c.thread[steps]]
    order = np.lexsort((c.start_ns[steps], process))
    steps, process = steps[order], process[order]
    place = np.full(len(c) + 1, len(steps))
    place[steps] = np.arange(len(steps))
    end = np.append(c.end_ns[steps], 0)
    np.maximum.at(end, place[core.gpu_step[core.gpu_rows]], c.end_ns[core.gpu_rows])
    end = end[:-1]
    begin = c.start_ns[steps].copy()
    for one in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(process)) + 1):
        end[one] = np.maximum.accumulate(end[one])
        begin[one[1:]] = np.maximum(begin[one[1:]], end[one[:-1]])
    shown = np.isin(steps, w.rows_of_kind(Kind.Step))
    return steps[shown], begin[shown], np.maximum(begin, end)[shown]


def step_breakdown(g: Core | Window) -> Table:
    """How each step spent its time, with every moment counted once, and the mean over steps.

    A moment counts for the first of what goes on in it: kernels, communication, copies, fills, calls of the runtime,
    waiting for the data loader, ops, anything else. GPU work counts where it runs, whatever step launched it.

    Returns:
        One row per step of every process, and one for their mean. No rows without steps.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    steps, begin, end = step_bounds(w)
    title = w.titled("What steps went to")
    if not len(steps):
        return STEP_BREAKDOWN.empty(title, [f"there are no steps ({core.framework.step_mark})"])
    process = process_of_thread(core.threads)
    of_step = process[c.thread[steps]]
    # Each process gets a stretch of time of its own, so that one union serves all.
    several, place = distinct(of_step)
    low = int(begin.min())
    stretch = int(end.max()) - low + 1
    spent = np.zeros((len(_PARTS), len(steps)), np.int64)
    starts: list[Ns] = []
    ends: list[Ns] = []
    before = np.zeros(len(steps), np.int64)
    for part, rows in enumerate(_rows_of_parts(w)):
        owner = _processes(core, process, rows, several)
        inside = np.flatnonzero(np.isin(owner, several))
        moved = np.searchsorted(several, owner[inside]) * stretch
        starts.append(moved + np.clip(c.start_ns[rows[inside]] - low, 0, stretch - 1))
        ends.append(moved + np.clip(c.end_ns[rows[inside]] - low, 0, stretch - 1))
        union = merge(np.concatenate(starts), np.concatenate(ends))
        at = place * stretch - low
        until = length_before(union, end + at) - length_before(union, begin + at)
        spent[part], before = until - before, until
    spent[-1] = end - begin - before
    lasted = end - begin
    names = [core.names[code] for code in c.name[steps].tolist()]
    means = {part: float(ns.mean()) for part, ns in zip(_PARTS, spent, strict=True)}
    columns: dict[str, Cells] = {
        "name": [*names, MEAN],
        "step": [*map(step_number, names), None],
        "pid": [*(str(core.threads[code][0]) for code in c.thread[steps].tolist()), None],
        "start_ms": np.append(core.info.shown_ms(begin), np.nan),
        "step_ms": np.append(lasted, lasted.mean()) / 1e6,
        **{f"{part}_ms": np.append(ns, means[part]) / 1e6 for part, ns in zip(_PARTS, spent, strict=True)},
        **{
            f"{part}_percent": percent(np.append(ns, means[part]), np.append(lasted, lasted.mean()))
            for part, ns in zip(_PARTS, spent, strict=True)
        },
        "uid": [*c.uid[steps].tolist(), None],
    }
    return STEP_BREAKDOWN.table(columns, title, _notes(w, names, begin, end))


def _notes(w: Window, names: Sequence[str], begin: Ns, end: Ns) -> list[str]:
    """Which steps hold much GPU work that none launched, as the first one does where the recording began in a run."""
    core, c = w.core, w.core.columns
    others = w.gpu_rows[core.gpu_step[w.gpu_rows] < 0]
    union = merge(c.start_ns[others], c.end_ns[others])
    held = length_before(union, end) - length_before(union, begin)
    return [
        f"{name}: GPU work that no step launched runs for {ns / 1e6:,.3f} of its {lasted / 1e6:,.3f} ms"
        for name, ns, lasted in zip(names, held.tolist(), (end - begin).tolist(), strict=True)
        if 100 * ns > FOREIGN_PERCENT * lasted
    ][:_NOTES]


def _rows_of_parts(w: Window) -> list[Rows]:
    """Rows of all parts but the last."""
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows
    does, kind = gpu_classes(core, gpu), c.kind[gpu]
    host = rows_of_kind(c, (Kind.Op, Kind.RuntimeCall, Kind.Annotation))
    kinds = c.kind[host]
    loads = fitting_names(core, lambda name: name.startswith(DATA_LOADER))[c.name[host]]
    return [
        gpu[(kind == Kind.Kernel) & (does == COMPUTATION)],
        gpu[does == COMMUNICATION],
        gpu[does == MEMCPY],
        gpu[kind == Kind.Memset],
        host[kinds == Kind.RuntimeCall],
        host[loads],
        host[kinds == Kind.Op],
    ]


def _processes(core: Core, process: Codes, rows: Rows, several: Codes) -> Codes:
    """The process of each row; of GPU events that of their step, and the only one where they have none."""
    c = core.columns
    is_gpu = is_kind(c.kind[rows], GPU_KINDS)
    step = np.where(is_gpu, core.gpu_step[rows], rows)
    alone = several[0] if len(several) == 1 else -1
    return np.where(step >= 0, process[c.thread[step]], alone)
