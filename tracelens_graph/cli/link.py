"""`tracelens-graph link`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.link_work import TABLES, Shown, answer
from tracelens_graph.cli.options import CsvFolder, Format, FormatOption, JsonFile, MarkdownFile, TableName, Written
from tracelens_graph.utils.suggest import hint


def link(
    et: Annotated[
        str,
        typer.Option("--et", metavar="ET", show_default=False, help="Execution trace of the run."),
    ],
    trace: Annotated[
        str, typer.Option("--trace", metavar="KINETO", show_default=False, help="The profiler's trace of the same run.")
    ],
    op: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID|NAME",
            show_default=False,
            help="Tell all of this op: id of its node, or its name, for the dearest of that name; may be given again. "
            "Default: the dearest of each of the dearest kinds of ops.",
        ),
    ] = None,
    table: TableName = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, show_default=False, help="Rows of each table; 0 for all."),
    ] = None,
    format: FormatOption = Format.table,
    csv: CsvFolder = None,
    json: JsonFile = None,
    markdown: MarkdownFile = None,
    chakra: Annotated[
        Path | None,
        typer.Option(
            "--chakra",
            metavar="FILE",
            show_default=False,
            help="Write both traces as one, in the JSON form of chakra_trace_link.",
        ),
        Written((".json",)),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds, such as 'round_trip_percent < 100'; may be given again.",
        ),
    ] = None,
) -> None:
    """Follow ops of an execution trace to their kernels in the profiler's trace, and back.

    Says how the traces join, what single ops were given, called and launched, and for all ops whether their GPU work
    leads back to them, and why not.

    Example: tracelens-graph link --et execution-trace.json --trace trace.json.gz

    Example: tracelens-graph link --et execution-trace.json --trace trace.json.gz --op aten::mm -o mm.md

    Example: tracelens-graph link --et execution-trace.json --trace trace.json.gz --fail-if 'round_trip_percent < 100'

    Example: tracelens-graph link --et execution-trace.json --trace trace.json.gz --chakra linked.json
    """
    conditions = gate.parse(fail_if or [], of=gate.figures_of_link())
    if table is not None and table not in TABLES:
        raise typer.BadParameter(f"--table: there is no table {table!r}; {hint(table, TABLES)}")
    shown = Shown(table, top, format, csv, json, markdown, chakra)
    if op and not shown.tells_ops:
        raise typer.BadParameter("--op goes with the screen, --json and --markdown")
    answer(et, trace, op or [], shown, conditions)
