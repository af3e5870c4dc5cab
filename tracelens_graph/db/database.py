"""Graphs in a Neo4j database: push, list, ask, pull, drop.

with tlg.connect("bolt://127.0.0.1:7687", password="...") as db:
    db.push(tlg.load("trace.json.gz"), run="llama-70b", name="rank0")
    db.query("gpu_timeline")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracelens_graph.analyses.questions import STEP, parameters_of
from tracelens_graph.analyses.report.facts import add_facts
from tracelens_graph.analyses.report.knowledge import add_knowledge
from tracelens_graph.analyses.shared.answers import with_lists
from tracelens_graph.cypher import Query, library
from tracelens_graph.db import catalog, diffs, query
from tracelens_graph.db import ranks as run_ranks
from tracelens_graph.db.connection import (
    DEFAULT_DATABASE,
    DEFAULT_URI,
    DEFAULT_USER,
    Connection,
    OpenDatabase,
    errors_in_words,
)
from tracelens_graph.db.image import Options, Placement, TraceImage
from tracelens_graph.db.labels import Label, labels_of
from tracelens_graph.db.pull import pull_trace
from tracelens_graph.db.push import Outcome, make_schema, push_trace, push_whole
from tracelens_graph.db.signatures import read_signatures
from tracelens_graph.db.statements import DIFF, MATCHING
from tracelens_graph.db.subject import check_values
from tracelens_graph.db.trace_image import image_of
from tracelens_graph.errors import AnalysisError, DatabaseError
from tracelens_graph.execution.link import add_tensors
from tracelens_graph.graph.context import build_context
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.registry import HOMES, RENAMED, current, schema_of
from tracelens_graph.utils.texts import file_name, stem

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.analyses.alignment.difference import Diff
    from tracelens_graph.nxview.trace_graph import TraceGraph
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.tables.table import Table

EVERYTHING = Options()


def image(
    core: Core, placement: Placement, options: Options = EVERYTHING, arch: Architecture | None = None
) -> TraceImage:
    """The nodes and edges that stand for a graph in a database, with what analyses know of it.

    Raises:
        ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
    """
    context = build_context(core, placement.run)
    add_tensors(context, core)
    add_knowledge(context, core, arch=arch)
    add_facts(context, core, arch)
    return image_of(core, context, placement, options)


def default_name(core: Core) -> str:
    """The name of a trace that is given none: that of its file, without suffixes."""
    return stem(file_name(core.info.source)) or core.trace_id[:12]


class Database:
    """A connection to a database of graphs; `connect` makes one. It closes itself at the end of a `with`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        with self._in_words():
            self._db = OpenDatabase(connection.driver(), connection.database)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Where it is interrupted, threads may still use the connections, and closing them fails.
        with suppress(Exception) if kind else nullcontext():
            self.close()

    def close(self) -> None:
        """End the connection."""
        with suppress(BufferError):  # of a message that the server cut off
            self._db.driver.close()

    def __repr__(self) -> str:
        return f"<Database {self.connection.database} at {self.connection.uri}>"

    def push(
        self,
        core: Core,
        *,
        run: str = "",
        name: str = "",
        labels: Sequence[str] | Mapping[str, Label] = (),
        options: Options = EVERYTHING,
        replace: bool = False,
        arch: Architecture | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Outcome:
        """Write a graph into the database. Cut off at any point, the next push of the same trace completes it.

        Args:
            core: the graph.
            run: name of its run; by default the trace is a run of its own, called by its id.
            name: name of the trace, unique in its run; by default that of its file.
            labels: values by key, or `key=value`, for queries that follow one of them over runs.
            options: what of the graph is taken.
            replace: whether the same trace, pushed with other options, gives way.
            arch: its device; by default the one that the trace names.
            progress: called with rows written and rows in all.

        Returns:
            "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if it is there already.

        Raises:
            DatabaseError: the database cannot be reached or refuses, or has the trace with other options.
            ChangedTraceError: the trace file is no longer the one that was loaded.
            AnalysisError: the graph is that of an execution trace, which has no times.
        """
        core.info.check_times()
        placement = Placement(run or core.trace_id, name or default_name(core), labels_of(labels))
        return self.push_image(image(core, placement, options, arch), replace=replace, progress=progress)

    def push_image(
        self, image: TraceImage, *, replace: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Outcome:
        """As `push`, of what `image` made."""
        with self._in_words():
            return push_trace(self._db, image, replace=replace, progress=progress)

    def push_diff(
        self,
        difference: Diff,
        *,
        run: str = "",
        replace: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Outcome:
        """Write a comparison of two traces: MATCHES edges between them, and the places where they differ.

        A trace that is not in the database is pushed first. Cut off at any point, the next push of the same comparison
        completes it. Of two traces, in their order, there is one comparison; it goes with either of them.

        Args:
            difference: what `diff` gives.
            run: name of the run of traces that are pushed, which are called by the names of the comparison in it; by
                default each is a run of its own.
            replace: whether a comparison of other parts of the two traces gives way.
            progress: called with rows written and rows in all, for each trace and for the comparison.

        Returns:
            "pushed", "completed" (an earlier push was cut off), "replaced", or "unchanged" if it is there already.

        Raises:
            DatabaseError: the database cannot be reached or refuses, or compares other parts of the two traces.
            ChangedTraceError: a trace file is no longer the one that was loaded.
        """
        cores = [window.core for window in (difference.a, difference.b)]
        known = {trace["id"]: trace for trace in self.traces()}
        for core, name in zip(cores, difference.names, strict=True):
            if known.get(core.trace_id, {}).get("state") != "complete":
                self.push(core, run=run, name=name if run else "", progress=progress)
        known = {trace["id"]: trace for trace in self.traces()}
        image = diffs.diff_image(difference, [known[core.trace_id] for core in cores])
        with self._in_words():
            return push_whole(self._db, DIFF, image, claim=diffs.claim, replace=replace, progress=progress)

    def push_run(
        self,
        ranks: Any,
        *,
        run: str,
        labels: Sequence[str] | Mapping[str, Label] = (),
        options: Options = EVERYTHING,
        replace: bool = False,
        arch: Architecture | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Outcome:
        """Write all ranks of a run, their collectives and the critical paths of its steps: see `match`.

        Args:
            ranks: the traces: a `TraceSet`, such as `load_set(folder)` gives, or graphs, or graphs by name.
            run: name of the run.
            labels, options, replace, arch: of each trace, as for `push`.
            progress: called with rows written and rows in all, for each trace and for what the ranks have in common.

        Returns:
            What was done about the latter, as for `push`.

        Raises:
            AnalysisError: no graphs are given.
            DatabaseError: the database cannot be reached or refuses, has a trace with other options, or the run has
                other traces.
            ChangedTraceError: a trace file is no longer the one that was loaded.
        """
        traces = TraceSet.of(ranks)
        for one in traces:
            self.push(
                one.core, run=run, name=one.name, labels=labels, options=options, replace=replace, arch=arch,
                progress=progress,
            )  # fmt: skip
        return self.match(run, traces, options=options, progress=progress)

    def match(
        self, run: str, ranks: Any, *, options: Options = EVERYTHING, progress: Callable[[int, int], None] | None = None
    ) -> Outcome:
        """Write what the ranks of a run, which are in the database, have in common.

        That is which of their kernels are one collective, how long each rank waited and communicated, and the critical
        path of each step. Cut off at any point, the next call with the same ranks completes it.

        Args:
            run: name of the run.
            ranks: all of its ranks, as for `push_run`.
            options: what of them was pushed.
            progress: called with rows written and rows in all.

        Returns:
            "pushed", "completed" (an earlier call was cut off), "replaced" (other ranks were matched before), or
            "unchanged".

        Raises:
            DatabaseError: the database cannot be reached or refuses; a rank is not complete, or the run has others.
        """
        image = run_ranks.ranks_image(run, TraceSet.of(ranks), options)
        with self._in_words():
            return push_whole(self._db, MATCHING, image, claim=run_ranks.claim, progress=progress)

    def matchings(self) -> list[dict[str, Any]]:
        """For each run whose ranks were matched the properties of its Matching node, complete or not."""
        with self._in_words():
            return catalog.matchings(self._db)

    def diffs(self) -> list[dict[str, Any]]:
        """Properties of all comparisons, complete or not, by name."""
        with self._in_words():
            return catalog.diffs(self._db)

    def traces(self) -> list[dict[str, Any]]:
        """Properties of all traces, complete or not, by run, rank and name."""
        with self._in_words():
            return catalog.traces(self._db)

    def invalid_traces(self) -> int:
        """How many nodes are labelled as traces, and are none: others wrote or changed them."""
        with self._in_words():
            return catalog.invalid(self._db)

    def size(self) -> tuple[int, int]:
        """Numbers of all nodes and of all edges of the database, whoever wrote them."""
        with self._in_words():
            return catalog.size(self._db)

    def make_schema(self) -> None:
        """Make constraints and indexes that are missing, as a push does; for what was imported offline."""
        with self._in_words():
            make_schema(self._db)

    def drop(self, wanted: str, progress: Callable[[int, int], None] | None = None) -> list[str]:
        """Delete all traces of a run, or one trace, with the knowledge that no other trace uses.

        Args:
            wanted: name of a run; or id or the beginning of one, `run/name`, or name of a trace.
            progress: called for each trace with events deleted and events in all.

        Returns:
            Paths of the traces that are gone.

        Raises:
            DatabaseError: nothing is called so, or several traces are.
        """
        found = catalog.meant(self.traces(), wanted)
        with self._in_words():
            for trace in found:
                catalog.drop_trace(self._db, trace["id"], progress)
        return [trace["path"] for trace in found]

    def with_events(self, wanted: Sequence[str] = (), before_ns: int | None = None) -> list[dict[str, Any]]:
        """Properties of complete traces that have events, or some of them where `forget_events` was cut off.

        Args:
            wanted: names of runs, or of traces as for `drop`; by default all.
            before_ns: only those that were pushed before, since 1970.

        Raises:
            DatabaseError: nothing is called so, or several traces are; or one that is named is not complete.
        """
        known = self.traces()
        chosen = [trace for one in wanted for trace in catalog.meant(known, one)]
        if left := [trace["path"] for trace in chosen if trace["state"] != "complete"]:
            raise DatabaseError(f"{left[0]} is not complete in the database: push it first")
        ids = {trace["id"] for trace in chosen or known if trace["state"] == "complete"}
        return [
            trace
            for trace in known
            if trace["id"] in ids and trace["nodes"] and (before_ns is None or trace["pushed_ns"] < before_ns)
        ]

    def forget_events(self, trace: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Delete the events of a trace, its comparisons, and the matching of its run; its facts stay.

        Args:
            trace: id or the beginning of one, `run/name`, or name of the trace.
            progress: called with events deleted and events in all.

        Raises:
            DatabaseError: nothing is called so, or several traces are; or it is not complete.
        """
        found = catalog.resolve(self.traces(), trace)
        if found["state"] != "complete":
            raise DatabaseError(f"{found['path']} is not complete in the database: push it first")
        with self._in_words():
            catalog.forget_events(self._db, found, progress)

    def pull(self, trace: str, *, progress: Callable[[int, int], None] | None = None) -> TraceGraph:
        """The graph of a trace in the database, equal to the one that was pushed.

        The arguments of events, `node.args`, are there if they were pushed. Halves of characters, which no database
        holds, come back as U+FFFD.

        Args:
            trace: id or the beginning of one, `run/name`, or name of the trace.
            progress: called with events read and events in all.

        Raises:
            DatabaseError: the database cannot be reached or refuses; there is no such trace; it is not complete, was
                pushed without some of its events or by another version; or somebody changed it.
        """
        from tracelens_graph.nxview.trace_graph import TraceGraph

        return TraceGraph(self.pull_core(trace, progress=progress))

    def pull_core(self, trace: str, *, progress: Callable[[int, int], None] | None = None) -> Core:
        """As `pull`, without the face of networkx."""
        with self._in_words():
            return pull_trace(self._db, trace, progress)

    def signature_graph(self, trace: str) -> TraceGraph:
        """A graph of the signatures that a trace spent GPU time on, also where it was pushed as facts alone.

        It answers what goes by operations and their arguments: `replay.replay_signatures(graph)` and
        `replay.plan(node)` of one of its ops. It has as many calls of each signature as the trace, with their GPU time;
        what they called, and what stood around them, is not known.

        Args:
            trace: id or the beginning of one, `run/name`, or name of the trace.

        Raises:
            DatabaseError: the database cannot be reached or refuses; there is no such trace; it is not complete, was
                pushed by another version, or has no signature with GPU time; or somebody changed it.
        """
        from tracelens_graph.nxview.trace_graph import TraceGraph

        return TraceGraph(self.signature_core(trace))

    def signature_core(self, trace: str) -> Core:
        """As `signature_graph`, without the face of networkx."""
        with self._in_words():
            return read_signatures(self._db, trace)

    def ask(self, question: str, /, *, timeout_s: float = 60, write: bool = False, **parameters: Any) -> Table:
        """The answer to a query of the library by its name, or to a Cypher statement.

        Args:
            question: the name of a query, or a statement; one whose first clause is a map, as in the library, takes
                parameters in the place of its values.
            timeout_s: after how long the server gives up.
            write: whether a statement may write; by default the server refuses.
            parameters: of the query, instead of its defaults, or what the statement calls `$name`; the id of the trace
                takes the place of `trace`, by `run/name` or name.

        Returns:
            The rows. Notes of a statement say which labels, types and properties nothing in the database has.

        Raises:
            DatabaseError: the database cannot be reached or refuses; or there is no such query, parameter or trace.
        """
        question = _in_library(question)
        with self._in_words():
            if question.isidentifier():
                old = RENAMED.get(question)
                named = query.named(current(question))
                given = {name: value for name, value in (old.given if old else {}).items() if name in named.parameters}
                _check_types(named, parameters)
                answer = query.ask(self._db, named, {**given, **parameters}, timeout_s)
                answer = with_lists(answer, schema_of(question) if named.name in HOMES else {})
                return old.as_before(question, answer) if old else answer
            own = query.statement_of(question)
            _check_types(own, parameters)
            statement, given = query.prepared(self._db, own, parameters)
            check_values(self._db, own, given)
            answer = query.run(self._db, statement, given, timeout_s, write)
            return replace(answer, about=query.declared(own, answer), title=own.title) if own.columns else answer

    def query(self, question: str, /, *, timeout_s: float = 60, write: bool = False, **parameters: Any) -> pd.DataFrame:
        """As `ask`, as a DataFrame; definitions in `df.attrs`."""
        return self.ask(question, timeout_s=timeout_s, write=write, **parameters).to_pandas()

    def _in_words(self) -> AbstractContextManager[None]:
        return errors_in_words(self.connection)


def _in_library(question: str) -> str:
    """The name of the query of the library whose text a statement is, word for word; else the statement."""
    return next((one.name for one in library().values() if one.text.strip() == question.strip()), question)


def _check_types(asked: Query, parameters: Mapping[str, Any]) -> None:
    """Refuse values that parameters of a query, or of a statement with defaults, cannot have."""
    known = parameters_of(asked)
    for name, value in parameters.items():
        if name in known and (value is not None or asked.theme):
            try:
                known[name].check(value)
            except AnalysisError as error:
                raise DatabaseError(str(error)) from None
        if (
            name == STEP
            and name in asked.defaults
            and value is not None
            and (isinstance(value, bool) or not isinstance(value, int))
        ):
            raise DatabaseError(f"{name}={value!r:.60}: a whole number or null is wanted")


def connect(
    uri: str | None = None, *, user: str | None = None, password: str | None = None, database: str | None = None
) -> Database:
    """A connection to a database of graphs.

    Args:
        uri: `bolt://...`, `neo4j://...`, `neo4j+s://...`; by default NEO4J_URI, else port 7687 of this machine.
        user, database: by default NEO4J_USER and NEO4J_DATABASE, else `neo4j`.
        password: by default NEO4J_PASSWORD; "" for a server without authentication.

    Raises:
        DatabaseError: the address is none.
    """
    env = os.environ
    return Database(
        Connection(
            uri=uri or env.get("NEO4J_URI") or DEFAULT_URI,
            user=user or env.get("NEO4J_USER") or DEFAULT_USER,
            password=env.get("NEO4J_PASSWORD", "") if password is None else password,
            database=database or env.get("NEO4J_DATABASE") or DEFAULT_DATABASE,
        )
    )
