"""What a database holds: `db check`, `list`, `pull`, `drop`, `forget-events`, and `demo`, which fills it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.db import connection, progress_of, say
from tracelens_graph.cli.export import save_graphs
from tracelens_graph.cli.options import argument, option
from tracelens_graph.cli.outputs import Outputs, Writes
from tracelens_graph.cli.shown import Shown, print_answer
from tracelens_graph.cli.tables import OneTable

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

RUN = "demo"
FIRST_QUERY = "path_to_python"
_HTTP_PORT = 7474
_AGE = re.compile(r"(\d{1,6})\s*d")
_DAY_NS = 86_400 * 10**9


def check() -> None:
    """Say in one line whether a Neo4j database can be used, or what is wrong with it (then the exit code is 1)."""
    from tracelens_graph.db.check import check as look
    from tracelens_graph.db.server.server import standard_folder

    chosen = connection()
    health = look(chosen, standard_folder())
    held = f"{health.traces:,} complete trace{'' if health.traces == 1 else 's'}"
    say(f"{chosen.uri} is Neo4j {health.version} {health.edition}; {chosen.database} holds {held}")


def list_(*, outputs: OneTable) -> None:
    """List the traces of the database, complete or not.

    Example: tracelens-graph db list
    """
    from tracelens_graph.db.database import Database as Graphs

    with Graphs(connection()) as graphs:
        table = _listed(graphs.traces(), graphs.invalid_traces())
    print_answer(Shown(table, view=_on_screen), outputs)


def pull(
    trace: Annotated[str, argument(metavar="TRACE", help="A trace by name, run/name or id.")],
    *,
    outputs: Annotated[Outputs, Writes("tlg", needed=True)],
) -> None:
    """Pull the graph of a trace out of the database, into a file that every command takes like a trace.

    Example: tracelens-graph db pull llama-70b/rank0 -o rank0.tlg
    """
    from tracelens_graph.db.database import Database as Graphs

    with Graphs(connection()) as graphs, progress_of("pulling", trace, "events") as progress:
        core = graphs.pull_core(trace, progress=progress)
    save_graphs(core, outputs)


def drop(
    wanted: Annotated[list[str], argument(metavar="RUN|TRACE...", help="Runs, or traces by name, run/name or id.")],
    yes: Annotated[bool, option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop traces, or whole runs, from the database.

    Nodes that only these traces use are dropped, too. If it is stopped, the same command continues.

    Example: tracelens-graph db drop llama-70b/rank0
    """
    from tracelens_graph.db.catalog import meant
    from tracelens_graph.db.database import Database as Graphs

    with Graphs(connection()) as graphs:
        known = graphs.traces()
        traces = {trace["id"]: trace for one in wanted for trace in meant(known, one)}
        if not yes:
            confirm("drop", traces.values())
        for trace in traces.values():
            with progress_of("dropping", trace["path"], "events") as progress:
                graphs.drop(trace["id"], progress)
            say(f"dropped {trace['path']}: {trace.get('nodes', 0):,} events")


