"""`tracelens-graph ranks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.drawing import Drawn
from tracelens_graph.cli.options import (
    Arch,
    CsvFolder,
    Format,
    FormatOption,
    JsonFile,
    Layout,
    MarkdownFile,
    SchedulerAddress,
    TableName,
    Traces,
    Written,
    architecture_named,
)
from tracelens_graph.cli.ranks_files import Shown
from tracelens_graph.cli.ranks_hints import Asked
from tracelens_graph.cli.ranks_path import TABLES as PATH_TABLES
from tracelens_graph.cli.ranks_path import answer_path, changes_of, check_table
from tracelens_graph.cli.ranks_work import answer
from tracelens_graph.cli.traces import traces_named
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.errors import AnalysisError


@with_window_options
def ranks(
    traces: Traces,
    window: WindowChoice,
    arch: Arch = None,
    path: Annotated[
        bool,
        typer.Option("--path", help="Follow the critical path, of --step N or of all: what bounds it, on which ranks."),
    ] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE",
            show_default=False,
            help="How long it would be with collectives=2 (twice as fast), allreduce=2, op:aten::mm=2, or repair=RANK "
            "(its number, or the name of its trace); may be given again.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write a page to click through, one file: waits, a step on all ranks, bandwidths, tables.",
        ),
        Written((".html", ".htm")),
    ] = None,
    output: Drawn = None,
    recorded_clocks: Annotated[
        bool,
        typer.Option("--recorded-clocks", help="Take clocks as they are, also where hosts differ."),
    ] = False,
    table: TableName = None,
    format: FormatOption = Format.table,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, show_default=False, help="Rows of each table; 0 for all."),
    ] = None,
    csv: CsvFolder = None,
    xlsx: Annotated[
        Path | None,
        typer.Option("--xlsx", metavar="FILE", show_default=False, help="Write all tables as a workbook."),
        Written((".xlsx",)),
    ] = None,
    json: JsonFile = None,
    markdown: MarkdownFile = None,
    layout: Annotated[
        Layout, typer.Option(help="With --csv or --xlsx: our tables, or those of TraceLens's collective report.")
    ] = Layout.own,
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient",
            help="With --layout tracelens: where ranks disagree on kind or size, what the lowest one says counts.",
        ),
    ] = False,
    scheduler: SchedulerAddress = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds, such as 'exposed_waiting_percent > 10', "
            "'kind:allreduce:bus_gb_s < 100', with --path 'host_percent > 50'; may be given again.",
        ),
    ] = None,
) -> None:
    """Say who waited for whom in a job of several ranks, what the network did, and what bounds a step.

    Takes the traces of all ranks, mostly a folder. What ranks did together is matched, clocks of several hosts are
    corrected by the ends of collectives, and waiting is told from communication.

    Example: tracelens-graph ranks traces/

    Drawn are waits by rank and step, bandwidths by size of the message, and the step of median duration on all ranks;
    with --step that one.

    Example: tracelens-graph ranks traces/ -o ranks.html

    Example: tracelens-graph ranks traces/ -o ranks.svg

    Example: tracelens-graph ranks traces/ --table rank_collectives --format csv

    Example: tracelens-graph ranks traces/ --path --step 4

    Example: tracelens-graph ranks traces/ --fail-if 'exposed_waiting_percent > 10'
    """
    of_path = path or bool(what_if) or table in PATH_TABLES
    changes = changes_of(what_if or [])
    if fail_if and len(changes) > 1:
        raise typer.BadParameter("--fail-if with --what-if judges one change: ask for one at a time")
    figures = gate.figures_of_what_if() if changes else gate.figures_of_path() if of_path else gate.figures_of_ranks()
    conditions = gate.parse(fail_if or [], of=figures)
    shown = Shown(table, format, top, csv, xlsx, json, markdown, html, output, layout, lenient)
    shown.check()
    check_table(table, path or bool(what_if))
    if what_if and table is not None:
        raise typer.BadParameter("--what-if is a table of its own: leave out --table")
    asked = Asked(traces, window)
    if of_path:
        shown.check_path()
        answer_path(traces_named(traces), asked, shown, changes, conditions, not recorded_clocks, scheduler)
        return
    device = architecture_named(arch)
    files = traces_named(traces)
    if len(files) == 1 < len(traces):
        raise AnalysisError(
            f"{files[0]}: one file, named {len(traces)} times; ranks are compared with one another, so name all of a "
            "job"
        )
    answer(files, asked, device, shown, conditions, not recorded_clocks, scheduler)
