"""`tracelens-graph diff`: runs compared, by structure or by name."""

from __future__ import annotations

import os
from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.by_name import SUFFIXES, answer_by_name, are_tables
from tracelens_graph.cli.diff_answers import FORMS, Pair, Several, Two
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    Extensions,
    FailIf,
    Layout,
    LayoutOption,
    LinkedOnly,
    Names,
    Noise,
    NoiseOption,
    Recompute,
    TableName,
    Top,
    refuse,
)
from tracelens_graph.cli.outputs import Outputs, Writes
from tracelens_graph.cli.shown import TABLE, print_lines, print_table
from tracelens_graph.cli.traces import call_devices, check_pipes, extension_of, files_named, load, names_of
from tracelens_graph.cli.windows import Window, WindowChoice
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.output.files import is_stdout

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window as Part

_INSTEAD = {"--fail-if": "; several take -f json, and judge what it says"}
"""Option that takes two traces -> what shows the same of several."""


def diff(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            show_default=False,
            help="Traces or saved graphs, folders of these, patterns, or - for stdin; or reports in JSON and folders "
            "of CSV tables. The first is what the others are compared with.",
        ),
    ],
    *,
    by_name: Annotated[
        bool,
        typer.Option(
            "--by-name", help="Join the tables of their reports by the names of rows, instead of aligning call trees."
        ),
    ] = False,
    table: TableName = None,
    linked_only: LinkedOnly = False,
    recompute: Recompute = False,
    within: Annotated[
        bool,
        typer.Option(
            "--within", help="Find the layer or step of one trace, or the rank of several, that is unlike the others."
        ),
    ] = False,
    names: Names = None,
    points: Annotated[bool, typer.Option("--points", help="List all places in which they differ.")] = False,
    point: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default=False, help="Draw place N of the screen or --points, both sides."
        ),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Draw both call trees as one, with both times.")] = False,
    min_percent: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            min=0,
            max=100,
            show_default=False,
            help="With --tree: fold calls with less percent of time and of change. Default: 1.",
        ),
    ] = None,
    top: Top = None,
    outputs: Annotated[Outputs, Writes("json", "md", "html", "xlsx", "csv", folder=True)],
    layout: LayoutOption = Layout.own,
    fail_if: FailIf = None,
    noise: NoiseOption = Noise.on,
    extension: Extensions = None,
    window: Window,
) -> None:
    """Compare two runs or more: what takes longer, what less, where, and why.

    The call trees of traces are aligned, so each change of the GPU time has its place in the program. If both traces
    have steps and no part is chosen, one step of median GPU time of each is compared; for ranks of one job the same
    step, for servers several steps of equal phase and size.

    --by-name joins the tables of their reports row by row instead, for whole runs. Use it for runs of two frameworks,
    and for limits on figures of a report, such as --fail-if 'busy_ms:pct > 5'. It is implied if a report in JSON or a
    folder of CSV tables takes the place of a trace. --table NAME prints one of the tables.

    --within compares the layers or steps of one trace, or the ranks of a job, with each other. With --layout tracelens
    and --csv, files are those of TraceLens's TraceDiff, for whole traces; with --by-name, those of its
    compare_perf_reports.

    For snapshots of CUDA memory, it shows what grew: --table memory_at_end.

    Example: tracelens-graph diff trace.json.gz other.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz -o diff.md --fail-if 'slower_percent > 3'

    Example: tracelens-graph diff trace.json.gz other.json.gz -o diff.html

    Example: tracelens-graph diff trace.json.gz other.json.gz --by-name --names before,after

    Example: tracelens-graph diff --within trace.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz --layout tracelens --csv rprt_diff/
    """
    is_theirs = layout is Layout.tracelens
    answers = {"--tree": tree, "--points": points, "--point": point is not None}
    drawn = [name for name, is_given in answers.items() if is_given]
    if all(map(_is_snapshot, runs)) and not (within or table):
        table = "memory_at_end"
    if by_name or table is not None or any(map(are_tables, runs)):
        refuse(
            (within, "--within compares parts of traces by structure, not by name"),
            (drawn, f"{', '.join(drawn)} draws call trees: leave out what compares by name"),
        )
        from tracelens_graph.analyses.report.report_tables import ReportOptions

        options = ReportOptions(linked_only=linked_only, recompute=recompute, extension=extension_of(extension))
        call = Call(runs[0], window, extension or [])
        answer_by_name(runs, names, call, options, table, top, outputs, is_theirs, fail_if or [], noise)
        return
    paths = files_named(runs)
    check_pipes(paths)
    jobs = len(runs) == 2 < len(paths) and all(map(os.path.isdir, runs)) and not within
    several = within or len(paths) > 2
    two = [*drawn, *(["--layout tracelens"] if is_theirs else []), *(["--fail-if"] if fail_if else [])]
    refuse(
        (linked_only, "--linked-only goes with --by-name"),
        (recompute, "--recompute goes with --by-name"),
        (min_percent is not None and not tree, "--min-percent goes with --tree"),
        (min_percent is not None and isnan(min_percent), "--min-percent: nan is no number"),
        (jobs, "these are folders of several traces: name one trace of each, such as that of the same rank"),
        (not within and len(paths) < 2, "name at least two traces, or --within and one"),
        (within and len(paths) == 2,
         "--within of several takes three traces or more: two are compared by `diff A B`"),
        (len(drawn) > 1, f"{' and '.join(drawn[:2])} are two answers: give one of them"),
        (drawn and any(is_stdout(path) for path, _ in outputs.files),
         f"{', '.join(drawn)} goes to standard output as well: name a file"),
        (outputs.format and not outputs.files and {*drawn} & {"--tree", "--point"},
         f"--format is for tables: --points, not {', '.join(drawn)}"),
        (is_theirs and window != WindowChoice(),
         "--layout tracelens compares whole traces, as TraceLens does: leave out the options of windows"),
        (is_theirs and (drawn or outputs.formats or outputs.folder is None),
         "--layout tracelens is for files: name a folder with --csv, and nothing else"),
        (several and two, f"{', '.join(two[:1])} takes two traces, not {'--within' if within else len(paths)}"
         f"{_INSTEAD.get(', '.join(two[:1]), '')}"),
    )  # fmt: skip
    if several:
        outputs.check(TABLE, "an answer on several traces")
    if points:
        outputs.check(TABLE, "--points", has_folder=False)
    way = "that is a figure of a report: --by-name compares those, with :diff or :pct behind them"
    of_report = gate.Elsewhere(gate.figures_of_report(), SUFFIXES, way)
    conditions = gate.parse(fail_if or [], of=gate.figures_of_diff(), elsewhere=of_report)
    tags = names_of(paths, names)
    added = extension_of(extension)

    def opened(path: str) -> Part:
        core = load(path, wants_gpu=True)
        try:
            return window.of(core, added)
        except (AnalysisError, NodeNotFoundError) as error:
            raise type(error)(f"{path}: {error}") from None

    calls = [Call(path, window, extension or []) for path in paths]
    if several:
        of_all = Several(paths, tags, opened, calls, names, runs, top, within)
        if outputs.to_screen:
            print_lines(of_all.screen())
        outputs.write(of_all.shown(), TABLE, lambda: {of_all.table.name: of_all.table})
        return
    from tracelens_graph.analyses.alignment.host_work import comparable

    first, second = parts = comparable(opened(paths[0]), opened(paths[1]))
    call_devices(part.core.info.accelerator for part in parts)
    is_whole = window != WindowChoice() or is_theirs
    pair = Pair((calls[0], calls[1]), names)
    answer = Two((first, second), (tags[0], tags[1]), pair, top, is_whole, noise is Noise.on)
    if is_theirs and outputs.folder:
        outputs.say(answer.write_as_tracelens(outputs.folder))
    elif points:
        print_table(answer.places(for_people={"csv", "json", "xlsx"}.isdisjoint(outputs.formats)), outputs)
    else:
        if tree:
            print_lines(answer.tree(1 if min_percent is None else min_percent))
        elif point is not None:
            print_lines(answer.point(point))
        elif outputs.to_screen:
            print_lines(answer.screen())
        outputs.write(answer, FORMS, lambda: answer.tables)
    gate.judge(conditions, answer.tables.__getitem__, doubt=_doubt(answer, conditions))


def _doubt(answer: Two, conditions: list[gate.Condition]) -> str:
    """Why conditions on totals show no change of speed; "" where they do."""
    if not any(one.figure.table == "diff_totals" for one in conditions):
        return ""
    from tracelens_graph.analyses.alignment.setups import amount_of_work

    work = amount_of_work(answer.difference)
    return f"unlike {work.what}, so {work.forbids}" if work else ""


def _is_snapshot(run: str) -> bool:
    """Whether a file is a snapshot of CUDA memory."""
    from tracelens_graph.loaders.sources import open_source

    return os.path.isfile(run) and open_source(run).packing == "pickle"
