"""`tracelens-graph db export`, `import` and `pull`: graphs of a database as files."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection, opened, progress_of
from tracelens_graph.cli.db.push import As, Label, MinGpuTime, Only, Run, WithArgs, counts, wanted
from tracelens_graph.cli.db.server import Folder
from tracelens_graph.cli.options import TO_NEW_FOLDER, Arch, Traces, Written
from tracelens_graph.cli.outputs import say_written, size_of
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER, LOOPBACK
from tracelens_graph.errors import ServerError, UnusableError
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    from tracelens_graph.db.connection import Connection
    from tracelens_graph.db.server.jars import Java
    from tracelens_graph.db.server.server import Server


def export(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", show_default=False, file_okay=False, help="New folder for the files."),
        TO_NEW_FOLDER,
    ],
    traces: Traces,
    run: Run = "",
    name: As = "",
    label: Label = None,
    only: Only = "",
    min_gpu_time: MinGpuTime = "",
    with_args: WithArgs = False,
    arch: Arch = None,
) -> None:
    """Write traces as files for `db import`, or `neo4j-admin database import`: the same graph as `db push` writes.

    Example: tracelens-graph db export import/ traces/ --run llama-70b
    """
    from tracelens_graph.db.bulk import README, BulkExport

    chosen = wanted(traces, run, name, label, only, min_gpu_time, with_args, arch)
    with BulkExport(folder) as exported:
        loaded = chosen.load()
        for image in chosen.images(loaded):
            start = time.monotonic()
            with progress_of("writing", image.properties["name"], "rows") as progress:
                exported.add(image, progress)
            typer.echo(printable(f"wrote {counts(image, time.monotonic() - start)}"))
    done = exported.done
    typer.echo(f"{done.nodes:,} nodes, {done.edges:,} edges, {done.size / 1e6:,.1f} MB; to import:")
    typer.echo(printable(f"  tracelens-graph db import {shlex.quote(str(folder))}"))
    typer.echo(f"into the server of `db start`; {README} tells how into another one")
    chosen.check(loaded)


_HOME = "SHOW SETTINGS 'server.directories.neo4j_home' YIELD value RETURN value AS home"


def import_(
    files: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, file_okay=False, help="Folder that `db export` wrote.")
    ],
    folder: Folder = None,
    uri: Uri = None,
    user: User = DEFAULT_USER,
    unasked: Annotated[bool, typer.Option("--force", help="Replace what the database holds, without asking.")] = False,
) -> None:
    """Import what `db export` wrote into the server of `db start`: stop it, import, start it again.

    The import takes the place of all that the database holds. If it fails, the database is as it was. Without
    `--folder` it is the server of `--uri` or NEO4J_URI, which must run, else the one in the standard folder.

    Example: tracelens-graph db import for-import
    """
    from tracelens_graph.db.bulk import ARGUMENTS
    from tracelens_graph.db.database import Database
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.jars import find_java

    if not (files / ARGUMENTS).is_file():
        raise ServerError(f"{files} holds no {ARGUMENTS}, which `db export` writes last")
    place, known = folder or local.standard_folder(), None
    server = local.known(place)
    if folder is None and uri is not None and (server is None or server.uri != uri):
        known = connection(uri, user, DEFAULT_DATABASE)
        server = _server_of(known)
        place = server.folder
    if server is None:
        raise ServerError(f"no server lives in {place}: `tracelens-graph db start` sets one up")
    java, start = find_java(), time.monotonic()
    usable = True
    if not local.running(place):
        try:
            server = _started(server, java)
        except UnusableError:
            if not unasked:
                raise
            usable = False
    known = known or connection(server.uri, user, DEFAULT_DATABASE)
    if usable:
        with Database(known) as graphs:
            nodes, _ = graphs.size()
            if nodes and not unasked:
                _ask(nodes, len(graphs.traces()))
        typer.echo("stopping the server to import", err=True)
        local.stop(place)
    try:
        local.import_files(place, files, java, jars.jars_folder())
    finally:
        _started(server, java)
    with Database(known) as graphs:
        graphs.make_schema()
        nodes, edges = graphs.size()
        traces = len(graphs.traces())
    of = f"{traces:,} trace{'' if traces == 1 else 's'}"
    seconds = time.monotonic() - start
    typer.echo(
        printable(f"imported {of}: {nodes:,} nodes, {edges:,} edges in {seconds:.1f} s; {server.uri} runs again")
    )


def _server_of(running: Connection) -> Server:
    """The server of this machine that answers, which says itself where it lives.

    Raises:
        DatabaseError: it does not answer.
        ServerError: it is none of `db start` on this machine.
    """
    from tracelens_graph.db.bulk import README
    from tracelens_graph.db.database import Database
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.settings import BOLT_PORT

    with Database(running) as graphs:
        (home,) = graphs.ask(_HOME)["home"]
    here = local.running(Path(home))
    place = urlsplit(running.uri)
    if here is None or place.hostname not in LOOPBACK or (place.port or BOLT_PORT) != here.bolt_port:
        raise ServerError(f"{running.uri} is no server of `db start`; {README} tells how to import into another one")
    return here


def _started(server: Server, java: Java) -> Server:
    """A server that is there already, on its ports and with its memory."""
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.settings import Memory

    started, _ = local.start(
        server.folder, java, jars.fetch(java), bolt_port=server.bolt_port, http_port=server.http_port,
        memory=Memory(server.heap, server.page_cache),
    )  # fmt: skip
    return started


def _ask(nodes: int, traces: int) -> None:
    held = f"{nodes:,} nodes of {traces:,} trace{'' if traces == 1 else 's'}"
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"the database holds {held}, which an import replaces: add --force")
    typer.confirm(f"delete all that the database holds, {held}?", abort=True, err=True)


def pull(
    trace: Annotated[str, typer.Argument(metavar="TRACE", show_default=False, help="A trace by name, run/name or id.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="File to write."),
        Written((".tlg",)),
    ],
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Pull the graph of a trace out of the database, into a file that every command takes in place of a trace.

    Example: tracelens-graph db pull llama-70b/rank0 -o rank0.tlg
    """
    from tracelens_graph.stores.graph_file import write_graph

    with opened(uri, user, database) as graphs, progress_of("pulling", trace, "events") as progress:
        core = graphs.pull_core(trace, progress=progress)
    write_graph(core, output)
    say_written(f"wrote {output}: {len(core.columns):,} nodes{size_of(output)}", output)
