"""A graph out of a database again, equal to the one that was pushed.

Events come in batches by their place in pre-order: numbers as rows, texts once for all events of a batch that share
them. Callers, launches, owners and dependencies are read from the edges. What a graph computes itself when it is asked
is not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tracelens_graph.db.catalog import checked, resolve, traces
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.image import ranges_by_size
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.arguments import ARGSET_PARTS
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.flows import Flow
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.programs import RUNS, CompiledProgram, CompiledPrograms, code_type
from tracelens_graph.schema import STORED, Flag, Kind, OwnerRule
from tracelens_graph.schema.database import EVENT, PULLED_EDGES
from tracelens_graph.stores.packed import PackedDetails

if TYPE_CHECKING:
    from neo4j import ManagedTransaction, Session

Progress = Callable[[int, int], None]

BATCH = 10_000
"""Events that are read at once."""

BATCH_BYTES = 8_000_000
"""Characters of text that are read at once, but for a single longer text."""

_KEYS_AT_ONCE = 1000
_ARGS_AT_ONCE = 2000

_NOT_NUMBERS = ("kind", "name", "argset", "parent", "owner", "owner_rule", "flags")
_NUMBERS = tuple(prop for prop in STORED if prop.name not in _NOT_NUMBERS)

_EVENTS = f"MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.pre >= $low AND n.pre < $high"
_VALUES = ", ".join(
    f"n.{prop.name}" if prop.absent is None else f"coalesce(n.{prop.name}, $absent.{prop.name})" for prop in _NUMBERS
)
_SIZE_OF_NAME = "CASE WHEN n.name IS :: STRING THEN size(n.name) END"
_COUNT = f"MATCH (n:{EVENT}) WHERE n.trace = $trace RETURN count(n)"
_READ_NUMBERS = f"{_EVENTS} RETURN collect([n.pre, {_SIZE_OF_NAME}, {_VALUES}])"
_AMONG_EVENTS = "|".join(name for name in PULLED_EDGES if name not in ("HAS_SIGNATURE", "OF_PROGRAM"))
_READ_NAMES = f"{_EVENTS} RETURN n.name, collect(n.pre)"
_READ_KINDS = f"{_EVENTS} RETURN labels(n), n.owner_rule, n.flags, collect(n.pre)"
_READ_TEXTS = f"{_EVENTS} AND (n.collective IS NOT NULL OR n.arrows IS NOT NULL) RETURN n.uid, n.collective, n.arrows"
_READ_SOURCES = f"{_EVENTS} AND n.source IS NOT NULL RETURN n.source, collect(n.pre)"
_READ_SIGNATURES = f"{_EVENTS} MATCH (n)-[:HAS_SIGNATURE]->(s:Signature) RETURN s.key, collect(n.pre)"
_READ_OF_PROGRAM = f"{_EVENTS} MATCH (n)-[e:OF_PROGRAM]->(p:Program) RETURN p.key, e.runs, collect(n.pre)"
_READ_PROGRAMS = (
    "MATCH (:Trace {id: $trace})-[e:RAN]->(p:Program) "
    "RETURN p.key, properties(p), e.compiler_fingerprint, coalesce(e.numbers, [])"
)
_READ_EDGES = f"{_EVENTS} MATCH (n)-[e:{_AMONG_EVENTS}]->(m:{EVENT}) RETURN type(e), collect([n.pre, m.pre])"
_PARTS = (*ARGSET_PARTS, "instruction")
_READ_ARGSETS = f"MATCH (s:Signature) WHERE s.key IN $keys RETURN s.key, {', '.join(f's.{name}' for name in _PARTS)}"
_WITH_ARGS = f"MATCH (n:{EVENT}) WHERE n.trace = $trace AND n.uid >= $low AND n.uid < $high AND n.args IS NOT NULL"
_READ_ARGS_SIZES = f"{_WITH_ARGS} RETURN collect([n.uid, size(n.args)])"
_READ_ARGS = f"{_WITH_ARGS} RETURN n.uid, n.args"

_NO_TIME = -(2**62)
"""A time at which nothing begins: where arrows that lead nowhere end."""


def pull_trace(db: OpenDatabase, wanted: str, progress: Progress | None = None) -> Core:
    """The graph of a trace in a database.

    It has the nodes, edges and facts of the graph that was pushed, and its id. Of the arguments of events it has
    those that were pushed. Halves of characters, which no database holds, come back as U+FFFD.

    Args:
        db: the database.
        wanted: id, `run/name` or name of the trace.
        progress: called with events read and events in all.

    Raises:
        DatabaseError: there is no such trace; it is not complete, was pushed without some of its events or by another
            version; or somebody changed it.
    """
    from neo4j.exceptions import CypherTypeError

    trace = checked(resolve(traces(db), wanted))
    if trace.get("lean"):
        raise DatabaseError(
            f"{trace['path']} was pushed without some of its events, so its graph cannot be put together again"
        )
    with db.session(reads=True) as session:
        try:
            core = _Reader(session, trace, progress).core()
        except (KeyError, IndexError, TypeError, ValueError, msgspec.MsgspecError, CypherTypeError) as error:
            raise damaged(trace, "a property or a label is not what was pushed") from error
    # Reading takes many transactions; a trace that is the same afterwards was not replaced in between.
    if trace not in traces(db):
        raise DatabaseError(f"{trace['path']} was changed by somebody else while it was read: pull it again")
    return core


class _Reader:
    """Reads the graph of one trace."""

    def __init__(self, session: Session, trace: Mapping[str, Any], progress: Progress | None) -> None:
        self._session = session
        self._trace = trace
        self._progress = progress
        self._done = 0
        ((self._size,),) = self._rows(_COUNT)
        if self._size != trace["nodes"]:  # before memory is taken for them
            raise damaged(trace, f"{self._size:,} events are there in place of those pushed")
        self._arrays = {prop.name: np.full(self._size, prop.absent or 0, prop.dtype) for prop in STORED}
        self._names: dict[str, int] = {}
        self._signatures: dict[str, int] = {}
        self._arrows: dict[int, list[int]] = {}
        self._collectives: dict[int, dict[str, Any]] = {}
        self._depends_on: list[np.ndarray] = []
        self._edges = dict.fromkeys(PULLED_EDGES, 0)
        self._programs = self._read_programs()
        self._of_program = np.zeros(self._size, code_type(len(self._programs)))
        self._sources: dict[str, int] = {}
        self._of_source = np.zeros(self._size if self._programs else 0, np.int32)

    def core(self) -> Core:
        """The graph, checked."""
        info = TraceInfo(**json.loads(self._trace["info"]))
        self._in_all = self._size + info.events
        for low in range(0, self._size, BATCH):
            self._batch(low, min(low + BATCH, self._size))
        names = self._sort_names()
        argsets = self._argsets()
        instructions = [texts[4] for texts in argsets]
        threads = [(pid, tid) for pid, tid in json.loads(self._trace["threads"])]
        self._check_structure(len(threads))
        self._check_edges()
        columns = Columns(self._arrays)
        return Graph(
            columns=columns,
            names=names,
            threads=threads,
            argsets=[texts[:4] for texts in argsets],
            autograd_flows=self._flows(columns),
            depends_on=np.concatenate((np.zeros((0, 2), np.int64), *self._depends_on)),
            collective_args=self._collectives,
            info=info,
            details=self._details(info.events),
            programs=self._compiled_programs(),
            instructions=instructions if any(instructions) else [],
        )

    def _batch(self, low: int, high: int) -> None:
        """Read the events of some rows, and the edges from them."""
        at = {"low": low, "high": high}
        absent = {prop.name: prop.absent for prop in _NUMBERS if prop.absent is not None}
        (found,) = next(self._rows(_READ_NUMBERS, absent=absent, **at))
        if any(kind is not int for kind in set(map(type, chain.from_iterable(found)))):
            raise TypeError("numpy would make whole numbers of them")
        numbers = np.array(found, np.int64).reshape(-1, len(_NUMBERS) + 2)
        numbers = numbers[np.argsort(numbers[:, 0])]
        if not np.array_equal(numbers[:, 0], np.arange(low, high)):
            raise damaged(self._trace, "events are missing")
        for place, prop in enumerate(_NUMBERS, 2):
            self._arrays[prop.name][low:high] = numbers[:, place]
            # numpy cuts numbers that are too large for a column, and raises nothing.
            if not np.array_equal(self._arrays[prop.name][low:high], numbers[:, place]):
                raise ValueError("a number is larger than any that was pushed")
        for begin, end in ranges_by_size(low, numbers[:, 1], BATCH_BYTES):
            for name, rows in self._rows(_READ_NAMES, low=begin, high=end):
                self._arrays["name"][rows] = self._names.setdefault(name, len(self._names))
        for labels, rule, flags, rows in self._rows(_READ_KINDS, **at):
            (kind,) = (Kind[label] for label in labels if label in Kind.__members__)
            self._arrays["kind"][rows] = kind
            self._arrays["owner_rule"][rows] = OwnerRule[rule or "none"]
            self._arrays["flags"][rows] = sum(Flag[name] for name in flags or ())
        for key, rows in self._rows(_READ_SIGNATURES, **at):
            self._edges["HAS_SIGNATURE"] += len(rows)
            self._arrays["argset"][rows] = self._signatures.setdefault(key, len(self._signatures))
        for key, runs, rows in self._rows(_READ_OF_PROGRAM, **at) if self._programs else ():
            self._edges["OF_PROGRAM"] += len(rows)
            self._of_program[rows] = 2 * (1 + list(self._programs).index(key)) + RUNS.index(runs)
        for source, rows in self._rows(_READ_SOURCES, **at) if self._programs else ():
            self._of_source[rows] = self._sources.setdefault(source, len(self._sources) + 1)
        for uid, collective, arrows in self._rows(_READ_TEXTS, **at):
            if collective is not None:
                self._collectives[uid] = msgspec.json.decode(collective)
            if arrows is not None:
                self._arrows[uid] = json.loads(arrows)
        for edge_type, pairs in self._rows(_READ_EDGES, **at):
            self._add_edges(edge_type, np.array(pairs, np.int64))
        self._count(high - low)

    def _read_programs(self) -> dict[str, CompiledProgram]:
        """Compiled programs by key, in the order of the numbers by which the profile names them."""
        found = {}
        for key, properties, recorded, numbers in self._rows(_READ_PROGRAMS):
            facts = {**properties, "compiler_fingerprint": recorded or "", "numbers": list(map(int, numbers))}
            found[key] = msgspec.convert(facts, CompiledProgram)
        return dict(sorted(found.items(), key=lambda one: one[1].numbers))

    def _add_edges(self, edge_type: str, pairs: np.ndarray) -> None:
        self._edges[edge_type] += len(pairs)
        source, target = pairs.T
        if edge_type == "DEPENDS_ON":
            self._depends_on.append(pairs)
        elif edge_type == "CHARGED_TO":
            self._arrays["owner"][source] = target
        else:
            self._arrays["parent"][target] = source

    def _sort_names(self) -> list[str]:
        """Names in order, as a loader leaves them; codes follow."""
        names = sorted(self._names)
        place = {name: code for code, name in enumerate(names)}
        codes = np.array([place[name] for name in self._names], np.int32)
        if len(codes):
            self._arrays["name"] = codes[self._arrays["name"]]
        return names

    def _argsets(self) -> list[tuple[str, str, str, str, str]]:
        """Argument sets, and facts of their instructions, from those of signatures; codes follow."""
        keys = list(self._signatures)
        found: dict[tuple[str, ...], int] = {}
        codes = np.full(len(keys) + 1, -1, np.int32)
        for low in range(0, len(keys), _KEYS_AT_ONCE):
            for key, *parts in self._rows(_READ_ARGSETS, keys=keys[low : low + _KEYS_AT_ONCE]):
                argset = tuple(part or "" for part in parts)
                if any(argset):
                    codes[self._signatures[key]] = found.setdefault(argset, len(found))
        self._arrays["argset"] = codes[self._arrays["argset"]]
        return list(found)  # type: ignore[arg-type]

    def _compiled_programs(self) -> CompiledPrograms | None:
        if not self._programs:
            return None
        ops = self._arrays["kind"] == Kind.Op
        return CompiledPrograms(
            tuple(self._programs.values()), self._of_program[ops], tuple(self._sources), self._of_source[ops]
        )

    def _check_edges(self) -> None:
        """See that there are as many edges of each type as were pushed, by whoever counted them."""
        pushed = json.loads(self._trace.get("pulled_edges") or "{}")
        for edge_type, number in self._edges.items():
            if pushed.get(edge_type, number) != number:
                raise damaged(self._trace, f"{number:,} edges {edge_type} are there in place of {pushed[edge_type]:,}")

    def _check_structure(self, threads: int) -> None:
        """See that callers are callers, whatever has been done to the database."""
        a, row = self._arrays, np.arange(self._size)
        parent, last, depth = a["parent"], a["last"], a["depth"]
        called = parent >= 0
        above = parent[called]
        # All that walks the graph relies on pre-order: a circle of parents would never end.
        fits = (above < row[called]) & (row[called] <= last[above]) & (last[called] <= last[above])
        fits &= depth[called] == depth[above] + 1
        if not fits.all() or (depth[~called] != 0).any() or (last < row).any():
            raise damaged(self._trace, "calls are missing")
        if self._size and not 0 <= a["thread"].min() <= a["thread"].max() < threads:
            raise damaged(self._trace, "threads are missing")

    def _flows(self, columns: Columns) -> list[Flow]:
        """Both ends of every arrow from a forward to a backward op, and of those that lead nowhere."""
        order = np.argsort(columns.uid)
        backward = np.repeat(
            np.fromiter(self._arrows, np.int64), np.fromiter(map(len, self._arrows.values()), np.int64)
        )
        forward = np.array([uid for uids in self._arrows.values() for uid in uids], np.int64)
        flows: list[Flow] = []
        for phase, uids in (("s", forward), ("f", backward)):
            at = np.minimum(np.searchsorted(columns.uid, uids, sorter=order), self._size - 1)
            rows = order[at] if len(at) else at
            if (columns.uid[rows] != uids).any():
                raise damaged(self._trace, "ends of arrows are missing")
            ends = zip(columns.thread[rows].tolist(), columns.start_ns[rows].tolist(), strict=True)
            flows += [(phase, key, thread, time) for key, (thread, time) in enumerate(ends)]
        for key in range(self._trace.get("lost_arrows", 0)):
            flows += [(phase, -1 - key, 0, _NO_TIME) for phase in "sf"]
        return flows

    def _details(self, events: int) -> PackedDetails:
        """Arguments of events, where they were pushed; of an event there is nothing else."""
        from isal import isal_zlib

        blocks, firsts = [], list(range(0, events, _ARGS_AT_ONCE))
        for low in firsts:
            high = min(low + _ARGS_AT_ONCE, events)
            texts = ["null"] * (high - low)
            (sizes,) = next(self._rows(_READ_ARGS_SIZES, low=low, high=high))
            size = np.zeros(high - low, np.int64)
            for uid, length in sizes:
                size[uid - low] = length
            for begin, end in ranges_by_size(low, size, BATCH_BYTES):
                for uid, args in self._rows(_READ_ARGS, low=begin, high=end):
                    texts[uid - low] = f'{{"args":{args}}}'
            blocks.append(isal_zlib.compress(f"[{','.join(texts)}]".encode(), 1))
            self._count(high - low)
        return PackedDetails(
            first=np.array(firsts, np.int64),
            count=np.diff([*firsts, events]) if firsts else np.zeros(0, np.int64),
            blocks=blocks,
            trace_id=self._trace["id"],
            name=self._trace["path"],
        )

    def _rows(self, statement: str, **parameters: Any) -> Iterator[list[Any]]:
        from neo4j.exceptions import IncompleteCommit, SessionExpired

        def read(tx: ManagedTransaction) -> list[list[Any]]:
            return [record.values() for record in tx.run(statement, trace=self._trace["id"], **parameters)]

        try:
            return iter(self._session.execute_read(read))
        except IncompleteCommit as error:  # of nothing: no change is in doubt
            raise SessionExpired(str(error)) from error

    def _count(self, events: int) -> None:
        self._done += events
        if self._progress:
            self._progress(self._done, self._in_all)


def damaged(trace: Mapping[str, Any], what: str) -> DatabaseError:
    """What is wrong with a trace that somebody changed."""
    return DatabaseError(f"{trace['path']} was changed in the database, {what}: push it again with --replace")
