"""The work of `tracelens-graph ranks`: what it prints and writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracelens_graph.cli import gate
from tracelens_graph.cli.drawing import PAGE, drawn_as
from tracelens_graph.cli.hints import without_folders
from tracelens_graph.cli.options import Format, Layout
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.ranks_files import Shown, write_books, write_files
from tracelens_graph.cli.ranks_hints import NEXT, Asked
from tracelens_graph.cli.ranks_path import print_rows
from tracelens_graph.cli.traces import load_set, ranks_in, say
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError

if TYPE_CHECKING:
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.perf.devices import Architecture

_MOST_WHOLE_BYTES = 256 * 2**20
"""Files of so much together are loaded whole for the screen, so that it says why a rank is late."""


def answer(
    files: Sequence[str],
    asked: Asked,
    device: Architecture | None,
    shown: Shown,
    conditions: Sequence[gate.Condition],
    correct: bool,
    scheduler: str | None,
) -> None:
    """Load the ranks, and print and write what is asked for; end with the exit code of failed conditions."""
    from tracelens_graph.analyses.ranks import COLUMNS
    from tracelens_graph.analyses.ranks.job import LATE_TABLES, Job

    is_cut = asked.window != WindowChoice()
    explains = shown.table in LATE_TABLES or (shown.table is None and _size_of(files) <= _MOST_WHOLE_BYTES)
    traces = load_set(files, columns=None if is_cut or explains else COLUMNS, scheduler=scheduler)
    traces = ranks_in(traces)
    if len(traces) < 2:
        raise AnalysisError(
            f"{files[0]}: one trace alone; ranks are compared with one another, so name all of a job"
            "; --path shows the critical path of one"
        )
    whole = traces if explains else None
    if is_cut:
        traces = asked.window.of_each(traces)
    conditions = gate.of_ranks(conditions, traces)
    job = Job(traces, device, correct, whole)
    if shown.layout is Layout.tracelens:
        _write_as_tracelens(traces, shown)
    elif shown.table is not None or (shown.format is not Format.table and not shown.writes):
        table = job.table(shown.table or "rank_collectives")
        print_rows(table, shown.format, shown.top, asked.below_table(table, job))
    elif not shown.writes:
        _print_screen(job, asked, shown.top)
    if shown.layout is Layout.own and shown.writes:
        _write(job, shown)
        _draw(job, asked, shown)
    if conditions:
        tables = {name: job.table(name) for name in {one.figure.table for one in conditions}}
        gate.conclude(gate.remarks(conditions, tables), gate.check(conditions, tables))


def _size_of(files: Sequence[str]) -> int:
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _print_screen(job: Job, asked: Asked, top: int | None) -> None:
    from tracelens_graph.reports.ranks_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    for line in screen(job, terminal_width(sys.stdout), wants_color(sys.stdout), rows=top):
        print(line.rstrip())
    for line in asked.below_screen(job):
        print(line)


def _write_as_tracelens(traces: TraceSet, shown: Shown) -> None:
    from tracelens_graph.compat.ranks.tables import tracelens_tables

    tables = tracelens_tables(traces, strict=not shown.lenient)
    say(dict.fromkeys(note for table in tables.values() for note in table.notes))
    write_books(tables, shown)


def _write(job: Job, shown: Shown) -> None:
    from tracelens_graph.reports.ranks_text import ranks_json, ranks_markdown

    write_files(
        job.tables(), shown, lambda: ranks_json(job),
        lambda rows: ranks_markdown(job) if rows is None else ranks_markdown(job, rows),
    )  # fmt: skip


def _draw(job: Job, asked: Asked, shown: Shown) -> None:
    from tracelens_graph.output.files import replacing
    from tracelens_graph.utils.texts import file_name

    given = asked.traces
    more = f" and {len(given) - 1:,} more" if len(given) > 1 else ""
    source = f"{file_name(os.path.abspath(given[0]))}{more}"
    form = drawn_as(shown.output) if shown.output else None
    for path in (shown.html, shown.output if form == PAGE else None):
        if path:
            from tracelens_graph.reports.html.ranks import ranks_page

            # A page tells no folder of the machine that it was written on.
            bare = Asked(without_folders(given), asked.window)
            commands = [line.removeprefix(NEXT) for line in bare.below_screen(job)]
            with replacing(path) as file:
                file.write(ranks_page(job, source, commands).encode())
            say_written(f"page written to {path}", path)
    if shown.output and form and form != PAGE:
        from tracelens_graph.reports.ranks_picture import write_ranks_picture

        with replacing(shown.output) as file:
            write_ranks_picture(job, source, form, file)
        say_written(f"ranks drawn in {shown.output}", shown.output)
