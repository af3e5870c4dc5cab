"""`tracelens-graph modules`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import ASCII_BRANCHES, has_branches, load, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import CacheOption, Extensions, Format, LinkedOnly, Trace, extension_of
from tracelens_graph.cli.windows import WindowChoice, with_window_options

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_ASCII = ASCII_BRANCHES | str.maketrans("µ", "u")


class By(StrEnum):
    """What one line stands for."""

    instance = "instance"
    class_ = "class"


class Sort(StrEnum):
    """Order of modules that stand beside each other."""

    model = "model"
    time = "time"


class ModuleFormat(StrEnum):
    """How the module tree is written."""

    text = "text"
    table = "table"
    csv = "csv"
    json = "json"
    md = "md"


@with_window_options
def modules(
    trace: Trace,
    window: WindowChoice,
    by: Annotated[By, typer.Option(help="Every instance, or instances of one class at one place together.")] = (
        By.instance
    ),
    depth: Annotated[int | None, typer.Option(min=0, metavar="N", show_default=False, help="Levels of modules.")] = (
        None
    ),
    sort: Annotated[Sort, typer.Option(help="Order of first calls, or the longest first.")] = Sort.model,
    linked_only: LinkedOnly = False,
    min_percent: Annotated[
        float,
        typer.Option(
            metavar="P", min=0, max=100, show_default=False, help="Merge modules with less than P % of all GPU time."
        ),
    ] = 0,
    extension: Extensions = None,
    format: Annotated[
        ModuleFormat, typer.Option("--format", "-f", help="text draws the tree; the others are tables in its order.")
    ] = ModuleFormat.text,
    cache: CacheOption = False,
) -> None:
    """Draw the tree of nn.Modules, of JAX of named scopes, with the GPU time of each, and what lies in none.

    A module's time is that of the modules in it plus "Non-nn.Module GPU Ops", exactly. Backward work is charged to
    the module of its forward op. The trace needs Python stacks (with_stack=True); of JAX, modules are named scopes.

    Example: tracelens-graph modules trace.json.gz --by class --depth 3 --sort time
    """
    added = extension_of(extension)
    core = load(trace, cache)
    from tracelens_graph.analyses.places import modules as analysis

    table = analysis.modules(window.of(core, added), by.value, depth, sort.value, linked_only, min_percent)
    if format is ModuleFormat.text:
        _draw(table, core.framework.module_prefix)
    else:
        write_table(table, Format(format.value), Call(trace, window, extension or []).to_open(table))


def _draw(table: Table, prefix: str) -> None:
    from tracelens_graph.reports.module_text import module_text
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    in_ascii = not has_branches(sys.stdout.encoding)
    for line in module_text(table, terminal_width(sys.stdout), wants_color(sys.stdout), prefix):
        sys.stdout.write((line.translate(_ASCII) if in_ascii else line) + "\n")
