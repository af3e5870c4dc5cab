"""`tracelens-graph report`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.baseline import SUFFIXES
from tracelens_graph.cli.options import (
    NO_ARCH,
    Arch,
    CacheOption,
    CsvFolder,
    ExecutionTraceFile,
    Extensions,
    Format,
    FormatOption,
    JsonFile,
    Layout,
    LinkedOnly,
    MicroIdle,
    Recompute,
    SchedulerAddress,
    TableNames,
    Traces,
    Written,
    architecture_named,
    extension_of,
)
from tracelens_graph.cli.report_layout import check_layout
from tracelens_graph.cli.report_work import ROWS_FOR_PEOPLE, TOP_OPS_SHOWN, Request, many_traces, one_trace
from tracelens_graph.cli.traces import check_pipes, traces_named
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.output.files import protection
from tracelens_graph.utils.suggest import hint

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension


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
    compare_with: Annotated[
        str | None,
        typer.Option(
            metavar="TRACE",
            show_default=False,
            help="Add what the ops of unified_perf_summary took in another trace, and the table diff_stats.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="BASELINE",
            show_default=False,
            help="Say what changed against a run: a trace, a saved graph, a file of --json or a folder of --csv; on "
            "the screen, in --markdown, and for --fail-if with :diff or :pct.",
        ),
    ] = None,
    et: ExecutionTraceFile = None,
    extension: Extensions = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Rows per table; 0 for all. Without it {TOP_OPS_SHOWN} ops on the first screen, {ROWS_FOR_PEOPLE} "
            "rows of tables on the terminal, else all.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="Print tables, those with this column sorted by it."),
    ] = None,
    csv: CsvFolder = None,
    xlsx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write a workbook, a sheet per table."),
        Written((".xlsx",)),
    ] = None,
    json: JsonFile = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write a comment for a pull request, Markdown of GitHub: headline, dearest ops, with --against the "
            "change; all else unfolds at a click.",
        ),
        Written((".md", ".markdown")),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write a page to click through, one file: verdict, timeline, flame graph, tables, roofline.",
        ),
        Written((".html", ".htm")),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print all tables, not the first screen.")] = False,
    table: TableNames = None,
    format: FormatOption = Format.table,
    layout: Annotated[
        Layout, typer.Option(help="tracelens: sheets and columns of its report, of PyTorch's traces or JAX's profiles.")
    ] = Layout.own,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds, such as 'idle_percent > 20', or with --against "
            "'total_ms:pct > 5'; may be given again.",
        ),
    ] = None,
    cache: CacheOption = False,
    scheduler: SchedulerAddress = None,
) -> None:
    """Say where the GPU's time went, on one screen: a verdict with its evidence, the timeline, the dearest ops.

    --all prints all tables, --table one of them. Several traces, such as the ranks of a job, get a line each first,
    and the late one, if any, or the first the report.

    Example: tracelens-graph report trace.json.gz

    Example: tracelens-graph report trace.json.gz --table kernel_summary --table step_summary

    Example: tracelens-graph report trace.json.gz -o report.html

    Example: tracelens-graph report trace.json.gz --step 3 --csv tables/ --fail-if 'idle_percent > 20'

    Example: tracelens-graph report trace.json.gz --against other.json.gz -o report.md
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
    if layout is Layout.tracelens:
        check_layout(no_models=no_models, everything=everything, json=json, markdown=markdown)
        if against is not None:
            raise typer.BadParameter(
                "--layout tracelens has no baseline; compare --layout tracelens compares two traces"
            )
    else:
        for name in asked:
            _check_table(name, options.extension)
    if asked and everything:
        raise typer.BadParameter("--all prints all tables, --table some: give one of them")
    files = {"--csv": csv, "--xlsx": xlsx, "--json": json, "--markdown": markdown, "--html": html}
    if asked and (named_files := [option for option, path in files.items() if path is not None]):
        raise typer.BadParameter(f"{named_files[0]} writes all tables, --table prints some: give one of them")
    if format is not Format.table and len(asked) != 1:
        raise typer.BadParameter(
            "--format needs one --table; files are written by --csv, --xlsx, --json, --markdown and --html"
        )
    conditions = gate.parse(fail_if or [], SUFFIXES if against is not None else (), options)
    paths = traces_named(traces)
    if compare_with is not None and len(paths) > 1:
        raise typer.BadParameter(f"--compare-with takes one trace, not {len(paths)}")
    if against is not None:
        if asked and not any(one.suffix for one in conditions):
            raise typer.BadParameter("--against adds nothing to --table; compare --table prints what changed of one")
        if len(paths) > 1:
            raise typer.BadParameter(f"--against takes one trace, not {len(paths)}; compare takes several runs")
        check_pipes([*paths, against])
    if et is not None and len(paths) > 1:
        raise typer.BadParameter(f"--et takes one trace, not {len(paths)}; those of a folder find theirs in it")
    if compare_with is not None and no_models:
        raise typer.BadParameter("--compare-with adds to a table that --no-models leaves out")
    if "diff_stats" in asked and compare_with is None:
        raise typer.BadParameter("--table diff_stats needs --compare-with")
    if len(paths) > 1 and (xlsx or json or markdown or html or format is not Format.table):
        raise typer.BadParameter(f"--format, --xlsx, --json, --markdown and --html take one trace, not {len(paths)}")
    if scheduler is not None and len(paths) == 1:
        raise typer.BadParameter("--scheduler takes several traces, such as the ranks of a job, not 1")
    if scheduler is not None and (csv or cache or extension):
        raise typer.BadParameter("--csv, --cache and --extension need files of this machine; --scheduler uses others")
    request = Request(
        options, extension or [], window, conditions, csv, xlsx, json, markdown, html, asked, everything or bool(sort),
        format, arch, compare_with, top, sort, cache, terminal_width(sys.stdout), wants_color(sys.stdout), protection(),
        et, layout, against,
    )  # fmt: skip
    outcomes = one_trace(paths[0], request) if len(paths) == 1 else many_traces(traces, paths, request, scheduler)
    gate.conclude([line for o in outcomes for line in o.remarks], [line for o in outcomes for line in o.met])
    if any(outcome.is_broken for outcome in outcomes):
        raise typer.Exit(1)


def _check_table(name: str, extension: Extension | None) -> None:
    from tracelens_graph.analyses.report.report_tables import OF_COMPARISON
    from tracelens_graph.registry import REPORT

    if name in REPORT or name in OF_COMPARISON:
        return
    from tracelens_graph.perf.registry import sheets
    from tracelens_graph.reports.calls_text import CALL_TABLES

    known = [*REPORT, *OF_COMPARISON, *CALL_TABLES, *sheets(), *(extension.table_names if extension else ())]
    if name not in known and not (extension and extension.table_sets):
        raise typer.BadParameter(f"--table: there is no table {name!r}; {hint(name, known)}")
