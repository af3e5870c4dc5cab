"""`tracelens-graph attribution`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    CacheOption,
    Extensions,
    Format,
    FormatOption,
    Name,
    Trace,
    extension_of,
    name_wanted,
)
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.utils.suggest import hint

_ROWS_FOR_PEOPLE = 30


class Level(StrEnum):
    """What GPU time is charged to."""

    module = "module"
    root_op = "root_op"
    op = "op"
    launcher = "launcher"
    runtime = "runtime"
    kernel = "kernel"


@with_window_options
def attribution(
    trace: Trace,
    window: WindowChoice,
    level: Annotated[
        Level,
        typer.Option(
            help="nn.Modules; ops under no other op; all ops; ops that launch; runtime calls; kernels and copies."
        ),
    ] = Level.op,
    name: Name = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"The first N rows; 0 for all. Without it {_ROWS_FOR_PEOPLE} as a table, else all.",
        ),
    ] = None,
    extension: Extensions = None,
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Charge GPU time to modules, ops, launches or kernels, by name.

    Inclusive time is that of all GPU work below the nodes of a name; exclusive time is charged to them directly.
    Sums add up; busy time counts overlapping work once.

    Example: tracelens-graph attribution trace.json.gz --level op --name aten::linear
    """
    wanted, added = name_wanted(name), extension_of(extension)
    core = load(trace, cache, wants_gpu=True)
    from tracelens_graph.analyses.places import attribution as analysis
    from tracelens_graph.reports.views import top as top_rows

    w = window.of(core, added)
    table = analysis.attribution(w, level=level.value, name=wanted)
    if name is not None and not len(table):
        there = [str(one) for one in analysis.attribution(w, level=level.value)["name"]]
        table.notes = [*table.notes, f"nothing with GPU time has name {name!r}; {hint(name, there)}"]
    count = (_ROWS_FOR_PEOPLE if format is Format.table else 0) if top is None else top
    shown = top_rows(table, count)
    write_table(shown, format, Call(trace, window, extension or []).to_open(shown))
