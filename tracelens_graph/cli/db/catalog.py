"""`tracelens-graph db list` and `db drop`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.common import write_table, write_with_way_out
from tracelens_graph.cli.db.connection import Database, Uri, User, opened, progress_of
from tracelens_graph.cli.options import Format, FormatOption
from tracelens_graph.cli.traces import say
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table


def list_(
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    format: FormatOption = Format.table,
) -> None:
    """List the traces of the database, complete or not.

    Example: tracelens-graph db list
    """

    with opened(uri, user, database) as graphs:
        table = _listed(graphs.traces(), graphs.invalid_traces())
    if format is Format.table:
        write_with_way_out(table)
        return
    say(table.notes)
    write_table(table, format)


def drop(
    wanted: Annotated[
        list[str],
        typer.Argument(metavar="RUN|TRACE...", show_default=False, help="Runs, or traces by name, run/name or id."),
    ],
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop traces, or whole runs, from the database.

    Knowledge that no other trace uses goes with them. Stopped at any point, the same command goes on.

    Example: tracelens-graph db drop llama-70b/rank0
    """
    from tracelens_graph.db.catalog import meant

    with opened(uri, user, database) as graphs:
        known = graphs.traces()
        traces = {trace["id"]: trace for one in wanted for trace in meant(known, one)}
        if not yes:
            _ask(traces.values())
        for trace in traces.values():
            with progress_of("dropping", trace["path"], "events") as progress:
                graphs.drop(trace["id"], progress)
            typer.echo(printable(f"dropped {trace['path']}: {trace.get('nodes', 0):,} events"))


def _ask(traces: Collection[Mapping[str, Any]]) -> None:

    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked here: add --yes")
    for trace in traces:
        typer.echo(printable(f"{trace['path']}: {trace.get('nodes', 0):,} events"), err=True)
    typer.confirm(f"drop {len(traces)} trace{'s' if len(traces) > 1 else ''}?", abort=True, err=True)


def _listed(traces: Sequence[Mapping[str, Any]], invalid: int) -> Table:
    from tracelens_graph.db.catalog import called
    from tracelens_graph.tables.table import Column, Table

    about = {
        "trace": Column("what commands call it: run/name, or name, or the beginning of its id", drop_priority=-1),
        "run": Column("name of the run", drop_priority=5),
        "rank": Column("rank in its job", drop_priority=1),
        "name": Column("name of the trace, unique in its run", drop_priority=5),
        "state": Column("complete; or loading or dropping, which is to be gone on with", drop_priority=1),
        "events": Column("event nodes"),
        "edges": Column("edges", drop_priority=3),
        "pushed": Column("when it was completed, UTC", drop_priority=-1),
        "labels": Column("key=value, as given", drop_priority=0),
        "lean": Column("what was taken, where some events were left out", drop_priority=2),
        "device": Column("device it was recorded on", drop_priority=2),
        "damage": Column("what was repaired in the file and what was lost", drop_priority=2),
        "id": Column("hash of the file's decompressed bytes", drop_priority=4),
    }
    rows = [
        (
            called(traces, trace), trace["run"], trace.get("rank"), trace["name"], trace["state"], trace.get("nodes"),
            trace.get("edges"), _time(trace.get("pushed_ns")), ", ".join(trace.get("labels", ())), _lean(trace),
            trace.get("architecture"), trace.get("damage"), trace["id"],
        )
        for trace in traces
    ]  # fmt: skip
    columns = (
        dict(zip(about, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in about}
    )
    notes = []
    if not traces:
        notes.append("it holds none; `tracelens-graph db push TRACE` puts one there")
    if invalid:
        nodes = "1 node is" if invalid == 1 else f"{invalid:,} nodes are"
        notes.append(f"{nodes} labelled Trace and left out: what every trace has is missing there, or of another type")
    return Table("traces", columns, about, "Traces in the database", notes)


def _time(ns: int | None) -> str | None:
    return None if ns is None else datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lean(trace: Mapping[str, Any]) -> str | None:
    from tracelens_graph.db.image import Options

    return Options.of(trace["options"]).words if trace.get("lean") else None
