"""The work of `tracelens-graph ranks`: what it prints and writes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import write_tables
from tracelens_graph.cli.drawing import PAGE, drawn_as
from tracelens_graph.cli.options import Format, Layout
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.ranks_path import print_rows
from tracelens_graph.cli.traces import load_set, say
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError

if TYPE_CHECKING:
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.table import Table

_MOST_WHOLE_BYTES = 256 * 2**20
"""Files of so much together are loaded whole for the screen, so that it says why a rank is late."""
_PROGRAM = "tracelens-graph"


@dataclass(frozen=True)
class Shown:
    """What is shown of the ranks."""

    table: str | None
    format: Format
    top: int | None
    csv: Path | None
    xlsx: Path | None
    json: Path | None
    markdown: Path | None
    output: Path | None
    layout: Layout
    lenient: bool

    @property
    def writes(self) -> bool:
        """Whether files are written, and nothing is printed that was not asked for."""
        return bool(self.csv or self.xlsx or self.json or self.markdown or self.output)

    def check(self) -> None:
        """Refuse what does not go together, or cannot be drawn.

        Raises:
            typer.BadParameter: it does not, or the suffix is that of nothing that is drawn.
            MissingExtraError: the library that draws is not installed.
        """
        if self.output:
            drawn_as(self.output)
        if self.layout is Layout.tracelens and not (self.csv or self.xlsx):
            raise typer.BadParameter("--layout tracelens is for files: name a folder with --csv, or a file with --xlsx")
        if self.lenient and self.layout is not Layout.tracelens:
            raise typer.BadParameter("--lenient goes with --layout tracelens")
        if self.layout is Layout.tracelens and (self.table or self.json or self.markdown or self.output):
            raise typer.BadParameter("--layout tracelens goes with --csv and --xlsx alone")

    def check_path(self, conditions: Sequence[gate.Condition]) -> None:
        """Refuse what does not go with a critical path.

        Raises:
            typer.BadParameter: it does not.
        """
        if self.writes or conditions:
            raise typer.BadParameter("--path and --what-if print tables: --table NAME --format csv or json")


def answer(
    files: Sequence[str],
    given: Sequence[str],
    window: WindowChoice,
    device: Architecture | None,
    shown: Shown,
    conditions: Sequence[gate.Condition],
    correct: bool,
    scheduler: str | None,
) -> None:
    """Load the ranks, and print and write what is asked for; end with the exit code of failed conditions."""
    from tracelens_graph.analyses.ranks import COLUMNS
    from tracelens_graph.analyses.ranks.job import LATE_TABLES, Job

    is_cut = window != WindowChoice()
    explains = shown.table in LATE_TABLES or (shown.table is None and _size_of(files) <= _MOST_WHOLE_BYTES)
    traces = load_set(files, columns=None if is_cut or explains else COLUMNS, scheduler=scheduler)
    if len(traces) < 2:
        raise AnalysisError(f"{files[0]}: one trace alone; ranks are compared with one another, so name all of a job")
    whole = traces if explains else None
    if is_cut:
        traces = window.of_each(traces)
    conditions = gate.of_ranks(conditions, traces)
    job = Job(traces, device, correct, whole)
    if shown.layout is Layout.tracelens:
        _write_as_tracelens(traces, shown)
    elif shown.table is not None or (shown.format is not Format.table and not shown.writes):
        print_rows(job.table(shown.table or "rank_collectives"), shown.format, shown.top)
    elif not shown.writes:
        _print_screen(job, given, shown.top)
    if shown.layout is Layout.own and shown.writes:
        _write(job.tables(), shown)
        _write_documents(job, shown)
        _draw(job, given, shown)
    if conditions:
        tables = {name: job.table(name) for name in {one.figure.table for one in conditions}}
        gate.conclude(gate.remarks(conditions, tables), gate.check(conditions, tables))


def _size_of(files: Sequence[str]) -> int:
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _print_screen(job: Job, given: Sequence[str], top: int | None) -> None:
    from tracelens_graph.reports.ranks_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    for line in screen(job, terminal_width(sys.stdout), wants_color(sys.stdout), rows=top):
        print(line.rstrip())
    named = shlex.join(given)
    if len(job.meetings):
        is_late = job.lateness is not None and job.lateness.late is not None
        print(f"ask next: {_PROGRAM} ranks {named} --table {'late_ranks' if is_late else 'rank_collectives'}")
        if any(len(rank.gpu.busy[0]) for rank in job.meetings.attendances):
            print(f"ask next: {_PROGRAM} ranks {named} --path")


def _write_as_tracelens(traces: TraceSet, shown: Shown) -> None:
    from tracelens_graph.analyses.tracelens_ranks.tracelens import tracelens_tables

    tables = tracelens_tables(traces, strict=not shown.lenient)
    say(dict.fromkeys(note for table in tables.values() for note in table.notes))
    _write(tables, shown)


def _write(tables: Mapping[str, Table], shown: Shown) -> None:
    from tracelens_graph.files import replacing

    if shown.csv:
        write_tables(tables, shown.csv)
    if shown.xlsx:
        from tracelens_graph.reports.xlsx import write_xlsx

        with replacing(shown.xlsx) as file:
            write_xlsx(tables, file)
        say_written(f"wrote {len(tables)} tables to {shown.xlsx}", shown.xlsx)


def _write_documents(job: Job, shown: Shown) -> None:
    from tracelens_graph.files import replacing

    if shown.json:
        from tracelens_graph.reports.ranks_document import ranks_json

        with replacing(shown.json) as file:
            file.write(ranks_json(job).encode())
        say_written(f"wrote {len(job.names)} tables to {shown.json}", shown.json)
    if shown.markdown:
        from tracelens_graph.reports.ranks_document import ranks_markdown

        rows = {} if shown.top is None else {"rows": shown.top}
        with replacing(shown.markdown) as file:
            file.write(ranks_markdown(job, **rows).encode("utf-8", "backslashreplace"))
        say_written(f"wrote a page to {shown.markdown}", shown.markdown)


def _draw(job: Job, given: Sequence[str], shown: Shown) -> None:
    if not shown.output:
        return
    from tracelens_graph.files import file_name, replacing

    form = drawn_as(shown.output)
    more = f" and {len(given) - 1:,} more" if len(given) > 1 else ""
    source = f"{file_name(os.path.abspath(given[0]))}{more}"
    with replacing(shown.output) as file:
        if form == PAGE:
            from tracelens_graph.reports.ranks_html import ranks_html

            file.write(ranks_html(job, source).encode())
        else:
            from tracelens_graph.reports.ranks_picture import write_ranks_picture

            write_ranks_picture(job, source, form, file)
    say_written(f"ranks drawn in {shown.output}", shown.output)
