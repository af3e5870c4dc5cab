"""A critical path, and what changes would gain: on the terminal, as JSON for programs, as Markdown for a pull request.

The length of a path step is not that of a step on the device of one rank: it lasts from the last GPU end of the steps
before it to its own, over all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
from tracelens_graph.analyses.critical_path.path_tables import CLASS_MEANING
from tracelens_graph.analyses.critical_path.what_if import WhatIf
from tracelens_graph.reports.markdown import escape, page, table_markdown
from tracelens_graph.reports.ranks_text import document
from tracelens_graph.reports.views import with_headings
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import paragraphs, printable, wrapped

_RANKS, _NAMES = 5, 8
_INDENT = "  "
_LEAST_ERROR_NS = 100
"""No replay is known better than to what is shown."""
_TITLES = {"critical_path_classes": "By class", "critical_path_ranks": "By rank", "critical_path_names": "By work"}


def screen(path: CriticalPath, width: int, color: bool, rows: int | None = None) -> Iterator[str]:
    """What a critical path consists of, in one screen.

    Args:
        rows: rows of each table; 0 for all, None for as many as a screen holds.
    """
    yield from (bold(line, color) for line in wrapped(printable(headline(path)), width, _INDENT))
    yield from wrapped(printable(extent(path)), width, _INDENT)
    classes = path.classes()
    if len(classes):
        yield from wrapped(f"{classes['class'][0]}: {CLASS_MEANING[classes['class'][0]]}", width, _INDENT)
    for table in screen_tables(path, rows):
        yield ""
        yield from table.text(width, color).splitlines()
    yield ""
    yield from paragraphs(path.notes, width, _INDENT)


def headline(path: CriticalPath) -> str:
    """Length of a path and the largest of its classes, in a sentence."""
    classes = path.classes().records()
    shares = ", ".join(f"{row['class']} {row['percent']:.1f} %" for row in classes[:3])
    return f"{path.title}: {path.length_ns / 1e6:,.3f} ms{f', of it {shares}' if shares else ''}"


def subject(path: CriticalPath) -> str:
    """What a length is of."""
    if path.step is not None:
        return f"path step {path.step}"
    return "the recording" if all(one.is_whole for one in path.traces) else "the chosen part"


def extent(path: CriticalPath) -> str:
    """From what to what a path leads, in a sentence."""
    if path.step is None:
        what = subject(path)
        first = "the first event that the path reaches" if what == "the recording" else "its first event"
        return f"{_capital(what)} counts from {first} to the last GPU end of all ranks"
    is_first = int(path.steps.number[0]) == path.step
    begin = "its mark on the host" if is_first else "the last GPU end of the steps before"
    return f"{_capital(subject(path))} lasts from {begin} to its own last GPU end, over all ranks"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def sentence(found: WhatIf) -> str:
    """What a change would gain, and how far that may be off."""
    before, saved = found.path.length_ns, found.saved_ns
    percent = 100 * abs(saved) / before if before else 0.0
    is_least = found.is_at_least and saved >= 0
    change = f"{'saves' if saved >= 0 else 'costs'} {'at least ' * is_least}{abs(saved) / 1e6:,.3f} ms, {percent:.1f} %"
    if saved and not is_least and found.least_ns <= before <= found.most_ns:
        change = "which does not exceed the error"
    bounds = f"{_bounds(found)} by what is not recorded"
    if is_least:
        bounds = "as what ranks without a file wait for is not known"
    return (
        f"With {found.change}, {subject(found.path)} takes {found.changed_ns / 1e6:,.3f} instead of "
        f"{before / 1e6:,.3f} ms ({change}), {bounds}{_moved(found)}"
    )


def _bounds(found: WhatIf) -> str:
    """How far a length may be off either way; where one way is far longer, between what it lies."""
    ways = found.changed_ns - found.least_ns, found.most_ns - found.changed_ns
    error = max(*ways, _LEAST_ERROR_NS)
    if error > 2 * min(ways) + 1_000:
        return f"between {found.least_ns / 1e6:,.3f} and {found.most_ns / 1e6:,.3f} ms"
    return f"{error / 1e3:,.1f} us more or less" if error < 1e6 else f"{error / 1e6:,.3f} ms more or less"


def _moved(found: WhatIf) -> str:
    """That the step begins elsewhere, too: changes are made in all steps, and a path step begins where others end."""
    if not found.begins_earlier_ns:
        return ""
    by = f"{abs(found.begins_earlier_ns) / 1e6:,.3f} ms {'earlier' if found.begins_earlier_ns > 0 else 'later'}"
    return f"; the step before is changed, too, and ends {by}, which is where this one begins"


def what_if_lines(found: Sequence[WhatIf], width: int, color: bool) -> Iterator[str]:
    """A sentence for each change, and what the lengths in them are."""
    for one in found:
        yield from (bold(line, color) for line in wrapped(printable(sentence(one)), width, _INDENT))
    yield from wrapped(printable(extent(found[0].path)), width, _INDENT)


def screen_tables(path: CriticalPath, rows: int | None) -> list[Table]:
    """The tables of the screen for people, without what is said once for all of them."""
    chosen = ((path.classes(), 0, "uid"), (path.ranks(), _RANKS, ""), (path.names(), _NAMES, "uid"))
    return [_rows(table, most if rows is None else rows, leave) for table, most, leave in chosen]


def _rows(table: Table, most: int, leave: str) -> Table:
    is_cut = 0 < most < len(table)
    notes = [f"the first {most:,} of {len(table):,} rows (--table {table.name} --top 0)"] if is_cut else []
    cut = table.take(np.arange(most)) if is_cut else table
    return with_headings(replace(cut, title=_TITLES[table.name], notes=notes), leave=leave)


def path_json(path: CriticalPath, tables: Mapping[str, Table]) -> str:
    """A path as one JSON object: how long it is, what it consists of, and tables of it."""
    about = {"step": path.step, "headline": headline(path), "extent": extent(path), "notes": path.notes}
    return document(path.traces, about, tables)


def path_markdown(path: CriticalPath, rows: int | None) -> str:
    """A path as a page: how long it is, and the tables of the screen.

    Args:
        rows: rows of each table; 0 for all, None for as many as a screen has.
    """
    tables = map(table_markdown, screen_tables(path, rows))
    return page([f"## {escape(headline(path))}", escape(extent(path)), *tables, *map(escape, path.notes)])


def what_if_json(found: Sequence[WhatIf], table: Table) -> str:
    """What changes would gain as one JSON object."""
    path = found[0].path
    about = {
        "step": path.step, "headline": [sentence(one) for one in found], "extent": extent(path), "notes": table.notes,
    }  # fmt: skip
    return document(path.traces, about, {table.name: table})


def what_if_markdown(found: Sequence[WhatIf], table: Table) -> str:
    """What changes would gain as a page."""
    lines = [f"**{escape(sentence(one))}**" for one in found]
    return page(["## What if", *lines, escape(extent(found[0].path)), table_markdown(with_headings(table))])
