"""Asking graphs in Cypher without a server."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tracelens_graph.cypher import parse
from tracelens_graph.db.database import default_name, image
from tracelens_graph.db.image import Options, Placement, TraceImage
from tracelens_graph.embedded.engine import names_in, version
from tracelens_graph.embedded.store import Store
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema.database import DATABASE_VERSION
from tracelens_graph.stores.cache import entry_of, make_room
from tracelens_graph.tables.table import Table

TIMEOUT_S = 60.0
"""When a statement is given up."""

_OPTIONS = Options(all_edges=True)


def cypher(
    asked: Core | TraceSet, statement: str, /, *, run: str = "", timeout_s: float = TIMEOUT_S, **parameters: Any
) -> Table:
    """The answer to a statement in Cypher, without a server: labels, types and properties are those of a database.

    The engine is filled with what a statement names when it is first named, and goes with the graph. It is read only.

    Args:
        asked: a graph, or a set of traces.
        statement: one statement; docs/cypher-without-a-server.md says what of Cypher there is.
        run: name of the run of a set; by default each trace is a run of its own.
        timeout_s: when it is given up.
        parameters: what the statement calls `$name`.

    Returns:
        A table; nodes and edges are dictionaries, a path is a list of its nodes.

    Raises:
        DatabaseError: the statement is none, needs Neo4j, writes, or takes too long; in one line, with the place.
        MissingExtraError: the extra `cypher` is not installed.
        ChangedTraceError: the trace file is no longer the one that was loaded.
        AnalysisError: the graph is that of an execution trace, which has no times.
    """
    version()
    if isinstance(asked, Core):
        store = asked.once(_of_graph)
    else:
        of_set = _OF_SETS.setdefault(asked, {})
        if run not in of_set:
            of_set[run] = _beside(asked, lambda: images(asked, run))
        store = of_set[run]
    return answered(store, statement, parameters, timeout_s)


_OF_SETS: weakref.WeakKeyDictionary[TraceSet, dict[str, Store]] = weakref.WeakKeyDictionary()


def _of_graph(core: Core) -> Store:
    def of_it() -> list[TraceImage]:
        core.info.check_times()
        return [image(core, Placement(core.trace_id, default_name(core)), _OPTIONS)]

    return _beside(core, of_it)


def _beside(holder: Any, of_it: Callable[[], Sequence[TraceImage]]) -> Store:
    """A store in a folder that goes when what it is of goes."""
    folder = mkdtemp(prefix="tracelens_graph-")
    store = Store(Path(folder) / "graph.lbug", of_it)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store


def images(traces: TraceSet, run: str = "") -> list[TraceImage]:
    """What the engine is filled from, as `db push` writes it; a trace that is there twice once."""
    found: dict[str, TraceImage] = {}
    for one in traces:
        one.core.info.check_times()
        if one.core.trace_id not in found:
            found[one.core.trace_id] = image(one.core, Placement(run or one.core.trace_id, one.name), _OPTIONS)
    return list(found.values())


def of_files(files: Sequence[str], run: str, load: Callable[[], TraceSet]) -> Store:
    """The store of some files in the user's cache, for as long as the files are as they are.

    Args:
        files: the traces.
        run: name of their run; empty where each is its own.
        load: loads them, where the store lacks something.

    Raises:
        OSError, OutputError: there is no cache, or files cannot be read.
    """
    entry = entry_of(files, ".lbug", (run, version(), DATABASE_VERSION))
    return Store(entry, lambda: images(load(), run), lambda: make_room(entry))


def in_memory(of_it: Callable[[], TraceSet], run: str) -> Store:
    """A store that is not kept."""
    return _beside(of_it, lambda: images(of_it(), run))


def answered(store: Store, statement: str, parameters: Mapping[str, Any], timeout_s: float) -> Table:
    """The answer of a store to a statement; of one whose first clause is a map, parameters replace its values."""
    own = parse("the text", "", statement)
    names, rows, total = store.ask(own.statement(parameters.keys()), parameters, timeout_s)
    columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in names]
    notes = [f"{total:,} rows: the first {len(rows):,} are here; LIMIT says which are wanted"] * (total > len(rows))
    return Table("query", dict(zip(names_in(names), columns, strict=True)), {}, "", notes)
