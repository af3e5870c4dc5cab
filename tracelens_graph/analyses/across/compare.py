"""Runs side by side: what took longer, what took less, and what only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os.path import commonprefix
from string import ascii_letters, digits
from typing import Any

import numpy as np

from tracelens_graph.analyses.across.outer_join import INSTRUCTIONS, NOTE, Joined, Unnumbered, of_other_programs
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.report.report_tables import Tables, report_tables
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.registry import HOMES, REPORT, about_columns, schema_of
from tracelens_graph.tables.column import About, Column, Compared, count_column, heading_of, keys, main_column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import counted

COMPARISON = TableSchema(
    "comparison",
    "One table of several runs side by side, with the differences of each run from the first.",
    {
        "only_in": Column.text("the runs that have the row, where others do not; else empty"),
        "RUN::COLUMN": Column("a column of the table that is compared, in one run"),
        "COLUMN__RUN_diff": Column(
            "its value in a run less that in the first; a row that a run lacks counts as 0 in sums"
        ),
        "COLUMN__RUN_pct": Column("that difference as share of the value in the first run", "%"),
    },
)


Run = Mapping[str, Table]
"""The tables of a report by name."""


@dataclass(frozen=True)
class Comparison:
    """How one table is compared, as its columns say.

    Attributes:
        title: what it is about.
        keys: columns that separate its rows.
        main: column by whose change rows are sorted, in `unit`.
        count: column that counts what a row stands for, which is called `counted`.
        others: further columns with differences.
        carried: columns of text that the rows keep.
        beside: columns that stand beside each other without a difference.
        label: keys that people need to see.
        ordered: rows keep their order, and rows that share a key may not be summed.
    """

    title: str
    keys: tuple[str, ...]
    main: str
    unit: str
    count: str
    others: tuple[str, ...]
    carried: tuple[str, ...]
    beside: tuple[str, ...]
    label: tuple[str, ...]
    ordered: bool
    counted: str

    @classmethod
    def of(cls, schema: TableSchema) -> Comparison:
        """The comparison of a table that has a main column."""
        about = schema.columns

        def with_part(part: Compared) -> tuple[str, ...]:
            return tuple(name for name, column in about.items() if column.compared == part)

        main = main_column(about)
        seen = tuple(name for name in keys(about) if about[name].heading)
        return cls(
            title=schema.answers.rstrip("."),
            keys=tuple(keys(about)),
            main=main,
            unit=about[main].unit,
            count=count_column(about),
            others=with_part("diff"),
            carried=with_part("carried"),
            beside=with_part("beside"),
            label=seen or tuple(keys(about)),
            ordered=schema.ordered,
            counted=schema.counts,
        )

    @property
    def compared(self) -> list[str]:
        """All columns with differences."""
        return [column for column in (self.main, *self.others, self.count) if column]


def can_be_compared(name: str) -> bool:
    """Whether runs can be compared by a table of this name."""
    return name in HOMES and bool(main_column(schema_of(name)))


@cache
def comparison_of(name: str) -> Comparison:
    """How a table is compared.

    Raises:
        AnalysisError: it cannot be.
    """
    if not can_be_compared(name):
        raise AnalysisError(f"there is no comparison of {name!r}; {hint(name, filter(can_be_compared, REPORT))}")
    return Comparison.of(schema_of(name))


def lacked(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Table of a run that can be compared -> the runs that do not have it."""
    without = {name: [tag for tag, run in runs.items() if name not in run] for name in HOMES}
    return {name: tags for name, tags in without.items() if len(tags) < len(runs) and can_be_compared(name)}


def _can_give(run: Run, name: str) -> bool:
    """Whether a run has a table, or is a trace that gives it when it is asked for by name."""
    return name in run or (isinstance(run, Tables) and name in REPORT)


def notes_on_lacked(runs: Mapping[str, Run]) -> list[str]:
    """Notes on tables that some runs have and others lack."""
    return [
        f"{name} is not compared: {', '.join(without)} does not have it"
        for name, without in lacked(runs).items()
        if 0 < len(without) < len(runs)
    ]


def notes_on_steps(runs: Mapping[str, Run]) -> list[str]:
    """Notes on runs of different numbers of steps: times are sums over all of them."""
    names = {
        tag: list(run["step_summary"].columns.get("name", ())) for tag, run in runs.items() if "step_summary" in run
    }
    steps = {tag: sum(not str(name).startswith("(") for name in of) for tag, of in names.items()}
    if len(set(steps.values())) < 2:
        return []
    counts = ", ".join(f"{counted(count, 'step')} in {tag}" for tag, count in steps.items())
    return [f"{counts}: times are of all of them; --step N takes one of each"]


