"""What `push` stored in a database as objects, by py2neo's object-graph mapping; needs the extra `py2neo`.

    from py2neo import Graph
    from tracelens_graph import ogm

    graph = Graph("bolt://127.0.0.1:7687", auth=("neo4j", password))
    kernel = ogm.Kernel.match(graph).where(trace=trace).order_by("_.dur_ns DESC").first()
    [op.name for op in kernel.charged_to]

One class per label, made from the schema: its properties are attributes, and so are the edges, by their names in lower
case (`op.calls`) with `_of` behind those that arrive (`op.calls_of`: who calls it). Edges that arrive from nodes of
several classes are followed from the other end only. What is at the end of an edge between events is an `Event`.

py2neo's development has ended. Loading, queries and everything else are the official driver's work: see
`tracelens_graph.connect`.
"""

from __future__ import annotations

from typing import Any

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS, EVENT_EDGES, EdgeType, Kind
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT, EVENT_PROPERTIES, KEYS

try:
    from py2neo import Subgraph
    from py2neo.ogm import Label, Model, Property, RelatedFrom, RelatedTo
except ImportError:
    raise MissingExtraError("py2neo", "py2neo") from None

_SUBTREE = """MATCH (root:Event {trace: $trace, uid: $uid})
MATCH (n:Event) WHERE n.trace = root.trace AND n.pre >= root.pre AND n.pre <= root.last
OPTIONAL MATCH (n)-[r]->(m:Event) WHERE m.trace = root.trace AND m.pre >= root.pre AND m.pre <= root.last
RETURN n, r, m"""


def to_subgraph(graph: Any, trace: str, uid: int) -> Subgraph:
    """A node of a trace with all that it calls and launches, and the edges among them, as a py2neo subgraph.

    Args:
        graph: a `py2neo.Graph`.
        trace: id of the trace.
        uid: the node.
    """
    return graph.run(_SUBTREE, trace=trace, uid=uid).to_subgraph()


def _ends(edge: EdgeType, end: str) -> set[str]:
    """Classes that an edge begins or ends at."""
    labels = set(getattr(edge, end).split("|"))
    events = {"event", *Kind.__members__}
    return {EVENT if label in events else label for label in labels}


def _members(label: str, properties: list[str]) -> dict[str, Any]:
    """Properties and edges of a class."""
    members: dict[str, Any] = {name: Property() for name in properties}
    for edge in EVENT_EDGES + CONTEXT_EDGES:
        sources, targets = _ends(edge, "source"), _ends(edge, "target")
        if label in sources and len(targets) == 1:
            members[edge.name.lower()] = RelatedTo(f"{__name__}.{next(iter(targets))}", edge.name)
        if label in targets and len(sources) == 1:
            members[f"{edge.name.lower()}_of"] = RelatedFrom(f"{__name__}.{next(iter(sources))}", edge.name)
    return members


def _class(label: str, base: type, members: dict[str, Any]) -> type:
    return type(label, (base,), {"__primarylabel__": label, "__module__": __name__, **members})


Event: Any = _class(EVENT, Model, _members(EVENT, ["trace", *(prop.name for prop in EVENT_PROPERTIES)]))
Event.gpu_event, Event.hot, Event.warm = Label("GpuEvent"), Label("Hot"), Label("Warm")
for _kind in Kind:
    globals()[_kind.name] = _class(_kind.name, Event, {})
for _label in CONTEXT_KINDS:
    _key = KEYS[_label]
    _names = [*filter(None, (_key.scope,)), _key.name, *(prop.name for prop in CONTEXT_PROPERTIES[_label])]
    globals()[_label] = _class(_label, Model, _members(_label, list(dict.fromkeys(_names))))

__all__ = [EVENT, *Kind.__members__, *CONTEXT_KINDS, "to_subgraph"]
