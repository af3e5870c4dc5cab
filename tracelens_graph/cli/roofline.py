"""`tracelens-graph roofline`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.drawing import PAGE, Drawn, drawn_as
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    NO_ARCH,
    Arch,
    CacheOption,
    Extensions,
    Format,
    FormatOption,
    TableName,
    Trace,
    architecture_named,
    architecture_of,
    extension_of,
)
from tracelens_graph.cli.windows import WindowChoice, with_window_options
from tracelens_graph.output.files import is_stdout, replacing
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import file_name

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.tables.table import Table

_ROWS_FOR_PEOPLE = 10
_TABLES = ("roofline_summary", "below_roof", "unmodelled")


@with_window_options
def roofline(
    trace: Trace,
    window: WindowChoice,
    output: Drawn = None,
    arch: Arch = None,
    extension: Extensions = None,
    table: TableName = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Operations; 0 for all. Without it {_ROWS_FOR_PEOPLE} as a table, else all.",
        ),
    ] = None,
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Say what bounds the GPU's work, how much could be won, and which ops are far below the roof.

    Parts of the time: ops bound by computing and by memory, ops without a model, communication, and idle time, that
    which waits for launches apart. They add up to the durations of all GPU events and the idle time.

    Tables are roofline_summary, below_roof and unmodelled; csv and json are of one, roofline_summary unless --table
    names another.

    Example: tracelens-graph roofline trace.json.gz -o roofline.html

    Example: tracelens-graph roofline trace.json.gz --arch h100-sxm --step 3 --table below_roof --format csv
    """
    if table is not None and table not in _TABLES:
        raise typer.BadParameter(f"--table: there is no table {table!r}; {hint(table, _TABLES)}")
    if arch == NO_ARCH:
        raise typer.BadParameter("--arch: a roofline needs a device")
    form = None if output is None else drawn_as(output)
    device, added = architecture_named(arch), extension_of(extension)
    core = load(trace, cache, wants_gpu=True)
    device = device or _of_profile(core) or architecture_of(core, None)
    w, call = window.of(core, added), Call(trace, window, extension or [])
    from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
    from tracelens_graph.analyses.performance.roofline_points import below_roof
    from tracelens_graph.analyses.performance.roofline_summary import roofline_summary, unmodelled
    from tracelens_graph.reports.views import top as first_rows
    from tracelens_graph.reports.views import view

    ops = unified_perf_summary(w, arch=device)
    tables = {"roofline_summary": roofline_summary(w, device), "below_roof": below_roof(ops)}
    if table == "unmodelled" or form == PAGE:
        tables["unmodelled"] = unmodelled(w)
    if output is not None and form is not None:
        _draw(output, form, w, ops, tables, device, file_name(core.info.source))
        if is_stdout(output):
            return
    for_people = format in (Format.table, Format.md)
    shown = [table] if table else ["roofline_summary", "below_roof"] if for_people else ["roofline_summary"]
    rows = (_ROWS_FOR_PEOPLE if format is Format.table else 0) if top is None else top
    for place, name in enumerate(shown):
        if place:
            if not len(tables[name]):
                continue
            print()
        shown_rows = tables[name] if name == "roofline_summary" else first_rows(tables[name], rows)
        hints = _to_replay(call, shown_rows, arch) if name == "below_roof" else []
        write_table(view(shown_rows, w.core) if for_people else shown_rows, format, hints)
    if output is not None:
        from tracelens_graph.utils.texts import printable

        print(f"roofline drawn in {printable(str(output))}", file=sys.stdout if format is Format.table else sys.stderr)


def _of_profile(core: Core) -> Architecture | None:
    """The one device with the properties of a profile of JAX, which tells no names; a line says what was taken.

    Raises:
        AnalysisError: several devices have these properties.
    """
    from tracelens_graph.cli.traces import say
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.perf.devices import by_properties
    from tracelens_graph.utils.suggest import either

    alike = by_properties(core.info.metadata.get("deviceProperties"))
    if len(alike) > 1:
        names = either([one.key for one in alike])
        raise AnalysisError(
            f"no roofline: the profile does not name its device, which by its compute units and memory may be {names}; "
            "name it with --arch"
        )
    for one in alike:
        say([f"taken for {one.name} by its compute units and memory; --arch names another device"])
    return alike[0] if alike else None


def _to_replay(call: Call, below: Table, arch: str | None) -> list[str]:
    """The command that calls the operations of `below_roof` again."""
    named = "" if arch is None else f" --arch {shlex.quote(arch)}"
    return call.to_replay(below["op"], f"--by below-roof --top {len(below)}{named}")


def _draw(
    output: Path, form: str, w: Window, ops: Table, tables: dict[str, Table], device: Architecture, source: str
) -> None:
    with replacing(output) as file:
        if form == PAGE:
            from tracelens_graph.reports.html.report import roofline_page

            file.write(roofline_page(w, ops, tables, device, source).encode())
        else:
            from tracelens_graph.analyses.performance.roofline_points import RooflinePoints
            from tracelens_graph.reports.picture import save
            from tracelens_graph.reports.roofline_picture import roofline_picture

            title = f"Roofline of {source} on {device.name}"
            save(roofline_picture(RooflinePoints.of(ops, device), title), form, "roofline", file)
