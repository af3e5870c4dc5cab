"""Images of traces as tables for the embedded engine: one of nodes per label, one of edges per type and labels of ends.

A node has a number in its table: of an event its trace and uid, of all else its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracelens_graph.db.image import Edges, Nodes, TraceImage, nodes_of
from tracelens_graph.embedded.labels import EVENTS, HEAT_COLUMN
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT, HEAT, KEYS
from tracelens_graph.schema.stored import Stored
from tracelens_graph.stores.frames import Texts

if TYPE_CHECKING:
    import pandas as pd

NUMBER = "__number"
"""Key of every table of nodes."""

Pair = tuple[str, str, str]
"""Type of edges, label of their sources, label of their targets."""

_TRACE_BITS = 40


class _Part(NamedTuple):
    """Edges between two labels: numbers of the ends of more edges, and which of these they are."""

    edges: Edges
    sources: np.ndarray
    targets: np.ndarray
    taken: np.ndarray


class Tables:
    """The nodes and edges of images by table.

    Attributes:
        images: of each trace.
    """

    def __init__(self, images: Sequence[TraceImage]) -> None:
        self.images = images

    @cached_property
    def labels(self) -> dict[str, tuple[Stored, ...]]:
        """Label of nodes that there are -> properties that some of them have."""
        found: dict[str, dict[str, Stored]] = {"Trace": _named(self._traces.properties)}
        for image in self.images:
            for nodes in image.nodes:
                found.setdefault(_label(nodes), {}).update(_named(nodes.properties))
        for label, properties in found.items():
            if scope := KEYS[EVENT if label in EVENTS else label].scope:
                properties.setdefault(scope, Stored(scope, "str", ""))
        return {label: tuple(properties.values()) for label, properties in found.items()}

    @property
    def pairs(self) -> list[Pair]:
        """Type and labels of both ends of edges that there are."""
        return sorted(self._parts)

    def nodes(self, label: str) -> Iterator[pd.DataFrame]:
        """The nodes of a label, in parts: columns are their number and properties that some have."""
        if label not in EVENTS:
            yield self._context_frame(label)
            return
        for ordinal, image in enumerate(self.images):
            for nodes in image.nodes:
                if _label(nodes) == label:
                    heat = [one for one in nodes.labels if one in HEAT]
                    uids = np.asarray(nodes.columns[0], np.int64)
                    columns = {NUMBER: (ordinal << _TRACE_BITS) + uids}
                    columns |= {prop.name: _values(column)
                                for prop, column in zip(nodes.properties, nodes.columns, strict=True)}  # fmt: skip
                    columns["trace"] = _repeated(image.properties["id"], len(uids))
                    if heat:
                        columns[HEAT_COLUMN] = _repeated(heat[0], len(uids))
                    yield _frame(columns)

    def edges(self, pair: Pair) -> Iterator[pd.DataFrame]:
        """Edges of a type between two labels, in parts: columns are numbers of both ends, and properties."""
        for part in self._parts[pair]:
            columns: dict[str, Any] = {"source": part.sources[part.taken], "target": part.targets[part.taken]}
            for prop, column in zip(part.edges.properties, part.edges.columns[2:], strict=True):
                columns[prop.name] = _values(column)[part.taken]
            yield _frame(columns)

    @cached_property
    def _traces(self) -> Nodes:
        """The Trace nodes, which images hold apart."""
        facts = [{**image.properties, "state": "complete"} for image in self.images]
        known = {
            name: [one.get(name) for one in facts] for name in dict.fromkeys(name for one in facts for name in one)
        }
        properties = sorted(CONTEXT_PROPERTIES["Trace"], key=lambda prop: prop.name != KEYS["Trace"].name)
        return nodes_of("Trace", tuple(prop for prop in properties if prop.name in known), known)

    @cached_property
    def _context(self) -> dict[str, dict[tuple[str, str], tuple[int, dict[str, Any]]]]:
        """Label -> scope and key -> number and properties: what several traces know of a node is one node's."""
        found: dict[str, dict[tuple[str, str], tuple[int, dict[str, Any]]]] = {}
        for image in self.images:
            for nodes in [*image.nodes, *([self._traces] if image is self.images[0] else [])]:
                label = _label(nodes)
                if label in EVENTS:
                    continue
                key, of_label = KEYS[label], found.setdefault(label, {})
                scope = _scope(image, label)
                names = [prop.name for prop in nodes.properties]
                for row in nodes.rows(0, len(nodes)):
                    values = dict(zip(names, row, strict=True))
                    _, known = of_label.setdefault((scope, values[key.name]), (len(of_label), {}))
                    known |= {name: value for name, value in values.items() if value is not None}
                    known |= {key.scope: scope} if key.scope else {}
        return found

    def _context_frame(self, label: str) -> pd.DataFrame:
        rows = [values for _, values in self._context[label].values()]
        columns: dict[str, Any] = {NUMBER: np.arange(len(rows))}
        for prop in self.labels[label]:
            columns[prop.name] = _objects([values.get(prop.name) for values in rows])
        return _frame(columns)

    @cached_property
    def _parts(self) -> dict[Pair, list[_Part]]:
        """Edges by type and labels of both ends."""
        found: dict[Pair, list[_Part]] = {}
        seen: set[tuple[Any, ...]] = set()
        for ordinal, image in enumerate(self.images):
            kinds = _Kinds(image)
            for edges in image.edges:
                labels, sources = self._end(image, ordinal, kinds, edges.source, edges.columns[0])
                others, targets = self._end(image, ordinal, kinds, edges.target, edges.columns[1])
                codes = labels * len(EVENTS) + others
                for code in np.unique(codes).tolist():
                    one, other = divmod(code, len(EVENTS))
                    source = EVENTS[one] if edges.source == EVENT else edges.source
                    target = EVENTS[other] if edges.target == EVENT else edges.target
                    pair, taken = (edges.type, source, target), np.flatnonzero(codes == code)
                    if EVENT not in (edges.source, edges.target):  # then another trace may have the same
                        ends = [(*pair, *both) for both in zip(sources.tolist(), targets.tolist(), strict=True)]
                        taken = np.array([place for place, end in enumerate(ends) if end not in seen], np.int64)
                        seen.update(ends)
                    if len(taken):
                        found.setdefault(pair, []).append(_Part(edges, sources, targets, taken))
        return found

    def _end(
        self, image: TraceImage, ordinal: int, kinds: _Kinds, label: str, keys: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Labels of one end of edges, as places in EVENTS, 0 for others; and their numbers."""
        if label == EVENT:
            uids = np.asarray(keys, np.int64)
            return kinds.of(uids), (ordinal << _TRACE_BITS) + uids
        scope, known = _scope(image, label), self._context[label]
        numbers = np.fromiter((known[scope, key][0] for key in keys), np.int64, len(keys))
        return np.zeros(len(keys), np.int64), numbers


class _Kinds:
    """Kinds of the events of a trace by uid, as places in EVENTS."""

    def __init__(self, image: TraceImage) -> None:
        parts = [nodes for nodes in image.nodes if nodes.labels[0] == EVENT]
        uids = [np.asarray(nodes.columns[0], np.int64) for nodes in parts]
        kinds = [np.full(len(nodes), EVENTS.index(_label(nodes))) for nodes in parts]
        uid = np.concatenate([np.zeros(0, np.int64), *uids])
        order = np.argsort(uid)
        self._uids, self._kinds = uid[order], np.concatenate([np.zeros(0, np.int64), *kinds])[order]

    def of(self, uids: np.ndarray) -> np.ndarray:
        return self._kinds[np.searchsorted(self._uids, uids)]


def _label(nodes: Nodes) -> str:
    return nodes.labels[1] if nodes.labels[0] == EVENT else nodes.labels[0]


def _named(properties: Sequence[Stored]) -> dict[str, Stored]:
    return {prop.name: prop for prop in properties}


def _scope(image: TraceImage, label: str) -> str:
    of = {"trace": image.properties["id"], "run": image.properties["run"]}
    return of.get(KEYS[label].scope, "")


def _repeated(text: str, times: int) -> np.ndarray:
    return np.full(times, text, object)


def _objects(values: Sequence[Any]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _values(column: Any) -> np.ndarray:
    """A column as numbers, or where some are absent as objects."""
    if isinstance(column, Texts):
        return _objects([*column.texts, None])[column.codes]
    if isinstance(column, np.ndarray) and not np.ma.is_masked(column) and column.dtype != object:
        return np.ma.getdata(column)
    listed = column if isinstance(column, list) else column.tolist()
    found = np.empty(len(listed), object)
    for place, value in enumerate(listed):  # an array of lists of one length would have two dimensions
        found[place] = value
    return found


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})
