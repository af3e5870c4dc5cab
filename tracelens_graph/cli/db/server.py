"""`tracelens-graph db start`, `stop` and `import`: a Neo4j server on this machine, and its database filled offline."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.db import CHOSEN, connection, say
from tracelens_graph.cli.options import ANYWHERE, argument, option

if TYPE_CHECKING:
    from tracelens_graph.db.server.jars import Java
    from tracelens_graph.db.server.server import Server

Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        file_okay=False,
        show_default="the standard one",
        help="Where the server keeps data, logs and configuration.",
    ),
]


def start(
    folder: Folder = None,
    bolt_port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=65535, show_default="as before; first 7687 or free", help="Port for drivers."
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=65535, show_default="as before; first 7474 or free", help="Port for Neo4j Browser."
        ),
    ] = None,
    heap: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", show_default="as before; first 1g", help="Memory for queries and writes: 512m, 2g."
        ),
    ] = None,
    page_cache: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="as before; first 512m", help="Memory for the database's files."),
    ] = None,
    yes: Annotated[bool, option("--yes", "-y", help="Fetch Neo4j without being asked.")] = False,
) -> None:
    """Start a Neo4j server, with Neo4j Browser, on this machine; needs Java 17 or 21. Reachable from here only."""
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.jars import find_java

    place = folder or local.standard_folder()
    if (found := local.running(place)) and found.ready:
        typer.echo("Neo4j runs already")
        other = {"--bolt-port": (bolt_port, found.bolt_port), "--http-port": (http_port, found.http_port)}
        if ignored := [name for name, (given, is_now) in other.items() if given not in (None, is_now)]:
            typer.echo(f"it stays on its ports: {' and '.join(ignored)} count after `db stop` only", err=True)
        _show(found, None)
        return
    java = find_java()
    if not jars.are_fetched():
        _fetch(java, yes)
    given = os.environ.get("NEO4J_PASSWORD") or None
    typer.echo(f"starting Neo4j {jars.neo4j_version()} on Java {java.version}", err=True)
    server, password = local.start(
        place,
        java,
        jars.jars_folder(),
        password=given,
        bolt_port=bolt_port,
        http_port=http_port,
        heap=heap,
        page_cache=page_cache,
    )
    typer.echo("Neo4j is ready")
    if password is not None:
        password = "that of NEO4J_PASSWORD" if given else f"{password}   (shown this once)"
    _show(server, password)


def stop(folder: Folder = None) -> None:
    """Stop the server that `db start` started, and wait until it has ended."""
    from tracelens_graph.db.server import server as local

    place = folder or local.standard_folder()
    server = local.stop(place)
    if server is None:
        say(f"no server of {place} is running")
    else:
        say(f"the server at {server.uri} has ended; its data stays in {server.folder}")


def _fetch(java: Java, yes: bool) -> None:
    from tracelens_graph.db.server import jars
    from tracelens_graph.errors import ServerError

    size = f"{jars.total_bytes() / 1e6:.0f} MB in {len(jars.locked())} files"
    fetched = f"Neo4j {jars.neo4j_version()} is to be fetched from a Maven repository, once: {size}"
    say(f"{fetched}, into {jars.jars_folder()}. Licence: {jars.LICENCE}.", err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise ServerError("nothing was fetched: nobody is here to be asked; --yes agrees")
        typer.confirm("Fetch it?", abort=True, err=True)
    from tracelens_graph.tables.terminal import progress_on_terminal

    with progress_on_terminal("fetching Neo4j") as progress:
        jars.fetch(java, progress)


def _show(server: Server, password: str | None) -> None:
    from tracelens_graph.db.connection import DEFAULT_URI, DEFAULT_USER

    lines = {"uri": server.uri, "Browser": server.browser, "folder": str(server.folder), "user": DEFAULT_USER}
    lines["password"] = password or "the one it was set up with"
    for name, value in lines.items():
        say(f"  {name:9s} {value}")
    if server.uri != DEFAULT_URI:
        typer.echo(f"other commands find it by: export NEO4J_URI={server.uri}")


# --- import ----------------------------------------------------------------------------------------------------------


def import_(
    files: Annotated[Path, argument(metavar="DIR", file_okay=False, help="Folder that `db export` wrote.")],
    folder: Folder = None,
) -> None:
    """Import what `db export` wrote into the server of `db start`: stop it, import, start it again.

    The import replaces everything in the database; --force does not ask first. If it fails, the database is as it was.
    Without `--folder` it uses the server in the standard folder.

    Example: tracelens-graph db import for-import
    """
    from tracelens_graph.db.bulk import ARGUMENTS, README
    from tracelens_graph.db.database import Database
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.jars import find_java
    from tracelens_graph.errors import ServerError, UnusableError

    unasked, uri = ANYWHERE.get().force, CHOSEN.get().uri
    if not (files / ARGUMENTS).is_file():
        raise ServerError(f"{files} holds no {ARGUMENTS}, which `db export` writes last")
    place = folder or local.standard_folder()
    server = local.known(place)
    if server is None:
        raise ServerError(f"no server lives in {place}: `tracelens-graph db start` sets one up")
    if folder is None and uri is not None and uri != server.uri:
        raise ServerError(
            f"{uri} is not the server in {place}: name the folder of that of `db start` with --folder; {README} shows "
            "how to import into another one"
        )
    java, start = find_java(), time.monotonic()
    usable = True
    if not local.running(place):
        try:
            server, _ = local.start(place, java, jars.fetch(java))
        except UnusableError:
            if not unasked:
                raise
            usable = False
    known = connection(server.uri)
    if usable:
        with Database(known) as graphs:
            nodes, _ = graphs.size()
            if nodes and not unasked:
                _ask_to_replace(nodes, len(graphs.traces()))
        typer.echo("stopping the server to import", err=True)
        local.stop(place)
    try:
        local.import_files(place, files, java, jars.jars_folder())
    finally:
        local.start(place, java, jars.jars_folder())
    with Database(known) as graphs:
        graphs.make_schema()
        nodes, edges = graphs.size()
        traces = len(graphs.traces())
    of = f"{traces:,} trace{'' if traces == 1 else 's'}"
    seconds = time.monotonic() - start
    say(f"imported {of}: {nodes:,} nodes, {edges:,} edges in {seconds:.1f} s; {server.uri} runs again")


def _ask_to_replace(nodes: int, traces: int) -> None:
    held = f"{nodes:,} nodes of {traces:,} trace{'' if traces == 1 else 's'}"
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"the database holds {held}, which an import replaces: add --force")
    typer.confirm(f"delete all that the database holds, {held}?", abort=True, err=True)