def tables_of_runs(*runs: Any) -> dict[str, Run]:
    """The tables of runs by name: those of the report of graphs and windows; mappings of tables stay as they are.

    Raises:
        AnalysisError: something among them is neither.
    """
    if len(runs) == 1 and isinstance(runs[0], Mapping):
        graphs = {str(tag): run for tag, run in runs[0].items()}
    else:
        traces = TraceSet.of(runs[0] if len(runs) == 1 else runs)
        graphs = {one.path: one.window for one in traces}
    return {
        tag: run if isinstance(run, Mapping) else report_tables(TraceSet.of(run)[0].window)
        for tag, run in graphs.items()
    }


def compare(*runs: Any, tables: Iterable[str] | None = None) -> dict[str, Table]:
    """Join the tables of several runs, each run against the first.

    `compare(a, b)` compares two graphs, `compare({"before": a, "after": b})` gives them names, and so does a
    `TraceSet`. A run may also be a mapping of tables by name, such as `report_tables` or a folder of CSV files give.

    Rows are joined on what they are about (their keys), after those of one run that share it were
    summed. For every compared column `c` and run `r` there is `r::c`, and from the second run on `c__r_diff`
    (value less that of the first run; a sum or count that a run does not have is 0, a mean is unknown) and
    `c__r_pct` (that difference in percent of the first run's value). `only_in` names the runs that have a row
    which others lack. The differences of sums add up to the difference of the totals. Rows are sorted by the
    size of the largest difference; the timeline keeps its order. Profiles of JAX that ran other programs are joined by
    names of instructions without their numbers, which each program counts for itself.

    Args:
        runs: the runs, or one object that holds them all.
        tables: which to compare; by default all that every run has.

    Raises:
        AnalysisError: there are less than two runs, a table is not there or none is, or their rows cannot be
            compared.
    """
    named = tables_of_runs(*runs)
    if len(named) < 2:
        raise AnalysisError("a comparison needs at least two runs")
    if is_apart := of_other_programs(named):
        named = {tag: Unnumbered(run) for tag, run in named.items()}
    wanted = [name for name, without in lacked(named).items() if not without] if tables is None else list(tables)
    for name in wanted:
        comparison_of(name)
        if without := [tag for tag, run in named.items() if not _can_give(run, name)]:
            raise AnalysisError(f"{without[0]} has no table {name}")
    if not wanted:
        raise AnalysisError("there is no table that all runs have")
    compared = {name: _compared(name, {tag: run[name] for tag, run in named.items()}) for name in wanted}
    for name, table in compared.items():
        if is_apart and {*INSTRUCTIONS} & {*comparison_of(name).keys}:
            table.notes = [*table.notes, NOTE]
    if tables is None:
        first = compared[wanted[0]]
        first.notes = [*first.notes, *notes_on_lacked(named)]
    return compared


