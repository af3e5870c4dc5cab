"""What commands share: the trace argument, loading it, and writing a table in the format asked for."""

from __future__ import annotations

import sys
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


def load(trace: str) -> Core:
    """The graph of the trace that a command was given, with progress on a terminal."""
    if trace == "-" and sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal: name a file, or pipe a trace in")
    from tracelens_graph.loading import load_core
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.reports.terminal import printable, shorten

    with progress_on_terminal(f"reading {shorten(printable(Path(trace).name), 40)}") as progress:
        core = load_core(trace, progress=progress)
    if core.info.damage:
        print(printable(f"warning: {core.info.source}: {core.info.damage}"), file=sys.stderr)
    return core


def write_table(table: Table, form: Format) -> None:
    """Write a table to standard output."""
    if form is Format.csv:
        from tracelens_graph.reports.csv import write_csv

        write_csv(table, sys.stdout)
    elif form is Format.json:
        from tracelens_graph.reports.json import table_json

        sys.stdout.write(table_json(table))
    elif form is Format.md:
        from tracelens_graph.reports.markdown import table_markdown

        sys.stdout.write(table_markdown(table))
    else:
        from tracelens_graph.reports.terminal import table_text, terminal_width, wants_color

        sys.stdout.write(table_text(table, terminal_width(sys.stdout), wants_color(sys.stdout)))
