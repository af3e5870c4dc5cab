"""GPU time by place in the program: modules, what is below a node, lines of Python."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses import modules as module_tree
from tracelens_graph.analyses.grouping import Cells, group_by
from tracelens_graph.analyses.launchers import NO_LAUNCH
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import FOREST_KINDS, HOST_KINDS, Kind
from tracelens_graph.table import Column, Table

NO_LINE = "(no line of Python)"

_LINE_MARK = "): "
"""What names of frames with a line hold: `model.py(42): forward`. Frames of built-in functions have none."""

MODULES = {
    "module_path": Column("names of the modules from the top, joined by /; only its end where it is very long"),
    "depth": Column("1 for modules in no other"),
    "module": Column("name of the module; a line without uid is none"),
    "class": Column("the name without the number of the instance"),
    "calls": Column("calls, recomputation included"),
    "forward_us": Column("GPU time launched by the module, modules inside included; all that is not backward", "us"),
    "backward_us": Column("GPU time of the backward ops of forward ops in the module, modules inside included", "us"),
    "total_us": Column("forward and backward", "us"),
    "own_us": Column("the part of it that is in no module inside; adds up over all rows", "us"),
    "percent": Column("total_us as share of the sum over all GPU events", "%"),
    "uid": Column("the first call"),
}

_WORK = {
    "gpu_events": Column("GPU events below them"),
    "gpu_sum_us": Column("sum of their durations", "us"),
    "gpu_busy_us": Column("length of the union of these GPU events", "us"),
}

GPU_TIME_UNDER = {
    "kind": Column("kind of the nodes right below"),
    "name": Column("their name"),
    "nodes": Column("nodes of this name with GPU work"),
    **_WORK,
    "percent": Column("share of the sum over all rows", "%"),
    "uid": Column("the first of the nodes; ask for it to go on downwards"),
}

PYTHON_LINES = {
    "name": Column("`file(line): function` of the innermost such frame above the launch"),
    "frames": Column("calls of it with GPU work"),
    **_WORK,
    "percent": Column("share of the sum over all GPU events", "%"),
    "uid": Column("the first of these calls"),
}

ABOUT = {"modules": MODULES, "gpu_time_under": GPU_TIME_UNDER, "python_lines": PYTHON_LINES}
"""Name of a query -> its columns."""


def modules(g: Core, step: int | None = None) -> Table:
    """GPU time of every nn.Module by its place in the module tree, as in the module view.

    Raises:
        AnalysisError: the trace has no such step.
    """
    w = g.window(step=step)
    found = module_tree.modules(w)
    depth, total, uid = found["depth"], found["total us"], found["uid"]
    own = np.rint(np.asarray(total) * 1000).astype(np.int64)
    below, at, shown = np.zeros_like(own), [0] * (len(found) + 1), []
    for row, level in enumerate(np.asarray(depth).tolist()):
        at[level] = row
        if level == 0:
            continue
        if level == 1 or uid[row] is not None:
            shown.append(row)
        if level > 1 and uid[row] is not None:
            below[at[level - 1]] += own[row]
    renamed = {name.replace(" ", "_"): cells for name, cells in found.columns.items()} | {
        "module_path": found["path"],
        "own_us": (own - below) / 1e3,
    }
    columns = {name: renamed[name] for name in MODULES}
    return Table("modules", columns, MODULES, w.titled("GPU time by nn.Module")).take(np.array(shown, np.int64))


def gpu_time_under(g: Core, under: int | str | None = None, step: int | None = None) -> Table:
    """GPU time below a node by what is right below it: one step on the way down.

    Args:
        g: the graph.
        under: uid of a node, or the name of modules (`nn.Module: ` may be left out), functions, ops or runtime calls;
            None for the roots. Of nodes of one name inside each other the outermost counts.
        step: n of `ProfilerStep#n`.

    Raises:
        AnalysisError: the trace has no such step.
        NodeNotFoundError: no node has this uid.
    """
    w, c = g.window(step=step), g.columns
    inside = np.zeros(len(c) + 1, bool)
    if under is None:
        inside[-1] = True  # roots have parent -1
    elif isinstance(under, int):
        inside[g.row(under)] = True
    else:
        inside[_outermost(g, under)] = True
    gpu = w.gpu_rows
    below = np.flatnonzero(inside[c.parent] & is_kind(c.kind, FOREST_KINDS))
    low, high = np.searchsorted(gpu, below), np.searchsorted(gpu, c.last[below], "right")
    below, low, high = below[high > low], low[high > low], high[high > low]
    group, first = group_by(c.kind[below], c.name[below])
    size = high - low
    events = gpu[np.repeat(low - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))]
    work = _work(g, np.repeat(group, size), events, len(first))
    columns: dict[str, Cells] = {
        "kind": [Kind(kind).name for kind in c.kind[below[first]].tolist()],
        "name": [g.names[code] for code in c.name[below[first]].tolist()],
        "nodes": np.bincount(group, minlength=len(first)),
        **work,
        "percent": 100 * work["gpu_sum_us"] / max(float(work["gpu_sum_us"].sum()), 1e-3),
        "uid": c.uid[below[first]],
    }
    table = Table("gpu_time_under", columns, GPU_TIME_UNDER, w.titled("GPU time by what is right below"))
    return table.take(np.argsort(-work["gpu_sum_us"], kind="stable"))


def python_lines(g: Core, without: str | None = None, step: int | None = None) -> Table:
    """Lines of Python and the GPU time that they launch: of each GPU event the innermost frame above its launch.

    Args:
        g: the graph.
        without: pass over frames whose name holds this text, such as `torch/`, and take the next one above.
        step: n of `ProfilerStep#n`.

    Raises:
        AnalysisError: the trace has no such step.
    """
    w, c = g.window(step=step), g.columns
    fits = [_LINE_MARK in name and (without is None or without not in name) for name in g.names]
    stops = (c.kind == Kind.PythonFunction) & np.array([*fits, False], bool)[c.name]
    gpu = w.gpu_rows
    frame = climb(c.parent, c.parent[gpu], stops)
    lost = np.where(c.parent[gpu] >= 0, len(g.names), len(g.names) + 1)
    codes, group = distinct(np.where(frame >= 0, c.name[frame] if len(c) else 0, lost))
    frames = np.unique(frame[frame >= 0])
    place = np.searchsorted(codes, c.name[frames])
    uid = np.full(len(codes), -1, np.int64)
    uid[place[::-1]] = c.uid[frames[::-1]]
    work = _work(g, group, gpu, len(codes))
    columns: dict[str, Cells] = {
        "name": [([*g.names, NO_LINE, NO_LAUNCH])[i] for i in codes.tolist()],
        "frames": np.bincount(place, minlength=len(codes)),
        **work,
        "percent": 100 * work["gpu_sum_us"] / max(float(work["gpu_sum_us"].sum()), 1e-3),
        "uid": [one if one >= 0 else None for one in uid.tolist()],
    }
    table = Table("python_lines", columns, PYTHON_LINES, w.titled("GPU time by line of Python"))
    return table.take(np.argsort(-work["gpu_sum_us"], kind="stable"))


def _outermost(g: Core, name: str) -> np.ndarray:
    """Rows of calls of this name that lie in no other."""
    c, spellings = g.columns, {name, f"nn.Module: {name}"}
    fits = np.array([*(one in spellings for one in g.names), False], bool)
    rows = np.flatnonzero(fits[c.name] & is_kind(c.kind, HOST_KINDS))
    reach = np.maximum.accumulate(np.concatenate(([-1], c.last[rows[:-1]]))) if len(rows) else rows
    return rows[rows > reach]


def _work(g: Core, group: np.ndarray, events: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    c = g.columns
    return {
        "gpu_events": np.bincount(group, minlength=groups),
        "gpu_sum_us": sum_by_group(group, c.dur_ns[events], groups) / 1e3,
        "gpu_busy_us": union_length_by_group(group, c.start_ns[events], c.end_ns[events], groups) / 1e3,
    }
