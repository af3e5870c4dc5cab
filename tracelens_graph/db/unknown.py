"""Names in a statement that a database does not know, which it takes for names of things it has none of."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tracelens_graph.schema import CONTEXT_EDGES, DIFF_EDGES, EVENT_EDGES, RANK_EDGES, Kind
from tracelens_graph.schema.database import (
    CONTEXT_PROPERTIES,
    DIFF_EDGE_PROPERTIES,
    DIFF_PROPERTIES,
    EDGE_PROPERTIES,
    EVENT_PROPERTIES,
    GPU_EVENT,
    HEAT,
    KEYS,
    RANK_EDGE_PROPERTIES,
    RANK_PROPERTIES,
)
from tracelens_graph.utils.suggest import did_you_mean

if TYPE_CHECKING:
    from neo4j import ResultSummary

_TABLES = (
    {"": EVENT_PROPERTIES}, CONTEXT_PROPERTIES, EDGE_PROPERTIES, DIFF_PROPERTIES, DIFF_EDGE_PROPERTIES,
    RANK_PROPERTIES, RANK_EDGE_PROPERTIES,
)  # fmt: skip


class _Sort(NamedTuple):
    """A sort of names: what it is called, those of the schema, and whether none of one of these is worth a word."""

    what: str
    known: tuple[str, ...]
    is_told: bool


_SORTS: Mapping[str, _Sort] = {
    "01N50": _Sort("label", (*KEYS, GPU_EVENT, *HEAT, *Kind.__members__), True),
    "01N51": _Sort(
        "relationship type",
        tuple(edge.name for edge in (*EVENT_EDGES, *CONTEXT_EDGES, *DIFF_EDGES, *RANK_EDGES)),
        True,
    ),
    "01N52": _Sort(
        "property",
        (
            *("trace", "run"),
            *(key.name for key in KEYS.values()),
            *(one.name for table in _TABLES for properties in table.values() for one in properties),
        ),
        False,  # what is absent is no property
    ),
}
"""Status of GQL -> what names it is about."""

_CLOSE = 0.75
"""How alike a name has to be that is suggested: of some hundred names one resembles anything a little."""

_NAME = re.compile(r"`(.+?)` does not exist")


def unknown_names(summary: ResultSummary) -> list[str]:
    """A line for each label, type and property of a statement that nothing in the database has.

    Properties of the schema are none of them: values that are absent are no property.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # drivers before version 6 call it a preview
        objects = summary.gql_status_objects
    lines = []
    for one in objects:
        sort, name = _SORTS.get(one.gql_status), _NAME.search(one.status_description)
        if sort and name and (line := _line(sort, name[1])):
            lines.append(line)
    return list(dict.fromkeys(lines))


def _line(sort: _Sort, name: str) -> str:
    """What to say of a name that nothing in the database has."""
    is_known = name in sort.known
    meant = "" if is_known else did_you_mean(name, sort.known, cutoff=_CLOSE)
    if meant:
        return f"no {sort.what} {name}; {meant}"
    return "" if is_known and not sort.is_told else f"nothing in the database has the {sort.what} {name}"
