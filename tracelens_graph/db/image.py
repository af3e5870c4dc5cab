"""Images: nodes and edges as a database holds them.

Nodes with equal labels stand side by side in columns, edges of one type as pairs of keys. Pushes, exports for an
offline import and comparisons with a database all work on the same images.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.schema import Kind
from tracelens_graph.schema.database import EVENT, REPEATED_EDGES
from tracelens_graph.schema.stored import Stored


@dataclass(frozen=True)
class Options:
    """What of a graph goes into a database.

    Attributes:
        kinds: kinds of events that are taken; all others are left out. Without any, facts alone are taken.
        min_gpu_time_ns: calls with less GPU time below them are left out.
        with_args: take all recorded arguments along.
        all_edges: take edges that repeat properties of events, `REPEATED_EDGES`.
    """

    kinds: tuple[str, ...] = tuple(kind.name for kind in Kind)
    min_gpu_time_ns: int = 0
    with_args: bool = False
    all_edges: bool = False

    def takes(self, edge_type: str) -> bool:
        """Whether edges of a type are taken."""
        return self.all_edges or edge_type not in REPEATED_EDGES

    @property
    def lean(self) -> bool:
        """Whether events are left out."""
        return self.min_gpu_time_ns > 0 or len(self.kinds) < len(Kind)

    @property
    def facts_only(self) -> bool:
        """Whether all events are left out."""
        return not self.kinds

    @property
    def text(self) -> str:
        """The options as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Options:
        """The options from JSON."""
        options = json.loads(text)
        return cls(**{**options, "kinds": tuple(options["kinds"])})

    @property
    def words(self) -> str:
        """The options for people."""
        some = ", ".join(self.kinds) or "facts alone"
        words = [some if len(self.kinds) < len(Kind) else "all events"]
        if self.min_gpu_time_ns:
            words.append(f"calls of {self.min_gpu_time_ns / 1e3:g} us GPU time or more")
        return "; ".join([*words, *["all arguments"] * self.with_args, *["all edges"] * self.all_edges])


@dataclass(frozen=True)
class Placement:
    """Where a trace stands among others.

    Attributes:
        run: name of its run.
        name: its own name, unique in the run.
        labels: by key.
    """

    run: str
    name: str
    labels: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Nodes:
    """Nodes with the same labels.

    Attributes:
        labels: the first one is that of `schema.database.KEYS`.
        properties: what the columns hold; the first one is the key.
        columns: one per property; arrays, lists or `Texts`.
        sizes: characters of text of each node.
    """

    labels: tuple[str, ...]
    properties: tuple[Stored, ...]
    columns: tuple[Any, ...]
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.columns[0])

    def rows(self, low: int, high: int) -> list[list[Any]]:
        """Some of the nodes, each as the values of its properties; None for none."""
        return _rows(self.columns, low, high)


@dataclass(frozen=True)
class Edges:
    """Edges of one type between nodes of two labels, named by their keys.

    Those of one node stand together: of a target, or with `by_source` of a source. So who write parts of them side by
    side rarely want the same node.

    Attributes:
        type: their type.
        source, target: labels of their ends.
        columns: keys of the sources, keys of the targets, and a column per property.
        by_source: whether those of one source stand together.
        properties: what the further columns hold.
        scopes: what says within what the keys of both ends are unique: a parameter by its name, or a column by its
            number; by default the parameters of the labels.
    """

    type: str
    source: str
    target: str
    columns: tuple[Any, ...]
    by_source: bool = False
    properties: tuple[Stored, ...] = ()
    scopes: tuple[str | int, str | int] = ("", "")

    def __len__(self) -> int:
        return len(self.columns[0])

    def rows(self, low: int, high: int) -> list[list[Any]]:
        """Keys of both ends of some of the edges, and their properties."""
        return _rows(self.columns, low, high)


def _rows(columns: Sequence[Any], low: int, high: int) -> list[list[Any]]:
    parts = (column[low:high] for column in columns)
    plain = [part if isinstance(part, list) else part.tolist() for part in parts]
    return list(map(list, zip(*plain, strict=True)))


@dataclass(kw_only=True)
class Image:
    """What stands for a trace, a comparison or the matching of a run, as nodes and edges of a database.

    Attributes:
        properties: of the node that stands for all of it, without `state` and times of the push.
        nodes: all other nodes; of a trace knowledge first, then context, then events.
        edges: by type.
    """

    properties: dict[str, Any]
    nodes: list[Nodes] = field(default_factory=list)
    edges: list[Edges] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of nodes and edges, the node that stands for all of it left out."""
        return sum(map(len, self.nodes)) + sum(map(len, self.edges))


@dataclass(kw_only=True)
class TraceImage(Image):
    """A graph as nodes and edges of a database.

    Attributes:
        left_out_nodes, left_out_edges: what a lean image has not.
        replaced: characters that no database can hold, and that are U+FFFD in the image.
    """

    left_out_nodes: int = 0
    left_out_edges: int = 0
    replaced: int = 0

    @property
    def events(self) -> int:
        """Number of events."""
        return sum(len(nodes) for nodes in self.nodes if nodes.labels[0] == EVENT)


# --- values and rows -------------------------------------------------------------------------------------------------

SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no database can hold."""

_CAST = {"int": int, "float": float, "bool": bool}


def sound(text: str) -> str:
    """A text without halves of characters."""
    return SURROGATES.sub("\ufffd", text)


def cast(prop: Stored, value: Any) -> Any:
    """A value of the declared type; None for one that is not of that type, or that no database can hold."""
    if value is None:
        return None
    if prop.type == "str":
        return sound(str(value))
    if prop.type == "strs":
        return [sound(str(one)) for one in value]
    try:
        number = _CAST[prop.type](value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(number, int) and not -(2**63) <= number < 2**63 else number


def properties_of(properties: Iterable[Stored], known: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a node, as the types of its properties."""
    return {prop.name: cast(prop, known[prop.name]) for prop in properties if prop.name in known}


def nodes_of(label: str, properties: tuple[Stored, ...], known: Mapping[str, Sequence[Any]]) -> Nodes:
    """Nodes of a label, from the values of their properties by name."""
    columns = tuple([cast(prop, value) for value in known.get(prop.name, ())] for prop in properties)
    sizes = [sum(len(value) for value in row if isinstance(value, str)) for row in zip(*columns, strict=True)]
    return Nodes((label,), properties, columns, np.array(sizes, np.int64))


def ranges_by_size(first: int, sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows, each with as many rows as fit; a row that is too large is a range of its own.

    Args:
        first: number of the first row.
        sizes: one per row.
        most: the sum of sizes that a range may have.

    Yields:
        Number of the first row of a range, and that of the first row behind it.
    """
    ends = np.cumsum(sizes)
    low = 0
    while low < len(ends):
        before = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + most, "right")))
        yield first + low, first + high
        low = high
