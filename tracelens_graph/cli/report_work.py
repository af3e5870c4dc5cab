"""What `tracelens-graph report` does with each trace: tables are made, files written, a screen is printed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.baseline import Baseline, baseline_of, judged
from tracelens_graph.cli.common import formatted, load
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    Format,
    Layout,
    architecture_of,
    extension_of,
)
from tracelens_graph.cli.traces import say, warn
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.output.files import Protection, is_stdout, protecting, replacing
from tracelens_graph.utils.suggest import did_you_mean, hint, there_are
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    from tracelens_graph.analyses.diagnosis.finding import Finding
    from tracelens_graph.analyses.report.report_tables import ReportOptions, Tables
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.reports.document import Facts
    from tracelens_graph.tables.table import Table


ROWS_FOR_PEOPLE = 10
_COLUMNS_NAMED = 12
TOP_OPS_SHOWN = 5
"""Ops on the first screen."""


@dataclass(frozen=True)
class Request:
    """What to do with each trace; may be sent to another process."""

    options: ReportOptions
    extensions: list[str]
    window: WindowChoice
    conditions: list[gate.Condition]
    folder: Path | None
    xlsx: Path | None
    json: Path | None
    markdown: Path | None
    html: Path | None
    tables: list[str]
    everything: bool
    format: Format
    arch: str | None
    compare_with: str | None
    rows: int | None
    sort: str | None
    cache: bool
    width: int
    color: bool
    protection: Protection | None
    et: str | None = None
    layout: Layout = Layout.own
    against: str | None = None

    @property
    def is_for_files_only(self) -> bool:
        """Whether files are written, and nothing but that is said on the terminal."""
        return bool(self.folder or self.xlsx or self.json or self.markdown or self.html)

    def call(self, trace: str) -> Call:
        """What was asked of a trace, for commands that follow."""
        return Call(trace, self.window, self.extensions, self.et)


@dataclass(frozen=True)
class Outcome:
    """What became of one trace."""

    text: str
    met: list[str]
    remarks: list[str]
    line: Mapping[str, Any] | None = None
    error: str = ""
    is_broken: bool = False


def one_trace(path: str, request: Request) -> list[Outcome]:
    """Work on one trace, and print what was asked for."""
    outcome = _work(path, request)
    sys.stdout.write(outcome.text)
    return [outcome]


def many_traces(given: list[str], paths: list[str], request: Request, scheduler: str | None = None) -> list[Outcome]:
    """Work on many traces; print a line each, and one report.

    Args:
        given: what the user named: files, folders, patterns.
        paths: the files.
        request: what to do with each.
        scheduler: a Dask scheduler whose workers do it; without one it is done in a process per core.
    """
    from tracelens_graph.analyses.across.overview import late_trace, lateness_of, overview
    from tracelens_graph.errors import TraceError
    from tracelens_graph.loaders.sources import is_stream
    from tracelens_graph.loading.many import left_out_note
    from tracelens_graph.loading.pairing import execution_traces_alone, paired
    from tracelens_graph.utils.texts import distinct_names

    if alone := execution_traces_alone(paths):
        raise TraceError(alone)
    pairs = paired(paths)
    say(pairs.notes)
    paths = pairs.traces
    # Functions of an extension cannot be sent to a process; it loads them itself.
    plain = replace(request, options=replace(request.options, extension=None))
    work = [
        (path, replace(plain, et=pairs.of_trace.get(path)), name)
        for path, name in zip(paths, distinct_names(paths), strict=True)
    ]
    # What can be read once only is read here: another process has another standard input, and may lack a descriptor.
    done = {one[0]: _work_of_many(one) for one in work if is_stream(one[0])}
    left = [one for one in work if one[0] not in done]
    done |= _in_processes(left) if scheduler is None else _on_workers(left, scheduler)
    outcomes = [done[path] for path in paths]
    say(left_out_note([path for path, one in zip(paths, outcomes, strict=True) if one.error and not one.is_broken]))
    say(f"left out: {outcome.error}" for outcome in outcomes if outcome.error and outcome.is_broken)
    read = [outcome for outcome in outcomes if outcome.line is not None]
    if not read:
        raise TraceError(f"none of the {len(paths)} files is a trace that can be read")
    lines = [outcome.line for outcome in read if outcome.line is not None]
    ranks = _devices([path for path, one in zip(paths, outcomes, strict=True) if one.line], lines, request, scheduler)
    late = lateness_of(lines, ranks)
    sys.stdout.write(overview(lines, late).text(request.width, request.color))
    if any(line["attendance"].held for line in lines):
        again = ["TRACE" if is_stream(one) else one for one in given]
        sys.stdout.write(f"ask next: tracelens-graph ranks {shlex.join(again)}\n")
    sys.stdout.write("\n")
    if request.is_for_files_only:
        sys.stdout.write("".join(outcome.text for outcome in read))
    else:
        sys.stdout.write(read[late_trace(lines, late) or 0].text)
    return outcomes


def _devices(
    paths: Sequence[str], lines: Sequence[Mapping[str, Any]], request: Request, scheduler: str | None
) -> TraceSet | None:
    """The devices in profiles of JAX, which all together tell whether one is late.

    None where other traces are among them, or the window is not there on each device.
    """
    from tracelens_graph.analyses.ranks import COLUMNS
    from tracelens_graph.errors import AnalysisError, NodeNotFoundError
    from tracelens_graph.loaders.sources import is_stream
    from tracelens_graph.loading.many import load_core_set

    if len(paths) < 2 or not all(line["has_ranks"] for line in lines) or any(map(is_stream, paths)):
        return None
    is_cut = request.window != WindowChoice()
    devices = load_core_set(paths, columns=None if is_cut else COLUMNS, scheduler=scheduler).by_device()
    try:
        return request.window.of_each(devices) if is_cut else devices
    except (AnalysisError, NodeNotFoundError):
        return None


def _in_processes(work: list[tuple[str, Request, str]]) -> Iterator[tuple[str, Outcome]]:
    from tracelens_graph.utils.processes import map_in_processes

    outcomes = map_in_processes(_work_of_many, work, name=lambda one: one[0])
    return zip((path for path, _, _ in work), outcomes, strict=True)


def _on_workers(work: list[tuple[str, Request, str]], scheduler: str) -> Iterator[tuple[str, Outcome]]:
    from tracelens_graph.errors import TraceError
    from tracelens_graph.loading.cluster import map_on_workers

    there = {
        path: (os.path.abspath(path), replace(request, et=request.et and os.path.abspath(request.et)), name)
        for path, request, name in work
    }
    for path, outcome in map_on_workers(_work_of_many, there, scheduler):
        if isinstance(outcome, TraceError):
            outcome = Outcome("", [], [], error=str(outcome), is_broken=True)
        yield path, outcome


def _work_of_many(work: tuple[str, Request, str]) -> Outcome:
    from tracelens_graph.analyses.across.overview import overview_line
    from tracelens_graph.errors import NotATraceError, TraceError

    path, request, name = work
    folder = request.folder and request.folder / name.replace("/", "_")
    options = replace(request.options, extension=extension_of(request.extensions, tell=False))
    try:
        with protecting(request.protection):
            core = _with_link(load(path, cache=request.cache, processes=1, wants_gpu=True), request.et)
            outcome, w = _result(core, path, replace(request, folder=folder, options=options), processes=1)
        line = overview_line(w, name, request.options.linked_only)
    except TraceError as error:
        # Whatever else lies in a folder of traces is passed over, but not where a rank may be missing from a verdict.
        is_broken = bool(request.conditions) or not isinstance(error, NotATraceError)
        return Outcome("", [], [], error=str(error), is_broken=is_broken)
    return Outcome(
        outcome.text,
        [f"{name}: {line}" for line in outcome.met],
        [f"{name}: {line}" for line in outcome.remarks],
        line,
    )


def _with_link(core: Core, et: str | None) -> Core:
    """The graph linked with the execution trace that was found for it; as it is, with a warning, if that is refused."""
    from tracelens_graph.errors import LinkError, TraceError
    from tracelens_graph.loading.one import link_damage, linked

    if et is None:
        return core
    try:
        core = linked(core, et)
    except (LinkError, TraceError) as error:
        warn([f"{error}; reported without"])
    else:
        warn(filter(None, [link_damage(core)]))
    return core


def _work(path: str, request: Request) -> Outcome:
    core = load(path, cache=request.cache, wants_gpu=True, needs_times=False, et=request.et)
    return _result(core, path, request)[0] if core.framework.has_times else _counted(core, request)


def _counted(core: Core, request: Request) -> Outcome:
    """The report on an execution trace alone, which counts calls.

    Raises:
        AnalysisError: something is asked for that needs times.
    """
    from tracelens_graph.reports.calls_text import CALL_TABLES, calls_screen
    from tracelens_graph.reports.document import objects
    from tracelens_graph.reports.json import laid_out, sound

    of_times = [name for name in request.tables if name not in CALL_TABLES]
    is_theirs = request.layout is Layout.tracelens
    files = request.compare_with or request.against or request.xlsx or request.markdown or request.html
    if of_times or is_theirs or request.conditions or files:
        core.info.check_times()
    w = request.window.of(core)
    tables = {name: make(w) for name, make in CALL_TABLES.items() if not request.tables or name in request.tables}
    if request.sort is not None:
        tables = _sorted(tables, request.sort)
    rows = ROWS_FOR_PEOPLE if request.rows is None else request.rows
    said = []
    if request.folder:
        from tracelens_graph.reports.csv import write_folder

        said.append(f"{len(write_folder(tables, request.folder))} tables written to {printable(str(request.folder))}\n")
    if request.json:
        about = {"source": core.info.source, "events": core.info.events, "nodes": len(core.columns), "has_times": False}
        with replacing(request.json) as file:
            file.write((laid_out({"trace": sound(about), "tables": objects(tables)}, 4) + "\n").encode())
        said += _said(f"{len(tables)} tables", request.json)
    if request.tables:
        said.append("\n".join(_printed(w, table, request, core.info.source) for table in tables.values()))
    elif not request.is_for_files_only:
        said.append(calls_screen(w, list(tables.values()), rows, request.width, request.color))
    return Outcome("".join(said), [], [])


def _result(core: Core, path: str, request: Request, processes: int | None = None) -> tuple[Outcome, Window]:
    """Everything that is asked of one trace: files are written, what is to be printed is returned."""
    from tracelens_graph.analyses.report.report_tables import report_tables
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.registry import REPORT

    options = request.options
    if options.models and request.arch in (None, "auto"):
        options = replace(options, arch=_arch_of(core, tell=request.arch is not None))
    w = request.window.of(options.extension.processed(core) if options.extension else core)
    if request.compare_with is not None:
        other = load(request.compare_with, cache=request.cache, processes=processes, wants_gpu=True)
        other_window = request.window.of(options.extension.processed(other) if options.extension else other)
        options = replace(options, compare_with=other_window)
    tables = report_tables(w, options)
    w = tables.window
    against = None
    if request.against is not None:
        against = baseline_of(request.against, request.call(path), options, request.cache)
    if request.layout is Layout.tracelens:
        return _judged("".join(_as_tracelens(w, request, options, path)), request, tables, against), w
    for name in request.tables:
        if name in REPORT or name in tables:
            continue
        if options.extension and options.extension.table_sets:
            raise AnalysisError(f"there is no table {name!r}; {hint(name, tables)}")
        raise AnalysisError(f"no op of the {'window' if w.title else 'trace'} belongs in the table {name}")
    shown = {name: tables[name] for name in request.tables} if request.tables else tables
    if request.sort is not None:
        shown = _sorted(shown, request.sort)
    text = "".join(_written(w, shown, tables, request, options, path, against))
    return _judged(text, request, tables, against), w


def _judged(text: str, request: Request, tables: Mapping[str, Table], against: Baseline | None) -> Outcome:
    """The outcome, with the conditions that hold."""
    alone = [one for one in request.conditions if not one.suffix]
    met, remarks = (gate.check(alone, tables), gate.remarks(alone, tables)) if alone else ([], [])
    if against is not None and len(alone) < len(request.conditions):
        said, changed = judged([one for one in request.conditions if one.suffix], against.tables, tables)
        met, remarks = [*met, *changed], [*remarks, *said]
    return Outcome(text, met, remarks)


def _as_tracelens(w: Window, request: Request, options: ReportOptions, trace: str) -> Iterator[str]:
    """Write TraceLens's sheets to the files that were asked for, else print them."""
    from tracelens_graph.cli.report_layout import sheets_asked, write_sheets

    found = sheets_asked(w, options, request.tables, tell=warn)
    if request.sort is not None:
        found = _sorted(found, request.sort)
    if not request.is_for_files_only:
        yield "\n".join(_printed(w, table, request, trace) for table in found.values())
        return
    if request.folder:
        yield f"{write_sheets(found, request.folder)} sheets written to {printable(str(request.folder))}\n"
    yield from _workbook(found, request, "sheets")


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
    from tracelens_graph.reports.views import column_named, for_people, sort
    from tracelens_graph.tables.column import headings

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
    w: Window, tables: Mapping[str, Table], every: Tables, request: Request, options: ReportOptions, trace: str,
    against: Baseline | None,
) -> Iterator[str]:  # fmt: skip
    """Write the files that were asked for; what to print instead, or about them."""
    if request.tables:
        yield "\n".join(_printed(w, table, request, trace) for table in tables.values())
        return
    if request.folder:
        from tracelens_graph.reports.csv import write_folder

        written = write_folder(tables, request.folder)
        yield f"{len(written)} tables written to {printable(str(request.folder))}\n"
    yield from _workbook(tables, request, "tables")
    changed = against.told(every, request.width) if against is not None and not request.markdown else ""
    if request.is_for_files_only and not (request.json or request.markdown or request.html):
        yield changed.removeprefix("\n")
        return
    from tracelens_graph.analyses.diagnosis.verdict import verdict
    from tracelens_graph.reports.document import facts, report_json
    from tracelens_graph.reports.report_text import all_tables

    about, findings = facts(w, options.said()), verdict(w)
    rows = ROWS_FOR_PEOPLE if request.rows is None else request.rows
    if request.json:
        with replacing(request.json) as file:
            file.write(report_json(findings, tables, about).encode())
        yield from _said(f"verdict and {len(tables)} tables", request.json)
    if request.markdown:
        with replacing(request.markdown) as file:
            file.write(_comment(w, findings, tables, every, about, request, trace, against).encode())
        yield from _said("verdict and key tables", request.markdown)
    if request.html:
        from tracelens_graph.reports.html.report import report_page

        complete = request.call(trace).without_folders().complete
        with replacing(request.html) as file:
            file.write(report_page(w, findings, tables, about, complete, options.arch).encode())
        yield from _said("page", request.html)
    if request.everything:
        call = request.call(trace)
        yield all_tables(
            w.core, about, findings, tables, call.complete, call.to_open, rows, request.width, request.color
        ) + _on_pipes(trace)
        yield changed
    elif not request.is_for_files_only:
        yield _first_screen(w, tables["gpu_timeline"], _left_out(every), about, findings, request, trace)
        yield changed
        yield _on_comparison(request, trace)
        yield _on_pipes(trace)
    else:
        yield changed.removeprefix("\n")


