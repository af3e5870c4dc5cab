"""What commands share: the trace argument, loading it, and writing a table in the format asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.table import Table

Trace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE", show_default=False, help="Trace file (.json, .gz, .zst, .zip), saved graph, or - for stdin."
    ),
]


class Format(StrEnum):
    """How a table is written."""

    table = "table"
    csv = "csv"
    json = "json"
    md = "md"


FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="table for people; csv and json with all digits; md for a page.")
]


ASCII_BRANCHES = str.maketrans("└├│─", "`||-")
"""For terminals that have no lines to draw with."""

LinkedOnly = Annotated[
    bool, typer.Option("--linked-only", help="Leave out GPU events whose launch is not in the trace.")
]

CacheOption = Annotated[
    bool, typer.Option("--cache", help="Keep the loaded graph, so that the next command on this trace is instant.")
]


def load(trace: str, cache: bool = False, processes: int | None = None) -> Core:
    """The graph of the trace that a command was given, with progress on a terminal.

    Args:
        trace: what the user named.
        cache: keep the graph in the user's cache, or take it from there.
        processes: how many to load with; None for as many as are of use.
    """
    if trace == "-" and sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal: name a file, or pipe a trace in")
    from tracelens_graph.loading import load_core
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.texts import printable, shorten

    def warn(text: str) -> None:
        print(printable(f"warning: {text}"), file=sys.stderr)

    def loaded() -> Core:
        with progress_on_terminal(f"reading {shorten(printable(Path(trace).name), 40)}") as progress:
            return load_core(trace, progress=progress, processes=processes)

    if cache:
        from tracelens_graph.stores.cache import cached_core

        core = cached_core(trace, loaded, warn)
    else:
        core = loaded()
    if core.info.damage:
        warn(f"{core.info.source}: {core.info.damage}")
    return core


def write_table(table: Table, form: Format, hints: Iterable[str] = ()) -> None:
    """Write a table to standard output; for people also hints below it, which are never broken."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    sys.stdout.write(formatted(table, form, terminal_width(sys.stdout), wants_color(sys.stdout), hints))


def print_wrapped(text: str) -> None:
    """Print a paragraph for people, wrapped to the terminal."""
    from tracelens_graph.reports.terminal import terminal_width
    from tracelens_graph.texts import printable, wrapped

    for line in wrapped(printable(text), terminal_width(sys.stdout), "  "):
        print(line)


def formatted(table: Table, form: Format, width: int, color: bool, hints: Iterable[str] = ()) -> str:
    """A table in the format asked for; width, color and hints are for people."""
    if form is Format.csv:
        from io import StringIO

        from tracelens_graph.reports.csv import write_csv

        text = StringIO(newline="")
        write_csv(table, text)
        return text.getvalue()
    if form is Format.json:
        from tracelens_graph.reports.json import table_json

        return table_json(table)
    if form is Format.md:
        from tracelens_graph.reports.markdown import table_markdown

        return table_markdown(table)

    return table.text(width, color) + "".join(f"{hint}\n" for hint in hints)


def has_branches(encoding: str) -> bool:
    """Whether an encoding has the lines that trees are drawn with."""
    try:
        "└├│─".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
