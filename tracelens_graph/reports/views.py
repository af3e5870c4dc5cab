"""Tables as people want to see them: fewer columns, short headings, the first rows, and where to find an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.short_names import short_name
from tracelens_graph.graph.core import Core
from tracelens_graph.reports.terminal import shorten
from tracelens_graph.table import Column, Table


@dataclass(frozen=True)
class View:
    """How a table is shown.

    Attributes:
        columns: column -> heading; columns that the table lacks are passed over.
        instance: column with the uid of an instance, which is then shown with what Perfetto UI finds it by.
        whole: whether all rows are shown, however few are asked for.
    """

    columns: Mapping[str, str]
    instance: str = ""
    whole: bool = False


_LONGEST = 80
"""Characters of a name or a list; kernels of C++ templates have thousands."""

_SPLIT = {"parent_module": "module", "is_recompute": "recompute"}
_SHARES = {"Percentage (%)": "%", "Cumulative Percentage (%)": "sum %"}

VIEWS: Mapping[str, View] = {
    "gpu_timeline": View(
        {"type": "type", "time ms": "time ms", "percent": "percent", "is_recompute": "recompute"}, whole=True
    ),
    "ops_summary_by_category": View(
        {"op category": "category", **_SPLIT, "Count": "calls", "total_direct_kernel_time_ms": "GPU ms", **_SHARES}
    ),
    "ops_summary": View(
        {
            "name": "op", **_SPLIT, "Categories": "category", "Count": "calls",
            "total_direct_kernel_time_ms": "GPU ms", "total_subtree_kernel_time_ms": "below ms", **_SHARES,
            "call_stack_first": "modules",
        }
    ),
    "ops_unique_args": View(
        {
            "name": "op", "Input Dims": "shapes", **_SPLIT, "num_kernels": "kernels", "operation_count": "calls",
            "total_direct_kernel_time_mean": "mean us", "total_direct_kernel_time_sum": "sum us",
            "Percentage (%)": "%", "overlap_pct_mean": "overlap", "overlapping_kernel_names": "beside",
            "first_occurrence_time": "first us", "call_stack": "modules", "entry_point": "called from",
        },
        instance="ex_UID",
    ),
    "kernel_summary": View(
        {
            "Kernel name": "kernel", "kernel_category": "does", "Parent cpu_op": "op", "Parent op category": "category",
            "Kernel stream": "stream", "Kernel duration (µs)_count": "count", "Kernel duration (µs)_mean": "mean us",
            "Kernel duration (µs)_sum": "sum us", "Percent of kernels time (%)": "%",
        },
        instance="ex_UID",
    ),
    "unified_perf_summary": View(
        {
            "name": "op", "Input Dims": "shapes", "is_recompute": "recompute", "operation_count": "calls",
            "Kernel Time (µs)_mean": "mean us", "Kernel Time (µs)_sum": "sum us", "Percentage (%)": "%",
            "GFLOPS": "GFLOP", "Data Moved (MB)": "MB", "TFLOPS/s_mean": "TFLOPS/s", "TB/s_mean": "TB/s",
            "Roofline Bound": "bound", "Pct Roofline_mean": "% of roof",
        },
        instance="ex_UID",
    ),
    "coll_analysis": View(
        {
            "Collective name": "collective", "Process Group Name": "group", "Group size": "ranks", "dtype": "type",
            "In msg size (MB)_first": "in MB", "Out msg size (MB)_first": "out MB", "stream": "stream",
            "operation_count": "count", "dur_mean": "mean us", "dur_max": "max us", "dur_sum": "sum us",
        }
    ),
    "runtime_summary": View(
        {
            "name": "runtime call", "calls": "calls", "host_sum_us": "host us", "host_mean_us": "mean us",
            "gpu_events": "GPU events", "gpu_sum_us": "GPU us", "delay_median_us": "delay us", "delay_p90_us": "p90 us",
        },
        instance="longest_uid",
    ),
    "step_summary": View(
        {
            "name": "step", "step_time_ms": "step ms", "gpu_events": "GPU events", "computation_time_ms": "compute ms",
            "exposed_comm_time_ms": "exp. comm ms", "busy_time_ms": "busy ms", "idle_time_ms": "idle ms",
            "busy_percent": "busy % of step", "top_ops": "top ops",
        },
        instance="uid",
    ),
}  # fmt: skip
"""Name of a table -> its view. Other tables are shown whole."""

_PARAMETER = "param: "
_SHEET = View(
    {
        "name": "op", _PARAMETER: "", "is_recompute": "recompute", "name_count": "calls",
        "Kernel Time (µs)_mean": "mean us", "Kernel Time (µs)_sum": "sum us", "GFLOPS_first": "GFLOP",
        "Data Moved (MB)_first": "MB", "TFLOPS/s_mean": "TFLOPS/s", "TB/s_mean": "TB/s", "Roofline Bound": "bound",
        "Pct Roofline_mean": "% of roof",
    },
    instance="UID_first",
)  # fmt: skip
"""View of the tables by family of operations, each of which has parameters of its own."""


def is_sheet(table: Table) -> bool:
    """Whether a table is that of a family of operations: too wide, and too many, to be read one after the other."""
    return table.name not in VIEWS and _SHEET.instance in table.columns


def view(table: Table, core: Core) -> Table:
    """The columns of a table that people are shown."""
    how = _view_of(table)
    if how is None:
        return table
    shown = {column: heading for column, heading in how.columns.items() if column in table.columns}
    columns: dict[str, np.ndarray | list[Any]] = {}
    about = {}
    for column, heading in shown.items():
        cells = table[column]
        columns[heading] = _short_cells([_kernel(name) for name in cells] if column == "Kernel name" else cells)
        about[heading] = table.about.get(column, Column(""))
    if how.instance:
        columns |= instances(core, list(table[how.instance]))
        about["start ms"] = Column("start, from the trace's start", "ms")
    return Table(table.name, columns, about, table.title, table.notes)


def _view_of(table: Table) -> View | None:
    if not is_sheet(table):
        return VIEWS.get(table.name)
    parameters = {name: name.removeprefix(_PARAMETER) for name in table.columns if name.startswith(_PARAMETER)}
    columns: dict[str, str] = {}
    for column, heading in _SHEET.columns.items():
        columns |= parameters if column == _PARAMETER else {column: heading}
    return View(columns, _SHEET.instance)


def instances(core: Core, uids: Sequence[int | None]) -> dict[str, list[Any]]:
    """Columns by which Perfetto UI finds an event: uid, External id, process and thread, start."""
    rows = core.rows_of(-1 if uid is None else uid for uid in uids).tolist()
    c = core.columns
    ids = [int(c.external_id[row]) if row >= 0 else -1 for row in rows]
    places = [core.threads[c.thread[row]] if row >= 0 else None for row in rows]
    return {
        "uid": list(uids),
        "ext id": [number if number >= 0 else None for number in ids],
        "pid/tid": ["" if place is None else f"{place[0]}/{place[1]}" for place in places],
        "start ms": [int(c.start_ns[row]) / 1e6 if row >= 0 else None for row in rows],
    }


def top(table: Table, count: int) -> Table:
    """The first rows of a table, and those in brackets: what no name stands for is shown however few are asked for.

    Args:
        table: the table.
        count: how many rows; 0 for all.
    """
    if not count or len(table) <= count or (table.name in VIEWS and VIEWS[table.name].whole):
        return table
    labels = next(iter(table.columns.values()))
    brackets = [row for row, label in enumerate(labels) if isinstance(label, str) and label.startswith("(")]
    shown = np.union1d(np.arange(count), brackets).astype(np.int64)
    cut = table.take(shown)
    if hidden := len(table) - len(shown):
        cut.notes = [*table.notes, f"{hidden:,} more {'row' if hidden == 1 else 'rows'} (--top 0 shows all)"]
    return cut


def column_named(table: Table, name: str) -> str | None:
    """The column of a table that has this name or, in its view, this heading; None if none has."""
    if name in table.columns:
        return name
    how = _view_of(table)
    headings = {heading: column for column, heading in how.columns.items()} if how else {}
    return column if (column := headings.get(name)) in table.columns else None


def sort(table: Table, column: str) -> Table:
    """A table by one of its columns: numbers from the greatest, texts from the first; absent values last."""
    values = list(table[column])
    known = [i for i, value in enumerate(values) if value is not None and value == value]
    numbers = all(isinstance(values[i], int | float | np.number) for i in known)
    known.sort(key=lambda i: -values[i] if numbers else str(values[i]))
    missing = sorted(set(range(len(values))) - set(known))
    return table.take(np.array(known + missing, np.int64))


def _kernel(name: str) -> str:
    """A kernel's name without templates and parameters; of a generic one with the function that it applies."""
    functor = properties(name).get("functor")
    return f"{short_name(name)} [{functor}]" if functor else short_name(name)


def _short_cells(cells: Any) -> Any:
    if isinstance(cells, np.ndarray):
        return cells
    texts = (_list_text(cell) if isinstance(cell, list) else cell for cell in cells)
    return [shorten(text, _LONGEST) if isinstance(text, str) else text for text in texts]


def _list_text(cell: list[Any]) -> str:
    """A list in few characters: shapes as `[8,16] [16,4]`, shares as `aten::mm 30 %`, names with commas."""
    if all(isinstance(part, dict) for part in cell):
        return ", ".join(f"{part['name']} {part['percent']:.0f} %" for part in cell)
    if all(isinstance(part, list) for part in cell):
        return " ".join(str(part).replace(" ", "") for part in cell if part)
    return ", ".join(map(str, cell))