def forget_events(
    wanted: Annotated[
        list[str] | None, argument(metavar="[RUN|TRACE...]", help="Runs, or traces by name, run/name or id; else all.")
    ] = None,
    *,
    older_than: Annotated[str, option(metavar="AGE", help="Only traces that were pushed longer ago: 30d.")] = "",
    yes: Annotated[bool, option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the events of traces and keep their facts, as if these had been pushed with --facts.

    Facts are totals, times by kernel, op and module, and findings. Comparisons of the traces, and the matching of the
    ranks of their run, are deleted. If it is stopped, the same command continues.

    Example: tracelens-graph db forget-events --older-than 30d

    Example: tracelens-graph db forget-events llama-70b --yes
    """
    from tracelens_graph.db.database import Database as Graphs

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
            with progress_of("forgetting", trace["path"], "events") as progress:
                graphs.forget_events(trace["id"], progress)
            say(f"forgot {trace.get('nodes', 0):,} events of {trace['path']}")


def _days(text: str) -> int:
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"--older-than {text}: days are wanted, such as 30d")
    return int(found[1])


def confirm(what: str, traces: Collection[Mapping[str, Any]]) -> None:
    """Ask whether something is to be done to traces; who says no ends the command."""

    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked here: add --yes")
    for trace in traces:
        say(f"{trace['path']}: {trace.get('nodes', 0):,} events", err=True)
    typer.confirm(f"{what} {len(traces)} trace{'s' if len(traces) > 1 else ''}?", abort=True, err=True)


def _listed(traces: Sequence[Mapping[str, Any]], strange: int) -> Table:
    from tracelens_graph.db.catalog import called
    from tracelens_graph.db.labels import texts_of
    from tracelens_graph.tables.table import Column, Table

    about = {
        "trace": Column("what commands call it: run/name, or name, or the beginning of its id", drop_priority=-1),
        "run": Column("name of the run"), "rank": Column("rank in its job", drop_priority=2),
        "name": Column("name of the trace, unique in its run"),
        "state": Column("complete; or loading or dropping, which is to be gone on with", drop_priority=-1),
        "events": Column("event nodes"), "edges": Column("edges", drop_priority=3),
        "pushed": Column("when it was first completed, UTC", drop_priority=-1),
        "labels": Column("key=value, as given", drop_priority=0),
        "lean": Column("what was taken, where some events were left out", drop_priority=2),
        "device": Column("device it was recorded on", drop_priority=3),
        "damage": Column("what was repaired in the file and what was lost", drop_priority=2),
        "id": Column("hash of the file's decompressed bytes"),
    }  # fmt: skip
    rows = [
        (
            called(traces, trace), trace["run"], trace.get("rank"), trace["name"], trace["state"], trace.get("nodes"),
            trace.get("edges"), _time(trace.get("pushed_ns")), ", ".join(texts_of(trace)), _lean(trace),
            trace.get("architecture"), trace.get("damage"), trace["id"],
        )
        for trace in sorted(traces, key=lambda one: _in_numbers(one["run"]))
    ]  # fmt: skip
    columns = (
        dict(zip(about, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in about}
    )
    notes = []
    if not traces:
        notes.append("it holds none; `tracelens-graph db push TRACE` puts one there")
    if strange:
        nodes = "1 node is" if strange == 1 else f"{strange:,} nodes are"
        notes.append(f"{nodes} labelled Trace and left out: what every trace has is missing there, or of another type")
    return Table("traces", columns, about, "Traces in the database", notes)


def _in_numbers(name: str) -> list[tuple[int, str]]:
    """What names are ordered by, so that night-2 comes before night-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split("([0-9]+)", name)]


def _on_screen(table: Table) -> Table:
    """Without what the name of a trace says already, and its id, which files have."""
    shown = {name: cells for name, cells in table.columns.items() if name not in ("run", "name", "id")}
    return replace(table, columns=shown)


def _time(ns: int | None) -> str | None:
    return None if ns is None else datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lean(trace: Mapping[str, Any]) -> str | None:
    from tracelens_graph.db.image import Options

    return Options.of(trace["options"]).words if trace.get("lean") else None


def demo() -> None:
    """Push an example, a simulated training run of two ranks, and say how to look at it in Neo4j Browser.

    Example: tracelens-graph db demo
    """
    from tempfile import TemporaryDirectory

    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.db.query import named
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.loading.one import load_core
    from tracelens_graph.simulate import simulate, write

    with Graphs(connection()) as graphs, TemporaryDirectory() as folder:
        graphs.traces()  # a server that does not answer is to be known before anything is made
        run = simulate(ranks=2, steps=2, seed=7, read_loss=True)
        files = [file for file in write(run, folder) if file.name.endswith(".json.gz")]
        ranks = TraceSet.of({file.name.partition(".")[0]: load_core(str(file)) for file in sorted(files)})
        for trace in ranks:
            with progress_of("pushing") as progress:
                outcome = graphs.push(trace.core, run=RUN, name=trace.name, replace=True, progress=progress)
            typer.echo(f"{outcome} {RUN}/{trace.name}")
        graphs.match(RUN, ranks)
        typer.echo(f"\nNeo4j Browser: {_browser(graphs.connection.uri)}")
    typer.echo(f"The first query to paste there (`db query {FIRST_QUERY}` prints its table; all: `db queries`):\n")
    typer.echo(named(FIRST_QUERY).text)


def _browser(uri: str) -> str:
    """Where Neo4j Browser of a server is: as `db start` knows it, else at the usual port."""
    from urllib.parse import urlsplit

    from tracelens_graph.db.connection import browser_link
    from tracelens_graph.db.server.server import running, standard_folder

    local = running(standard_folder())
    if local and local.uri == uri:
        return local.browser
    return browser_link(f"http://{urlsplit(uri).hostname}:{_HTTP_PORT}", uri)
