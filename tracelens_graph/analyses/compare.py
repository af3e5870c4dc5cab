"""Runs side by side: what took longer, what took less, and what only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.launchers import NO_LAUNCH
from tracelens_graph.analyses.outer_join import Joined
from tracelens_graph.errors import AnalysisError
from tracelens_graph.schema.tables import COMPARISON
from tracelens_graph.table import Column, Table

Run = Mapping[str, Table]
"""The tables of a report by name."""


@dataclass(frozen=True)
class Comparison:
    """How one table is compared.

    Attributes:
        title: what it is about.
        keys: columns that tell its rows apart.
        main: column by whose change rows are sorted, in `unit`.
        count: column that counts what a row stands for, which is called `counted`.
        others: further columns with differences.
        carried: columns of text that the rows keep.
        shown: columns that stand beside each other without a difference.
        label: keys that people need to see; by default all.
        in_order: rows keep their order, and rows that share a key may not be summed.
    """

    title: str
    keys: tuple[str, ...]
    main: str
    unit: str
    count: str = ""
    others: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    in_order: bool = False
    counted: str = "call"

    @property
    def compared(self) -> list[str]:
        """All columns with differences."""
        return [column for column in (self.main, *self.others, self.count) if column]


CALL = ("name", "Input type", "Input Dims", "Input Strides", "Concrete Inputs")
"""What tells ops with arguments apart. The names of processes and threads do not: they differ from run to run."""

COMPARISONS: Mapping[str, Comparison] = {
    "gpu_timeline": Comparison("GPU timeline", ("type",), "time ms", "ms", shown=("percent",), in_order=True),
    "ops_summary_by_category": Comparison(
        "GPU time by category", ("op category",), "total_direct_kernel_time_ms", "ms", "Count"
    ),
    "ops_summary": Comparison(
        "GPU time by op", ("name",), "total_direct_kernel_time_ms", "ms", "Count",
        others=("total_subtree_kernel_time_ms",), carried=("Categories",),
    ),
    "ops_unique_args": Comparison(
        "GPU time by op and arguments", CALL, "total_direct_kernel_time_sum", "us", "operation_count",
        others=("total_direct_kernel_time_mean", "total_subtree_kernel_time_sum"), carried=("op category",),
        shown=("total_direct_kernel_time_min", "total_direct_kernel_time_max", "ex_UID"),
        label=("name", "Input Dims"),
    ),
    "unified_perf_summary": Comparison(
        "GPU time and performance by op and arguments", CALL, "Kernel Time (µs)_sum", "us", "operation_count",
        others=("Kernel Time (µs)_mean", "TFLOPS/s_mean", "TB/s_mean"), carried=("op category",), shown=("ex_UID",),
        label=("name", "Input Dims"),
    ),
    "kernel_summary": Comparison(
        "Time by kernel", ("Parent cpu_op", "Kernel name"), "Kernel duration (µs)_sum", "us",
        "Kernel duration (µs)_count", others=("Kernel duration (µs)_mean",), carried=("Parent op category",),
        shown=("Kernel duration (µs)_min", "Kernel duration (µs)_max"), counted="kernel",
        label=("Kernel name", "Parent cpu_op"),
    ),
}  # fmt: skip
"""Name of a table -> how it is compared."""

SPLITS = ("is_recompute", "parent_module")
"""Columns that split rows where a report was told to."""


def lacked(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Table that can be compared -> the runs that do not have it."""
    return {name: [tag for tag, run in runs.items() if name not in run] for name in COMPARISONS}


def notes_on_lacked(runs: Mapping[str, Run]) -> list[str]:
    """What is to be said of tables that some runs have and others lack."""
    return [
        f"{name} is not compared: {', '.join(without)} does not have it"
        for name, without in lacked(runs).items()
        if 0 < len(without) < len(runs)
    ]


