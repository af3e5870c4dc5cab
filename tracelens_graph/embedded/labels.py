"""Labels in statements: which tables of the embedded engine an expression of labels means.

Neo4j gives a node several labels, the engine one table. A table stands for one label that says what a node is; `Event`
and `GpuEvent` are several tables, `Hot` and `Warm` a column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT, EVENT_PROPERTIES, GPU_EVENT, HEAT, KEYS
from tracelens_graph.schema.stored import Stored
from tracelens_graph.utils.suggest import did_you_mean

HEAT_COLUMN = "__heat"
"""Column of tables of events: `Hot`, `Warm` or nothing."""

EVENTS = tuple(Kind.__members__)
LABELS = (*EVENTS, *CONTEXT_PROPERTIES)
"""Every label that is a table."""

_GROUPS: Mapping[str, Collection[str]] = {EVENT: EVENTS, GPU_EVENT: [kind.name for kind in GPU_KINDS]}
_HEATS = (None, *HEAT)


def properties_of(label: str) -> tuple[Stored, ...]:
    """All properties that nodes of a label may have, its scope among them."""
    key = KEYS[EVENT if label in EVENTS else label]
    described = EVENT_PROPERTIES if label in EVENTS else CONTEXT_PROPERTIES[label]
    named = {prop.name for prop in described}
    keys = (Stored(name, "str", "") for name in (key.scope, key.name) if name and name not in named)
    return (*keys, *described)


@dataclass(frozen=True)
class Labelled:
    """What an expression of labels means: for each heat that a node may have the labels that it may be of."""

    of: tuple[frozenset[str], ...]

    @property
    def tables(self) -> list[str]:
        """Labels of nodes that it may mean."""
        return sorted(frozenset().union(*self.of))

    def condition(self, variable: str, *, always: bool = False) -> str:
        """What has to hold of a node, as a text; empty where its table says it all, unless it is always wanted."""
        if len({*self.of}) == 1:
            return _is_one_of(variable, self.of[0]) if always else ""
        parts = []
        for heat, labels in zip(_HEATS, self.of, strict=True):
            if labels:
                of_heat = f"coalesce({variable}.{HEAT_COLUMN}, '') = '{heat or ''}'"  # NOT nothing would be nothing
                parts.append(f"({of_heat} AND {_is_one_of(variable, labels)})")
        return f"({' OR '.join(parts)})" if parts else "false"


def _is_one_of(variable: str, labels: Collection[str]) -> str:
    names = ", ".join(f"'{label}'" for label in sorted(labels))
    return f"label({variable}) IN [{names}]" if labels else "false"


def everything(universe: Collection[str]) -> Labelled:
    """Nodes of any label."""
    return Labelled((frozenset(universe),) * len(_HEATS))


def named(name: str, universe: Collection[str]) -> Labelled:
    """What one label means.

    Args:
        name: the label.
        universe: labels that nodes have.

    Raises:
        DatabaseError: no node of a trace can have it.
    """
    if name in HEAT:
        there = frozenset(EVENTS) & frozenset(universe)
        return Labelled(tuple(there if heat == name else frozenset() for heat in _HEATS))
    if name in _GROUPS:
        return everything(frozenset(_GROUPS[name]) & frozenset(universe) or frozenset(_GROUPS[name]))
    if name in LABELS:
        return everything([name])
    if name in KEYS:
        raise DatabaseError(f"nodes of label {name} stand in a Neo4j database only, where `db push` puts them")
    meant = did_you_mean(name, (*LABELS, *_GROUPS, *HEAT))
    raise DatabaseError(f"no label {name}; {meant}" if meant else f"no label {name}")


def both(one: Labelled, other: Labelled) -> Labelled:
    """Nodes of both."""
    return Labelled(tuple(a & b for a, b in zip(one.of, other.of, strict=True)))


def either(one: Labelled, other: Labelled) -> Labelled:
    """Nodes of one or the other."""
    return Labelled(tuple(a | b for a, b in zip(one.of, other.of, strict=True)))


def neither(one: Labelled, universe: Collection[str]) -> Labelled:
    """All other nodes."""
    return Labelled(tuple(frozenset(universe) - a for a in one.of))
