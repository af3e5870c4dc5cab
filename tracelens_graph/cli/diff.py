"""`tracelens-graph diff`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.options import CacheOption, Extensions, Format, FormatOption, extension_of
from tracelens_graph.cli.windows import WindowChoice, with_window_options

if TYPE_CHECKING:
    pass

_ROWS_FOR_PEOPLE = 20


@with_window_options
def diff(
    a: Annotated[str, typer.Argument(metavar="A", show_default=False, help="A trace or saved graph, or - for stdin.")],
    b: Annotated[str, typer.Argument(metavar="B", show_default=False, help="What it is compared with.")],
    window: WindowChoice,
    points: Annotated[bool, typer.Option("--points", help="List all places in which they differ.")] = False,
    format: FormatOption = Format.table,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default=False, help=f"Rows of --points; 0 for all, {_ROWS_FOR_PEOPLE} else."
        ),
    ] = None,
    extension: Extensions = None,
    cache: CacheOption = False,
) -> None:
    """Compare two traces by structure: align their call trees, and say where GPU time changed, and why.

    Where both have steps, and no part of them is chosen, a step of median GPU time is compared with one.

    Example: tracelens-graph diff trace.json.gz other.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz --points --format csv
    """
    if a == b == "-":
        raise typer.BadParameter("only one trace can come from standard input")
    added = extension_of(extension)
    windows = [window.of(load(trace, cache, wants_gpu=True), added) for trace in (a, b)]
    from tracelens_graph.analyses.alignment.difference import diff as compared
    from tracelens_graph.analyses.alignment.steps import median_steps

    first, second = median_steps(*windows) if window == WindowChoice() else windows
    difference = compared(first, second)
    if points or format is not Format.table:
        from tracelens_graph.analyses.alignment.tables import places_table
        from tracelens_graph.reports.views import top as first_rows

        rows = (_ROWS_FOR_PEOPLE if format is Format.table else 0) if top is None else top
        write_table(first_rows(places_table(difference), rows), format)
        return
    from tracelens_graph.reports.diff_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    sys.stdout.write(screen(difference, terminal_width(sys.stdout), wants_color(sys.stdout)))
