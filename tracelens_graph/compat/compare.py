"""Comparisons in the files and columns of TraceLens's `compare_perf_reports`.

One departure: a kernel name has one row. The original pairs every row of a name in one run with every row of that
name in the other, so that kernels launched by several ops appear many times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.across.compare import Run, differences, join
from tracelens_graph.analyses.across.outer_join import Joined, canonical
from tracelens_graph.errors import AnalysisError
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

_CALL = ("name", "Input type", "Input Dims", "Input Strides", "Concrete Inputs")
_SPLITS = ("is_recompute", "parent_module")
"""Columns that split rows where a report was asked to."""


@dataclass(frozen=True)
class Sheet:
    """How one table appears.

    Attributes:
        keys: columns that rows are joined on, besides the `param:` columns that all runs have.
        compared: columns with differences; rows are sorted by the first.
        name: name of the result if it is not that of the table.
        split: whether it becomes three: rows of both runs, of the first only, of the other only.
        left_out: columns that are not taken.
        once: columns that are taken from the first run only.
    """

    keys: tuple[str, ...]
    compared: tuple[str, ...]
    name: str = ""
    split: bool = True
    left_out: tuple[str, ...] = ()
    once: tuple[str, ...] = ()


def _with_model(name: str = "") -> Sheet:
    return Sheet(
        ("name",),
        ("Kernel Time (µs)_sum", "Kernel Time (µs)_mean", "name_count", "TFLOPS/s_mean", "TB/s_mean"),
        name,
        once=(
            "GFLOPS_first", "Data Moved (MB)_first", "FLOPS/Byte_first", "Input type_first", "Input Dims_first",
            "Input Strides_first", "Concrete Inputs_first",
        ),
    )  # fmt: skip


SHEETS: Mapping[str, Sheet] = {
    "gpu_timeline": Sheet(("type",), ("time ms",), split=False),
    "ops_summary": Sheet(
        ("name",), ("total_direct_kernel_time_ms", "Count"), split=False,
        left_out=("total_direct_kernel_time_sum",), once=("Cumulative Percentage (%)",),
    ),
    "kernel_summary": Sheet(
        ("Kernel name",),
        ("Kernel duration (µs)_sum", "Kernel duration (µs)_mean", "Kernel duration (µs)_count"), split=False,
        left_out=("Kernel duration (µs)_min", "Kernel duration (µs)_max", "Parent op category"),
    ),
    "ops_unique_args": Sheet(
        _CALL, ("total_direct_kernel_time_sum", "total_direct_kernel_time_mean", "operation_count")
    ),
    "unified_perf_summary": Sheet(_CALL, ("Kernel Time (µs)_sum", "Kernel Time (µs)_mean", "operation_count")),
    "GEMM": _with_model(),
    "SDPA_fwd": _with_model(),
    "SDPA_bwd": _with_model(),
    "CONV_fwd": _with_model(),
    "CONV_bwd": _with_model(),
    "UnaryElementwise": _with_model("un_eltwise"),
    "BinaryElementwise": _with_model("bin_eltwise"),
}  # fmt: skip
"""Name of a report's table -> how it appears."""


def compare_as_tracelens(runs: Mapping[str, Run]) -> dict[str, Table]:
    """The comparison of every run with the first, as TraceLens writes it.

    Columns are `<run>::<column>`, `<column>__<run>_diff` (run less first run) and `<column>__<run>_pct` (in percent
    of the first); tables of ops with arguments are split into `<table>_intersect_<run>`,
    `<table>_only_baseline_<run>` and `<table>_only_variant_<run>`, where columns without any value are dropped.

    Args:
        runs: name of a run -> its tables.

    Raises:
        AnalysisError: there are less than two runs, no table is in all of them, or their rows cannot be compared.
    """
    if len(runs) < 2:
        raise AnalysisError("a comparison needs at least two runs")
    names = [name for name in SHEETS if all(name in set(run) for run in runs.values())]
    if not names:
        raise AnalysisError("there is no table that all runs have")
    found: dict[str, Table] = {}
    for name in names:
        found |= _sheet(name, SHEETS[name], {tag: run[name] for tag, run in runs.items()})
    return found


def _sheet(name: str, sheet: Sheet, tables: Mapping[str, Table]) -> dict[str, Table]:
    first, *rest = tables
    parameters = [{c for c in table.columns if c.startswith("param: ")} for table in tables.values()]
    keys, joined = join(name, [*sheet.keys, *sorted(set.intersection(*parameters)), *_SPLITS], tables)
    out = sheet.name or name
    if not sheet.split:
        order = np.arange(len(joined)) if name == "gpu_timeline" else _descending(joined, first, sheet.compared[0])
        return {out: _table(out, sheet, keys, joined.take(order), first, rest)}
    found = {}
    for tag in rest:
        in_first, in_tag = joined.has(first), joined.has(tag)
        parts = {
            f"{out}_intersect_{tag}": (in_first & in_tag, first, [tag]),
            f"{out}_only_baseline_{tag}": (in_first & ~in_tag, first, []),
            f"{out}_only_variant_{tag}": (in_tag & ~in_first, None, [tag]),
        }
        for part, (rows, base, variants) in parts.items():
            chosen = joined.take(np.flatnonzero(rows))
            chosen = chosen.take(_descending(chosen, base or tag, sheet.compared[0]))
            found[part] = _without_empty(_table(part, sheet, keys, chosen, base, variants))
    return found


def _descending(joined: Joined, tag: str, column: str) -> Rows:
    return np.argsort(-joined.numbers(tag, column), kind="stable") if len(joined) else np.empty(0, np.int64)


def _table(
    name: str, sheet: Sheet, keys: Sequence[str], joined: Joined, first: str | None, rest: Sequence[str]
) -> Table:
    columns: dict[str, Any] = {key: [cells[i] for cells in joined.keys] for i, key in enumerate(keys)}
    if first is not None:
        for column in sheet.compared:
            for tag in rest:
                both = joined.has(first) & joined.has(tag)
                for label, values in differences(joined, first, tag, column).items():
                    columns[label] = np.where(both, values, np.nan)
    for tag in ([first] if first is not None else []) + list(rest):
        without = {*keys, *sheet.left_out, *(() if tag == first else sheet.once)}
        for column in joined.tables[tag].columns:
            if column not in without:
                columns[f"{tag}::{column}"] = joined.cells(tag, column)
    return Table(name, columns)


def _without_empty(table: Table) -> Table:
    """The table without columns in which nothing stands; one without rows keeps all."""
    if not len(table):
        return table
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in table.columns.items()
    }
    held = {name for name, values in plain.items() if any(canonical(value) is not None for value in values)}
    return Table(table.name, {name: values for name, values in table.columns.items() if name in held})
