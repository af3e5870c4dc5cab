"""Columns as aligned text for people, fitted to the width of a terminal.

Where a table is too wide its headings break first and names of kernels lose their templates. Then columns leave:
those without any value, those that say the same in all rows, ids and places, minima and maxima and the like
(`Column.order_of_leaving`). Then columns of text become narrow. Only then do further columns leave, the last first.
What has room after all comes back. `Layout.left_out` names what is gone.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, TextIO

from tracelens_graph.tables.column import Column, Role, heading_of
from tracelens_graph.tables.names import fitted, is_prose
from tracelens_graph.utils.texts import cut_end, in_device_words, printable, shorten, width_of, wrapped

_COMFORTABLE = 44
_NARROW = 16
"""Characters that a column of text keeps while other columns may leave, and while any may."""

_PROSE = 30
_NARROW_PROSE = 20
"""Characters of a line that sentences in the last column take at least, while other columns may leave, and then."""
_EMPTY = 9
"""Order of leaving of a column without any value, which leaves before all others."""
_SAME = 8
"""Order of leaving of a column whose cells are all the same, which separate no row from another."""


class _Stage(NamedTuple):
    """How narrow columns of text become, and then which columns leave: those with this order of leaving or more."""

    narrow: int
    leaving: int


_STAGES = (_Stage(_COMFORTABLE, 2), _Stage(24, 1), _Stage(_NARROW, 0))


_HEADING = 8
"""Characters of a heading that stand on one line, however narrow the cells are."""
_HEADING_LINES = 3
_PIECE = re.compile(r" ?[^ _/:-]+(?:(?<=B)/s\b[^ _/:-]*)?[_/:-]*|[ _/:-]+")
"""What is not broken: a word, with the sign behind it, and bytes per second."""

_LONGEST_KEY = 50
"""Characters of the one value of a key that has left."""

LONGEST_CELL = 4096
"""Characters of a cell that people are shown, whatever room there is."""

_BETWEEN = "  "
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def bold(text: str, color: bool) -> str:
    """Text in bold type where the terminal has it."""
    return f"{_BOLD}{text}{_PLAIN}" if color and text else text


@dataclass
class Layout:
    """A table as lines.

    Attributes:
        lines: the header, a rule, and the rows.
        left_out: headings of the columns for which there is no room.
    """

    lines: list[str]
    left_out: list[str]


@dataclass(eq=False)
class _Column:
    """A column on its way to the screen; `gone` is what it is called where it has left, if not by its heading."""

    heading: str
    cells: list[str]
    is_number: bool
    leaves: int
    wraps: bool = False
    width: int = 0
    lines: list[str] = field(default_factory=list)
    gone: str = ""

    def __post_init__(self) -> None:
        self.lines = [self.heading]
        self.measure()

    def measure(self) -> None:
        """Take the width that heading and cells need."""
        self.width = max(width_of(text) for text in (*self.lines, *self.cells))

    def break_heading(self) -> None:
        """Break the heading over lines if it is wider than the cells."""
        widest = max(max(map(width_of, self.cells), default=0), _HEADING)
        lines: list[str] = []
        for piece in _PIECE.findall(self.heading):
            if lines and width_of((lines[-1] + piece).lstrip()) <= widest:
                lines[-1] += piece
            else:
                lines.append(piece)
        if len(lines) > _HEADING_LINES:
            lines[_HEADING_LINES - 1 :] = ["".join(lines[_HEADING_LINES - 1 :])]
        self.lines = [cut_end(line.strip(" "), max(widest, _NARROW)) for line in lines] or [""]
        self.measure()

    def shorten(self, width: int) -> None:
        """Shorten the cells that are wider; the column becomes as wide as is needed then."""
        if self.width > width:
            self.cells = [fitted(cell, width) for cell in self.cells]
            self.lines = [cut_end(line, width) for line in self.lines]
            self.measure()


def aligned(
    columns: Sequence[tuple[str, Column | None, Sequence[Any]]], width: int | None = None, color: bool = False
) -> Layout:
    """Lines with a header and a row each; numbers are rounded for reading and stand to the right.

    Args:
        columns: name, what the column says about itself, and plain Python values.
        width: longest line. None cuts nothing but what no line can be meant to hold.
    """
    shown = [_column(name, about, values) for name, about, values in columns]
    left_out: list[str] = []
    prose: _Column | None = None
    if width is not None and _total(shown) > width:
        left_out, prose = _fit(shown, width)
    height = max(len(column.lines) for column in shown)
    headers = [
        _line([column.lines[i] if i < len(column.lines) else "" for column in shown], shown) for i in range(height)
    ]
    rule = _line(["-" * column.width for column in shown], shown)
    lines = [*(bold(header, color) for header in headers), rule]
    for row in zip(*(column.cells for column in shown), strict=True):
        lines += _row(list(row), shown, prose)
    return Layout(lines, left_out)


def _column(name: str, about: Column | None, values: Sequence[Any]) -> _Column:
    """A column on its way to the screen."""
    cells, is_number = column_cells(values, about, is_id=_is_uid(name) or (about is not None and about.is_id))
    heading = in_device_words(_cell(heading_of(name, about), 0, is_id=True))  # before widths are measured
    wraps = about.wraps if about else any(map(_has_nodes, values))
    column = _Column(heading, cells, is_number, _leaves(cells, about.order_of_leaving if about else 0), wraps)
    if column.leaves == _SAME and about and about.role is Role.key:
        column.gone = f"{heading} (all {shorten(cells[0], _LONGEST_KEY)})"
    return column


def _leaves(cells: Sequence[str], usual: int) -> int:
    """How readily a column leaves, which usually does so as it says itself."""
    if not any(cells):
        return _EMPTY if cells else usual
    return _SAME if usual >= 0 and len(cells) > 1 and len(set(cells)) == 1 else usual


def column_cells(values: Sequence[Any], about: Column | None, is_id: bool) -> tuple[list[str], bool]:
    """The cells of a column as text, and whether they are numbers, which stand to the right."""
    is_number = all(isinstance(v, int | float | None) and not isinstance(v, bool) for v in values)
    digits = 2 if about and about.unit == "%" else 3
    return [_cell(value, digits, is_id) for value in values], is_number


def _is_uid(name: str) -> bool:
    """Whether a column holds uids, by its name alone."""
    return name == "uid" or name.lower().endswith(("_uid", ".uid"))


def _cell(value: Any, digits: int, is_id: bool) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if is_id else f"{value:,}"
    text = list_text(value) if isinstance(value, list) else node_text(value) if isinstance(value, dict) else str(value)
    return shorten(printable(text[: LONGEST_CELL + 1]), LONGEST_CELL)


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + len(_BETWEEN) * (len(columns) - 1)


def _fit(columns: list[_Column], width: int) -> tuple[list[str], _Column | None]:
    """Change columns until a line fits; headings of those that left, and the column whose cells may take more lines."""
    order = list(columns)
    for column in columns:
        column.break_heading()
    last = columns[-1]
    is_sentence = last.wraps or 2 * sum(map(is_prose, last.cells)) >= len(last.cells)
    prose = last if is_sentence and not last.is_number else None
    texts = [column for column in columns if not column.is_number and column is not prose]
    if prose and _total(columns) > width:
        prose.width = max(min(prose.width, max(_PROSE, width // 2)), *map(width_of, prose.lines))
    left: list[_Column] = []
    for stage in _STAGES:
        if prose and prose in columns and not stage.leaving and (over := _total(columns) - width) > 0:
            prose.width = max(prose.width - over, min(prose.width, _NARROW_PROSE), *map(width_of, prose.lines))
        _narrow([column for column in texts if column in columns], columns, width, stage.narrow)
        left += _leave(columns, width, stage.leaving)
    if _total(columns) > width:
        columns[0].shorten(max(width, 1))
    _come_back(columns, left, order, width)
    prose = prose if prose in columns else None
    if prose:
        prose.width += width - _total(columns)
    return [column.gone or column.heading for column in left if column not in columns], prose


def _leave(columns: list[_Column], width: int, least: int) -> list[_Column]:
    """Take columns out that may leave, the last of equals first; never the first one. Those that left."""
    left = []
    while _total(columns) > width:
        leaving = max(reversed(columns[1:]), key=lambda column: column.leaves, default=None)
        if leaving is None or leaving.leaves < least:
            break
        left.append(leaving)
        columns.remove(leaving)
    return left


def _come_back(columns: list[_Column], left: Sequence[_Column], order: list[_Column], width: int) -> None:
    """Put columns back, the last that left first, where wider ones that left behind them made room; no empty ones."""
    for column in reversed(left):
        if column.leaves != _EMPTY and _total([*columns, column]) <= width:
            columns.append(column)
            columns.sort(key=order.index)


def _narrow(texts: Sequence[_Column], columns: Sequence[_Column], width: int, least: int) -> None:
    """Take from the widest columns of text what is too much; none becomes narrower than `least`."""
    over = _total(columns) - width
    sizes = [column.width for column in texts]
    while over > 0 and max(sizes, default=0) > least:
        sizes[sizes.index(max(sizes))] -= 1
        over -= 1
    for column, size in zip(texts, sizes, strict=True):
        column.shorten(size)


def _row(cells: list[str], columns: Sequence[_Column], prose: _Column | None) -> Iterator[str]:
    if prose is None:
        yield _line(cells, columns)
        return
    *first, text = cells
    for part in wrapped(text, prose.width):
        yield _line([*first, part], columns)
        first = [""] * len(first)


def list_text(cell: list[Any]) -> str:
    """A list in few characters: shapes as `[8,16] [16,4]`, shares as `aten::mm 30 %`, names with commas."""
    if cell and all(isinstance(part, dict) and {"name", "percent"} <= part.keys() for part in cell):
        return ", ".join(f"{part['name']} {part['percent']:.0f} %" for part in cell)
    if all(isinstance(part, list) for part in cell):
        return " ".join(str(part).replace(" ", "") for part in cell if part)
    parts = ((_node_name(part) or node_text(part)) if isinstance(part, dict) else str(part) for part in cell)
    return ", ".join(part or "-" for part in parts)


def node_text(properties: Mapping[str, Any]) -> str:
    """A node or an edge of a database in one line, or any other map: `Op 12 aten::mm, dur_ns: 700`."""
    leading = ["labels", "type", "uid", "short_name"]
    if _called(properties) == properties.get("name"):
        leading.append("name")
    rest = (f"{name}: {value}" for name, value in properties.items() if name not in leading and value is not None)
    return ", ".join(filter(None, (_node_name(properties), *rest)))


def _node_name(properties: Mapping[str, Any]) -> str:
    """A node or an edge in few words: its first label or its type, uid and name."""
    labels = properties.get("labels")
    kind = labels[0] if isinstance(labels, list) and labels else properties.get("type", "")
    parts = (kind, properties.get("uid", ""), _called(properties))
    return " ".join(str(part) for part in parts if part != "")


def _called(properties: Mapping[str, Any]) -> Any:
    return properties.get("short_name") or properties.get("name", "")


def _has_nodes(cell: Any) -> bool:
    """Whether a cell is a node, or another map, or a path of these."""
    return isinstance(cell, dict) or (isinstance(cell, list) and any(isinstance(part, dict) for part in cell))


def _line(cells: Sequence[str], columns: Sequence[_Column]) -> str:
    padded = []
    for cell, column in zip(cells, columns, strict=True):
        blanks = " " * (column.width - width_of(cell))
        padded.append(blanks + cell if column.is_number else cell + blanks)
    return _BETWEEN.join(padded).rstrip()


# --- the terminal, and progress on it -------------------------------------------------------------------------------


WIDTH_OF_PIPES = 100
"""Characters per line where no terminal says."""

_NARROWEST = 40

_PATIENCE = 1.0
"""Seconds of silence before the first line."""

_INTERVAL = 0.1
"""Seconds between two lines."""


def terminal_width(stream: TextIO) -> int:
    """Characters per line of the terminal behind a stream, or as COLUMNS says."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, _NARROWEST)
    return WIDTH_OF_PIPES


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class progress_on_terminal:  # noqa: N801 (used like a function)
    """A context that gives a callable (done, total), or None where nobody would see it.

    One line on standard error, rewritten in place, shown after a second, wiped at the end. No thread draws it:
    loading forks a second process, which is safe in a process of one thread only.

    >>> with progress_on_terminal("reading trace.json") as progress:
    ...     load_core("trace.json", progress=progress)

    Args:
        what: what is being done.
        stream: where the line is drawn, by default standard error.
        unit: what is counted; if given, the line shows the rate and the time that is left.
    """

    def __init__(self, what: str, stream: TextIO | None = None, unit: str = "") -> None:
        self._what = what
        self._unit = unit
        self._start = time.monotonic()
        self._stream = stream or sys.stderr
        self._next = self._start + _PATIENCE
        self._drawn = 0

    def __enter__(self) -> Callable[[int, int], None] | None:
        return self._show if self._stream.isatty() else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()

    def _show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        line = f"{self._what}: {100 * done // max(total, 1)} %"
        if self._unit and done:
            seconds = now - self._start
            left_s = round(seconds * (total - done) / done)
            line += f", {done / seconds:,.0f} {self._unit}/s, {left_s // 60}:{left_s % 60:02} left"
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = max(self._drawn, len(line))
