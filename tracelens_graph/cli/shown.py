"""Tables and lines as commands show them: on the screen for people, and in the formats that every table has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from tracelens_graph.cli.outputs import Content, Forms, Outputs
from tracelens_graph.tables.terminal import terminal_width, wants_color
from tracelens_graph.utils.texts import in_device_words

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_ASCII_BRANCHES = str.maketrans("└├│─µ", "`||-u")
"""For terminals that have no lines to draw with."""


class Screen(NamedTuple):
    """Characters per line of standard output, and whether it shows colours."""

    width: int
    color: bool


def screen() -> Screen:
    """What standard output can show."""
    return Screen(terminal_width(sys.stdout), wants_color(sys.stdout))


def put(text: str) -> None:
    """Write a text for people to standard output."""
    sys.stdout.write(in_device_words(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; what a terminal cannot draw is drawn in ASCII."""
    in_ascii = not _has_branches(sys.stdout.encoding)
    for line in map(in_device_words, lines):
        print((line.translate(_ASCII_BRANCHES) if in_ascii else line).rstrip())


def _has_branches(encoding: str) -> bool:
    try:
        "└├│─".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def print_wrapped(*paragraphs: str, indent: str = "  ") -> None:
    """Print paragraphs for people, wrapped to the terminal."""
    from tracelens_graph.utils.texts import printable, wrapped

    for text in paragraphs:
        print_lines(wrapped(printable(text), screen().width, indent))


def as_it_is(table: Table) -> Table:
    """All columns."""
    return table


def no_hints(table: Table) -> Sequence[str]:
    """Nothing to suggest."""
    return ()


@dataclass(frozen=True)
class Shown:
    """A table as a command shows it.

    Attributes:
        table: the table.
        top: how many rows are asked for; None for few for people, else all.
        rows: how many rows people see unless others are asked for; 0 for all.
        view: makes the columns of it that people see.
        hints: makes lines below it for people, which are never broken.
        ordered: whether rows are cut off also of what is in an order of its own.
        way_out: options that show the columns for which there is no room.
    """

    table: Table
    top: int | None = None
    rows: int = 0
    view: Callable[[Table], Table] = as_it_is
    hints: Callable[[Table], Sequence[str]] = no_hints
    ordered: bool = False
    way_out: str = "-f csv"

    def first(self, rows: int = 0) -> Table:
        """The rows that are asked for, else so many; 0 for all."""
        from tracelens_graph.reports.views import top

        return top(self.table, rows if self.top is None else self.top, self.ordered)

    def text(self, of: Screen | None = None) -> str:
        """For the screen; by default that of standard output."""
        first = self.first(self.rows)
        table = self.view(first).text(*(of or screen()), f"a wider terminal or {self.way_out} shows them")
        return table + "".join(f"{line}\n" for line in self.hints(first))


def print_table(shown: Shown, outputs: Outputs, tables: Callable[[], Mapping[str, Table]] | None = None) -> None:
    """Show a table as it was asked for: on the screen, or in a format, to standard output or files; all to a folder."""
    if outputs.to_screen:
        put(shown.text())
    outputs.write(shown, TABLE, tables)


def print_answer(shown: Shown, outputs: Outputs) -> None:
    """Show the answer to a question: as CSV, which has no place for notes, without digits that are noise."""
    if "csv" in outputs.formats:
        from tracelens_graph.analyses.shared.answers import without_noise
        from tracelens_graph.cli.traces import say

        say(shown.first().notes)
        shown = replace(shown, table=without_noise(shown.table))
    print_table(shown, outputs)


def _csv(shown: Shown) -> str:
    from tracelens_graph.reports.csv import write_csv

    text = StringIO(newline="")
    write_csv(shown.first(), text)
    return text.getvalue()


def _json(shown: Shown) -> str:
    from tracelens_graph.reports.document import table_json

    return table_json(shown.first())


def _markdown(shown: Shown) -> str:
    from tracelens_graph.reports.markdown import table_markdown

    return table_markdown(shown.view(shown.first()))


def book(tables: Callable[[Any], Mapping[str, Table]]) -> Callable[[Any], Content]:
    """A format of an answer: the workbook of the tables that a function gives of it."""

    def made(answer: Any) -> bytes:
        from tracelens_graph.reports.xlsx import workbook

        return workbook(tables(answer))

    return made


def _plain(shown: Shown) -> str:
    return shown.text(Screen(screen().width, False))


TABLE: Forms = {
    "csv": _csv, "json": _json, "md": _markdown, "xlsx": book(lambda shown: {shown.table.name: shown.first()}),
    "table": _plain,
}  # fmt: skip
"""The formats of a table."""


def of_table(name: str, shown: Callable[..., Shown]) -> Callable[..., Content]:
    """A format of an answer that is that of its main table, which a function gives."""
    return lambda answer: TABLE[name](shown(answer))
