"""`tracelens-graph report`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import formatted, load
from tracelens_graph.cli.hints import Call, options_of_commands
from tracelens_graph.cli.options import (
    NO_ARCH,
    Arch,
    CacheOption,
    Extensions,
    Format,
    FormatOption,
    LinkedOnly,
    MicroIdle,
    Recompute,
    TableNames,
    Traces,
    Written,
    architecture_named,
    architecture_of,
    extension_of,
)
from tracelens_graph.cli.traces import say, traces_named, warn
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.files import Protection, is_stdout, protecting, protection, replacing
from tracelens_graph.suggest import did_you_mean, hint, there_are
from tracelens_graph.texts import printable

if TYPE_CHECKING:
    from tracelens_graph.analyses.diagnosis.finding import Finding
    from tracelens_graph.analyses.report.report_tables import ReportOptions, Tables
    from tracelens_graph.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.reports.document import Facts
    from tracelens_graph.table import Table

_ROWS_FOR_PEOPLE = 10
_COLUMNS_NAMED = 12
_DEAREST = 5
"""Ops on the first screen."""


@dataclass(frozen=True)
class _Request:
    """What to do with each trace; may be sent to another process."""

    options: ReportOptions
    extensions: list[str]
    window: WindowChoice
    conditions: list[gate.Condition]
    folder: Path | None
    xlsx: Path | None
    json: Path | None
    markdown: Path | None
    tables: list[str]
    everything: bool
    format: Format
    arch: str | None
    rows: int | None
    sort: str | None
    cache: bool
    width: int
    color: bool
    protection: Protection | None
    commands: Mapping[str, frozenset[str]]

    @property
    def is_for_files_only(self) -> bool:
        """Whether files are written, and nothing but that is said on the terminal."""
        return bool(self.folder or self.xlsx or self.json or self.markdown)

    def call(self, trace: str) -> Call:
        """What was asked of a trace, for commands that follow."""
        return Call(trace, self.window, self.extensions, self.commands)


@dataclass(frozen=True)
class _Outcome:
    """What became of one trace."""

    text: str
    met: list[str]
    remarks: list[str]
    line: Mapping[str, Any] | None = None
    error: str = ""
    is_broken: bool = False


@with_window_options
def report(
    traces: Traces,
    window: WindowChoice,
    linked_only: LinkedOnly = False,
    micro_idle: MicroIdle = None,
    short_kernels: Annotated[
        float | None,
        typer.Option(metavar="US", min=0, show_default=False, help="Add the tables of kernels shorter than this."),
    ] = None,
    histogram_bins: Annotated[
        int, typer.Option(metavar="N", min=1, help="Bins of the histogram of short kernels.")
    ] = 100,
    overlap: Annotated[bool, typer.Option("--overlap", help="Which kernels run beside an op on other streams.")] = (
        False
    ),
    first_occurrence: Annotated[
        bool, typer.Option("--first-occurrence", help="When an op was first called with its arguments.")
    ] = False,
    call_stack: Annotated[
        bool, typer.Option("--call-stack", help="Modules around an op, and the function that it is called from.")
    ] = False,
    recompute: Recompute = False,
    by_kernel_count: Annotated[
        bool, typer.Option("--by-kernel-count", help="Tell calls with different numbers of kernels apart.")
    ] = False,
    by_module: Annotated[bool, typer.Option("--by-module", help="Tell the module around an op.")] = False,
    kernel_categories: Annotated[
        bool, typer.Option("--kernel-categories", help="Tell what kernels do by their names, and add tables of that.")
    ] = False,
    no_models: Annotated[
        bool, typer.Option("--no-models", help="Without the tables of cost and rates that performance models give.")
    ] = False,
    arch: Arch = None,
    extension: Extensions = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Rows per table; 0 for all. Without it {_DEAREST} ops on the first screen, {_ROWS_FOR_PEOPLE} rows "
            "of tables on the terminal, else all.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="Print tables, those with this column sorted by it."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help="Write every table to DIR/NAME.csv."),
        Written.OUTPUT,
    ] = None,
    xlsx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write a workbook, a sheet per table."),
        Written.OUTPUT,
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write verdict and tables as JSON."),
        Written.OUTPUT,
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write verdict and key tables as Markdown."),
        Written.OUTPUT,
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print all tables, not the first screen.")] = False,
    table: TableNames = None,
    format: FormatOption = Format.table,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds, such as 'idle_percent > 20'; may be given again.",
        ),
    ] = None,
    cache: CacheOption = False,
) -> None:
    """Say where the GPU's time went, on one screen: a verdict with its evidence, the timeline, the dearest ops.

    --all prints all tables, --table one of them. Several traces, such as the ranks of a job, get a line each first,
    and the late one, if any, or the first the report.

    Example: tracelens-graph report trace.json.gz

    Example: tracelens-graph report trace.json.gz --table kernel_summary --table step_summary

    Example: tracelens-graph report trace.json.gz --step 3 --csv tables/ --fail-if 'idle_percent > 20'
    """  # fmt: skip
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    options = ReportOptions(
        linked_only=linked_only, micro_idle_us=micro_idle, short_kernels_us=short_kernels,
        histogram_bins=histogram_bins, overlap=overlap, first_occurrence=first_occurrence, call_stack=call_stack,
        recompute=recompute, by_kernel_count=by_kernel_count, by_module=by_module,
        kernel_categories=kernel_categories, models=not no_models,
    )  # fmt: skip
    if arch is not None and no_models:
        raise typer.BadParameter("--arch is for the tables that --no-models leaves out")
    named = None if arch == NO_ARCH else architecture_named(arch)
    options = replace(options, arch=named, extension=extension_of(extension))
    asked = list(dict.fromkeys(table or []))
    for name in asked:
        _check_table(name, options.extension)
    if asked and everything:
        raise typer.BadParameter("--all prints all tables, --table some: give one of them")
    if format is not Format.table and len(asked) != 1:
        raise typer.BadParameter(
            "--format needs one --table; files are written by --csv, --xlsx, --json and --markdown"
        )
    conditions = gate.parse(fail_if or [], options=options)
    paths = traces_named(traces)
    if len(paths) > 1 and (xlsx or json or markdown or format is not Format.table):
        raise typer.BadParameter(f"--format, --xlsx, --json and --markdown take one trace, not {len(paths)}")
    request = _Request(
        options, extension or [], window, conditions, csv, xlsx, json, markdown, asked, everything or bool(sort),
        format, arch, top, sort, cache, terminal_width(sys.stdout), wants_color(sys.stdout), protection(),
        options_of_commands(),
    )  # fmt: skip
    outcomes = _one_trace(paths[0], request) if len(paths) == 1 else _many_traces(traces, paths, request)
    gate.conclude([line for o in outcomes for line in o.remarks], [line for o in outcomes for line in o.met])
    if any(outcome.is_broken for outcome in outcomes):
        raise typer.Exit(1)


def _check_table(name: str, extension: Extension | None) -> None:
    from tracelens_graph.analyses.report.report_tables import TABLES

    if name in TABLES:
        return
    from tracelens_graph.perf.registry import sheets

    known = [*TABLES, *sheets(), *(extension.table_names if extension else ())]
    if name not in known and not (extension and extension.table_sets):
        raise typer.BadParameter(f"--table: there is no table {name!r}; {hint(name, known)}")


def _one_trace(path: str, request: _Request) -> list[_Outcome]:
    outcome = _work(path, request)
    sys.stdout.write(outcome.text)
    return [outcome]


def _many_traces(given: list[str], paths: list[str], request: _Request) -> list[_Outcome]:
    """Work on many traces, one process each as far as there are cores; print a line each, and one report."""
    from tracelens_graph.analyses.across.overview import late_trace, overview
    from tracelens_graph.errors import TraceError
    from tracelens_graph.files import distinct_names
    from tracelens_graph.processes import map_in_processes
    from tracelens_graph.set_loading import left_out_note

    # Functions of an extension cannot be sent to a process; it loads them itself.
    alone = replace(request, options=replace(request.options, extension=None))
    work = [(path, alone, name) for path, name in zip(paths, distinct_names(paths), strict=True)]
    outcomes = list(map_in_processes(_work_of_many, work, name=lambda one: one[0]))
    say(left_out_note([path for path, one in zip(paths, outcomes, strict=True) if one.error and not one.is_broken]))
    say(f"left out: {outcome.error}" for outcome in outcomes if outcome.error and outcome.is_broken)
    read = [outcome for outcome in outcomes if outcome.line is not None]
    if not read:
        raise TraceError(f"none of the {len(paths)} files is a trace that can be read")
    lines = [outcome.line for outcome in read if outcome.line is not None]
    sys.stdout.write(overview(lines).text(request.width, request.color))
    if any(line["attendance"].held for line in lines):
        sys.stdout.write(f"ask next: tracelens-graph ask slowest_ranks {shlex.join(given)}\n")
    sys.stdout.write("\n")
    if request.is_for_files_only:
        sys.stdout.write("".join(outcome.text for outcome in read))
    else:
        sys.stdout.write(read[late_trace(lines) or 0].text)
    return outcomes


def _work_of_many(work: tuple[str, _Request, str]) -> _Outcome:
    from tracelens_graph.analyses.across.overview import overview_line
    from tracelens_graph.errors import NotATraceError, TraceError

    path, request, name = work
    folder = request.folder and request.folder / name.replace("/", "_")
    options = replace(request.options, extension=extension_of(request.extensions, tell=False))
    try:
        with protecting(request.protection):
            outcome, w = _result(path, replace(request, folder=folder, options=options), processes=1)
    except TraceError as error:
        # Whatever else lies in a folder of traces is passed over, but not where a rank may be missing from a verdict.
        is_broken = bool(request.conditions) or not isinstance(error, NotATraceError)
        return _Outcome("", [], [], error=str(error), is_broken=is_broken)
    return _Outcome(
        outcome.text,
        [f"{name}: {line}" for line in outcome.met],
        [f"{name}: {line}" for line in outcome.remarks],
        overview_line(w, name, request.options.linked_only),
    )


def _work(path: str, request: _Request) -> _Outcome:
    return _result(path, request)[0]


def _result(path: str, request: _Request, processes: int | None = None) -> tuple[_Outcome, Window]:
    """Everything that is asked of one trace: files are written, what is to be printed is returned."""
    core = load(path, cache=request.cache, processes=processes, wants_gpu=True)
    from tracelens_graph.analyses.report.report_tables import TABLES, report_tables
    from tracelens_graph.errors import AnalysisError

    options = request.options
    if options.models and request.arch in (None, "auto"):
        options = replace(options, arch=_arch_of(core, tell=request.arch is not None))
    w = request.window.of(options.extension.processed(core) if options.extension else core)
    tables = report_tables(w, options)
    w = tables.window
    for name in request.tables:
        if name in TABLES or name in tables:
            continue
        if options.extension and options.extension.table_sets:
            raise AnalysisError(f"there is no table {name!r}; {hint(name, tables)}")
        raise AnalysisError(f"no op of the {'window' if w.title else 'trace'} belongs in the table {name}")
    shown = {name: tables[name] for name in request.tables} if request.tables else tables
    if request.sort is not None:
        shown = _sorted(shown, request.sort)
    text = "".join(_written(w, shown, _left_out(tables), request, options, path))
    if request.conditions:
        return _Outcome(text, gate.check(request.conditions, tables), gate.remarks(request.conditions, tables)), w
    return _Outcome(text, [], []), w


def _arch_of(core: Core, tell: bool) -> Architecture | None:
    """The device that a trace was recorded on, None if it is not known; a warning says why where it was asked for."""
    from tracelens_graph.errors import AnalysisError

    try:
        return architecture_of(core, None)
    except AnalysisError as error:
        if tell:
            warn([str(error)])
        return None


def _sorted(tables: Mapping[str, Table], column: str) -> dict[str, Table]:
    from tracelens_graph.column import headings
    from tracelens_graph.reports.views import column_named, for_people, sort

    found = {name: column_named(table, column) for name, table in tables.items()}
    if not any(found.values()):
        shown = dict.fromkeys(
            heading for table in tables.values() if for_people(table) for heading in headings(table.about).values()
        )
        there = dict.fromkeys(name for table in tables.values() for name in table.columns)
        meant = did_you_mean(column, [*shown, *there]) or there_are(shown or there, _COLUMNS_NAMED)
        raise typer.BadParameter(f"--sort: no table has a column {column!r}; {meant}")
    return {name: sort(table, by) if (by := found[name]) else table for name, table in tables.items()}


def _written(
    w: Window, tables: Mapping[str, Table], others: list[str], request: _Request, options: ReportOptions, trace: str
) -> Iterator[str]:
    """Write the files that were asked for; what to print instead, or about them."""
    if request.tables:
        yield "\n".join(_printed(w, table, request, trace) for table in tables.values())
        return
    if request.folder:
        from tracelens_graph.reports.folder import write_folder

        written = write_folder(tables, request.folder)
        yield f"{len(written)} tables written to {printable(str(request.folder))}\n"
    if request.xlsx is not None:
        from tracelens_graph.reports.xlsx import write_xlsx

        with replacing(request.xlsx) as file:
            write_xlsx(tables, file)
        yield from _said(f"{len(tables)} tables", request.xlsx)
    if request.is_for_files_only and not (request.json or request.markdown):
        return
    from tracelens_graph.analyses.diagnosis.verdict import verdict
    from tracelens_graph.reports.document import facts, report_json, report_markdown
    from tracelens_graph.reports.report_text import all_tables

    about, findings = facts(w, options.said()), verdict(w)
    rows = _ROWS_FOR_PEOPLE if request.rows is None else request.rows
    if request.json:
        with replacing(request.json) as file:
            file.write(report_json(findings, tables, about).encode())
        yield from _said(f"verdict and {len(tables)} tables", request.json)
    if request.markdown:
        with replacing(request.markdown) as file:
            file.write(report_markdown(w.core, findings, tables, about, rows).encode())
        yield from _said("verdict and key tables", request.markdown)
    if request.everything:
        call = request.call(trace)
        yield all_tables(
            w.core, about, findings, tables, call.complete, call.to_open, rows, request.width, request.color
        )
    elif not request.is_for_files_only:
        yield _first_screen(w, tables["gpu_timeline"], others, about, findings, request, trace)


def _said(what: str, output: Path) -> Iterator[str]:
    """What is printed of a file; nothing where it went to standard output itself."""
    if not is_stdout(output):
        yield f"{what} written to {printable(str(output))}\n"


def _printed(w: Window, table: Table, request: _Request, trace: str) -> str:
    """One table, in the format asked for."""
    from tracelens_graph.reports.views import top, view

    if request.format is not Format.table:
        return formatted(top(table, request.rows or 0), request.format, request.width, request.color)
    shown = view(top(table, _ROWS_FOR_PEOPLE if request.rows is None else request.rows), w.core)
    return formatted(shown, request.format, request.width, request.color, request.call(trace).to_open(shown))


def _first_screen(
    w: Window, timeline: Table, others: list[str], about: Facts, findings: list[Finding], request: _Request, trace: str
) -> str:
    from tracelens_graph.analyses.ops.dearest import dearest_ops
    from tracelens_graph.reports.report_text import first_screen

    dearest = dearest_ops(
        w, request.options.linked_only, _DEAREST if request.rows is None else request.rows or len(w.core.names)
    )
    call = request.call(trace)
    return first_screen(
        about, findings, timeline, dearest, others, call.complete, call.to_open(dearest),
        request.width, request.color,
    )  # fmt: skip


def _left_out(tables: Tables) -> list[str]:
    """What the report has beside the first screen. Which ops have models is not asked: that would cost time."""
    names = [name for name in (*tables.built_in, *tables.of_extension) if name != "gpu_timeline"]
    return [*names, "a table for each family of ops"] if tables.options.models else names
