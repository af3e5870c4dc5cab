"""`tracelens-graph explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from tracelens_graph.cli import completing
from tracelens_graph.cli.hints import NEXT, Call
from tracelens_graph.cli.options import NO_ARCH, Arch, Extensions, Trace, architecture_named, argument, refuse
from tracelens_graph.cli.shown import TABLE, Shown, print_lines, screen
from tracelens_graph.cli.tables import OneTable
from tracelens_graph.cli.traces import extension_of, load
from tracelens_graph.cli.windows import Window

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_LABEL = 19
"""Characters of the names of figures, as far as these are usual."""


def explain(
    trace: Trace,
    id: Annotated[
        str | None,
        argument(
            metavar="ID",
            autocompletion=completing.ids,
            help="Finding or opportunity, such as kernels@compute.gemm; without it, all ids.",
        ),
    ] = None,
    *,
    arch: Arch = None,
    extension: Extensions = None,
    outputs: OneTable,
    window: Window,
) -> None:
    """Show what is behind a finding of the report: figures, place in the program, what to try and to ask next.

    Ids are those of `report -f json` and `ask opportunities`. They are the same in every run of a program.

    Example: tracelens-graph explain trace.json.gz kernels@compute.gemm
    """
    refuse((arch == NO_ARCH, "--arch: an explanation needs a device, or none named"))
    device, added = architecture_named(arch), extension_of(extension)
    core = load(trace)
    import numpy as np

    from tracelens_graph.analyses.diagnosis.explain import explain as explained

    call = Call(trace, window, extension or [], arch=arch)
    w = window.of(core, added)
    found = call.completed(explained(w, id, device), w)
    found = found.take(np.flatnonzero([row["part"] != "next" or bool(row["command"]) for row in found.records()]))
    if outputs.to_screen:
        print_lines(_lines(found, *screen()))
    outputs.write(Shown(found), {**TABLE, "table": _text})


def _text(shown: Shown) -> str:
    return "".join(f"{line}\n" for line in _lines(shown.table, screen().width, False))


def _lines(table: Table, width: int, color: bool) -> Iterator[str]:
    """An explanation for people: its parts one below the other, the commands last and unbroken."""
    from tracelens_graph.tables.terminal import LONGEST_CELL, bold
    from tracelens_graph.utils.texts import printable, shorten, wrapped

    part = ""
    for row in table.records():
        if row["command"]:
            yield f"{NEXT}{printable(row['command'])}"
            continue
        if row["part"] != part:
            part = row["part"]
            yield bold(printable(table.title if part == "finding" else part.capitalize()), color)
        value = f"{row['value']:,.6g}" if isinstance(row["value"], float) else shorten(str(row["value"]), LONGEST_CELL)
        uid = "" if row["uid"] is None else f" [uid {row['uid']}]"
        text = f"  {row['what']:{_LABEL}}  {value}{uid}" if row["what"] else f"  {value}"
        yield from wrapped(printable(text), width, " " * (_LABEL + 4 if row["what"] else 4))
    for note in table.notes:
        yield from wrapped(printable(note), width, "  ")
