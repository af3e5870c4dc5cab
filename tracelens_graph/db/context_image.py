"""Context and knowledge nodes of a graph, and the edges to and among them, as they stand in a database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np

from tracelens_graph.db.image import Edges, Nodes
from tracelens_graph.graph.context import Context, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EDGE_PROPERTIES, EVENT, KEYS, KNOWLEDGE, RATES, Stored
from tracelens_graph.stores.frames import Texts

SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no database can hold."""

_OF_DEVICE = {
    "kind",
    "device",
    "architecture",
    "memory_bandwidth_gbps",
    "host_link_gbps",
    *(f"{rate}_tflops" for rate in RATES),
}
_LONGEST_KEY = 500
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


def used_nodes(context: Context, kept: np.ndarray) -> np.ndarray:
    """Per context node whether it is the trace, or edges lead there from events that are taken, or from it to them."""
    used = np.array([node["kind"] == "Trace" for node in context.nodes.values()])
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


def nodes(context: Context, used: np.ndarray, trace: Mapping[str, Any]) -> Iterator[Nodes]:
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
        columns = tuple([cast(prop, one.get(prop.name)) for one in by_label[label]] for prop in taken)
        sizes = [sum(len(value) for value in row if isinstance(value, str)) for row in zip(*columns, strict=True)]
        yield Nodes((label,), taken, columns, np.array(sizes, np.int64))


def _properties(key: str, attributes: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, Any]:
    """What stands on a context node; every one has a name."""
    label = attributes["kind"]
    names = {
        "Run": trace["run"],
        "Process": attributes.get("pid"),
        "Thread": attributes.get("tid"),
        "Device": f"device {attributes.get('device')}",
        "Stream": f"stream {attributes.get('stream')}",
        "ProcessGroup": key,
    }
    found = {"name": names.get(label, ""), **attributes, "key": _key(key, label, trace)}
    if label == "Run":
        found["name"] = trace["run"]
    if label == "Device":
        found["properties"] = json.dumps({k: v for k, v in attributes.items() if k not in _OF_DEVICE})
    return found


def edges(
    core: Core, context: Context, kept: np.ndarray, used: np.ndarray, trace: Mapping[str, Any]
) -> Iterator[Edges]:
    """Edges between events that are taken and context nodes, by their context node, and edges among context nodes."""
    labels = np.array([node["kind"] for node in context.nodes.values()])
    keys = np.array([_key(key, node["kind"], trace) for key, node in context.nodes.items()], object)
    uid = core.columns.uid
    place = np.argsort(np.argsort(keys))
    for name, (rows, numbers) in context.from_events.items():
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
        told = list(compress(context.of_pairs(name), there.tolist()))
        source, target = source[there], target[there]
        properties = EDGE_PROPERTIES.get(name, ())
        kinds = np.char.add(np.char.add(labels[source], " "), labels[target])
        for pair in dict.fromkeys(kinds.tolist()):
            here = kinds == pair
            begin, end = pair.split(" ")
            of_pairs = list(compress(told, here.tolist()))
            values = ([cast(prop, one.get(prop.name) or None) for one in of_pairs] for prop in properties)
            yield Edges(name, begin, end, (keys[source[here]], keys[target[here]], *values), properties=properties)


def _key(key: str, label: str, trace: Mapping[str, Any]) -> str:
    """The key of a node: one that is too long for an index, or that no database can hold, is hashed."""
    by_name = {"Trace": trace["id"], "Run": trace["run"]}
    if len(key) > _LONGEST_KEY or SURROGATES.search(key):
        key = content_key(label.lower(), key)
    return by_name.get(label, key)