def _comment(
    w: Window, findings: list[Finding], tables: Mapping[str, Table], every: Tables, about: Facts, request: Request,
    trace: str, against: Baseline | None,
) -> str:  # fmt: skip
    """The report as a comment on GitHub."""
    from tracelens_graph.analyses.diagnosis.families import op_advice
    from tracelens_graph.analyses.memory.peak import memory_over_time, memory_summary
    from tracelens_graph.analyses.ops.top_ops import top_ops
    from tracelens_graph.reports.comment import Against, report_comment
    from tracelens_graph.reports.memory_text import peaks

    linked_only = request.options.linked_only
    largest = top_ops(w, linked_only, TOP_OPS_SHOWN)
    change = None
    if against is not None:
        change = Against(against.names, against.compared(every), against.notes_on(every), against.shared_command)
    return report_comment(
        w.core, findings, largest, op_advice(w, findings, largest["name"], linked_only), tables, about,
        request.call(trace).without_folders().complete,
        ROWS_FOR_PEOPLE if request.rows is None else request.rows, change,
        peaks(memory_summary(w)) if memory_over_time(w) else (),
    )  # fmt: skip


def _workbook(tables: Mapping[str, Table], request: Request, what: str) -> Iterator[str]:
    """Write the workbook if one was asked for."""
    if request.xlsx is None:
        return
    from tracelens_graph.reports.xlsx import write_xlsx

    with replacing(request.xlsx) as file:
        write_xlsx(tables, file)
    yield from _said(f"{len(tables)} {what}", request.xlsx)


