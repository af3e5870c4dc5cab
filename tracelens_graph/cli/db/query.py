"""`tracelens-graph db query` and `db queries`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.db import connection
from tracelens_graph.cli.options import TO_FOLDER, Parameters, argument, option
from tracelens_graph.cli.shown import Shown, print_answer, print_table
from tracelens_graph.cli.tables import OneTable
from tracelens_graph.cli.traces import warn
from tracelens_graph.errors import DatabaseError

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

LONGEST_S = 10**6

_SUFFIXES = (".cypher", ".cql")
"""What names of files of statements end with."""

_TAKEN = ("timeout_s", "write")
"""Names that mean something to the function that asks."""


def query(
    question: Annotated[str, argument(metavar="QUESTION", help="Name of a query, a file, or a statement in Cypher.")],
    *,
    param: Parameters = None,
    outputs: OneTable,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The server gives up after this time.")] = 60.0,
    write: Annotated[bool, option("--write", help="Allow a statement to write.")] = False,
) -> None:
    """Ask the database: a query of the library by its name, a file, or a statement of your own.

    The server refuses to write, unless --write is given. `db queries` lists the library.

    Example: tracelens-graph db query idle_gaps --param trace=llama-70b/rank0 --format csv
    """
    if not 0.001 <= timeout <= LONGEST_S:
        raise typer.BadParameter(f"--timeout {timeout}: it is a number of seconds from 0.001 to {LONGEST_S:,}")
    text = statement_in(question)
    given = parameters_given(param or (), text)
    from tracelens_graph.cypher import library
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.registry import current

    with Graphs(connection()) as graphs:
        answer = graphs.ask(text, timeout_s=timeout, write=write, **given)
    if current(answer.name) not in library():
        warn(answer.notes)
        answer.notes = ()
    from tracelens_graph.reports.views import view

    print_answer(Shown(answer, view=view), outputs)


def queries(
    name: Annotated[str | None, argument(metavar="NAME", help="Show the whole text of this query.")] = None,
    *,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", file_okay=False, show_default=False, help="Write the library and a style for Neo4j Browser."
        ),
        TO_FOLDER,
    ] = None,
    outputs: OneTable,
) -> None:
    """List the library of queries, or show one of them.

    Example: tracelens-graph db queries path_to_python
    """
    if save is not None:
        from tracelens_graph.db.browser import write_browser_files

        for path in write_browser_files(save):
            typer.echo(path)
        return
    if name is None:
        print_table(Shown(_listed()), outputs)
        return
    from tracelens_graph.db.query import named

    typer.echo(named(name).text.rstrip())


def _listed() -> Table:
    from tracelens_graph.cypher import library
    from tracelens_graph.tables.table import Column, Table

    found = list(library().values())
    columns = {
        "query": [one.name for one in found],
        "theme": [one.theme for one in found],
        "answers": [one.title for one in found],
        "parameters": [", ".join(f"{key}={value}" for key, value in one.defaults.items()) for one in found],
    }
    about = {
        "query": Column("name, for `db query`"),
        "theme": Column("folder of its file", drop_priority=2),
        "answers": Column("what it answers", drop_priority=0),
        "parameters": Column("parameters and their defaults", drop_priority=0, wraps=True),
    }
    return Table("queries", columns, about, "Queries of the library")


def parameters_given(texts: Sequence[str], question: str) -> dict[str, Any]:
    """Values by name of texts `name=value`, as a query of the library or the map of a statement takes them.

    What has no type there is JSON if it is some, else text.
    """
    from tracelens_graph.analyses.questions import parameters_of
    from tracelens_graph.cypher import library, parse
    from tracelens_graph.registry import current

    query = library().get(current(question)) or parse("", "", question)
    known = parameters_of(query)
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"--param {text}: it has the form NAME=VALUE")
        if name in _TAKEN:
            raise typer.BadParameter(f"--param {text}: no parameter can be called so; choose another name")
        if name in given:
            raise typer.BadParameter(f"--param {text}: {name} is given twice")
        if name in known and (query.theme or value != "null"):
            given[name] = known[name].read(value)
        elif query.theme or name == "trace":
            given[name] = None if value == "null" else value
        else:
            given[name] = _json(value)
    return given


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def statement_in(question: str) -> str:
    """A statement; that of a file, where one is named. Names of queries stay as they are.

    Raises:
        DatabaseError: the file is not text, or what is there is no file of a query.
    """
    if question.endswith(_SUFFIXES):
        try:
            return Path(question).read_text("utf-8")
        except UnicodeDecodeError:
            raise DatabaseError(f"{question}: it is no text in UTF-8") from None
    if not question.isidentifier() and os.path.exists(question):
        what = "a folder" if os.path.isdir(question) else "a file whose name does not end in .cypher"
        raise DatabaseError(f"{question}: {what}; the name of a query, a .cypher file or a statement is wanted")
    return question
