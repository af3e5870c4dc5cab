"""A comparison for people: a verdict of a few lines, and tables with the columns that say most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.across.compare import comparison_of
from tracelens_graph.tables.column import headings
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text
from tracelens_graph.utils.texts import counted, printable, width_of, wrapped

_TIMES = {"total": "total_time", "busy": "busy_time", "idle": "idle_time"}
_CHANGES = 5
_LONE = 3
_NAME = 40


def verdict(tables: Mapping[str, Table], runs: Sequence[str], width: int | None = None) -> Iterator[str]:
    """Lines that say how each run differs from the first: in all, by op, and in ops that only one has.

    Args:
        tables: what `compare` made of the timeline and of the ops, as far as it was asked to.
        runs: names of the runs, the first one that others are compared with.
        width: columns of a line; None for no limit.
    """
    for line, indent in _verdict(tables, runs, width):
        yield from wrapped(line, width, indent)


@dataclass(frozen=True)
class Change:
    """What a time was in the first run and is in another one, ms, and the difference in percent, None of nothing."""

    label: str
    before: float
    now: float
    diff: float
    percent: float | None


def changes_of_times(tables: Mapping[str, Table], first: str, run: str) -> list[Change]:
    """How the times of the timeline changed; nothing where it was not compared, or there is no GPU time."""
    times = {row["type"]: row for row in tables["gpu_timeline"].records()} if "gpu_timeline" in tables else {}
    return [_change(label, times[kind], "time ms", first, run) for label, kind in _TIMES.items() if kind in times]


def changes_by_op(tables: Mapping[str, Table], first: str, run: str, most: int = _CHANGES) -> list[Change]:
    """The ops of both runs whose times changed most."""
    if "ops_summary" not in tables:
        return []
    table = tables["ops_summary"]
    main, change, here = _of_ops(table, first, run)
    both = np.flatnonzero(here[first] & here[run] & (change != 0))
    largest = both[np.argsort(-np.abs(change[both]), kind="stable")][:most].tolist()
    records = table.records()
    return [_change(_named(records[i]["name"]), records[i], main, first, run) for i in largest]


def ops_of_one(tables: Mapping[str, Table], first: str, run: str) -> list[str]:
    """A line for each of two runs that has ops which the other lacks."""
    if "ops_summary" not in tables:
        return []
    table, lines = tables["ops_summary"], []
    _, change, here = _of_ops(table, first, run)
    names, unit = list(map(_named, table["name"])), comparison_of(table.name).unit
    for tag, other in ((first, run), (run, first)):
        lone = np.flatnonzero(here[tag] & ~here[other])
        if len(lone):
            times = np.abs(change[lone])
            top = lone[np.argsort(-times, kind="stable")]
            some = ", ".join(f"{_label(names[i])} ({abs(change[i]):,.3f})" for i in top[:_LONE])
            more = f" and {len(lone) - _LONE:,} more" if len(lone) > _LONE else ""
            summary = f"{counted(len(lone), 'op')}, {times.sum():,.3f} {unit}"
            lines.append(f"only in {printable(tag)}: {summary}: {some}{more}")
    if not np.any(change) and all(have.all() for have in here.values()):
        lines.append("no op takes longer or shorter")
    return lines


def _of_ops(table: Table, first: str, run: str) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """The column of times, how they changed, and for each of two runs which ops it has."""
    main = comparison_of(table.name).main
    change = np.asarray(table[f"{main}__{run}_diff"], float)
    return (
        main,
        change,
        {tag: np.array([_is_there(cell) for cell in table[f"{tag}::{main}"]], bool) for tag in (first, run)},
    )


def _change(label: str, row: Mapping[str, Any], column: str, first: str, run: str) -> Change:
    percent = row[f"{column}__{run}_pct"]
    old, new = (row[f"{tag}::{column}"] or 0 for tag in (first, run))
    return Change(label, old, new, row[f"{column}__{run}_diff"], percent if _is_there(percent) else None)


def _verdict(tables: Mapping[str, Table], runs: Sequence[str], width: int | None) -> Iterator[tuple[str, str]]:
    """Paragraphs, and what stands before their further lines."""
    first, *others = runs
    for run in others:
        yield printable(f"{run} against {first}"), "  "
        lines = [_cells_of(one) for one in changes_of_times(tables, first, run)]
        yield from _aligned(lines or [("no GPU time",)], width)
        if largest := changes_by_op(tables, first, run):
            yield "largest changes by op:", ""
            yield from _aligned([_cells_of(one) for one in largest], width)
        for line in ops_of_one(tables, first, run):
            yield line, "  "


def _cells_of(change: Change) -> tuple[str, ...]:
    share = "" if change.percent is None else f"{change.percent:+,.1f} %"
    return (
        _label(change.label), f"{change.before:,.3f}", "->", f"{change.now:,.3f}", "ms", f"{change.diff:+,.3f}", share
    )  # fmt: skip


def _aligned(lines: Sequence[Sequence[str]], width: int | None) -> Iterator[tuple[str, str]]:
    sizes = [max(map(width_of, cells)) for cells in zip(*lines, strict=True)]
    if width is not None:
        sizes[0] = max(min(sizes[0], width - sum(sizes[1:]) - 2 * len(sizes)), 8)
    for name, *cells in lines:
        label = fitted(name, sizes[0])
        label += " " * (sizes[0] - width_of(label))
        right = (cell.rjust(size) for cell, size in zip(cells, sizes[1:], strict=True))
        yield "  ".join(("", label, *right)).rstrip(), "    "


def _named(op: str | None) -> str:
    """An op's name; keys of a comparison are None where names are empty."""
    return op or "(no name)"


def _label(name: str) -> str:
    """A name from a trace, safe to print and short enough for a line."""
    return fitted(printable(name), _NAME)


def _is_there(value: Any) -> bool:
    return value is not None and value == value


def brief(table: Table, runs: Sequence[str]) -> Table:
    """The columns of a comparison that people are shown, and only the rows that differ."""
    how = comparison_of(table.name)
    differs = np.array([only != "" for only in table["only_in"]], bool)
    for column in how.compared:
        for run in runs[1:]:
            change = np.asarray(table.columns.get(f"{column}__{run}_diff", np.zeros(len(table))), float)
            differs |= np.nan_to_num(change) != 0
    shown = table if how.ordered else table.take(np.flatnonzero(differs))
    columns: dict[str, Any] = {}
    about = {}
    for column, heading in headings(table.about).items():
        name = column if column in how.keys else heading
        columns[name] = list(map(_cell, shown[column])) if column in how.keys else shown[column]
        about[name] = table.about[column]
    hidden = len(table) - len(shown)
    notes = [*table.notes, *([f"{counted(hidden, 'row')} without a difference"] if hidden else [])]
    return Table(table.name, columns, about, table.title, notes)


def _cell(value: Any) -> Any:
    return list_text(value) if isinstance(value, list) else value
