"""`tracelens-graph db forget-events`: old traces without their events."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer

from tracelens_graph.cli.db import connection
from tracelens_graph.cli.options import argument, option

_AGE = re.compile(r"(\d{1,6})\s*d")
_DAY_NS = 86_400 * 10**9


def forget_events(
    wanted: Annotated[
        list[str] | None, argument(metavar="[RUN|TRACE...]", help="Runs, or traces by name, run/name or id; else all.")
    ] = None,
    *,
    older_than: Annotated[str, option(metavar="AGE", help="Only traces that were pushed longer ago: 30d.")] = "",
    yes: Annotated[bool, option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the events of traces and keep their facts, as if these had been pushed with --facts.

    Facts are totals, times by kernel, op and module, and findings. Comparisons of the traces go, and the matching of
    the ranks of their run. Stopped at any point, the same command goes on.

    Example: tracelens-graph db forget-events --older-than 30d

    Example: tracelens-graph db forget-events llama-70b --yes
    """
    from tracelens_graph.cli.db.catalog import confirm
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.tables.terminal import progress_on_terminal
    from tracelens_graph.utils.texts import printable, shorten

    if not wanted and not older_than:
        raise typer.BadParameter("name runs or traces, or say how old: --older-than 30d")
    before_ns = time.time_ns() - _days(older_than) * _DAY_NS if older_than else None
    with Graphs(connection()) as graphs:
        traces = graphs.with_events(wanted or [], before_ns)
        if not traces:
            typer.echo("no such trace has events")
            return
        if not yes:
            confirm("forget the events of", traces)
        for trace in traces:
            with progress_on_terminal(f"forgetting {shorten(printable(trace['path']), 40)}", unit="events") as progress:
                graphs.forget_events(trace["id"], progress)
            typer.echo(printable(f"forgot {trace.get('nodes', 0):,} events of {trace['path']}"))


def _days(text: str) -> int:
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"--older-than {text}: days are wanted, such as 30d")
    return int(found[1])
