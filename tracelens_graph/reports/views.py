"""Tables as people want to see them: fewer columns, short headings, the first rows, and where to find an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.registry import HOMES, schema_of
from tracelens_graph.tables.column import Column, Role, headings, instance_column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text
from tracelens_graph.utils.texts import counted, shorten

_LONGEST = 80
"""Characters of a name or a list; kernels of C++ templates have thousands."""


def for_people(table: Table) -> bool:
    """Whether a table has columns that were chosen for people."""
    return table.name in HOMES and any(column.heading for column in schema_of(table.name).values())


def view(table: Table, core: Core | None = None) -> Table:
    """The columns of a table that people are shown: those with a heading, and what separates rows that look alike.

    Args:
        table: the table; of a question, all of its columns.
        core: the graph, which knows where Perfetto UI finds an instance; None shows its uid alone.
    """
    names = list(table.columns)
    leads = schema_of(table.name).leads if table.name in HOMES else ""
    if leads in table.columns:
        names.sort(key=lambda name: name != leads)
    about = {name: table.about.get(name, Column("")) for name in names}
    headed = headings(about)
    instance = instance_column(about)
    if not instance and not any(column.heading for column in about.values()):
        return replace(table, columns={name: table[name] for name in names}) if leads else table
    columns: dict[str, np.ndarray | list[Any]] = {}
    shown = {}
    last_key = next((name for name in reversed(headed) if about[name].role is Role.key), None)
    for column, heading in headed.items():
        cells = table[column]
        columns[heading] = _short_cells(
            [_kernel(name) for name in cells] if column == "Kernel name" else cells, about[column]
        )
        shown[heading] = about[column]
        if column == last_key and any(apart := _apart(table, about, headed)):
            columns[_APART], shown[_APART] = apart, _OF_APART
    if instance:
        uids = list(table[instance])
        place = instances(core, uids) if core else {"uid": uids}
        about_place = _PLACE if core else _TO_ASK_FOR
        for heading in place:
            if heading not in columns:  # a start of the table's own is not that of the event
                columns[heading], shown[heading] = place[heading], about_place[heading]
    return Table(table.name, columns, shown, table.title, table.notes)


_APART = "differs by"
_OF_APART = Column("values of keys without a heading, of rows that look alike without them", role=Role.key)


def _apart(table: Table, about: Mapping[str, Column], headed: Mapping[str, str]) -> list[str]:
    """What sets each row apart from rows that look alike, of keys that people are not shown; empty for nothing."""
    names = [name for name, column in about.items() if column.role is Role.key]
    hidden = [name for name in names if name not in headed]
    cells = zip(*(_short_cells(table[name], about[name]) for name in names if name in headed), strict=True)
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(cells):
        groups.setdefault(key, []).append(row)
    found = [""] * len(table)
    for rows in groups.values():
        parts = (
            [_differing([table[name][row] for row in rows], about[name]) for name in hidden] if len(rows) > 1 else []
        )
        for row, texts in zip(rows, zip(*parts, strict=True), strict=False):
            found[row] = "; ".join(filter(None, texts))
    return found


def _differing(cells: Sequence[Any], about: Column) -> list[str]:
    """For each cell the items that are not the same in all of them; the whole cell of what is no list of one length."""
    values = [_list_in(cell) if about.cells == "list" and isinstance(cell, str) else cell for cell in cells]
    if len({len(one) if isinstance(one, list) else -1 for one in values}) > 1 or not isinstance(values[0], list):
        return [_item(one) for one in values] if len({*map(repr, values)}) > 1 else [""] * len(values)
    places = [place for place, items in enumerate(zip(*values, strict=True)) if len({*map(repr, items)}) > 1]
    return [", ".join(_item(one[place]) for place in places) for one in values]


def _item(value: Any) -> str:
    return "-" if value in (None, "") else str(value)


def with_headings(table: Table, leave: str = "") -> Table:
    """The columns of a table that have a heading, under it, but for one; this needs no graph."""
    shown = {
        name: heading for name, heading in headings(table.about).items() if name in table.columns and name != leave
    }
    columns = {heading: table[name] for name, heading in shown.items()}
    about = {heading: table.about[name] for name, heading in shown.items()}
    return Table(table.name, columns, about, table.title, table.notes)


_PLACE = {
    "uid": Column("the event", role=Role.uid),
    "ext id": Column("its External id, as Perfetto UI shows it", role=Role.uid, drop_priority=6),
    "pid/tid": Column("its process and thread", role=Role.text, drop_priority=5),
    "start ms": Column("start, as Perfetto UI shows it", "ms", Role.time, drop_priority=4),
}
_TO_ASK_FOR = {"uid": Column("the event, to ask further for", role=Role.uid, drop_priority=0)}


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
        "start ms": [core.info.shown_ms(int(c.start_ns[row])) if row >= 0 else None for row in rows],
    }


def top(table: Table, count: int, ordered: bool = False) -> Table:
    """The first rows of a table, and those in brackets: what no name stands for is shown however few are asked for.

    Args:
        count: how many rows; 0 for all.
        ordered: whether rows are cut off also of what is in an order of its own.
    """
    if not count or len(table) <= count or (table.name in HOMES and schema_of(table.name).ordered and not ordered):
        return table
    labels = next(iter(table.columns.values()))
    brackets = [row for row, label in enumerate(labels) if isinstance(label, str) and label.startswith("(")]
    shown = np.union1d(np.arange(count), brackets).astype(np.int64)
    cut = table.take(shown)
    if hidden := len(table) - len(shown):
        cut.notes, cut.more = [*table.notes, f"{counted(hidden, 'more row')} (--top 0 shows all)"], hidden
    return cut


def column_named(table: Table, name: str) -> str | None:
    """The column of a table that has this name or, in its view, this heading; None if none has."""
    if name in table.columns:
        return name
    headed = {heading: column for column, heading in headings(table.about).items()}
    return column if (column := headed.get(name)) in table.columns else None


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
    from tracelens_graph.categories.kernel_names import properties

    functor = properties(name).get("functor")
    return f"{short_name(name)} [{functor}]" if functor else short_name(name)


def _short_cells(cells: Any, about: Column) -> Any:
    if isinstance(cells, np.ndarray) or about.wraps:
        return cells
    if about.cells == "list":
        cells = [_list_in(cell) if isinstance(cell, str) else cell for cell in cells]
    texts = (list_text(cell) if isinstance(cell, list) else cell for cell in cells)
    return [shorten(text, _LONGEST) if isinstance(text, str) else text for text in texts]


def _list_in(text: str) -> Any:
    """The list that a JSON text holds; the text where it holds none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return found if isinstance(found, list) else text
