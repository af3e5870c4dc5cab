"""Context and knowledge nodes of a graph, and the edges to and among them, as they stand in a database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tracelens_graph.graph.context import Context
from tracelens_graph.graph.core import Core
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT, KEYS, KNOWLEDGE, RATES, Stored
from tracelens_graph.stores.neo4j.image import Edges, Nodes

SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no database can hold."""

_OF_DEVICE = {"kind", "device", "architecture", "memory_bandwidth_gbps", *(f"{rate}_tflops" for rate in RATES)}
_CAST = {"int": int, "float": float, "bool": bool}


def sound(text: str) -> str:
    """A text without halves of characters."""
    return SURROGATES.sub("\ufffd", text)


def nodes(context: Context, trace: Mapping[str, Any]) -> Iterator[Nodes]:
    """Nodes by label, knowledge first; the Trace node is left out."""
    by_label: dict[str, list[dict[str, Any]]] = {}
    for key, attributes in context.nodes.items():
        by_label.setdefault(attributes["kind"], []).append(_properties(key, attributes, trace))
    for label in sorted(by_label, key=lambda label: label not in KNOWLEDGE):
        if label == "Trace":
            continue
        key = Stored(KEYS[label].name, "str", "key")
        others = [prop for prop in CONTEXT_PROPERTIES[label] if prop.name != key.name]
        filled = [prop for prop in others if any(prop.name in one for one in by_label[label])]
        taken = (key, *filled)
        columns = tuple([_cast(prop, one.get(prop.name)) for one in by_label[label]] for prop in taken)
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
    found = {"name": names.get(label, ""), **attributes, "key": key}
    if label == "Run":
        found["name"] = trace["run"]
    if label == "Device":
        found["properties"] = json.dumps({k: v for k, v in attributes.items() if k not in _OF_DEVICE})
    return found


def _cast(prop: Stored, value: Any) -> Any:
    """A value of the declared type; None for one that is not of that type."""
    if value is None:
        return None
    if prop.type == "str":
        return sound(str(value))
    number = _CAST[prop.type](value)
    return None if isinstance(number, int) and not -(2**63) <= number < 2**63 else number


def edges(core: Core, context: Context, kept: np.ndarray, trace: Mapping[str, Any]) -> Iterator[Edges]:
    """Edges from events that are taken to context nodes, by their target, and edges among context nodes."""
    labels = np.array([node["kind"] for node in context.nodes.values()])
    keys = np.array([_key(key, node["kind"], trace) for key, node in context.nodes.items()], object)
    uid = core.columns.uid
    for name, (rows, numbers) in context.from_events.items():
        taken = kept[rows]
        rows, numbers = rows[taken], numbers[taken]
        if len(rows):
            order = np.argsort(numbers, kind="stable")  # so that those who write side by side rarely meet at a node
            target = str(labels[numbers[0]])
            yield Edges(name, EVENT, target, (uid[rows[order]], keys[numbers[order]]))
    for name, (source, target) in context.among.items():
        ends = np.char.add(np.char.add(labels[source], " "), labels[target])
        for pair in dict.fromkeys(ends.tolist()):
            here = ends == pair
            yield Edges(name, *pair.split(" "), (keys[source[here]], keys[target[here]]))


def _key(key: str, label: str, trace: Mapping[str, Any]) -> str:
    by_name = {"Trace": trace["id"], "Run": trace["run"]}
    return by_name.get(label, key)
