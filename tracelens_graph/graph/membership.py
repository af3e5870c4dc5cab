"""Which step and which annotation every event belongs to.

A host event belongs to the step, and to the innermost annotation of its thread, whose interval holds its start;
steps count for every thread of their process (backward threads launch most of a training step's GPU work). A
GPU event takes both from its launch; one without a launch takes them from the device annotation over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.traversals import first_ending_after, rows_of_kind
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

_HOST_LAYER = (Kind.MemoryEvent,)


class _Ranges:
    """Annotations as nested intervals, per group, ready to be asked for the innermost one at an instant.

    Intervals begin at their rows, and last as long as these unless other durations are given.
    """

    def __init__(self, columns: Columns, rows: Rows, group: Codes, dur_ns: Ns | None = None) -> None:
        # Of equal annotations the first in the file goes outside: `build_forest` decides that by position.
        in_file = np.argsort(columns.uid[rows], kind="stable")
        dur = (columns.dur_ns[rows] if dur_ns is None else dur_ns)[in_file]
        rows, group = rows[in_file], group[in_file]
        start = columns.start_ns[rows]
        forest = build_forest(group, start, dur, np.zeros(len(rows), np.uint8))
        self.rows, self.group = rows[forest.order], group[forest.order]
        self.enclosing = np.where(forest.parent >= 0, self.rows[forest.parent], -1) if len(rows) else rows
        self._parent, self._begin, self._end = forest.parent, start[forest.order], (start + dur)[forest.order]

    def at(self, group: Codes, instants: Ns) -> Rows:
        """Row of the innermost range of the group at each instant, -1 for none."""
        if not len(self.rows):
            return np.full(len(instants), -1, np.int64)
        position = _latest(self.group, self._begin, group, instants)
        position = np.where(self.group[position] == group, position, -1)  # -1 is looked up, too, and stays
        inside = first_ending_after(self._end, self._parent, position, instants)
        return np.where(inside >= 0, self.rows[inside], -1)


def _latest(group: Codes, start: Ns, group_asked: Codes, at: Ns) -> Rows:
    """Position of the last range, of ranges by group and start, that begins at an instant or before; -1 without one."""
    low = min(int(start.min()), int(at.min(initial=start[0])))
    span = max(int(start.max()), int(at.max(initial=start[0]))) - low + 1
    most = max(int(group[-1]), int(group_asked.max(initial=0)))
    if (most + 1) * span >= 2**62:  # absurd times: their order is enough
        ranks = np.unique(np.concatenate((start, at)), return_inverse=True)[1]
        start, at, low, span = ranks[: len(start)], ranks[len(start) :], 0, len(ranks)
    # Group and start in one ascending key: one search serves all groups.
    key, asked = (of.astype(np.int64) * span + (when - low) for of, when in ((group, start), (group_asked, at)))
    return np.searchsorted(key, asked, "right") - 1


def process_of_thread(threads: Sequence[tuple[Any, Any]]) -> Codes:
    """A number for the process of each thread code."""
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(pid, len(codes)) for pid, _ in threads] or [0], np.int64)


def step_rows(columns: Columns, threads: Sequence[tuple[Any, Any]], gpu_only: bool = False) -> Rows:
    """For every row, or for GPU events only, the row of its step, -1 for none."""
    process = process_of_thread(threads)
    annotations = rows_of_kind(columns, (Kind.Step,))
    ranges = _Ranges(columns, annotations, process[columns.thread[annotations]])
    host = _launches(columns) if gpu_only else _host(columns)
    found = _spread(columns, ranges, process[columns.thread], annotations, host)
    if gpu_only:
        found[host] = -1
    return found


def annotation_rows(columns: Columns) -> Rows:
    """For every row the row of the innermost annotation (steps included), -1 for none.

    Of an annotation itself, the one that encloses it.
    """
    annotations = rows_of_kind(columns, (Kind.Annotation, Kind.Step))
    ranges = _Ranges(columns, annotations, columns.thread[annotations].astype(np.int64))
    found = _spread(columns, ranges, columns.thread, annotations, _host(columns))
    found[ranges.rows] = ranges.enclosing
    return found


def inside(columns: Columns, annotations: Rows, group: Codes) -> Mask:
    """For every row whether it belongs to one of some annotations.

    Args:
        columns: the graph's columns.
        annotations: rows of them; they belong to themselves.
        group: per row of the graph a number; an annotation holds host events of its own group only.
    """
    found = within(columns, annotations, group) >= 0
    found[annotations] = True
    return found


def within(columns: Columns, annotations: Rows, group: Codes, dur_ns: Ns | None = None) -> Rows:
    """For every row the row of the innermost of some annotations, or other ranges, that it belongs to, -1 for none.

    Args:
        columns: the graph's columns.
        annotations: rows at which the ranges begin.
        group: as in `inside`.
        dur_ns: durations of the ranges; without them, those of the rows.
    """
    ranges = _Ranges(columns, annotations, group[annotations], dur_ns)
    return _spread(columns, ranges, group, annotations, _host(columns))


def on_device(columns: Columns, annotations: Rows, dur_ns: Ns) -> Rows:
    """For every GPU event the row of the device annotation of its device that its start lies in; -1 for none."""
    found = np.full(len(columns), -1, np.int64)
    gpu, device = rows_of_kind(columns, GPU_KINDS), columns.device.astype(np.int64) + 1
    ranges = _Ranges(columns, annotations, np.maximum(device, 0)[annotations], dur_ns)
    found[gpu] = ranges.at(np.maximum(device, 0)[gpu], columns.start_ns[gpu])
    return found


def calls_at(columns: Columns, rows: Rows) -> Rows:
    """For each row the innermost call of its thread that is going on at its start, -1 for none.

    Args:
        columns: the graph's columns.
        rows: rows of the host that stand beside the call forest, such as instants.
    """
    return calls_of(columns, columns.thread[rows], columns.start_ns[rows])


def calls_of(columns: Columns, threads: Codes, at: Ns) -> Rows:
    """For each of some moments of threads the innermost call that is going on, -1 for none."""
    host = rows_of_kind(columns, HOST_KINDS)
    if not len(at) or not len(host):
        return np.full(len(at), -1, np.int64)
    thread = columns.thread[host]
    turns = np.flatnonzero(np.diff(thread, prepend=-1))  # a thread's calls stand together, those of one after the other
    place = np.full(max(int(thread.max()), int(threads.max())) + 1, -1, np.int64)
    place[thread[turns]] = np.arange(len(turns))
    group = np.repeat(np.arange(len(turns)), np.diff(turns, append=len(host)))
    asked = place[threads]
    position = _latest(group, columns.start_ns[host], asked, at)
    position = np.where((asked >= 0) & (group[position] == asked), position, -1)
    above = columns.parent[host]
    enclosing = np.where(above >= 0, np.searchsorted(host, above), -1)
    inside = first_ending_after(columns.end_ns[host], enclosing, position, at)
    return np.where(inside >= 0, host[inside], -1)


def _host(columns: Columns) -> Rows:
    """Rows of what happens on the host, annotations included."""
    return rows_of_kind(columns, (*HOST_KINDS, *_HOST_LAYER, Kind.Annotation, Kind.Step))


def _launches(columns: Columns) -> Rows:
    """Rows of the calls that launched GPU events."""
    launched = np.zeros(len(columns) + 1, bool)
    launched[columns.parent[rows_of_kind(columns, GPU_KINDS)]] = True
    return np.flatnonzero(launched[:-1])


def _spread(columns: Columns, ranges: _Ranges, group: Codes, annotations: Rows, host: Rows) -> Rows:
    """From the ranges to rows of the host, by their starts, and to GPU events, through their launches."""
    found = np.full(len(columns), -1, np.int64)
    if not len(annotations):
        return found
    found[host] = ranges.at(group[host], columns.start_ns[host])
    gpu = rows_of_kind(columns, GPU_KINDS)
    launched = columns.parent[gpu] >= 0
    found[gpu[launched]] = found[columns.parent[gpu[launched]]]
    lone = gpu[~launched]
    over = device_annotations(columns, lone, columns.name[annotations])
    twin = _host_twins(columns, annotations)
    found[lone] = twin[over] if len(twin) else -1
    return found


def device_annotations(columns: Columns, rows: Rows, names: np.ndarray) -> Rows:
    """Row of the innermost device annotation with one of the names over each GPU row, -1 for none.

    "Over" means on the same device and stream, and holding the row's start.
    """
    annotations = rows_of_kind(columns, (Kind.DeviceAnnotation,))
    annotations = annotations[np.isin(columns.name[annotations], names)]
    lane = _lanes(columns, np.concatenate((annotations, rows)))
    ranges = _Ranges(columns, annotations, lane[: len(annotations)])
    return ranges.at(lane[len(annotations) :], columns.start_ns[rows])


def _lanes(columns: Columns, rows: Rows) -> Codes:
    """A small number for the (device, stream) of each row."""
    streams, stream = np.unique(columns.stream[rows], return_inverse=True)
    lane = (columns.device[rows].astype(np.int64) + 1) * len(streams) + stream
    return np.unique(lane, return_inverse=True)[1]


def _host_twins(columns: Columns, annotations: Rows) -> Rows:
    """For every row of a device annotation the host annotation among `marks` that it mirrors; -1 elsewhere.

    The last entry is -1, so that an index of -1 finds nothing. Twins share name and External id, else name alone.
    """
    twin = np.full(len(columns) + 1, -1, np.int64)
    by_id = {(int(columns.name[m]), int(columns.external_id[m])): m for m in annotations.tolist()}
    by_name: dict[int, int] = {}
    for annotation in annotations.tolist():
        by_name.setdefault(int(columns.name[annotation]), annotation)
    for row in rows_of_kind(columns, (Kind.DeviceAnnotation,)).tolist():
        name = int(columns.name[row])
        twin[row] = by_id.get((name, int(columns.external_id[row])), by_name.get(name, -1))
    return twin
