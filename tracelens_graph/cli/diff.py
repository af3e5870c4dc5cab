"""`tracelens-graph diff`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import load
from tracelens_graph.cli.diff_work import ROWS_FOR_PEOPLE, Pair, Shown, parts_within, several_traces, two_traces
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    CacheOption,
    CsvFolder,
    Extensions,
    Format,
    FormatOption,
    JsonFile,
    Layout,
    MarkdownFile,
    Names,
    Written,
    extension_of,
)
from tracelens_graph.cli.traces import check_pipes, files_named, names_of
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.output.files import is_stdout

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window

_FILES = {
    "--json": "-f json or --csv DIR", "--markdown": "-f md",
    "--fail-if": "-f json, and judge what it says",
}  # fmt: skip
"""Options that take two traces -> what tells the same of several."""


@with_window_options
def diff(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            show_default=False,
            help="Traces or saved graphs, folders of these, patterns, or - for stdin; the first is what the others are "
            "compared with.",
        ),
    ],
    window: WindowChoice,
    within: Annotated[
        bool,
        typer.Option(
            "--within", help="Of one trace: which layer or step is not like the others; of several: which rank."
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
            help="With --tree: fold what has less percent of time and of change; 1 else.",
        ),
    ] = None,
    format: FormatOption = Format.table,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Places on the screen, 5 else; rows of tables, {ROWS_FOR_PEOPLE} else for people; 0 for all.",
        ),
    ] = None,
    csv: CsvFolder = None,
    json: JsonFile = None,
    markdown: MarkdownFile = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write a page to click through, one file: causes, both call trees as a flame graph of the change, "
            "places, tables.",
        ),
        Written((".html", ".htm")),
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option(help="With --csv: our tables, or the files of TraceLens's TraceDiff, of whole traces as there."),
    ] = Layout.own,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds of the change, such as 'slower_percent > 3' or "
            "'place:aten::mm:ms > 0.5'; may be given again.",
        ),
    ] = None,
    extension: Extensions = None,
    cache: CacheOption = False,
) -> None:
    """Compare traces by structure: align their call trees, and say where GPU time changed, and why.

    Where both have steps, and no part of them is chosen, a step of median GPU time is compared with one.

    Example: tracelens-graph diff trace.json.gz other.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz -o diff.md --fail-if 'slower_percent > 3'

    Example: tracelens-graph diff trace.json.gz other.json.gz -o diff.html

    Example: tracelens-graph diff --within trace.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz --layout tracelens --csv rprt_diff/
    """
    if min_percent is not None and not tree:
        raise typer.BadParameter("--min-percent goes with --tree")
    if layout is Layout.tracelens and window != WindowChoice():
        raise typer.BadParameter(
            "--layout tracelens compares whole traces, as TraceLens does: leave out the options of windows"
        )
    shown = Shown(
        tree, points, point, top, format, 1 if min_percent is None else min_percent, csv, json, markdown, html, layout
    )
    paths = files_named(runs)
    check_pipes(paths)
    _check(shown, paths, within, fail_if or [])
    conditions = gate.parse(fail_if or [], of=gate.figures_of_diff())
    tags = names_of(paths, names)
    added = extension_of(extension)

    def opened(path: str) -> Window:
        core = load(path, cache, wants_gpu=True)
        try:
            return window.of(core, added)
        except (AnalysisError, NodeNotFoundError) as error:
            raise type(error)(f"{path}: {error}") from None

    calls = [Call(path, window, extension or []) for path in paths]
    if within:
        parts_within(paths, tags, opened, shown, calls, names, runs)
    elif len(paths) > 2:
        several_traces(paths, tags, opened, shown, calls, names)
    else:
        pair = Pair((calls[0], calls[1]), names)
        two_traces((opened(paths[0]), opened(paths[1])), (tags[0], tags[1]), shown, conditions, pair)


def _check(shown: Shown, paths: Sequence[str], within: bool, conditions: Sequence[str]) -> None:
    if not within and len(paths) < 2:
        raise typer.BadParameter("name at least two traces, or --within and one")
    if within and len(paths) == 2:
        raise typer.BadParameter("--within of several takes three traces or more: two are compared by `diff A B`")
    two = [*shown.for_two, *(["--fail-if"] if conditions else [])]
    if two and (within or len(paths) > 2):
        instead = f"; several take {_FILES[two[0]]}" if two[0] in _FILES else ""
        raise typer.BadParameter(f"{two[0]} takes two traces, not {'--within' if within else len(paths)}{instead}")
    drawn = [name for name in shown.for_two if name in ("--tree", "--points", "--point")]
    if len(drawn) > 1:
        raise typer.BadParameter(f"{drawn[0]} and {drawn[1]} are two answers: give one of them")
    if drawn and any(path and is_stdout(path) for path in (shown.csv, shown.json, shown.markdown, shown.html)):
        raise typer.BadParameter(f"{drawn[0]} goes to standard output as well: name a file")
    if isnan(shown.min_percent):
        raise typer.BadParameter("--min-percent: nan is no number")
    if shown.layout is Layout.tracelens and (drawn or shown.csv is None):
        raise typer.BadParameter("--layout tracelens is for files: name a folder with --csv" if not drawn else
                                 f"--layout tracelens is for files, not {drawn[0]}")  # fmt: skip
    if shown.format is not Format.table and {*drawn} & {"--tree", "--point"}:
        raise typer.BadParameter(f"--format is for tables: --points, not {drawn[0]}")
