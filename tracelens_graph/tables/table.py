"""A table: named columns with units and definitions. Every analysis returns one.

A Table needs only numpy, so that the command line can print and write it without pandas; `to_pandas()` makes
the DataFrame that Python users get, with units and definitions in `df.attrs`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.tables.column import Column as Column
from tracelens_graph.tables.column import Role as Role
from tracelens_graph.tables.column import heading_of, headings
from tracelens_graph.tables.terminal import Layout, aligned, column_cells
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import cut_end, printable, shorten, wrapped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(repr=False)
class Table:
    """Named columns of equal length.

    Attributes:
        name: the table's name, also its file name in reports.
        columns: column name -> numpy array, or a list where cells are not numbers.
        about: column name -> what it says about itself.
        title: one line for people; says what the table was restricted to.
        notes: lines that belong under the table, such as counts of what is not in it.
        more: rows that it would have beside its own if not only the first had been asked for.
    """

    name: str
    columns: Mapping[str, np.ndarray | Sequence[Any]]
    about: Mapping[str, Column] = field(default_factory=dict)
    title: str = ""
    notes: Sequence[str] = ()
    more: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> np.ndarray | Sequence[Any]:
        return self.columns[column]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Rows as tuples of plain Python values."""
        plain = [c.tolist() if isinstance(c, np.ndarray) else c for c in self.columns.values()]
        return zip(*plain, strict=True)

    def records(self) -> list[dict[str, Any]]:
        """Rows as dictionaries of plain Python values."""
        names = list(self.columns)
        return [dict(zip(names, row, strict=True)) for row in self.rows()]

    def take(self, rows: np.ndarray) -> Table:
        """The table with only these rows, in this order."""
        columns = {
            name: values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows.tolist()]
            for name, values in self.columns.items()
        }
        return Table(self.name, columns, self.about, self.title, self.notes)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a DataFrame; `df.attrs` holds name, title, notes, units and definitions."""
        import pandas as pd

        frame = pd.DataFrame({name: _series(values) for name, values in self.columns.items()})
        frame.attrs.update(
            name=self.name,
            title=self.title,
            notes=list(self.notes),
            units={name: about.unit for name, about in self.about.items() if about.unit},
            definitions={name: about.definition for name, about in self.about.items()},
            roles={name: about.role.name for name, about in self.about.items()},
        )
        return frame

    @staticmethod
    def from_pandas(frame: pd.DataFrame, name: str) -> Table:
        """A table of a DataFrame: an index with names becomes columns; absent cells are None, or NaN among numbers.

        Title, notes, units, definitions and roles (names of `Role`) are taken from `frame.attrs`, where `to_pandas`
        puts them.

        Raises:
            ValueError: two columns have one name, or there is no such role.
        """
        if any(level is not None for level in frame.index.names):
            frame = frame.reset_index()
        attributes = frame.attrs
        units, definitions = attributes.get("units", {}), attributes.get("definitions", {})
        columns = {str(label): _cells(series) for label, series in frame.items()}
        if len(columns) != frame.shape[1]:
            raise ValueError(f"two columns of {name} have one name")
        roles = attributes.get("roles", {})
        if unknown := [role for role in roles.values() if role not in Role.__members__]:
            raise ValueError(f"{name}: there is no role {unknown[0]!r}; {hint(unknown[0], Role.__members__)}")
        about = {
            column: Column(definitions.get(column, ""), units.get(column, ""), Role[roles.get(column, "value")])
            for column in columns
        }
        return Table(name, columns, about, attributes.get("title") or name, list(attributes.get("notes", ())))

    def text(self, width: int | None = None, color: bool = False, way_out: str = "") -> str:
        """The table as aligned text for people: title, header, rows, notes.

        Args:
            width: longest line; columns leave and names are cut until a line fits, and notes are wrapped. None cuts
                only what no line can be meant to hold.
            way_out: where the columns are that have left.
        """
        from tracelens_graph.tables.terminal import aligned, bold

        lines = [bold(line, color) for line in wrapped(printable(self.title), width)] if self.title else []
        notes = list(self.notes)
        if len(self):
            plain = [values.tolist() if isinstance(values, np.ndarray) else values for values in self.columns.values()]
            columns = [(name, self.about.get(name), cells) for name, cells in zip(self.columns, plain, strict=True)]
            layout = aligned(columns, width, color)
            lines += layout.lines
            if layout.left_out:
                notes.append(f"no space for: {', '.join(layout.left_out)}{f' ({way_out})' if way_out else ''}")
        elif not notes:
            lines.append("(nothing)")
        lines += [line for note in notes for line in wrapped(printable(note), width, "  ")]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        """The first rows, fitted to the terminal, and what is left out; `text()` and `to_pandas()` give everything."""

        return short_text(self.title or self.name, self.columns, self.about)

    def _repr_html_(self) -> str:
        """The same for notebooks; nothing in it is markup but its own."""

        return short_html(self.title or self.name, self.columns, self.about)


def _series(values: np.ndarray | Sequence[Any]) -> Any:
    """Values for a DataFrame: whole numbers stay whole where some are absent."""
    whole = isinstance(values, list) and {type(v) for v in values} == {int, type(None)}
    if not whole:
        return values
    import pandas as pd

    return pd.array(values, dtype="Int64")


def _cells(series: pd.Series[Any]) -> np.ndarray | list[Any]:
    """Cells of a column: an array of numbers, else plain Python values."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
        return series.to_numpy()
    absent = series.isna().tolist()
    return [None if missing else cell for cell, missing in zip(series.tolist(), absent, strict=True)]


