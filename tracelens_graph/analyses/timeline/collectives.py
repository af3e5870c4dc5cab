"""Collectives of one rank: their kernels, the arguments these carry, and the table of both."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.call_columns import statistic
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import Cells, Groups, text_codes
from tracelens_graph.graph.collectives import element_bytes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, shown, statistics
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

TEXTS = {"Process Group Name": "group", "Collective name": "kind", "dtype": "dtype"}
NUMBERS = {"Group size": "group_size", "In msg nelems": "in_elements", "Out msg nelems": "out_elements"}
LISTS = {"Process Group Ranks": "ranks", "In split size": "in_split", "Out split size": "out_split"}
"""Column -> argument of the kernel, by what its cells hold."""

KEYS = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "Out msg nelems", "In split size", "Out split size",
)  # fmt: skip
"""The columns, in the order of TraceLens's tables."""

FIELDS = tuple((TEXTS | NUMBERS | LISTS)[key] for key in KEYS)
"""The argument behind each of them."""


def communication_kernels(w: Window) -> tuple[np.ndarray, np.ndarray]:
    """Kernels that communicate, and where their arguments stand.

    A kernel communicates if it is named so or has collective arguments. Its own arguments count, and where it carries
    none those of the op that it is charged to.

    Returns:
        Rows of the kernels, ascending, and for each the row of the event with its arguments; -1 for none.
    """
    core, c = w.core, w.core.columns
    kernels = w.rows_of_kind(Kind.Kernel)
    named = gpu_classes(core, kernels) == COMMUNICATION
    recorded = core.rows_of(core.collective_args)
    recorded = recorded[recorded >= 0]
    found = kernels[named | np.isin(kernels, recorded)]
    source = np.where(np.isin(found, recorded), found, c.owner[found])
    return found, np.where(np.isin(source, recorded), source, -1)


def argument_cell(column: str, value: Any) -> Any:
    """An argument as its column has it; what cannot be read so stays text."""
    if value is None:
        return None
    try:
        if column in NUMBERS and isinstance(value, int | str):
            return int(value)
        if column in LISTS:
            found = json.loads(value) if isinstance(value, str) else value
            if isinstance(found, list) and all(isinstance(number, int) for number in found):
                return found
    except (ValueError, RecursionError):
        pass
    return str(value)


def megabytes(elements: Any, dtype: str | None) -> float:
    """Size of a message in units of 2**20 bytes, NaN where number or type of the elements is not known."""
    size = element_bytes(dtype)
    readable = isinstance(elements, int) and abs(elements) < 2**63
    return elements * size / 2**20 if size and readable else np.nan


_DURATIONS = statistics(
    "dur_{}",
    "the durations of the kernels, waiting for other ranks included",
    "us",
    ("sum", "mean", "std", "min", "max"),
)

COLL_ANALYSIS = TableSchema(
    "coll_analysis",
    "Which collectives ran, how large their messages were, and how long they took on this rank.",
    {
        "rank": Column("rank in the job, 0 where the trace does not say"),
        "Process Group Name": Column.key("name of the process group", "group"),
        "Process Group Ranks": Column.key("ranks in it; text where the trace does not list them all", cells="list"),
        "Collective name": Column.key("operation", "collective"),
        "Group size": Column.key("number of ranks in the process group", "ranks", "number"),
        "dtype": Column.key("type of the elements", "type"),
        "In msg nelems": Column.key("elements this rank puts in", cells="number"),
        "Out msg nelems": Column.key("elements this rank gets out", cells="number"),
        "In split size": Column.key("elements to each rank, of an uneven all-to-all", cells="list"),
        "Out split size": Column.key("elements from each rank, of an uneven all-to-all", cells="list"),
        "stream": Column("stream on the device", heading="stream"),
        "In msg size (MB)_first": Column("elements put in times their size", "MiB", heading="in MiB"),
        "Out msg size (MB)_first": Column("elements got out times their size", "MiB", heading="out MiB"),
        **shown(_DURATIONS, dur_sum="sum us", dur_mean="mean us", dur_max="max us"),
        "operation_count": Column.count("kernels", "kernels"),
    },
)


def coll_analysis(g: Core | Window) -> Table:
    """Communication kernels by process group, collective, type, size and stream, the greatest sum first.

    A kernel counts with its own arguments, and where it carries none with those of the op it is charged to. Cells
    of what was not recorded are empty. Kernels count whether their launch is in the trace or not.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    communication, source = communication_kernels(w)
    known = source >= 0
    rows, source = communication[known], source[known]
    # In the order of their starts, so that the first of a group is the earliest.
    by_start = np.lexsort((c.uid[rows], c.start_ns[rows]))
    rows, source = rows[by_start], source[by_start]
    arguments = [core.collective_args[uid] for uid in c.uid[source].tolist()]
    keys = [(*(str(args.get(field)) for field in FIELDS), stream)
            for args, stream in zip(arguments, c.stream[rows].tolist(), strict=True)]  # fmt: skip
    group = text_codes(keys)
    _, first = np.unique(group, return_index=True)
    firsts = [arguments[i] for i in first.tolist()]
    times = Groups(group, c.dur_ns[rows], len(first))
    columns: dict[str, Cells] = {"rank": np.full(len(first), core.info.rank or 0)}
    for key, field in zip(KEYS, FIELDS, strict=True):
        columns[key] = [argument_cell(key, args.get(field)) for args in firsts]
    columns["stream"] = [stream if stream >= 0 else None for stream in c.stream[rows[first]].tolist()]
    for way in ("In", "Out"):
        sizes = [megabytes(*pair) for pair in zip(columns[f"{way} msg nelems"], columns["dtype"], strict=True)]
        columns[f"{way} msg size (MB)_first"] = np.array(sizes, float)
    columns |= {f"dur_{which}": statistic(times, which) / 1e3 for which in ("sum", "mean", "std", "min", "max")}
    columns["operation_count"] = times.count
    order = np.lexsort((np.arange(len(first)), -times.sum))
    notes = _notes(w, communication, known, int(np.count_nonzero(source != rows)), columns["dtype"])
    return COLL_ANALYSIS.table(columns, w.titled("Collectives"), notes).take(order)


def _notes(w: Window, kernels: np.ndarray, known: np.ndarray, borrowed: int, dtypes: Cells) -> list[str]:
    """What a reader must know: kernels left out, arguments from elsewhere, types without a size."""
    if not len(kernels):
        return [f"the {'window' if w.title else 'trace'} has no communication kernels"]
    notes = []
    if not known.all():
        lost = w.core.columns.dur_ns[kernels[~known]]
        ms = int(lost.sum()) / 1e6
        notes.append(f"{len(lost):,} communication kernels ({ms:,.3f} ms) carry no arguments: left out")
    if borrowed:
        notes.append(
            f"{borrowed:,} communication kernels carry no arguments of their own: shown with those of their op"
        )
    if strange := sorted({dtype for dtype in dtypes if dtype is not None and element_bytes(dtype) is None}):
        notes.append(f"no size is known for elements of type {', '.join(f'{dtype:.64}' for dtype in strange)}")
    return notes
