"""The work of `tracelens-graph ranks --path` and `--what-if`: what bounds a step, and what would change it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.options import Format
from tracelens_graph.cli.traces import load_set
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
    from tracelens_graph.table import Table

TABLES = (
    "critical_path", "critical_path_classes", "critical_path_ranks", "critical_path_names", "critical_path_steps",
    "critical_path_ties", "critical_path_slack",
)  # fmt: skip
"""Tables that need whole traces."""
_ROWS_FOR_PEOPLE = 20
_PROGRAM = "tracelens-graph"
_REPAIR = "repair="
_CHANGE = re.compile(r"(?P<what>.+)=(?P<value>[0-9.]+)")


def changes_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What `--what-if` asks for, one at a time: `collectives=2`, `allreduce=2`, `op:aten::mm=2` or `repair=RANK`.

    Raises:
        typer.BadParameter: a text is none of these.
    """
    return [_change(text) for text in texts]


def _change(text: str) -> dict[str, Any]:
    if text.startswith(_REPAIR) and len(text) > len(_REPAIR):
        return {"repair": text[len(_REPAIR) :]}
    match = _CHANGE.fullmatch(text)
    try:
        value = float(match["value"]) if match else 0.0
    except ValueError:
        value = 0.0
    if not match or value <= 0:
        raise typer.BadParameter(
            f"--what-if {text!r}: say collectives=2, allreduce=2, op:aten::mm=2 (so many times as fast), or repair=RANK"
        )
    what = match["what"]
    if what == "collectives":
        return {"collectives": value}
    return {"ops": {what[3:]: value}} if what.startswith("op:") else {"collectives": {what: value}}


def check_table(table: str | None, of_path: bool) -> None:
    """Refuse the name of a table that there is not.

    Raises:
        typer.BadParameter: there is none of this name, or it is not one of a path where a path is asked for.
    """
    from tracelens_graph.analyses.ranks.job import LATE_TABLES
    from tracelens_graph.analyses.ranks.job import TABLES as OF_RANKS
    from tracelens_graph.suggest import hint

    known = TABLES if of_path else (*OF_RANKS, *LATE_TABLES, *TABLES)
    if table is not None and table not in known:
        raise typer.BadParameter(f"--table: there is no table {table!r}; {hint(table, known)}")


def answer_path(
    files: Sequence[str], given: Sequence[str], window: WindowChoice, table: str | None, form: Format, top: int | None,
    changes: Sequence[Mapping[str, Any]], scheduler: str | None,
) -> None:  # fmt: skip
    """Load the ranks whole, follow the critical path, and print what is asked for."""
    from tracelens_graph.analyses.critical_path.critical_path import causes_of, critical_path, step_paths
    from tracelens_graph.analyses.critical_path.path_tables import steps
    from tracelens_graph.analyses.critical_path.what_if import what_if

    # A step of a path begins where that before it ended, on whatever rank: it is no window of a trace.
    step = window.step[0] if window.step is not None and window == WindowChoice(step=window.step[:1]) else None
    traces = load_set(files, scheduler=scheduler)
    if step is None and window != WindowChoice():
        traces = window.of_each(traces)
    causes = causes_of(traces)
    if changes:
        rows = [what_if(causes, step, **change).table() for change in changes]
        print_rows(_joined(rows), form, top)
        return
    if table == "critical_path_steps":
        print_rows(steps(step_paths(causes)), form, top)
        return
    path = critical_path(causes, step)
    if table is not None:
        print_rows(_tables(path)[table](), form, top)
    elif form is not Format.table:
        print_rows(path.segments(), form, top)
    else:
        _print_screen(path, given, window)


def _tables(path: CriticalPath) -> Mapping[str, Any]:
    makers = (path.segments, path.classes, path.ranks, path.names, None, path.near_ties, path.slack)
    return {name: maker for name, maker in zip(TABLES, makers, strict=True) if maker}


def _joined(tables: Sequence[Table]) -> Table:
    """Tables of one row each as one."""
    from dataclasses import replace

    first = tables[0]
    columns = {name: [cell for one in tables for cell in one[name]] for name in first.columns}
    title = "What if" if len(tables) > 1 else first.title
    notes = list(dict.fromkeys(note for one in tables for note in one.notes))
    return replace(first, columns=columns, title=title, notes=notes)


def print_rows(table: Table, form: Format, top: int | None) -> None:
    """Print the first rows of a table; `top` 0 for all, None for as many as people read."""
    import numpy as np

    from tracelens_graph.reports.views import told

    for_people = form in (Format.table, Format.md)
    rows = (_ROWS_FOR_PEOPLE if form is Format.table else 0) if top is None else top
    shown = table
    if 0 < rows < len(table):  # also of what is in an order of its own
        shown = table.take(np.arange(rows))
        shown.notes = [*table.notes, f"{len(table) - rows:,} more rows (--top 0 shows all)"]
    write_table(told(shown) if for_people else shown, form)


def _print_screen(path: CriticalPath, given: Sequence[str], window: WindowChoice) -> None:
    from tracelens_graph.reports.path_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    for line in screen(path, terminal_width(sys.stdout), wants_color(sys.stdout)):
        print(line.rstrip())
    asked = f"{_PROGRAM} ranks {shlex.join([*given, *(word for option in window.arguments() for word in option)])}"
    print(f"ask next: {asked} --table critical_path --top 0")
    late = path.ranks()
    if len(path.causes.traces) > 1 and len(late):
        print(f"ask next: {asked} --what-if collectives=2 --what-if repair={late['rank'][0]}")
