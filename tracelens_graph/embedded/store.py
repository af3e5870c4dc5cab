"""Graphs in a file of the embedded engine, which holds what statements have asked for so far.

Nodes are there by label, whole; edges by type and labels of both ends, whole. What a statement asks for and is not
there is added to a copy, which takes the place of the file: so whoever reads it meanwhile is not disturbed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tracelens_graph.db.image import TraceImage
from tracelens_graph.embedded.engine import Engine
from tracelens_graph.embedded.labels import EVENTS, HEAT_COLUMN, properties_of
from tracelens_graph.embedded.patterns import TYPES
from tracelens_graph.embedded.statement import Hop
from tracelens_graph.embedded.tables import NUMBER, Pair, Tables
from tracelens_graph.embedded.translation import Translated, translated
from tracelens_graph.schema.database import EDGE_PROPERTIES
from tracelens_graph.schema.stored import Stored, Type

_TYPES: Mapping[Type, str] = {"int": "INT64", "float": "DOUBLE", "str": "STRING", "bool": "BOOL", "strs": "STRING[]"}


@dataclass
class Contents:
    """What a file of the engine holds, and what there is.

    Attributes:
        labels: labels of nodes that there are -> names of properties that some have.
        pairs: type and labels of both ends of edges that there are.
        columns: label whose table is made -> its columns.
        types: types whose table is made -> labels of both ends.
        nodes: labels whose nodes are in.
        edges: pairs whose edges are in.
        digest: hash of the file.
    """

    labels: list[str] = field(default_factory=list)
    pairs: list[list[str]] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)
    types: dict[str, list[list[str]]] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    edges: list[list[str]] = field(default_factory=list)
    digest: str = ""


class Store:
    """The file of some traces, and their images for what it lacks.

    Attributes:
        path: the file; its contents are described beside it.

    The last argument is called when something was added to it.
    """

    def __init__(
        self, path: Path, images: Callable[[], Sequence[TraceImage]], added: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self._added = added
        self._images = images
        self._contents = _read(path)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._images())

    def ask(self, text: str, parameters: Mapping[str, Any], timeout_s: float) -> tuple[list[str], list[list[Any]], int]:
        """The answer to a statement: names of columns, rows, and how many there would be.

        Raises:
            DatabaseError: the statement is none, needs Neo4j, or takes too long.
        """
        if self._contents is None:
            self._contents = Contents(sorted(self._tables.labels), [list(pair) for pair in self._tables.pairs])
        types = {type_ for type_, _, _ in self._contents.pairs}
        asked = translated(text, self._contents.labels, types, parameters)
        wanted = _wanted(asked, self._contents)
        if not self._contents.digest or not wanted.is_in(self._contents):
            self._add(wanted)
        with Engine(self.path, read_only=True) as engine:
            return engine.answer(asked, parameters, timeout_s)

    def _add(self, wanted: _Wanted) -> None:
        """Add what is not there to a copy, which takes the place of the file."""
        assert self._contents is not None
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = Path(mkdtemp(prefix=f".{self.path.name}.", suffix=".part", dir=self.path.parent))
        try:
            copy = part / self.path.name
            if self._contents.digest:
                shutil.copyfile(self.path, copy)
            contents = Contents(**json.loads(json.dumps(asdict(self._contents))))
            with Engine(copy, read_only=False) as engine:
                _fill(engine, wanted, contents, self._tables)
            contents.digest = _digest(copy)
            described = copy.with_suffix(".json")
            described.write_text(json.dumps(asdict(contents)), "utf-8")
            for file in (copy, described):
                file.chmod(0o600)  # a trace may hold secrets
            os.replace(copy, self.path)
            os.replace(described, self.path.with_suffix(".json"))
            self._contents = contents
            self._added()
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _read(path: Path) -> Contents | None:
    """What is in a file; None where there is none, or it is not what was written."""
    try:
        if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
            return None
        contents = Contents(**json.loads(path.with_suffix(".json").read_text("utf-8")))
        return contents if contents.digest == _digest(path) else None
    except (OSError, ValueError, TypeError):
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        found = blake2b(digest_size=16)
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


@dataclass(frozen=True)
class _Wanted:
    """What a statement needs.

    Attributes:
        labels: nodes.
        pairs: edges.
        types: types of edges that it names.
        columns: properties that it names.
    """

    labels: frozenset[str]
    pairs: frozenset[Pair]
    types: frozenset[str]
    columns: frozenset[str]

    def is_in(self, contents: Contents) -> bool:
        """Whether all of it is there."""
        return (
            self.labels <= {*contents.nodes}
            and self.pairs <= {tuple(pair) for pair in contents.edges}
            and self.types <= contents.types.keys()
            and not any(self.missing(label, contents.columns[label]) for label in self.labels)
        )

    def missing(self, label: str, columns: Iterable[str]) -> list[Stored]:
        """Properties that nodes of a label may have, that are named, and that their table lacks."""
        there = {*columns}
        return [prop for prop in properties_of(label) if prop.name in self.columns and prop.name not in there]


def _wanted(asked: Translated, contents: Contents) -> _Wanted:
    known: list[Pair] = [(type_, source, target) for type_, source, target in contents.pairs]
    pairs = {pair for hop in asked.hops for pair in known if _meets(hop, pair)}
    types = {name for hop in asked.hops for name in hop.types or ()} | {pair[0] for pair in pairs}
    labels = {*asked.labels, *(label for _, *ends in pairs for label in ends)}
    if asked.wants_all:
        labels |= {*contents.labels}
    return _Wanted(frozenset(labels), frozenset(pairs), frozenset(types), frozenset(asked.words))


def _meets(hop: Hop, pair: Sequence[str]) -> bool:
    """Whether edges of a type between two labels may be among those that a pattern asks for."""
    type_, source, target = pair
    if hop.types is not None and type_ not in hop.types:
        return False
    if hop.is_long:
        return True
    ways = [(hop.source, hop.target), *([(hop.target, hop.source)] if hop.is_both_ways else [])]
    return any((one is None or source in one) and (other is None or target in other) for one, other in ways)


def _fill(engine: Engine, wanted: _Wanted, contents: Contents, tables: Tables) -> None:
    """Make tables and columns that are missing, and fill them."""
    for name in sorted(wanted.types - contents.types.keys()):
        ends = [pair[1:] for pair in contents.pairs if pair[0] == name] or [_declared(name)]
        for label in sorted({label for pair in ends for label in pair}):
            _make(engine, label, wanted, contents, tables)
        listed = ", ".join(f"FROM `{source}` TO `{target}`" for source, target in ends)
        properties = "".join(f", `{prop.name}` {_TYPES[prop.type]}" for prop in EDGE_PROPERTIES.get(name, ()))
        engine.run(f"CREATE REL TABLE `{name}`({listed}{properties})")
        contents.types[name] = ends
    for label in sorted(wanted.labels):
        _make(engine, label, wanted, contents, tables)
        if label not in contents.nodes:
            for frame in tables.nodes(label) if label in tables.labels else ():
                engine.copy(label, frame)
            contents.nodes.append(label)
    for pair in sorted(wanted.pairs):
        if list(pair) not in contents.edges:
            for frame in tables.edges(pair):
                engine.copy(pair[0], frame, f"(from='{pair[1]}', to='{pair[2]}')")
            contents.edges.append(list(pair))


def _make(engine: Engine, label: str, wanted: _Wanted, contents: Contents, tables: Tables) -> None:
    """Make the table of a label with all properties that nodes have, and those that the statement names."""
    if label not in contents.columns:
        properties = tables.labels.get(label, ())
        columns = [f"`{prop.name}` {_TYPES[prop.type]}" for prop in properties]
        if label in EVENTS:
            columns.append(f"`{HEAT_COLUMN}` STRING")
        engine.run(f"CREATE NODE TABLE `{label}`({', '.join([f'`{NUMBER}` INT64 PRIMARY KEY', *columns])})")
        contents.columns[label] = [prop.name for prop in properties]
    for prop in wanted.missing(label, contents.columns[label]):
        engine.run(f"ALTER TABLE `{label}` ADD `{prop.name}` {_TYPES[prop.type]}")
        contents.columns[label].append(prop.name)


def _declared(name: str) -> list[str]:
    """Labels that ends of edges of a type may have, and that these traces lack."""
    edge = TYPES[name]
    return [EVENTS[0] if side == "event" else side.partition("|")[0] for side in (edge.source, edge.target)]