def compare(runs: Mapping[str, Run], tables: Iterable[str] | None = None) -> dict[str, Table]:
    """Join the tables of several runs, each run against the first.

    Rows are joined on what they are about (`COMPARISONS[name].keys`), after those of one run that share it were
    summed. For every compared column `c` and run `r` there is `r::c`, and from the second run on `c__r_diff`
    (value less that of the first run; a sum or count that a run does not have is 0, a mean is unknown) and
    `c__r_pct` (that difference in percent of the first run's value). `only_in` names the runs that have a row
    which others lack. The differences of sums add up to the difference of the totals. Rows are sorted by the
    size of the largest difference; the timeline keeps its order.

    Args:
        runs: name of a run -> its tables, as `report_tables` or a folder of CSV files gives them.
        tables: which to compare; by default all of `COMPARISONS` that every run has.

    Raises:
        AnalysisError: there are less than two runs, a table is not there or none is, or their rows cannot be
            compared.
    """
    if len(runs) < 2:
        raise AnalysisError("a comparison needs at least two runs")
    lacking = lacked(runs)
    wanted = [name for name, without in lacking.items() if not without] if tables is None else list(tables)
    for name in wanted:
        if name not in COMPARISONS:
            raise AnalysisError(f"there is no comparison of {name!r}; there are {', '.join(COMPARISONS)}")
        if lacking[name]:
            raise AnalysisError(f"{lacking[name][0]} has no table {name}")
    if not wanted:
        raise AnalysisError("there is no table that all runs have")
    compared = {name: _compared(name, {tag: run[name] for tag, run in runs.items()}) for name in wanted}
    if tables is None:
        first = compared[wanted[0]]
        first.notes = [*first.notes, *notes_on_lacked(runs)]
    return compared


def join(name: str, keys: Sequence[str], tables: Mapping[str, Table]) -> tuple[list[str], Joined]:
    """The tables of one name joined on keys, and on what all of them were split by; returns those keys too.

    Raises:
        AnalysisError: they do not have these keys, or only some timelines were split.
    """
    held = [table.columns for table in tables.values() if table.columns]
    by = [*keys]
    for split in SPLITS:
        having = [split in columns for columns in held]
        if held and all(having):
            by.append(split)
        elif any(having) and name == "gpu_timeline":
            raise AnalysisError(f"only some of the timelines are split by {split}, so they cannot be compared")
    if name == "gpu_timeline":
        tables = _with_equal_idle_rows(tables)
    if name == "kernel_summary":  # TraceLens leaves the parent of a kernel without a launch empty
        tables = {
            tag: _mapped(table, "Parent cpu_op", {"": NO_LAUNCH, None: NO_LAUNCH}) for tag, table in tables.items()
        }
    return by, Joined.of(tables, by)


def _with_equal_idle_rows(tables: Mapping[str, Table]) -> Mapping[str, Table]:
    """The timelines; where only some split idle time into short and long gaps, none does."""
    split = {"micro_idle_time" in table.columns.get("type", ()) for table in tables.values() if len(table)}
    if len(split) < 2:
        return tables
    whole = {"micro_idle_time": "idle_time", "macro_idle_time": "idle_time"}
    return {tag: _mapped(table, "type", whole) for tag, table in tables.items()}


def _mapped(table: Table, column: str, names: Mapping[Any, str]) -> Table:
    """The table with other names in a column."""
    if column not in table.columns:
        return table
    cells = [names.get(cell, cell) for cell in table[column]]
    return Table(table.name, {**table.columns, column: cells}, table.about, table.title, table.notes)


