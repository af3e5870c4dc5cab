"""A comparison of two traces in a database that holds them: what stands for it, and writing that as a trace is written.

A comparison is a Diff node with its places, edges from these to GPU events of both traces, and MATCHES edges between
the traces. Of two traces, in their order, there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.matches import kind_name
from tracelens_graph.analyses.alignment.tables import diff_tables
from tracelens_graph.db.event_image import kept_rows
from tracelens_graph.db.image import Edges, Image, Nodes, Options, nodes_of, properties_of
from tracelens_graph.db.push import Claim, begun, hold, judged
from tracelens_graph.db.statements import DIFF
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.comparisons import DIFF_EDGE_PROPERTIES, DIFF_PROPERTIES
from tracelens_graph.schema.database import EVENT
from tracelens_graph.utils.arrays import Codes, Mask, Rows

if TYPE_CHECKING:
    from neo4j import ManagedTransaction


def diff_image(difference: Diff, traces: Sequence[Mapping[str, Any]]) -> Image:
    """The nodes and edges that stand for a comparison.

    Args:
        difference: the comparison.
        traces: the Trace nodes of both sides. Edges to events that were left out when they were pushed are left out.
    """
    cores = difference.a.core, difference.b.core
    kept = [kept_rows(core, Options.of(trace["options"])) for core, trace in zip(cores, traces, strict=True)]
    edges = [_matches(difference, kept), *_alone(difference, cores, kept, traces)]
    for side, (core, taken) in enumerate(zip(cores, kept, strict=True)):
        numbers, rows = _events_of_places(difference, side)
        numbers, rows = numbers[taken[rows]], rows[taken[rows]]
        edges.append(
            Edges(f"IN_{'AB'[side]}", "Divergence", EVENT, (numbers, core.columns.uid[rows]), True,
                  scopes=("diff", "ab"[side]))
        )  # fmt: skip
    places = _places(difference)
    key = _key(traces)
    edges.append(Edges("OF_DIFF", "Divergence", "Diff", (places.columns[0], [key] * len(places)), scopes=("diff", "")))
    found = {
        "key": key, "name": f"{traces[1]['path']} against {traces[0]['path']}", "a": traces[0]["id"],
        "b": traces[1]["id"], "window_a": difference.a.title or None, "window_b": difference.b.title or None,
        "a_ns": difference.ns[0], "b_ns": difference.ns[1], "places": len(places), "matches": len(edges[0]),
        "are_strangers": difference.alignment.are_unrelated or None, "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
    }  # fmt: skip
    diff = properties_of(DIFF_PROPERTIES["Diff"], found)
    return Image(properties=diff, nodes=[places], edges=[one for one in edges if len(one)])


def claim(tx: ManagedTransaction, diff: Mapping[str, Any], replace: bool) -> Claim:
    """Make the Diff node, or go on with the one that is there, while nobody drops one of the traces.

    Raises:
        DatabaseError: a trace is not complete, or other parts of them are compared in the database.
    """
    hold(tx, dict.fromkeys((diff["a"], diff["b"])))
    there, new = begun(tx, DIFF, diff)
    tx.run(
        "MATCH (d:Diff {key: $key}) MATCH (t:Trace) WHERE t.id IN [d.a, d.b] MERGE (d)-[:COMPARES]->(t)",
        key=diff["key"],
    ).consume()
    return judged(DIFF, there, new, diff, replace)


def _matches(difference: Diff, kept: Sequence[Mask]) -> Edges:
    found = difference.matches
    here = kept[0][found.rows[0]] & kept[1][found.rows[1]]
    uids = [side.core.columns.uid[rows[here]]
            for side, rows in zip((difference.a, difference.b), found.rows, strict=True)]  # fmt: skip
    kinds = [kind_name(kind) for kind in found.kinds[here].tolist()]
    first, second = (ns[here] for ns in found.ns)
    columns = (*uids, kinds, first, second, second - first)
    return Edges("MATCHES", EVENT, EVENT, columns, True, DIFF_EDGE_PROPERTIES["MATCHES"], ("a", "b"))


def _alone(
    difference: Diff, cores: Sequence[Core], kept: Sequence[Mask], traces: Sequence[Mapping[str, Any]]
) -> list[Edges]:
    found = difference.matches
    key = _key(traces)
    edges = []
    for side, (rows, ns) in enumerate(zip(found.alone, found.alone_ns, strict=True)):
        here = kept[side][rows]
        uids = cores[side].columns.uid[rows[here]]
        name = f"ONLY_IN_{'AB'[side]}"
        columns = ([key] * len(uids), uids, ns[here])
        edges.append(Edges(name, "Diff", EVENT, columns, True, DIFF_EDGE_PROPERTIES[name], ("", "ab"[side])))
    return edges


def _events_of_places(difference: Diff, side: int) -> tuple[Codes, Rows]:
    """The GPU events of one side: the number of the place that each lies in, and its row; by place."""
    forest = difference.alignment.sides[side]
    numbers, leaves = [], []
    for number, place in enumerate(difference.places, 1):
        of_place = place.leaves(side)
        numbers += [number] * len(of_place)
        leaves += of_place
    number_of = np.zeros(forest.leaves, np.int64)
    number_of[leaves] = numbers
    of_event = np.repeat(number_of, np.diff(forest.first_event))
    is_event = ~np.isin(forest.events, [*forest.captured])  # a capture's launches are calls
    order = np.argsort(of_event[is_event], kind="stable")
    return of_event[is_event][order], forest.events[is_event][order]


def _places(difference: Diff) -> Nodes:
    """The places, with what the table of them says; times in whole ns."""
    table = diff_tables(difference.called(("a", "b")))["diff_places"]
    known: dict[str, Sequence[Any]] = {
        **{name: list(table[name]) for name in table.columns if not name.endswith("_ms")},
        "name": list(table["op"]),
        "change_ns": [place.change_ns for place in difference.places],
        "a_ns": [place.ns[0] for place in difference.places],
        "b_ns": [place.ns[1] for place in difference.places],
        **{f"{side}_ns": [round(ms * 1e6) for ms in table[f"{side}_ms"]] for side in ("low", "high")},
    }
    return nodes_of("Divergence", DIFF_PROPERTIES["Divergence"], known)


def _key(traces: Sequence[Mapping[str, Any]]) -> str:
    """The key of the comparison of two traces, by their ids."""
    return f"{traces[0]['id']} {traces[1]['id']}"
