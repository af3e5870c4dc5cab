"""Saving what can be saved of an execution trace whose JSON is broken.

Nodes are taken one by one, each as it stands if it decodes; else it is read tolerantly (`repair_text`), for PyTorch
writes names without escaping their quotes; one that cannot be read is lost, and reading goes on where the next begins.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracelens_graph.loaders.execution_trace.records import NODE_BEGIN, NODE_KEYS
from tracelens_graph.loaders.kineto.repair_text import Reader, Reading

_GAP = re.compile(rb"[\s,]*+")
_LIST_END = re.compile(rb'\]\s*+(?:\}\s*+\Z|\Z|,\s*+"(?:finish_ts|start_ts|time|pid|schema)"\s*+:)')
_OWN = ("id", "ctrl_deps", "parent")
_ATTEMPT = 1024
"""Fuel for a try that leads to no node."""
_DECODED_FOR_ONE = 16
"""Bytes handed to a decoder in vain for one unit of fuel."""


@dataclass
class Repaired:
    """The nodes of a stretch of the list.

    Attributes:
        nodes: JSON objects that decode; None for one that is lost.
        counts: kind of repair -> number of nodes it was applied to.
        lost_bytes: bytes of lost nodes.
        tail: what stands behind the `]` that ends the list; None if it does not end here.
    """

    nodes: list[bytes | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lost_bytes: int = 0
    tail: bytes | None = None


def repair_nodes(text: bytes, *, last: bool) -> Repaired:
    """Read the nodes of a stretch that does not decode.

    Args:
        text: begins at a node. It ends behind a node, or anywhere if it runs to the end of the file.
        last: whether it runs to the end of the file.
    """
    out, reader, at = Repaired(), Reader(text), 0
    reader.keys |= NODE_KEYS
    begins = [match.start("node") for match in NODE_BEGIN.finditer(text)] + [len(text)]
    following = 0  # of `begins`, the first behind `at`
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if at >= len(text):
            break
        while begins[following] <= at and following < len(begins) - 1:
            following += 1
        if _LIST_END.match(text, at):
            out.tail = text[at + 1 :]
            return out
        reading = _node(reader, text, at, begins[following])
        if reading is not None:
            out.nodes.append(reading.json)
            out.counts.update(reading.faults)
            at = reading.end
            continue
        end = begins[following]
        if end == len(text) and (closing := text.rfind(b"]", at)) > at and _LIST_END.match(text, closing):
            end = closing
        out.nodes.append(None)
        out.lost_bytes += end - at
        at = max(end, at + 1)
    if last:
        out.counts["truncated"] = 1
    return out


def _node(reader: Reader, text: bytes, begin: int, following: int) -> Reading | None:
    """The node at a place, as it stands or mended; None if it cannot be read.

    Args:
        reader: reads tolerantly.
        text: the stretch.
        begin: the place.
        following: where the next one begins by its first keys.
    """
    reader.cut_short = False
    if text[begin] != 0x7B:
        return None
    end = text.rfind(b"}", begin, following) + 1
    whole = text[begin:end]
    if is_node(whole):
        return Reading(end, whole, frozenset())
    reader.fuel -= len(whole) // _DECODED_FOR_ONE
    reading = reader.read(begin)
    if reading is not None and reading.end <= following and is_node(reading.json):
        return reading
    reader.fuel -= _ATTEMPT
    return None


def is_node(text: bytes) -> bool:
    """Whether a text is a JSON object that a node of an execution trace may be."""
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(value, dict) and any(key in value for key in _OWN)