def _compared(name: str, tables: Mapping[str, Table]) -> Table:
    how = COMPARISONS[name]
    keys, joined = join(name, how.keys, tables)
    tags = list(tables)
    if not how.in_order:
        joined = joined.take(_by_change(joined, tags, how.main))
    about = {column: about for table in tables.values() for column, about in table.about.items()}
    columns: dict[str, Any] = {}
    told: dict[str, Column] = {}
    for place, key in enumerate(keys):
        columns[key] = [_as_list(cells[place]) for cells in joined.keys]
        told[key] = about.get(key, Column("what tells rows apart"))
    for column in how.carried:
        if any(column in table.columns for table in tables.values()):
            columns[column] = joined.combined(column)
            told[column] = about.get(column, Column("kept from the runs"))
    columns["only_in"] = _only_in(joined, tags)
    told["only_in"] = COMPARISON["only_in"]
    for column in (*how.compared, *how.shown):
        if not any(column in table.columns for table in tables.values()):
            continue
        what = about.get(column, Column(column, how.unit if column == how.main else ""))
        for tag in tags:
            columns[f"{tag}::{column}"] = joined.cells(tag, column)
            told[f"{tag}::{column}"] = Column(f"{what.definition}, in {tag}", what.unit)
        for tag in tags[1:] if column in how.compared else ():
            columns |= differences(joined, tags[0], tag, column)
            told[f"{column}__{tag}_diff"] = Column(f"{what.definition}, {tag} less {tags[0]}", what.unit)
            told[f"{column}__{tag}_pct"] = Column(f"that difference as share of {tags[0]}", "%")
    title = f"{_title(how, tables)}: {', '.join(tags[1:])} against {tags[0]}"
    return Table(name, columns, told, title, _notes(how, joined, tables))


def differences(joined: Joined, first: str, tag: str, column: str) -> dict[str, np.ndarray]:
    """`column__tag_diff` and `column__tag_pct`: a run less the first run, and in percent of it."""
    base = joined.numbers(first, column)
    change = joined.numbers(tag, column) - base
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(base != 0, 100 * change / base, np.nan)
    return {f"{column}__{tag}_diff": change, f"{column}__{tag}_pct": percent}


def _by_change(joined: Joined, tags: Sequence[str], main: str) -> np.ndarray:
    """Rows by the largest change of a run against the first, then by the largest value, then by key."""
    if not len(joined):
        return np.empty(0, np.int64)
    values = np.nan_to_num(np.array([joined.numbers(tag, main) for tag in tags], float))
    change = np.abs(values[1:] - values[0]).max(axis=0)
    by_key = np.empty(len(joined), np.int64)
    by_key[sorted(range(len(joined)), key=lambda row: repr(joined.keys[row]))] = np.arange(len(joined))
    return np.lexsort((by_key, -values.max(axis=0), -change))


def _only_in(joined: Joined, tags: Sequence[str]) -> list[str]:
    has = np.array([joined.has(tag) for tag in tags])
    return ["" if all(row) else ", ".join(tag for tag, yes in zip(tags, row, strict=True) if yes) for row in has.T]


def _title(how: Comparison, tables: Mapping[str, Table]) -> str:
    """The title that all runs give the table, else what it is about."""
    titles = {table.title for table in tables.values()}
    return next(iter(titles)) or how.title if len(titles) == 1 else how.title


def _notes(how: Comparison, joined: Joined, tables: Mapping[str, Table]) -> list[str]:
    first, *rest = tables
    notes = []
    for tag in rest:
        for one, other in ((first, tag), (tag, first)):
            lone = joined.has(one) & ~joined.has(other)
            if lone.any():
                time = np.nansum(joined.numbers(one, how.main)[lone])
                calls = np.nansum(joined.numbers(one, how.count)[lone]) if how.count else 0
                counted = f", {number(int(calls), how.counted)}" if how.count else ""
                rows = number(int(lone.sum()), "row")
                notes.append(f"{rows} of {one} not in {other}: {time:,.3f} {how.unit}{counted}")
    if len({table.title for table in tables.values()}) > 1:
        notes += [f"{tag}: {table.title}" for tag, table in tables.items() if table.title]
    return [*notes, *(f"{tag}: {note}" for tag, table in tables.items() for note in table.notes)]


def number(count: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _as_list(cell: Any) -> Any:
    return [_as_list(part) for part in cell] if isinstance(cell, tuple) else cell
