"""GPU time by place in the program: what is below a node, lines of Python."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.shared.gpu_work import GPU_BUSY, GPU_SUM, fitting_names
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.graph.arrays import distinct, expanded, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import in_no_other, rows_of_kind
from tracelens_graph.graph.user_code import user_lines
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import FOREST_KINDS, HOST_KINDS, Kind
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_WORK: About = {"gpu_events": Column.count("GPU events below them"), "gpu_sum_us": GPU_SUM, "gpu_busy_us": GPU_BUSY}

GPU_TIME_UNDER = TableSchema(
    "gpu_time_under",
    "GPU time below a node by what is right below it.",
    {
        "kind": Column.key("kind of the nodes right below"),
        "name": Column.key("their name"),
        "nodes": Column.count("nodes of this name with GPU work"),
        **_WORK,
        "percent": Column.share("share of the sum over all rows"),
        "uid": Column.uid("the first of the nodes; ask for it to go on downwards", drop_priority=0),
    },
    counts="node",
)

PYTHON_LINES = TableSchema(
    "python_lines",
    "Which lines of Python launch the GPU time.",
    {
        "name": Column.key(
            "`file(line): function` of the user's or model's frame that it comes from, else of a library's; in "
            "profiles of JAX without one `file:line` that the instruction comes from"
        ),
        "frames": Column.count("calls of it with GPU work; of an instruction's line its instances"),
        **_WORK,
        "percent": Column.share("share of the sum over all GPU events"),
        "uid": Column.uid("the first of these calls or instances"),
    },
)


NO_LINE = "(no line of Python)"


def gpu_time_under(g: Core | Window, under: int | str | None = None) -> Table:
    """GPU time below a node, by its direct children.

    Args:
        under: uid of a node, or the name of modules (`nn.Module: ` may be left out), functions, ops or runtime calls;
            None for the roots. Of nodes of one name inside each other the outermost counts.
        NodeNotFoundError: no node has this uid.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    inside = np.zeros(len(c) + 1, bool)
    if under is None:
        inside[-1] = True  # roots have parent -1
    elif isinstance(under, int):
        inside[core.row(under)] = True
    else:
        inside[_outermost(core, under)] = True
    gpu = w.gpu_rows
    below = np.flatnonzero(inside[c.parent] & is_kind(c.kind, FOREST_KINDS))
    low, high = np.searchsorted(gpu, below), np.searchsorted(gpu, c.last[below], "right")
    below, low, high = below[high > low], low[high > low], high[high > low]
    group, first = group_by(c.kind[below], c.name[below])
    events, of = expanded(low, high)
    work = _work(core, group[of], gpu[events], len(first))
    columns: dict[str, Cells] = {
        "kind": [Kind(kind).name for kind in c.kind[below[first]].tolist()],
        "name": [core.names[code] for code in c.name[below[first]].tolist()],
        "nodes": np.bincount(group, minlength=len(first)),
        **work,
        "percent": 100 * work["gpu_sum_us"] / max(float(work["gpu_sum_us"].sum()), 1e-3),
        "uid": c.uid[below[first]],
    }
    none = []
    if isinstance(under, str) and not len(first):
        none = [f"nothing called {under!r} has GPU work below it; parts of annotations are taken with --annotation"]
    table = GPU_TIME_UNDER.table(columns, w.titled("GPU time by what is right below"), none)
    return table.take(np.argsort(-work["gpu_sum_us"], kind="stable"))


def python_lines(g: Core | Window, without: str | None = None) -> Table:
    """GPU time by line of Python; each GPU event counts for the innermost line of the user.

    That is a frame above its launch that is the user's or a model's, else a library's: what is of the framework says
    nothing about the program (`user_code`; `with_all_frames` of the window counts it). Work of the backward pass comes
    from the line of its forward op, else from the line that called the backward pass. In profiles of JAX, where no
    frame is above it, it is the line that the instruction comes from, as XLA notes it. What has no line comes last.

    Args:
        without: pass over lines whose name holds this text, such as `utils/`, and take the next one above; and over
            such lines of instructions.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows
    frame = user_lines(w, gpu, without)
    lost = np.where(c.parent[gpu] >= 0, len(core.names), len(core.names) + 1)
    code = np.where(frame >= 0, c.name[frame] if len(c) else 0, lost)
    lines: tuple[str, ...] = ()
    if core.programs is not None:
        lines, line = core.programs.sources, _lines_of(core, gpu, without)
        has_line = (frame < 0) & (line >= 0)
        frame = np.where(has_line, c.owner[gpu], frame)
        code = np.where(has_line, len(core.names) + 2 + line, code)
    codes, group = distinct(code)
    frames, first = np.unique(frame[frame >= 0], return_index=True)
    place = group[frame >= 0][first]
    uid = np.full(len(codes), -1, np.int64)
    uid[place[::-1]] = c.uid[frames[::-1]]
    work = _work(core, group, gpu, len(codes))
    names = [*core.names, NO_LINE, NO_LAUNCH, *lines]
    columns: dict[str, Cells] = {
        "name": [names[i] for i in codes.tolist()],
        "frames": np.bincount(place, minlength=len(codes)),
        **work,
        "percent": 100 * work["gpu_sum_us"] / max(float(work["gpu_sum_us"].sum()), 1e-3),
        "uid": [one if one >= 0 else None for one in uid.tolist()],
    }
    notes = [] if len(gpu) else unlinked_notes(w, left_out=False)
    table = PYTHON_LINES.table(columns, w.titled("GPU time by line of Python"), notes)
    return table.take(np.lexsort((-work["gpu_sum_us"], uid < 0)))


def _lines_of(core: Core, gpu: np.ndarray, without: str | None) -> np.ndarray:
    """For each GPU event the place of the line that its op's instruction comes from, -1 for none."""
    assert core.programs is not None
    wanted = np.array([without is None or without not in line for line in core.programs.sources] + [False], bool)
    ops, owner = rows_of_kind(core.columns, (Kind.Op,)), core.columns.owner[gpu]
    if not len(ops):
        return np.full(len(gpu), -1, np.int64)
    line = core.programs.source_place[np.minimum(np.searchsorted(ops, owner), len(ops) - 1)]
    return np.where((owner >= 0) & wanted[line], line, -1)


def _outermost(g: Core, name: str) -> np.ndarray:
    """Rows of calls of this name that lie in no other."""
    c, spellings = g.columns, {name, f"nn.Module: {name}"}
    rows = np.flatnonzero(fitting_names(g, spellings.__contains__)[c.name] & is_kind(c.kind, HOST_KINDS))
    return rows[in_no_other(c.last, rows)]


def _work(g: Core, group: np.ndarray, events: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    c = g.columns
    return {
        "gpu_events": np.bincount(group, minlength=groups),
        "gpu_sum_us": sum_by_group(group, c.dur_ns[events], groups) / 1e3,
        "gpu_busy_us": union_length_by_group(group, c.start_ns[events], c.end_ns[events], groups) / 1e3,
    }
