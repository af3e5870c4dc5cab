"""`tracelens-graph report`: where the GPU's time went, of one trace or of several."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli import completing
from tracelens_graph.cli.options import (
    ANYWHERE,
    NO_ARCH,
    Arch,
    ExecutionTraceFile,
    Extensions,
    FailIf,
    Group,
    Layout,
    LayoutOption,
    LinkedOnly,
    MicroIdle,
    Recompute,
    SchedulerAddress,
    TableNames,
    Top,
    Traces,
    architecture_named,
    check_name,
    finite,
    option,
    refuse,
)
from tracelens_graph.cli.outputs import Outputs, Writes
from tracelens_graph.cli.report_answer import Answer, Asked, Calls, Report, Theirs, answer_of
from tracelens_graph.cli.shown import TABLE, print_table, put, screen
from tracelens_graph.cli.traces import as_one, count_named, extension_of, load, traces_named
from tracelens_graph.cli.windows import Window

if TYPE_CHECKING:
    from tracelens_graph.analyses.report.report_tables import ReportOptions


class Added(StrEnum):
    """What tables can have beside the default."""

    overlap = "overlap"
    first_occurrence = "first-occurrence"
    call_stack = "call-stack"
    by_module = "by-module"
    by_kernel_count = "by-kernel-count"
    kernel_categories = "kernel-categories"


def _contents(
    linked_only: LinkedOnly = False,
    micro_idle: MicroIdle = None,
    short_kernels: Annotated[
        float | None, option(metavar="US", min=0, callback=finite, help="Add the tables of kernels shorter than this.")
    ] = None,
    histogram_bins: Annotated[
        int, typer.Option(metavar="N", min=1, help="Bins of the histogram of --short-kernels.")
    ] = 100,
    recompute: Recompute = False,
    add: Annotated[
        list[Added] | None,
        option(
            "--add",
            help="Add to ops the kernels beside them on other streams, the first call with these arguments, or the "
            "modules around them and the calling function; rows by module or by number of kernels; categories of "
            "kernels by name. May be given again.",
        ),
    ] = None,
    no_models: Annotated[
        bool, option("--no-models", help="Leave out the tables of cost and rates from performance models.")
    ] = False,
) -> Any:
    from tracelens_graph.analyses.report.report_tables import ReportOptions

    added: dict[str, Any] = dict.fromkeys((one.name for one in add or ()), True)
    return ReportOptions(
        linked_only=linked_only, micro_idle_us=micro_idle, short_kernels_us=short_kernels,
        histogram_bins=histogram_bins, recompute=recompute, models=not no_models, **added,
    )  # fmt: skip


def report(
    traces: Traces,
    *,
    contents: Annotated[Any, Group(_contents)],
    arch: Arch = None,
    compare_with: Annotated[
        str | None,
        option(
            metavar="TRACE",
            hidden=True,
            help="Add what the ops of unified_perf_summary took in another trace, and the table diff_stats, as "
            "TraceLens does.",
        ),
    ] = None,
    et: ExecutionTraceFile = None,
    extension: Extensions = None,
    top: Top = None,
    sort: Annotated[
        str | None,
        option(
            metavar="COLUMN",
            autocompletion=completing.columns,
            help="Print tables, sorted by this column if they have it.",
        ),
    ] = None,
    everything: Annotated[bool, option("--all", help="Print all tables, not the first screen.")] = False,
    table: TableNames = None,
    outputs: Annotated[Outputs, Writes("html", "md", "json", "xlsx", "csv", folder=True)],
    layout: LayoutOption = Layout.own,
    fail_if: FailIf = None,
    scheduler: SchedulerAddress = None,
    window: Window,
) -> None:
    """Show where the GPU's time went, on one screen: a verdict with its evidence, the timeline, the most expensive ops.

    --all prints all tables, --table one of them. Several traces, such as the ranks of a job, first get a line each;
    then follows the report of the straggler, or of the first trace. html is a page to click through: verdict, timeline,
    flame graph, tables, roofline. md is a comment for a pull request. With --layout tracelens, tables are the sheets of
    TraceLens's report, for PyTorch's traces or JAX's profiles.

    If the file begins with GPU work of an earlier step, the first screen and the page cover the steps alone, as with
    --step, and say what is outside; --from 0ms covers everything. Tables, JSON and --fail-if cover the whole trace.

    Example: tracelens-graph report trace.json.gz

    Example: tracelens-graph report trace.json.gz --table kernel_summary --table step_summary

    Example: tracelens-graph report trace.json.gz -o report.html

    Example: tracelens-graph report trace.json.gz --step 3 --csv tables/ --fail-if 'idle_percent > 20'
    """
    asked_tables, is_theirs = list(dict.fromkeys(table or [])), layout is Layout.tracelens
    refuse(
        (arch is not None and not contents.models, "--arch is for the tables that --no-models leaves out"),
        (is_theirs and everything, "--layout tracelens goes with --csv, xlsx and --table, not with --all"),
        (is_theirs and not contents.models,
         "--layout tracelens: its report has sheets of performance models; leave out --no-models"),
        (asked_tables and everything, "--all prints all tables, --table some: give one of them"),
        (everything and outputs.to_files, "--all prints all tables: give it or files"),
        (compare_with and not contents.models, "--compare-with adds to a table that --no-models leaves out"),
        ("diff_stats" in asked_tables and not compare_with, "--table diff_stats needs --compare-with"),
        (len(asked_tables) > 1 and outputs.formats, f"{', '.join(outputs.formats)} takes one --table"),
    )  # fmt: skip
    named = None if arch == NO_ARCH else architecture_named(arch)
    options = replace(contents, arch=named, extension=extension_of(extension))
    if asked_tables:
        outputs.check(TABLE, "a table", has_folder=False)
        if not is_theirs:
            _check_tables(asked_tables, options)
    elif is_theirs:
        outputs.check(Theirs.forms, "--layout tracelens")
    else:
        outputs.check(Report.forms, "a report (--csv DIR writes its tables, --table NAME chooses one)")
    conditions = []
    if fail_if:
        from tracelens_graph.cli import gate

        conditions = gate.parse(fail_if, (), options)
    paths = traces_named(traces)
    if compare_with or et or outputs.formats or window.device is not None or ANYWHERE.get().memory:
        paths = as_one(traces, paths)
    several = len(paths) if len(paths) > 1 else 0
    number = count_named(traces, paths)
    refuse(
        (several and compare_with, f"--compare-with takes one trace, not {number}"),
        (several and et, f"--et takes one trace, not {number}; those of a folder find theirs in it"),
        (several and outputs.formats, f"{', '.join(outputs.formats)} takes one trace, not {number}"),
        (several and ANYWHERE.get().memory, f"--memory takes one trace, not {number}"),
        (scheduler and not several, "--scheduler takes several traces, such as the ranks of a job, not 1"),
        (scheduler and (outputs.folder or extension),
         "--csv and --extension need files of this machine; --scheduler uses others"),
    )  # fmt: skip
    asked = Asked(
        options=options, window=window, extensions=extension or [], arch=arch, et=et, compare_with=compare_with,
        tables=asked_tables, everything=everything or bool(sort), sort=sort, top=top, is_theirs=is_theirs,
    )  # fmt: skip
    if several:
        from tracelens_graph.cli.report_many import many_traces

        outcomes = many_traces(traces, paths, asked, conditions, outputs.folder, scheduler)
        remarks, met = [one for o in outcomes for one in o.remarks], [one for o in outcomes for one in o.met]
        is_broken = any(outcome.is_broken for outcome in outcomes)
    else:
        core = load(paths[0], wants_gpu=True, needs_times=False, et=et)
        in_full = asked_tables or everything or sort or conditions
        if outputs.to_screen and not in_full:
            asked = asked.of_steps(core)
        answer = answer_of(core, paths[0], asked)
        (remarks, met), is_broken = answer.judged(conditions), False
        _present(answer, asked, outputs)
    if conditions:
        gate.conclude(remarks, met)
    if is_broken:
        raise typer.Exit(1)


def _present(answer: Answer, asked: Asked, outputs: Outputs) -> None:
    """Print an answer, or write it."""
    if isinstance(answer, Calls) and not asked.tables and not {*outputs.formats} <= {*answer.forms}:
        answer.w.core.info.check_times()
    if outputs.to_screen:
        put(answer.text(screen()))
    elif asked.tables:
        (table,) = answer.chosen.values()
        print_table(answer.shown(table), outputs)
    else:
        outputs.write(answer, answer.forms, lambda: answer.files)


def _check_tables(names: list[str], options: ReportOptions) -> None:
    from tracelens_graph.analyses.report.report_tables import OF_COMPARISON
    from tracelens_graph.registry import REPORT

    unknown = [name for name in names if name not in REPORT and name not in OF_COMPARISON]
    extension = options.extension
    if not unknown or (extension and extension.table_sets):
        return
    from tracelens_graph.perf.registry import sheets
    from tracelens_graph.reports.calls_text import CALL_TABLES

    known = [*REPORT, *OF_COMPARISON, *CALL_TABLES, *sheets(), *(extension.table_names if extension else ())]
    for name in unknown:
        check_name("--table", name, known)
