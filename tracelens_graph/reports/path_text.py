"""A critical path on the terminal: what bounds a step, on which ranks, and by what work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
from tracelens_graph.reports.views import told
from tracelens_graph.schema.tables.paths import CLASS_MEANING
from tracelens_graph.table import Table
from tracelens_graph.text_table import bold
from tracelens_graph.texts import printable, wrapped

_RANKS, _NAMES = 5, 8
_INDENT = "  "


def screen(path: CriticalPath, width: int, color: bool) -> Iterator[str]:
    """What a critical path consists of, in one screen.

    Args:
        path: the path.
        width: characters of a line.
        color: whether to use terminal escapes.
    """
    yield from (bold(line, color) for line in wrapped(printable(headline(path)), width, _INDENT))
    classes, ranks, names = path.classes(), path.ranks(), path.names()
    if len(classes):
        yield from wrapped(f"{classes['class'][0]}: {CLASS_MEANING[classes['class'][0]]}", width, _INDENT)
    for table, rows, leave in ((classes, 0, "uid"), (ranks, _RANKS, ""), (names, _NAMES, "uid")):
        yield ""
        yield from _rows(table, rows, leave).text(width, color).splitlines()
    yield ""
    for note in path.notes:
        yield from wrapped(printable(note), width, _INDENT)


def headline(path: CriticalPath) -> str:
    """Length of a path and the largest of its classes, in a sentence."""
    classes = path.classes().records()
    shares = ", ".join(f"{row['class']} {row['percent']:.1f} %" for row in classes[:3])
    return f"{path.title}: {path.length_ns / 1e6:,.3f} ms{f', of it {shares}' if shares else ''}"


def _rows(table: Table, most: int, leave: str) -> Table:
    """The first rows without what is said once for all tables."""
    is_cut = 0 < most < len(table)
    notes = [f"the first {most:,} of {len(table):,} rows (--table {table.name} --top 0)"] if is_cut else []
    cut = table.take(np.arange(most)) if is_cut else table
    title = {"critical_path_classes": "By class", "critical_path_ranks": "By rank"}.get(table.name, "By work")
    return told(replace(cut, title=title, notes=notes), leave=leave)
