"""`tracelens-graph db query` and `db queries`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.cli.options import TO_FOLDER, Format, FormatOption
from tracelens_graph.errors import DatabaseError
from tracelens_graph.stores.neo4j.connection import DEFAULT_DATABASE, DEFAULT_USER

if TYPE_CHECKING:
    from tracelens_graph.table import Table

LONGEST_S = 10**6

_TAKEN = ("timeout_s", "write")
"""Names that mean something to the function that asks."""


def query(
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", show_default=False, help="Name of a query, a file, or a statement in Cypher."
        ),
    ],
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="NAME=VALUE", show_default=False, help="A parameter; may be given several times."
        ),
    ] = None,
    format: FormatOption = Format.table,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="When the server gives up.")] = 60.0,
    write: Annotated[bool, typer.Option("--write", help="Allow a statement to write.")] = False,
) -> None:
    """Ask the database: a query of the library by its name, a file, or a statement of your own.

    Unless --write is given the server refuses to write. `db queries` lists the library.

    Example: tracelens-graph db query idle_gaps --param trace=llama-70b/rank0 --format csv
    """
    if not 0.001 <= timeout <= LONGEST_S:
        raise typer.BadParameter(f"--timeout {timeout}: it is a number of seconds from 0.001 to {LONGEST_S:,}")
    given = dict(_parameter(one, question) for one in param or ())
    from tracelens_graph.analyses.shared.answers import without_noise
    from tracelens_graph.database import Database as Graphs

    with Graphs(connection(uri, user, database)) as graphs:
        answer = graphs.ask(_text(question), timeout_s=timeout, write=write, **given)
    write_table(without_noise(answer) if format is Format.csv else answer, format)


def queries(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Show the whole text of this query.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", file_okay=False, show_default=False, help="Write the library and a style for Neo4j Browser."
        ),
        TO_FOLDER,
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """List the library of queries, or show one of them.

    Example: tracelens-graph db queries path_to_python
    """
    if save is not None:
        from tracelens_graph.stores.neo4j.browser import write_browser_files

        for path in write_browser_files(save):
            typer.echo(path)
        return
    if name is None:
        write_table(_listed(), format)
        return
    from tracelens_graph.stores.neo4j.query import named

    typer.echo(named(name).text.rstrip())


def _listed() -> Table:
    from tracelens_graph.cypher import library
    from tracelens_graph.table import Column, Table

    found = list(library().values())
    columns = {
        "query": [one.name for one in found],
        "theme": [one.theme for one in found],
        "answers": [one.title for one in found],
        "parameters": [", ".join(f"{key}={value}" for key, value in one.defaults.items()) for one in found],
    }
    about = {
        "query": Column("name, for `db query`"),
        "theme": Column("folder of its file"),
        "answers": Column("what it answers"),
        "parameters": Column("parameters and their defaults"),
    }
    return Table("queries", columns, about, "Queries of the library")


def _parameter(text: str, question: str) -> tuple[str, Any]:
    """Name and value of `name=value`, as the question of the library takes it; else JSON if it is some, or text."""
    from tracelens_graph.analyses.questions import QUESTIONS

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"--param {text}: it has the form NAME=VALUE")
    if name in _TAKEN:
        raise typer.BadParameter(f"--param {text}: no parameter can be called so; choose another name")
    if question in QUESTIONS:
        if name in QUESTIONS[question].parameters:
            return name, QUESTIONS[question].parameters[name].read(value)
        return name, None if value == "null" else value  # a trace
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _text(question: str) -> str:
    """A statement; that of a file, where one is named. Names of queries stay as they are."""
    if question.endswith(".cypher"):
        try:
            return Path(question).read_text("utf-8")
        except UnicodeDecodeError:
            raise DatabaseError(f"{question}: it is no text in UTF-8") from None
    return question
