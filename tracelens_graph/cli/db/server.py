"""`tracelens-graph db start`, `stop` and `check`: a Neo4j server here, and whether a database can be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER
from tracelens_graph.errors import ServerError
from tracelens_graph.reports.progress import progress_on_terminal
from tracelens_graph.utils.texts import printable

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
        typer.Option(metavar="N", min=1, max=65535, show_default="7687 or a free one", help="Port for drivers."),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=65535, show_default="7474 or a free one", help="Port for Neo4j Browser."),
    ] = None,
    heap: Annotated[str, typer.Option(metavar="SIZE", help="Memory for queries and writes: 512m, 2g.")] = "1g",
    page_cache: Annotated[str, typer.Option(metavar="SIZE", help="Memory for the database's files.")] = "512m",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Fetch Neo4j without being asked.")] = False,
) -> None:
    """Start a Neo4j server, with Neo4j Browser, on this machine; needs Java 17 or 21. Reachable from here only."""
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server import server as local
    from tracelens_graph.db.server.jars import find_java
    from tracelens_graph.db.server.settings import Memory

    place = folder or local.standard_folder()
    memory = Memory(heap, page_cache)
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
        place, java, jars.jars_folder(), password=given, bolt_port=bolt_port, http_port=http_port, memory=memory
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
        typer.echo(printable(f"no server of {place} is running"))
    else:
        typer.echo(printable(f"the server at {server.uri} has ended; its data stays in {server.folder}"))


def _fetch(java: Java, yes: bool) -> None:
    from tracelens_graph.db.server import jars

    size = f"{jars.total_bytes() / 1e6:.0f} MB in {len(jars.locked())} files"
    typer.echo(
        printable(
            f"Neo4j {jars.neo4j_version()} is to be fetched from a Maven repository, once: {size}, "
            f"into {jars.jars_folder()}. Licence: {jars.LICENCE}."
        ),
        err=True,
    )
    if not yes:
        if not sys.stdin.isatty():
            raise ServerError("nothing was fetched: nobody is here to be asked; --yes agrees")
        typer.confirm("Fetch it?", abort=True, err=True)
    with progress_on_terminal("fetching Neo4j") as progress:
        jars.fetch(java, progress)


def _show(server: Server, password: str | None) -> None:
    from tracelens_graph.db.connection import DEFAULT_URI, DEFAULT_USER

    lines = {"uri": server.uri, "Browser": server.browser, "folder": str(server.folder), "user": DEFAULT_USER}
    lines["password"] = password or "the one it was set up with"
    for name, value in lines.items():
        typer.echo(printable(f"  {name:9s} {value}"))
    if server.uri != DEFAULT_URI:
        typer.echo(f"other commands find it by: export NEO4J_URI={server.uri}")


def check(uri: Uri = None, user: User = DEFAULT_USER, database: Database = DEFAULT_DATABASE) -> None:
    """Say in one line whether a Neo4j database can be used, or what is wrong with it (then the exit code is 1)."""
    from tracelens_graph.db.check import check as look
    from tracelens_graph.db.server.server import standard_folder

    chosen = connection(uri, user, database)
    health = look(chosen, standard_folder())
    held = f"{health.traces:,} complete trace{'' if health.traces == 1 else 's'}"
    typer.echo(printable(f"{chosen.uri} is Neo4j {health.version} {health.edition}; {chosen.database} holds {held}"))
