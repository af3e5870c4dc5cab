"""`tracelens-graph compare`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from glob import has_magic
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.baseline import SUFFIXES, compared, judged, key_tables, tables_of_run
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    Extensions,
    FailIf,
    Layout,
    LayoutOption,
    LinkedOnly,
    Names,
    Recompute,
    TableName,
    Top,
    check_name,
    refuse,
)
from tracelens_graph.cli.outputs import Forms, Outputs, Writes
from tracelens_graph.cli.shown import TABLE, Shown, book, print_lines, print_table, print_wrapped, put, screen
from tracelens_graph.cli.traces import check_pipes, extension_of, names_of, say, traces_named
from tracelens_graph.cli.windows import Window

if TYPE_CHECKING:
    from tracelens_graph.analyses.across.compare import Run
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.tables.table import Table

_ROWS_FOR_PEOPLE = 10
_ROWS_OF_ONE_TABLE = 30
_STRUCTURE = ("ops_summary", "kernel_summary")


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            show_default=False,
            help="Traces, saved graphs, folders of these, patterns, reports in JSON, or folders of CSV tables from "
            " report --csv or TraceLens.",
        ),
    ],
    *,
    names: Names = None,
    table: TableName = None,
    top: Top = None,
    outputs: Annotated[Outputs, Writes(*TABLE, folder=True)],
    linked_only: LinkedOnly = False,
    recompute: Recompute = False,
    extension: Extensions = None,
    layout: LayoutOption = Layout.own,
    fail_if: FailIf = None,
    window: Window,
) -> None:
    """Compare runs with the first of them: what takes longer, what less, and what only one has.

    Example: tracelens-graph compare trace.json.gz other.json.gz --names before,after

    Example: tracelens-graph compare trace.json.gz other.json.gz --csv diff/ --fail-if 'total_ms:pct > 5'
    """
    named = frozenset(runs)
    runs = _runs_named(runs)
    if len(runs) < 2:
        raise typer.BadParameter("name at least two runs")
    check_pipes(runs)
    _check_output(table, outputs, layout)
    from tracelens_graph.analyses.report.report_tables import ReportOptions, Tables
    from tracelens_graph.errors import NotATraceError, TraceError
    from tracelens_graph.loading.files import left_out_note

    options = ReportOptions(linked_only=linked_only, recompute=recompute, extension=extension_of(extension))
    conditions = _conditions(fail_if or [], options)
    tags = names_of(runs, names)
    tables = {}
    others = []
    for tag, run in zip(tags, runs, strict=True):
        try:
            tables[tag], remarks = tables_of_run(tag, run, window, options)
            say(f"note: {line}" for line in remarks)
        except NotATraceError:
            if run in named:
                raise
            others.append(run)
    say(left_out_note(others))
    runs = [run for run in runs if run not in others]
    if len(runs) < 2:
        raise TraceError("fewer than two of the files are traces that can be read")
    if layout is Layout.tracelens:
        _write_as_tracelens(tables, table, outputs, top)
    elif table is not None:
        _write_one(tables, table, outputs, top)
    else:
        changed = _write_all(tables, outputs, top)
        if (
            not outputs.formats
            and all(isinstance(one, Tables) for one in tables.values())
            and "-" not in runs
            and _differ_in_structure(changed)
        ):
            again = " ".join(map(quote, runs[1:]))
            print(f"ask next: {Call(runs[0], window, extension or []).complete(f'tracelens-graph diff TRACE {again}')}")
    first, *_, last = tables.values()
    gate.conclude(*judged(conditions, first, last))


def _runs_named(arguments: Sequence[str]) -> list[str]:
    """The runs: a folder of tables is one, a folder of traces or a pattern stands for the files in it."""
    runs: list[str] = []
    for one in arguments:
        is_folder = os.path.isdir(one)
        if (is_folder and not any(Path(one).glob("*.csv"))) or (has_magic(one) and not os.path.exists(one)):
            runs += traces_named([one])
        else:
            runs.append(one)
    return runs


def _check_output(table: str | None, outputs: Outputs, layout: Layout) -> None:
    refuse(
        (table is not None and outputs.folder, "--csv writes all tables, --table prints one: give one of them"),
        (layout is Layout.tracelens and table is None and not outputs.folder,
         "--layout tracelens needs --csv or --table"),
    )  # fmt: skip
    if table is None:
        outputs.check(FORMS if layout is Layout.own else (), "a comparison (--table NAME chooses a table)")
    if layout is Layout.own and table is not None:
        from tracelens_graph.analyses.across.compare import can_be_compared
        from tracelens_graph.registry import HOMES

        if not can_be_compared(table):
            check_name("--table", table, dict.fromkeys(filter(can_be_compared, HOMES)))


def _conditions(texts: Sequence[str], options: ReportOptions) -> list[gate.Condition]:
    conditions = gate.parse(texts, SUFFIXES, options)
    for condition in conditions:
        if not condition.suffix:
            raise typer.BadParameter(
                f"--fail-if {condition.name!r}: a comparison has two values of it; ask for {condition.name}:diff or "
                f"{condition.name}:pct, the change of the last run against the first"
            )
    return conditions


def _write_all(runs: Mapping[str, Run], outputs: Outputs, top: int | None) -> Mapping[str, Table]:
    """Print the verdict, then write all tables or print the key ones; returns what was compared."""
    from tracelens_graph.analyses.across.compare import lacked, notes_on_lacked, notes_on_steps
    from tracelens_graph.analyses.across.outer_join import NOTE, of_other_programs
    from tracelens_graph.reports.comparison import brief, verdict

    is_apart = of_other_programs(runs)
    shown_tables = key_tables(runs)
    tables = compared(runs, every=not outputs.to_screen)
    first = next(iter(tables.values()))
    first.notes = [*first.notes, *notes_on_lacked(runs), *notes_on_steps(runs)]
    if not outputs.formats:
        print_lines(verdict(tables, list(runs), screen().width))
        if is_apart:
            print_wrapped(NOTE)
    if not outputs.to_screen:
        outputs.write(tables, FORMS, lambda: _by_file(tables))
        return tables
    of_runs = tuple(f"{tag}: " for tag in runs)
    remarks: list[str] = []
    for name in shown_tables:
        if name in tables:
            print()
            shown = brief(tables[name], list(runs))
            shown.notes = [note for note in shown.notes if note not in remarks and note != NOTE]
            remarks += [note for note in shown.notes if note.startswith(of_runs)]
            rows = (0, 0) if name == "gpu_timeline" else (top, _ROWS_FOR_PEOPLE)
            put(Shown(shown, *rows, way_out=f"--table {name} -f csv").text())
    rest = [name for name, without in lacked(runs).items() if not without and name not in shown_tables]
    if rest:
        print()
        print_wrapped(f"more with --table: {', '.join(rest)}")
    return tables


def _document(tables: Mapping[str, Table]) -> str:
    from tracelens_graph.reports.document import document_json

    return document_json({}, tables)


FORMS: Forms = {"json": _document, "xlsx": book(lambda tables: tables)}
"""What all tables of a comparison are written as, beside a folder."""


def _differ_in_structure(tables: Mapping[str, Table]) -> bool:
    """Whether runs have other ops or kernels, or other numbers of calls: what they call differs, not only its time."""
    for name in _STRUCTURE:
        if name not in tables:
            continue
        counts = [cells for column, cells in tables[name].columns.items() if re.fullmatch(r"Count__.*_diff", column)]
        if any(tables[name]["only_in"]) or any(cell for cells in counts for cell in cells):
            return True
    return False


def _write_one(runs: Mapping[str, Run], name: str, outputs: Outputs, top: int | None) -> None:
    from tracelens_graph.analyses.across.compare import compare as analysis
    from tracelens_graph.reports.comparison import brief

    table = analysis(runs, tables=[name])[name]
    if {"csv", "json", "xlsx"}.isdisjoint(outputs.formats):
        table = brief(table, list(runs))
    print_table(Shown(table, top, _ROWS_OF_ONE_TABLE), outputs)


def _write_as_tracelens(runs: Mapping[str, Run], name: str | None, outputs: Outputs, top: int | None) -> None:
    from tracelens_graph.compat.compare import compare_as_tracelens

    tables = compare_as_tracelens(runs)
    if name is None:
        outputs.write(None, {}, lambda: _by_file(tables))
        return
    check_name("--table", name, tables)
    print_table(Shown(tables[name], top, _ROWS_OF_ONE_TABLE), outputs)


def _by_file(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Tables by the names of their files."""
    files = {re.sub(r"[^\w.-]", "_", name, flags=re.ASCII): table for name, table in tables.items()}
    if len(files) < len(tables):
        raise typer.BadParameter("--names: as parts of file names, two of them are one")
    return files
