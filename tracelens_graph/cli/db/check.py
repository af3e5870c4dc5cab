"""`tracelens-graph db check`: can the database be used?"""

from __future__ import annotations

import typer

from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.db.connection import DEFAULT_DATABASE, DEFAULT_USER


def check(uri: Uri = None, user: User = DEFAULT_USER, database: Database = DEFAULT_DATABASE) -> None:
    """Say in one line whether a Neo4j database can be used, or what is wrong with it (then the exit code is 1)."""
    from tracelens_graph.db.check import check as look
    from tracelens_graph.db.server.server import standard_folder
    from tracelens_graph.utils.texts import printable

    chosen = connection(uri, user, database)
    health = look(chosen, standard_folder())
    held = f"{health.traces:,} complete trace{'' if health.traces == 1 else 's'}"
    typer.echo(printable(f"{chosen.uri} is Neo4j {health.version} {health.edition}; {chosen.database} holds {held}"))