# --- in a notebook --------------------------------------------------------------------------------------------------


ROWS = 10
"""Rows that are shown."""

_PIPED = 100
"""Characters of a line where there is no terminal."""

_HTML_COLUMNS, _HTML_CELL = 12, 80
"""Columns, and characters of a cell, that a notebook shows."""

_NAMED = 5
"""Columns without room that are named."""

Cells = Mapping[str, Sequence[Any]]


def short_text(title: str, columns: Mapping[str, Any], about: Mapping[str, Column]) -> str:
    """The first rows as lines that fit the terminal, and what is left out."""
    width = shutil.get_terminal_size((_PIPED, 0)).columns
    cells = _first_rows(columns, about)
    chosen = [(name, about.get(name), values) for name, values in cells.items()]
    layout = aligned(chosen, width) if any(len(values) for _, _, values in chosen) else Layout([], [])
    hidden = [*layout.left_out, *(name for name in columns if name not in cells)]
    above = [cut_end(printable(title), width)] if title else []
    below = _left_out(columns, hidden)
    return "\n".join([*above, *layout.lines, *(wrapped(below, width) if below else ())])


def short_html(title: str, columns: Mapping[str, Any], about: Mapping[str, Column], most: int = ROWS) -> str:
    """The first rows, at most so many, as an HTML table. All text is escaped: names are whatever the trace says."""
    cells = _first_rows(columns, about, most)
    kept = list(cells)
    while len(kept) > _HTML_COLUMNS:
        kept.remove(_least_needed(kept, about))
    made = [_html_column(name, cells[name], about.get(name)) for name in kept]
    head = "".join(heading for heading, _ in made)
    rows = ["".join(row) for row in zip(*(shown for _, shown in made), strict=True)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    left_out = _left_out(columns, [name for name in dict.fromkeys((*cells, *columns)) if name not in kept], most)
    return f"<table><caption>{_safe(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (
        f"<p>{_safe(left_out)}</p>" if left_out else ""
    )


def _first_rows(columns: Mapping[str, Any], about: Mapping[str, Column], most: int = ROWS) -> Cells:
    """The first cells of the columns that people are shown, as plain Python values."""
    shown = [name for name in headings(about) if name in columns] or list(columns)
    return {
        name: cells.tolist() if isinstance(cells := columns[name][:most], np.ndarray) else list(cells) for name in shown
    }


def _least_needed(kept: Sequence[str], about: Mapping[str, Column]) -> str:
    """The column to leave out next: of those that give way most readily the last, but never the first of all."""
    return max(reversed(kept[1:]), key=lambda name: about[name].order_of_leaving if name in about else 0)


def _left_out(columns: Mapping[str, Any], hidden: Sequence[str], most: int = ROWS) -> str:
    """How many rows are not shown, and which columns."""
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        return "no rows"
    more = [f"{rows - most:,} more {'row' if rows == most + 1 else 'rows'}"] if rows > most else []
    if hidden:
        names = ", ".join([*map(printable, hidden[:_NAMED]), *(["..."] if len(hidden) > _NAMED else [])])
        more.append(f"{len(hidden)} more {'column' if len(hidden) == 1 else 'columns'}: {names}")
    return "; ".join(more)


def _html_column(name: str, cells: Sequence[Any], about: Column | None) -> tuple[str, list[str]]:
    """Heading and cells of a column; notebooks have ideas of their own on which side they stand."""
    texts, right = column_cells(cells, about, is_id=about is not None and about.is_id)
    side = f'style="text-align: {"right" if right else "left"}"'
    unit = f" ({about.unit})" if about and about.unit else ""
    meaning = f' title="{_safe(about.definition + unit)}"' if about and about.definition else ""
    heading = f"<th {side}{meaning}>{_safe(heading_of(name, about))}</th>"
    return heading, [f"<td {side}>{_safe(shorten(text, _HTML_CELL))}</td>" for text in texts]


def _safe(text: str) -> str:
    from html import escape

    return escape(printable(text))
