"""The work of `tracelens-graph ranks --path` and `--what-if`: what bounds a step, and what would change it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.options import Format
from tracelens_graph.cli.ranks_files import Shown, write_files
from tracelens_graph.cli.ranks_hints import Asked, called
from tracelens_graph.cli.traces import load_set, ranks_in
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError

if TYPE_CHECKING:
    from tracelens_graph.analyses.critical_path.causes import Causes
    from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.tables.table import Table

    _Makers = Mapping[str, Callable[[], Table]]

TABLES = (
    "critical_path", "critical_path_classes", "critical_path_ranks", "critical_path_names", "critical_path_steps",
    "critical_path_ties", "critical_path_slack",
)  # fmt: skip
"""Tables that need whole traces."""
_ROWS_FOR_PEOPLE = 20
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
    from tracelens_graph.utils.suggest import hint

    known = TABLES if of_path else (*OF_RANKS, *LATE_TABLES, *TABLES)
    if table is not None and table not in known:
        raise typer.BadParameter(f"--table: there is no table {table!r}; {hint(table, known)}")


def answer_path(
    files: Sequence[str], asked: Asked, shown: Shown, changes: Sequence[Mapping[str, Any]],
    conditions: Sequence[gate.Condition], correct: bool, scheduler: str | None,
) -> None:  # fmt: skip
    """Load the ranks whole, follow the critical path, print and write what is asked for.

    Ends with the exit code of failed conditions.
    """
    from tracelens_graph.analyses.critical_path.critical_path import causes_of
    from tracelens_graph.analyses.ranks.matched_collectives import Meetings

    # A step of a path begins where that before it ended, on whatever rank: it is no window of a trace.
    step = asked.step
    traces = ranks_in(load_set(files, scheduler=scheduler))
    _check_gpu_work(files, traces, asked)
    conditions = gate.of_ranks(conditions, traces)
    meetings = None if correct or len(traces) < 2 else Meetings(traces, correct=False)
    if step is None and asked.window != WindowChoice():
        traces = asked.window.of_each(traces)
    causes = causes_of(traces, meetings)
    if changes:
        tables = _answer_what_if(causes, step, changes, asked, shown)
    else:
        tables = _answer_path(causes, step, asked, shown)
    if conditions:
        made = {name: tables[name]() for name in {one.figure.table for one in conditions}}
        gate.conclude(gate.remarks(conditions, made), gate.check(conditions, made))


def _check_gpu_work(files: Sequence[str], traces: TraceSet, asked: Asked) -> None:
    if not any(len(one.core.gpu_rows) for one in traces):
        instead = "" if len(traces) < 2 else f"; {asked.next('--table', 'late_ranks')}"
        raise AnalysisError(f"{files[0]}: no GPU work is recorded, and a critical path leads over GPU work{instead}")


def _answer_path(causes: Causes, step: int | None, asked: Asked, shown: Shown) -> _Makers:
    from tracelens_graph.analyses.critical_path.critical_path import critical_path, step_paths
    from tracelens_graph.analyses.critical_path.path_tables import steps

    path = critical_path(causes, step)
    makers = (path.segments, path.classes, path.ranks, path.names, lambda: steps(step_paths(causes)), path.near_ties,
              path.slack)  # fmt: skip
    tables: _Makers = dict(zip(TABLES, makers, strict=True))
    if shown.table is not None or (shown.format is not Format.table and not shown.writes):
        print_rows(tables[shown.table or "critical_path"](), shown.format, shown.top)
    elif not shown.writes:
        _print_screen(path, asked, shown.top)
    if shown.writes:
        from tracelens_graph.reports.path_text import path_json, path_markdown

        made = {name: maker() for name, maker in tables.items()}
        write_files(made, shown, lambda: path_json(path, made), lambda rows: path_markdown(path, rows))
    return tables


def _answer_what_if(
    causes: Causes, step: int | None, changes: Sequence[Mapping[str, Any]], asked: Asked, shown: Shown
) -> _Makers:
    from tracelens_graph.analyses.critical_path.what_if import what_if
    from tracelens_graph.reports.path_text import what_if_lines
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    found = [what_if(causes, step, **change) for change in changes]
    table = _joined([one.table() for one in found])
    if shown.writes:
        from tracelens_graph.reports.path_text import what_if_json, what_if_markdown

        write_files({table.name: table}, shown, lambda: what_if_json(found, table),
                    lambda rows: what_if_markdown(found, table))  # fmt: skip
    else:
        if shown.format is Format.table:
            for line in what_if_lines(found, terminal_width(sys.stdout), wants_color(sys.stdout)):
                print(line.rstrip())
            print()
        print_rows(table, shown.format, shown.top, [asked.next("--path")])
    return {table.name: lambda: table}


def _joined(tables: Sequence[Table]) -> Table:
    """Tables of one row each as one."""
    from dataclasses import replace

    first = tables[0]
    columns = {name: [cell for one in tables for cell in one[name]] for name in first.columns}
    title = "What if" if len(tables) > 1 else first.title
    notes = list(dict.fromkeys(note for one in tables for note in one.notes))
    return replace(first, columns=columns, title=title, notes=notes)


def print_rows(table: Table, form: Format, top: int | None, hints: Sequence[str] = ()) -> None:
    """Print the first rows of a table; `top` 0 for all, None for as many as people read. Hints are for people, too."""
    import numpy as np

    from tracelens_graph.reports.views import told

    for_people = form in (Format.table, Format.md)
    rows = (_ROWS_FOR_PEOPLE if form is Format.table else 0) if top is None else top
    shown = table
    if 0 < rows < len(table):  # also of what is in an order of its own
        shown = table.take(np.arange(rows))
        shown.notes = [*table.notes, f"{len(table) - rows:,} more rows (--top 0 shows all)"]
    write_table(told(shown) if for_people else shown, form, hints)


def _print_screen(path: CriticalPath, asked: Asked, rows: int | None) -> None:
    from tracelens_graph.reports.path_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    for line in screen(path, terminal_width(sys.stdout), wants_color(sys.stdout), rows):
        print(line.rstrip())
    print(asked.next("--table", "critical_path", "--top", "0"))
    traces = path.causes.traces
    late = path.ranks()
    if len(traces) > 1 and len(late):
        place = next(at for at, one in enumerate(traces) if one.name == late["trace"][0])
        print(asked.next("--what-if", "collectives=2", "--what-if", f"repair={called(traces, place)}"))
