"""Arguments of collectives in a saved graph: what many of them say alike stands in the file once.

All collectives of a group name its members, and a group has up to a hundred thousand of them. So lists and long texts
stand once, and an event holds their numbers.

    values   lists and long texts, each once
    events   for each event: uid, arguments in their order, null for each of these, and its place in `values`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from tracelens_graph.stores.sections import Sections, SectionWriter

_SECTION = "collectives"
_LONG = 32
"""Characters from which a text stands once."""

_TOO_LARGE = 2**63
"""The first whole number that columns have no room for."""


class _Stored(msgspec.Struct):
    values: list[Any]
    events: list[tuple[int, dict[str, Any], dict[str, int]]]


def write_collectives(writer: SectionWriter, arguments: Mapping[int, Mapping[str, Any]]) -> None:
    """Write what collectives were called with, by the uid of their event."""
    values: list[Any] = []
    by_text: dict[str, int] = {}
    by_id: dict[int, int] = {}

    def place(value: Any) -> int:
        if id(value) not in by_id:  # most are one object, and the text of a list takes time
            at = by_text.setdefault(json.dumps(value), len(values))
            if at == len(values):
                values.append(value)
            by_id[id(value)] = at
        return by_id[id(value)]

    events = []
    for uid, args in arguments.items():
        placed = {key: place(value) for key, value in args.items() if _stands_once(value)}
        events.append((uid, {**args, **dict.fromkeys(placed)}, placed))
    writer.json(_SECTION, {"values": values, "events": events})


def read_collectives(sections: Sections) -> dict[int, dict[str, Any]]:
    """What `write_collectives` wrote; equal values are one object.

    Raises:
        TraceError: the section is damaged.
    """
    stored = sections.json(_SECTION, _Stored)
    if not all(
        0 <= uid < _TOO_LARGE and all(0 <= at < len(stored.values) for at in placed.values())
        for uid, _, placed in stored.events
    ):
        raise sections.damaged(_SECTION)
    # All collectives of a group say the same of it, on all ranks.
    values = [_shared(value) for value in stored.values]
    return {
        uid: {key: _shared(value) for key, value in args.items()} | {key: values[at] for key, at in placed.items()}
        for uid, args, placed in stored.events
    }


def _stands_once(value: Any) -> bool:
    """Whether a value may be long: a list of one group is, where that has many members."""
    return isinstance(value, list | tuple) or (isinstance(value, str) and len(value) >= _LONG)


def _shared(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value
