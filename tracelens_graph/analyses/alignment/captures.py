"""Launches that were recorded into a graph: they ran nothing, but tell what a replay of the graph runs, and where."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

_BEGIN = re.compile(r"^(?:cuda|hip|cu)StreamBeginCapture")
_END = re.compile(r"^(?:cuda|hip|cu)StreamEndCapture")
_RECORDED = frozenset(("launch", "copy", "fill"))
_REPLAY = "launch graph"


def captured_launches(w: Window) -> dict[int, str]:
    """Rows of launches below ops that were recorded into a graph, ascending -> what they launch.

    Of ROCm that is the name of the kernel; of CUDA, whose calls do not say it, `launch`, `copy` or `fill`. None where
    the window also holds a replay: then the replay tells what ran.
    """
    return w.once(_captured_launches)


def _captured_launches(w: Window) -> dict[int, str]:
    core, c = w.core, w.core.columns
    names = core.names
    begins, ends = (_calls(w, [pattern.search(name) is not None for name in names]) for pattern in (_BEGIN, _END))
    if not len(begins):
        return {}
    apis = [normal_name(Kind.RuntimeCall, name) for name in names]
    gpu_calls = np.unique(c.parent[w.gpu_rows])
    if np.isin(_calls(w, [api == _REPLAY for api in apis]), gpu_calls).any():
        return {}
    rows = _calls(w, [api in _RECORDED for api in apis])
    rows = rows[(c.parent[rows] >= 0) & ~np.isin(rows, gpu_calls) & _during(core, rows, begins, ends)]
    events = core.details.events(c.uid[rows].tolist())
    found = {}
    for row, uid in zip(rows.tolist(), c.uid[rows].tolist(), strict=True):
        arguments = events.get(uid, {}).get("args")
        kernel = arguments.get("kernel") if isinstance(arguments, dict) else None
        found[row] = kernel if isinstance(kernel, str) and kernel else apis[c.name[row]]
    return found


def _calls(w: Window, wanted: list[bool]) -> np.ndarray:
    rows = w.rows_of_kind(Kind.RuntimeCall)
    return rows[np.array(wanted, bool)[w.core.columns.name[rows]]]


def _during(core: Core, rows: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Whether each call stands behind a begin of a capture on its thread, before the capture's end."""
    c = core.columns
    inside = np.zeros(len(rows), bool)
    for begin in begins.tolist():
        later = ends[(c.thread[ends] == c.thread[begin]) & (c.start_ns[ends] > c.start_ns[begin])]
        end = c.start_ns[later].min() if len(later) else np.iinfo(np.int64).max
        start = c.start_ns[rows]
        inside |= (c.thread[rows] == c.thread[begin]) & (start > c.start_ns[begin]) & (start < end)
    return inside