def _on_comparison(request: Request, trace: str) -> str:
    """Where the comparison with another trace stands, of which the first screen shows nothing."""
    from tracelens_graph.loaders.sources import is_stream
    from tracelens_graph.utils.texts import wrapped

    other = request.compare_with
    if other is None:
        return ""
    said = (
        f"Compared with {printable(other)}: --table unified_perf_summary has the speed-up of each op there, "
        "--table diff_stats the GPU events of both traces; --csv DIR writes all columns."
    )
    lines = list(wrapped(said, request.width))
    if not is_stream(trace) and not is_stream(other):
        lines.append(f"ask next: {request.call(trace).complete(f'tracelens-graph diff TRACE {shlex.quote(other)}')}")
    return "".join(f"{line}\n" for line in lines)


def _on_pipes(trace: str) -> str:
    """What TRACE stands for in the commands above; nothing where they name a file."""
    from tracelens_graph.loaders.sources import is_stream

    if not is_stream(trace):
        return ""
    return "TRACE stands for a file, which this makes of a pipe: tracelens-graph save - -o x.tlg\n"


def _said(what: str, output: Path) -> Iterator[str]:
    """What is printed of a file; nothing where it went to standard output itself."""
    if not is_stdout(output):
        yield f"{what} written to {printable(str(output))}\n"


