"""`tracelens-graph cypher`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.db.query import LONGEST_S, parameters_given, statement_in
from tracelens_graph.cli.options import ANYWHERE, Parameters, Top, Traces, argument, option
from tracelens_graph.cli.shown import Shown, print_answer
from tracelens_graph.cli.tables import OneTable
from tracelens_graph.cli.traces import load, load_set, say, traces_named, warn

if TYPE_CHECKING:
    from tracelens_graph.embedded.store import Store
    from tracelens_graph.graph.trace_set import TraceSet

_ROWS_FOR_PEOPLE = 30


def cypher(
    traces: Traces,
    statement: Annotated[str, argument(metavar="STATEMENT", help="A statement in Cypher, or a .cypher file.")],
    *,
    param: Parameters = None,
    run: Annotated[
        str, option(metavar="NAME", help="Make the traces ranks of this run. Default: each is a run of its own.")
    ] = "",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after this time.")] = 60.0,
    top: Top = None,
    outputs: OneTable,
) -> None:
    """Ask traces in Cypher, without a server: labels, types and properties are those of a Neo4j database.

    It writes nothing except to the user's cache, which keeps what a statement needed, so the next one is instant.

    Example: tracelens-graph cypher trace.json.gz "MATCH (k:Kernel) RETURN k.short_name, count(*) AS n ORDER BY n DESC"
    """
    if not 0.001 <= timeout <= LONGEST_S:
        raise typer.BadParameter(f"--timeout {timeout}: it is a number of seconds from 0.001 to {LONGEST_S:,}")
    text = statement_in(statement)
    given = parameters_given(param or (), text)
    files = traces_named(traces)
    from tracelens_graph.embedded.asking import answered

    table = answered(_store(files, run), text, given, timeout)
    warn(table.notes)
    table.notes = ()
    print_answer(Shown(table, top, _ROWS_FOR_PEOPLE, ordered=True), outputs)


def _store(files: list[str], run: str) -> Store:
    from tracelens_graph.embedded.asking import in_memory, of_files
    from tracelens_graph.errors import OutputError
    from tracelens_graph.stores.cache import is_lasting

    def loaded() -> TraceSet:
        if len(files) > 1:
            return load_set(files, run)
        from tracelens_graph.graph.trace_set import TraceSet

        return TraceSet.of([load(files[0])])

    given = ANYWHERE.get()
    is_plain = not (given.capture or given.identify or given.memory) and all(
        os.path.isfile(one) and is_lasting(one) for one in files
    )
    if not is_plain:
        return in_memory(loaded, run)
    try:
        return of_files(files, run, loaded)
    except (OSError, OutputError) as error:
        say([f"the cache is not used: {error}"])
        return in_memory(loaded, run)
