"""A comparison for people: a verdict of a few lines, and tables with the columns that say most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.across.compare import COMPARISONS, number
from tracelens_graph.column import headings
from tracelens_graph.short_names import fitted
from tracelens_graph.table import Table
from tracelens_graph.text_table import list_text
from tracelens_graph.texts import printable, width_of, wrapped

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


def _verdict(tables: Mapping[str, Table], runs: Sequence[str], width: int | None) -> Iterator[tuple[str, str]]:
    """Paragraphs, and what stands before their further lines."""
    first, *others = runs
    for run in others:
        yield printable(f"{run} against {first}"), "  "
        lines = []
        if "gpu_timeline" in tables:
            times = {row["type"]: row for row in tables["gpu_timeline"].records()}
            rows = {label: times[kind] for label, kind in _TIMES.items() if kind in times}
            lines += [_change(label, row, "time ms", first, run) for label, row in rows.items()]
        yield from _aligned(lines or [("no GPU time",)], width)
        if "ops_summary" in tables:
            yield from _by_op(tables["ops_summary"], first, run, width)


def _by_op(table: Table, first: str, run: str, width: int | None) -> Iterator[tuple[str, str]]:
    how, names = COMPARISONS[table.name], list(table["name"])
    main = how.main
    change = np.asarray(table[f"{main}__{run}_diff"], float)
    here = {tag: np.array([_is_there(cell) for cell in table[f"{tag}::{main}"]], bool) for tag in (first, run)}
    both = np.flatnonzero(here[first] & here[run] & (change != 0))
    largest = both[np.argsort(-np.abs(change[both]), kind="stable")][:_CHANGES].tolist()
    records = table.records()
    if largest:
        yield "largest changes by op:", ""
        yield from _aligned([_change(names[i], records[i], main, first, run) for i in largest], width)
    for tag, other in ((first, run), (run, first)):
        lone = np.flatnonzero(here[tag] & ~here[other])
        if len(lone):
            times = np.abs(change[lone])
            top = lone[np.argsort(-times, kind="stable")]
            some = ", ".join(f"{_label(names[i])} ({abs(change[i]):,.3f})" for i in top[:_LONE])
            more = f" and {len(lone) - _LONE:,} more" if len(lone) > _LONE else ""
            summary = f"{number(len(lone), 'op')}, {times.sum():,.3f} {how.unit}"
            yield f"only in {printable(tag)}: {summary}: {some}{more}", "  "
    if not np.any(change) and all(have.all() for have in here.values()):
        yield "no op takes longer or shorter", ""


def _change(label: str, row: Mapping[str, Any], column: str, first: str, run: str) -> tuple[str, ...]:
    percent = row[f"{column}__{run}_pct"]
    share = f"{percent:+,.1f} %" if _is_there(percent) else ""
    diff = f"{row[f'{column}__{run}_diff']:+,.3f}"
    old, new = (f"{row[f'{tag}::{column}'] or 0:,.3f}" for tag in (first, run))
    return _label(label), old, "->", new, "ms", diff, share


def _aligned(lines: Sequence[Sequence[str]], width: int | None) -> Iterator[tuple[str, str]]:
    sizes = [max(map(width_of, cells)) for cells in zip(*lines, strict=True)]
    if width is not None:
        sizes[0] = max(min(sizes[0], width - sum(sizes[1:]) - 2 * len(sizes)), 8)
    for name, *cells in lines:
        label = fitted(name, sizes[0])
        label += " " * (sizes[0] - width_of(label))
        right = (cell.rjust(size) for cell, size in zip(cells, sizes[1:], strict=True))
        yield "  ".join(("", label, *right)).rstrip(), "    "


def _label(name: str) -> str:
    """A name from a trace, safe to print and short enough for a line."""
    return fitted(printable(name), _NAME)


def _is_there(value: Any) -> bool:
    return value is not None and value == value


def brief(table: Table, runs: Sequence[str]) -> Table:
    """The columns of a comparison that people are shown, and only the rows that differ.

    Args:
        table: what `compare` made.
        runs: names of the runs, as they were given to it.
    """
    how = COMPARISONS[table.name]
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
    notes = [*table.notes, *([f"{number(hidden, 'row')} without a difference"] if hidden else [])]
    return Table(table.name, columns, about, table.title, notes)


def _cell(value: Any) -> Any:
    return list_text(value) if isinstance(value, list) else value