def _printed(w: Window, table: Table, request: Request, trace: str) -> str:
    """One table, in the format asked for."""
    from tracelens_graph.reports.views import top, view

    if request.format is not Format.table:
        return formatted(top(table, request.rows or 0), request.format, request.width, request.color)
    shown = view(top(table, ROWS_FOR_PEOPLE if request.rows is None else request.rows), w.core)
    hints = request.call(trace).to_open(shown) if w.core.framework.has_times else []
    return formatted(shown, request.format, request.width, request.color, hints)


_WORTH = 2
"""Percent of the GPU time from which on an op is worth replaying."""


def _first_screen(
    w: Window, timeline: Table, others: list[str], about: Facts, findings: list[Finding], request: Request, trace: str
) -> str:
    from tracelens_graph.analyses.ops.top_ops import top_ops
    from tracelens_graph.reports.report_text import first_screen

    largest = top_ops(
        w, request.options.linked_only, TOP_OPS_SHOWN if request.rows is None else request.rows or len(w.core.names)
    )
    call = request.call(trace)
    worth = [name for name, percent in zip(largest["name"], largest["percent"], strict=True) if percent >= _WORTH]
    hints = [*call.to_replay(worth, f"--top {len(largest)}"), *call.to_open(largest)]
    return first_screen(
        about, findings, timeline, largest, others, call.complete, hints,
        request.width, request.color,
    )  # fmt: skip


def _left_out(tables: Tables) -> list[str]:
    """What the report has beside the first screen. Which ops have models is not asked: that would cost time."""
    names = [name for name in (*tables.built_in, *tables.of_extension) if name != "gpu_timeline"]
    return [*names, "a table for each family of ops"] if tables.options.models else names
