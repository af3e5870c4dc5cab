"""Sequences of kernels that ops launch again and again, and what fusing one would save."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.opportunities.chains import FUSIBLE, chains_of
from tracelens_graph.analyses.opportunities.launched import Launched, launched
from tracelens_graph.analyses.places.attribution import of_optimizer
from tracelens_graph.analyses.shared.gpu_work import (
    COMPUTATION,
    GPU_TIME,
    PERCENT,
    fitting_names,
    gpu_classes,
    percent,
)
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows

KERNEL_SEQUENCES = TableSchema(
    "kernel_sequences",
    "Which sequences of kernels ops launch again and again, and what fusing them would save.",
    {
        "op": Column.key("name of the op, or of the module without the number of the instance", drop_priority=-1),
        "kernels": Column("number of its GPU events", drop_priority=0),
        "count": Column.count("calls of the op with this sequence", drop_priority=-1),
        "gpu_time_us": GPU_TIME,
        "percent": PERCENT,
        "host_us": Column.total("sum of the durations of the calls", "us"),
        "between_us": Column.total(
            "time from the first start to the last end of the GPU events of a call in which none of them runs", "us"
        ),
        "traffic_us": Column.total(
            "part of gpu_time_us in which elementwise, normalising and reducing ops write and read results that one "
            "fused kernel would keep, as for fusible-chain in opportunities",
            "us",
        ),
        "saved_us": Column.total(
            "the most that fusing saves: between_us + traffic_us, or traffic_us alone if the sequence has "
            "communication or a copy, which nothing fuses",
            "us",
            drop_priority=-1,
        ),
        "uid": Column.uid("the first of the calls"),
        "sequence": Column.listed("names of the GPU events in the order in which they start", drop_priority=2),
    },
)

MIN_KERNELS = 2
_LONGEST = 64
"""Ops of a sequence that are looked at for what fusing saves."""


class _Calls(NamedTuple):
    """Calls, and the GPU events below each, one call after the other; within one by start.

    Attributes:
        rows: the calls.
        gpu: the GPU events.
        of: position of the call of each.
        first: where in `gpu` those of each call begin.
    """

    rows: Rows
    gpu: Rows
    of: Codes
    first: Rows


def kernel_sequences(g: Core | Window, contains: str = "", min_kernels: int = MIN_KERNELS) -> Table:
    """Sequences of GPU events below calls of ops and modules, the greatest GPU time first.

    Calls of one name are alike if the names of the GPU events below them are, in the order of their starts.

    Args:
        contains: what names of the ops or modules contain; of calls within one another the outermost one counts. Empty
            for all names; then it is the innermost one with so many GPU events.
        min_kernels: GPU events that a sequence has at least.

    Raises:
        AnalysisError: `min_kernels` is less than 1.
    """
    if min_kernels < 1:
        raise AnalysisError(f"min_kernels is a number of GPU events of at least 1, not {min_kernels}")
    w = window_of(g)
    core, c = w.core, w.core.columns
    calls = _calls(w, contains, min_kernels)
    group, example = _sequences(core, calls)
    number, size = len(example), np.diff(np.append(calls.first, len(calls.gpu)))
    start, end = c.start_ns[calls.gpu], c.end_ns[calls.gpu]
    busy = union_length_by_group(calls.of, start, end, len(calls.rows))
    between = np.maximum.reduceat(end, calls.first) - start[calls.first] - busy if number else busy
    gpu_ns = sum_by_group(group[calls.of], c.dur_ns[calls.gpu], number)
    between_ns = sum_by_group(group, between, number)
    sequences = [calls.gpu[calls.first[at] : calls.first[at] + size[at]] for at in example.tolist()]
    traffic_ns = gpu_ns * _shares(w, sequences)
    computes = np.array([bool((gpu_classes(core, rows) == COMPUTATION).all()) for rows in sequences], bool)
    columns: dict[str, Cells] = {
        "op": _normal_names(core, calls.rows[example]), "kernels": size[example],
        "count": np.bincount(group, minlength=number), "gpu_time_us": gpu_ns / 1e3,
        "percent": percent(gpu_ns, int(c.dur_ns[w.gpu_rows].sum())),
        "host_us": sum_by_group(group, c.dur_ns[calls.rows], number) / 1e3, "between_us": between_ns / 1e3,
        "traffic_us": traffic_ns / 1e3, "saved_us": (np.where(computes, between_ns, 0) + traffic_ns) / 1e3,
        "uid": c.uid[calls.rows[example]],
        "sequence": [[core.names[code] for code in c.name[rows].tolist()] for rows in sequences],
    }  # fmt: skip
    below = contains or "ops and modules"
    none = f"none has {min_kernels} GPU events or more below it; -p min_kernels=N takes other lengths"
    table = KERNEL_SEQUENCES.table(columns, w.titled(f"Sequences of kernels below {below}"), [none] * (not number))
    return table.take(np.lexsort((calls.rows[example], -gpu_ns)))


def _calls(w: Window, contains: str, min_kernels: int) -> _Calls:
    """The calls of a name with so many GPU events of the window below them; see `kernel_sequences`."""
    c, gpu = w.core.columns, w.gpu_rows
    rows = w.rows_of_kind(Kind.Op, Kind.Module)
    rows = rows[fitting_names(w.core, lambda name: contains in name)[c.name[rows]]]
    # Rows are in pre-order: a call that begins within an earlier one is below it.
    if contains:
        reach = np.maximum.accumulate(c.last[rows])
        rows = rows[np.append(-1, reach[:-1])[: len(rows)] < rows]
    rows = rows[np.searchsorted(gpu, c.last[rows], "right") - np.searchsorted(gpu, rows) >= min_kernels]
    if not contains:
        rows = rows[np.append(rows[1:], len(c))[: len(rows)] > c.last[rows]]
    at, of = expanded(np.searchsorted(gpu, rows), np.searchsorted(gpu, c.last[rows], "right"))
    gpu = gpu[at]
    order = np.lexsort((gpu, c.start_ns[gpu], of))
    return _Calls(rows, gpu[order], of, np.searchsorted(of, np.arange(len(rows))))


def _sequences(core: Core, calls: _Calls) -> tuple[Codes, Rows]:
    """Number of the sequence of each call, and the first call of each."""
    names = core.columns.name[calls.gpu].astype(np.int32)
    edges = np.append(calls.first, len(names)).tolist()
    known: dict[tuple[str, bytes], int] = {}
    group = np.array(
        [
            known.setdefault((name, names[low:high].tobytes()), len(known))
            for name, low, high in zip(_normal_names(core, calls.rows), edges, edges[1:], strict=False)
        ],
        np.int64,
    )
    return group, np.unique(group, return_index=True)[1]


def _normal_names(core: Core, rows: Rows) -> list[str]:
    """Names of calls without what differs between instances of a module."""
    c = core.columns
    pair, first = group_by(c.kind[rows], c.name[rows])
    names = [normal_name(Kind(int(c.kind[row])), core.names[c.name[row]]) for row in rows[first].tolist()]
    return [names[at] for at in pair.tolist()]


def _shares(w: Window, sequences: list[Rows]) -> np.ndarray:
    """Of each sequence the share of its time in which results are moved that a fused kernel would keep."""
    if not sequences:
        return np.zeros(0)
    work = launched(w)
    place = np.zeros(len(w.core.columns), np.int64)
    place[work.kernel] = np.arange(len(work))
    # A kernel belongs to the op whose first kernel stands nearest before it on its stream.
    begins = np.zeros(len(w.core.columns), bool)
    begins[work.kernel] = True
    fusible = np.isin(work.does, FUSIBLE)
    optimizer = of_optimizer(w.core, work.kernel)
    return np.array([_share(w, work, place[rows[begins[rows]]], rows, fusible, optimizer) for rows in sequences])


def _share(w: Window, work: Launched, places: Rows, rows: Rows, fusible: Mask, optimizer: Mask) -> float:
    saved = 0.0
    places = places[:_LONGEST]
    cuts = np.flatnonzero(~fusible[places])
    for run in np.split(places, cuts):
        run = run[fusible[run]]
        for chain in chains_of(work, run.tolist(), bool(len(run)) and bool(optimizer[run[0]])):
            ns = int(work.ns[run[list(chain.places)]].sum())
            saved += ns * (1 - chain.needed / chain.moved)
    return saved / max(int(w.core.columns.dur_ns[rows].sum()), 1)