def join(name: str, by: Sequence[str], tables: Mapping[str, Table]) -> tuple[list[str], Joined]:
    """The tables of one name joined on the keys that all of them have; returns these, too.

    Raises:
        AnalysisError: one lacks the first key, or only some timelines were split.
    """
    # Tables that somebody else made need not say what their columns are.
    tables = {tag: replace(one, about={**about_columns(name, one.columns), **one.about}) for tag, one in tables.items()}
    held = [table.columns for table in tables.values() if table.columns]
    shared = [key for key in by if all(key in columns for columns in held)]
    for tag, table in tables.items():
        if len(table) and by[0] not in table.columns:
            raise AnalysisError(f"{tag}: table {name} has no column {by[0]!r}")
    if can_be_compared(name) and comparison_of(name).ordered:
        for key in by:
            if key not in shared and any(key in columns for columns in held):
                raise AnalysisError(f"only some of the timelines are split by {key}, so they cannot be compared")
    if name == "gpu_timeline":
        tables = _with_equal_idle_rows(tables)
    if name == "kernel_summary":  # TraceLens leaves the parent of a kernel without a launch empty
        tables = {
            tag: _mapped(table, "Parent cpu_op", {"": NO_LAUNCH, None: NO_LAUNCH}) for tag, table in tables.items()
        }
    return shared, Joined.of(tables, shared)


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
    how = comparison_of(name)
    by, joined = join(name, how.keys, tables)
    tags = list(tables)
    if not how.ordered:
        joined = joined.take(_by_change(joined, tags, how.main))
    about = {column: about for table in joined.tables.values() for column, about in table.about.items()}
    columns: dict[str, Any] = {}
    described: dict[str, Column] = {}
    for place, key in enumerate(by):
        columns[key] = [_as_list(cells[place]) for cells in joined.keys]
        described[key] = about.get(key, Column("what separates rows"))
    for column in how.carried:
        if any(column in table.columns for table in tables.values()):
            columns[column] = joined.combined(column)
            described[column] = about.get(column, Column("kept from the runs"))
    columns["only_in"] = _only_in(joined, tags)
    described["only_in"] = COMPARISON["only_in"]
    for column in (*how.compared, *how.beside):
        if not any(column in table.columns for table in tables.values()):
            continue
        what = about.get(column, Column(column, how.unit if column == how.main else ""))
        for tag in tags:
            columns[f"{tag}::{column}"] = joined.cells(tag, column)
            drop_priority = 1 if column == how.count else 0
            described[f"{tag}::{column}"] = Column(
                f"{what.definition}, in {tag}", what.unit, drop_priority=drop_priority
            )
        for tag in tags[1:] if column in how.compared else ():
            columns |= differences(joined, tags[0], tag, column)
            described[f"{column}__{tag}_diff"] = Column(
                f"{what.definition}, {tag} less {tags[0]}", what.unit, drop_priority=0
            )
            described[f"{column}__{tag}_pct"] = Column(f"that difference as share of {tags[0]}", "%", drop_priority=2)
    shown = _headings(how, described, tags, any(columns["only_in"]))
    about = {
        column: replace(described[column], heading=shown.get(column))
        for column in [*shown, *described]
        if column in described
    }
    title = f"{_title(how, tables)}: {', '.join(tags[1:])} against {tags[0]}"
    return Table(name, columns, about, title, _notes(how, joined, tables))


def _headings(how: Comparison, about: About, tags: Sequence[str], some_lack: bool) -> dict[str, str]:
    """The columns of a comparison that people are shown, in their order, with what stands above them."""
    shown = {key: heading_of(key, about[key]) for key in how.label if key in about}
    short = dict(zip(tags, _told_apart(tags), strict=True))
    for place, tag in enumerate(tags):
        shown[f"{tag}::{how.main}"] = f"{short[tag]} {how.unit}"
        if place:
            which = f"{short[tag]} " if len(tags) > 2 else ""
            shown |= {f"{how.main}__{tag}_diff": f"{which}diff", f"{how.main}__{tag}_pct": f"{which}%"}
    shown |= {f"{tag}::{how.count}": f"{short[tag]} {how.counted}s" for tag in tags if how.count}
    return shown | ({"only_in": "only in"} if some_lack else {})


def _told_apart(tags: Sequence[str]) -> list[str]:
    """Names of runs without the words that all of them begin and end with: `x_old.json`, `x_new.json`: old, new."""
    letters = f"{ascii_letters}{digits}"
    ways = tags, [tag[::-1] for tag in tags]
    begin, end = (len(commonprefix(names).rstrip(letters)) for names in ways)  # noqa: RUF071 (of names, not of paths)
    short = [tag[begin : len(tag) - end] for tag in tags]
    return short if all(name[:1].isalpha() for name in short) else [*tags]


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
    """The title that all runs give the table, else what it is about, without what each was restricted to."""
    titles = list(dict.fromkeys(table.title for table in tables.values() if table.title))
    if len(titles) == 1:
        return titles[0]
    return titles[0].partition(" (")[0] if titles else how.title


def _notes(how: Comparison, joined: Joined, tables: Mapping[str, Table]) -> list[str]:
    first, *rest = tables
    notes = []
    for tag in rest:
        for one, other in ((first, tag), (tag, first)):
            lone = joined.has(one) & ~joined.has(other)
            if lone.any():
                time = np.nansum(joined.numbers(one, how.main)[lone])
                calls = np.nansum(joined.numbers(one, how.count)[lone]) if how.count else 0
                calls_text = f", {counted(int(calls), how.counted)}" if how.count else ""
                rows = counted(int(lone.sum()), "row")
                notes.append(f"{rows} of {one} not in {other}: {time:,.3f} {how.unit}{calls_text}")
    if len({table.title for table in tables.values()}) > 1:
        notes += [f"{tag}: {table.title}" for tag, table in tables.items() if table.title]
    return [*notes, *(f"{tag}: {note}" for tag, table in tables.items() for note in table.notes)]


def _as_list(cell: Any) -> Any:
    return [_as_list(part) for part in cell] if isinstance(cell, tuple) else cell
