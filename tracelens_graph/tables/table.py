"""A table: named columns with units and definitions. Every analysis returns one.

A Table needs only numpy, so that the command line can print and write it without pandas; `to_pandas()` makes
the DataFrame that Python users get, with units and definitions in `df.attrs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.tables.column import Column as Column
from tracelens_graph.tables.column import Role as Role
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import printable, wrapped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(repr=False)
class Table:
    """Equal-length columns under a name.

    Attributes:
        name: the table's name, also its file name in reports.
        columns: column name -> numpy array, or a list where cells are not numbers.
        about: column name -> what it says about itself.
        title: one line for people; says what the table was restricted to.
        notes: lines that belong under the table, such as counts of what is not in it.
    """

    name: str
    columns: Mapping[str, np.ndarray | Sequence[Any]]
    about: Mapping[str, Column] = field(default_factory=dict)
    title: str = ""
    notes: Sequence[str] = ()

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
        said = frame.attrs
        units, definitions = said.get("units", {}), said.get("definitions", {})
        columns = {str(label): _cells(series) for label, series in frame.items()}
        if len(columns) != frame.shape[1]:
            raise ValueError(f"two columns of {name} have one name")
        roles = said.get("roles", {})
        if unknown := [role for role in roles.values() if role not in Role.__members__]:
            raise ValueError(f"{name}: there is no role {unknown[0]!r}; {hint(unknown[0], Role.__members__)}")
        about = {
            column: Column(definitions.get(column, ""), units.get(column, ""), Role[roles.get(column, "value")])
            for column in columns
        }
        return Table(name, columns, about, said.get("title") or name, list(said.get("notes", ())))

    def text(self, width: int | None = None, color: bool = False, way_out: str = "") -> str:
        """The table as aligned text for people: title, header, rows, notes.

        Args:
            width: longest line; columns leave and names are cut until a line fits, and notes are wrapped. None cuts
                only what no line can be meant to hold.
            color: whether to use terminal escapes.
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
                notes.append(f"no room for: {', '.join(layout.left_out)}{f' ({way_out})' if way_out else ''}")
        elif not notes:
            lines.append("(nothing)")
        lines += [line for note in notes for line in wrapped(printable(note), width, "  ")]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        """The first rows, fitted to the terminal, and what is left out; `text()` and `to_pandas()` give everything."""
        from tracelens_graph.tables.preview import short_text

        return short_text(self.title or self.name, self.columns, self.about)

    def _repr_html_(self) -> str:
        """The same for notebooks; nothing in it is markup but its own."""
        from tracelens_graph.tables.preview import short_html

        return short_html(self.title or self.name, self.columns, self.about)


def _series(values: np.ndarray | Sequence[Any]) -> Any:
    """Values for a DataFrame: whole numbers some of which are absent stay whole."""
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
