"""The image of a whole trace: its Trace node, knowledge, context and events, and edges to and among context nodes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import compress
from typing import Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.db import event_image
from tracelens_graph.db.image import (
    SURROGATES,
    Edges,
    Nodes,
    Options,
    Placement,
    TraceImage,
    cast,
    nodes_of,
    properties_of,
    sound,
)
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.context import Context, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.database import (
    CONTEXT_PROPERTIES,
    DATABASE_VERSION,
    EDGE_PROPERTIES,
    EVENT,
    KEYS,
    KNOWLEDGE,
    LABEL,
    PULLED_EDGES,
    RATES,
)
from tracelens_graph.schema.facts import SETUP, stored_on
from tracelens_graph.schema.stored import Stored
from tracelens_graph.stores.frames import Texts
from tracelens_graph.utils.arrays import Mask, Rows


def image_of(core: Core, context: Context, placement: Placement, options: Options) -> TraceImage:
    """The nodes and edges that stand for a graph.

    Calls that are left out pass their callees on to the nearest call above that is taken, as CALLS. Other edges need
    both their ends; those that have not are counted.

    Args:
        core: the graph.
        context: its context, with what analyses know.
        placement: its run and name.
        options: what is taken.

    Raises:
        ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
    """
    trace = _trace(core, context, placement, options)
    kept = event_image.kept_rows(core, options)
    used = used_nodes(context, kept)
    image = TraceImage(properties=trace, left_out_nodes=int((~kept).sum()))
    image.nodes = list(nodes(context, used, trace))
    from_events = {name: ends for name, ends in context.from_events.items() if options.takes(name)}
    if not options.facts_only:
        columns = event_image.columns(core, context, options)
        for name, column in columns.items():
            if isinstance(column, Texts):
                columns[name], places = column.without(SURROGATES)
                image.replaced += places
        image.nodes += event_image.nodes(core, columns, kept)
        image.edges, image.left_out_edges = event_image.edges(core, context, kept, options)
        image.left_out_edges += sum(int((~kept[rows]).sum()) for rows, _ in from_events.values())
        image.left_out_edges += sum(int((~kept[rows]).sum()) for _, rows in context.to_events.values())
        image.left_out_edges += sum(int((~used[source]).sum()) for source, _ in context.among.values())
    image.edges += edges_of_context(core, context, from_events, kept, used, trace)
    edges: Counter[str] = Counter()
    for one in image.edges:
        edges[one.type] += len(one)
    of_types = json.dumps({name: edges[name] for name in PULLED_EDGES})
    image.properties |= {"nodes": image.events, "edges": edges.total(), "pulled_edges": of_types}
    return image


def _trace(core: Core, context: Context, placement: Placement, options: Options) -> dict[str, Any]:
    info = replace(core.info, source=os.path.basename(core.info.source))
    known = next(node for node in context.nodes.values() if node["kind"] == "Trace")
    found = {
        "id": core.trace_id, "name": placement.name, "run": placement.run,
        "path": f"{placement.run}/{placement.name}", "source": info.source, "rank": info.rank,
        "start_epoch_ns": info.start_epoch_ns, "lead_ns": info.lead_ns,
        "dur_ns": int(core.columns.end_ns.max(initial=0)), "events": info.events, "damage": info.damage or None,
        "lost_arrows": autograd_of(core).lost_arrows or None, "lean": options.lean or None, "options": options.text,
        "schema_version": SCHEMA_VERSION, "database_version": DATABASE_VERSION, "tool_version": __version__,
        **{name: known[name] for name in _FACTS if name in known}, "info": json.dumps(asdict(info)),
        "threads": json.dumps(core.threads),
    }  # fmt: skip
    labels = {LABEL + key: sound(value) if isinstance(value, str) else value for key, value in placement.labels.items()}
    return {**properties_of(CONTEXT_PROPERTIES["Trace"], found), **labels}


_FACTS = {"architecture", *(prop.name for prop in (*SETUP, *stored_on("Trace")))}
"""What analyses know of a trace."""

_OF_DEVICE = {
    "kind", "device", "architecture", "memory_bandwidth_gbps", "host_link_gbps",
    *(f"{rate}_tflops" for rate in RATES), *(prop.name for prop in stored_on("Device")),
}  # fmt: skip
_LONGEST_KEY = 500


def used_nodes(context: Context, kept: Mask) -> Mask:
    """Per context node whether it is the trace, or a device of it, or edges lead there from events that are taken or
    from what is used, or from it to these events."""
    used = np.array([node["kind"] in ("Trace", "Device") for node in context.nodes.values()])
    for rows, numbers in context.from_events.values():
        used[numbers[kept[rows]]] = True
    for numbers, rows in context.to_events.values():
        used[numbers[kept[rows]]] = True
    among = list(context.among.values())
    before = -1
    while before != (before := int(used.sum())):
        for source, target in among:
            used[target[used[source]]] = True
    return used


def nodes(context: Context, used: Mask, trace: Mapping[str, Any]) -> Iterator[Nodes]:
    """Nodes that are used by label, knowledge first, by key each; the Trace node is left out.

    Who pushes traces side by side writes the knowledge that they share in the same order, so that nobody waits for
    somebody who waits for him.
    """
    by_label: dict[str, list[dict[str, Any]]] = {}
    for key, attributes in sorted(compress(context.nodes.items(), used.tolist())):
        by_label.setdefault(attributes["kind"], []).append(_properties(key, attributes, trace))
    for label in sorted(by_label, key=lambda label: label not in KNOWLEDGE):
        if label == "Trace":
            continue
        key_property = Stored(KEYS[label].name, "str", "key")
        others = [prop for prop in CONTEXT_PROPERTIES[label] if prop.name != key_property.name]
        filled = [prop for prop in others if any(prop.name in one for one in by_label[label])]
        taken = (key_property, *filled)
        yield nodes_of(label, taken, {prop.name: [one.get(prop.name) for one in by_label[label]] for prop in taken})


def _properties(key: str, attributes: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, Any]:
    """What stands on a context node; every one has a name."""
    label = attributes["kind"]
    names = {
        "Run": trace["run"], "Process": attributes.get("pid"), "Thread": attributes.get("tid"),
        "Device": f"device {attributes.get('device')}", "Stream": f"stream {attributes.get('stream')}",
        "ProcessGroup": key,
    }  # fmt: skip
    found = {"name": names.get(label, ""), **attributes, "key": _key(key, label, trace)}
    if label == "Run":
        found["name"] = trace["run"]
    if label == "Device":
        found["properties"] = json.dumps({k: v for k, v in attributes.items() if k not in _OF_DEVICE})
    return found


def edges_of_context(
    core: Core, context: Context, from_events: Mapping[str, tuple[Rows, Rows]], kept: Mask, used: Mask,
    trace: Mapping[str, Any],
) -> Iterator[Edges]:  # fmt: skip
    """Edges between events that are taken and context nodes, by their context node, and edges among context nodes."""
    labels = np.array([node["kind"] for node in context.nodes.values()])
    keys = np.array([_key(key, node["kind"], trace) for key, node in context.nodes.items()], object)
    uid = core.columns.uid
    place = np.argsort(np.argsort(keys))
    for name, (rows, numbers) in from_events.items():
        taken = kept[rows]
        rows, numbers = rows[taken], numbers[taken]
        if len(rows):
            order = np.argsort(place[numbers], kind="stable")  # who write side by side rarely meet at a node
            ends: tuple[Any, ...] = (uid[rows[order]], keys[numbers[order]])
            if texts := context.of_edges.get(name):
                ends = (*ends, Texts.of(texts.codes[taken][order], texts.texts))
            yield Edges(name, EVENT, str(labels[numbers[0]]), ends, properties=EDGE_PROPERTIES.get(name, ()))
    for name, (numbers, rows) in context.to_events.items():
        taken = kept[rows]
        rows, numbers = rows[taken], numbers[taken]
        if len(rows):
            order = np.argsort(place[numbers], kind="stable")
            ends = (keys[numbers[order]], uid[rows[order]])
            yield Edges(name, str(labels[numbers[0]]), EVENT, ends, by_source=True)
    for name, (source, target) in context.among.items():
        there = used[source]
        facts = list(compress(context.of_pairs(name), there.tolist()))
        source, target = source[there], target[there]
        properties = EDGE_PROPERTIES.get(name, ())
        kinds = np.char.add(np.char.add(labels[source], " "), labels[target])
        for pair in dict.fromkeys(kinds.tolist()):
            here = kinds == pair
            begin, end = pair.split(" ")
            of_pairs = list(compress(facts, here.tolist()))
            values = ([cast(prop, one.get(prop.name)) for one in of_pairs] for prop in properties)
            yield Edges(name, begin, end, (keys[source[here]], keys[target[here]], *values), properties=properties)


def _key(key: str, label: str, trace: Mapping[str, Any]) -> str:
    """The key of a node: one that is too long for an index, or that no database can hold, is hashed."""
    by_name = {"Trace": trace["id"], "Run": trace["run"]}
    if len(key) > _LONGEST_KEY or SURROGATES.search(key):
        key = content_key(label.lower(), key)
    return by_name.get(label, key)
